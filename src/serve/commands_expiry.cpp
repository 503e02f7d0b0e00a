// Commands of keys of whatever type, and of when they expire.
#include <limits>

#include "serve/command.hpp"
#include "serve/expiry.hpp"

namespace perdure::serve {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

void invalid_expiry(Call& call) {
  call.reply.error("ERR invalid expire time in '" + std::string(call.command.name) + "' command");
}

}  // namespace

std::optional<ExpiryUnit> expiry_unit(std::string_view word) {
  if (equal_letters(word, "ex")) return ExpiryUnit::ex;
  if (equal_letters(word, "px")) return ExpiryUnit::px;
  if (equal_letters(word, "exat")) return ExpiryUnit::exat;
  if (equal_letters(word, "pxat")) return ExpiryUnit::pxat;
  return std::nullopt;
}

std::optional<std::int64_t> moment_of(Call& call, Expiry const& expiry) {
  auto const number = parse_integer(expiry.number);
  if (!number) {
    call.reply.error(kNoInteger);
    return std::nullopt;
  }
  bool const seconds = expiry.unit == ExpiryUnit::ex || expiry.unit == ExpiryUnit::exat;
  bool const relative = expiry.unit == ExpiryUnit::ex || expiry.unit == ExpiryUnit::px;
  std::int64_t const now = call.keys.now_ms();
  bool valid = *number > 0 && (!seconds || *number <= kMost / 1000);
  std::int64_t const ms = valid && seconds ? *number * 1000 : *number;
  valid = valid && (!relative || ms <= kMost - now);
  if (!valid) {
    invalid_expiry(call);
    return std::nullopt;
  }
  return relative ? ms + now : ms;
}

void run_del(Call& call) {
  std::int64_t removed = 0;
  for (std::size_t i = 1; i < call.count(); ++i) removed += call.keys.remove(call[i]) ? 1 : 0;
  call.reply.integer(removed);
}

void run_exists(Call& call) {
  std::int64_t found = 0;
  for (std::size_t i = 1; i < call.count(); ++i)
    found += read_key(call, call[i]).type != Type::none ? 1 : 0;
  call.reply.integer(found);
}

void run_type(Call& call) { call.reply.status(name_of(read_key(call, call[1]).type)); }

namespace {

struct ExpireConditions {
  bool none = false, some = false, later = false, sooner = false;
};

std::optional<ExpireConditions> parse_conditions(Call& call) {
  ExpireConditions c;
  for (std::size_t i = 3; i < call.count(); ++i) {
    if (equal_letters(call[i], "nx"))
      c.none = true;
    else if (equal_letters(call[i], "xx"))
      c.some = true;
    else if (equal_letters(call[i], "gt"))
      c.later = true;
    else if (equal_letters(call[i], "lt"))
      c.sooner = true;
    else {
      call.reply.error("ERR Unsupported option " +
                       std::string(call[i].substr(0, call[i].find(char{0}))));
      return std::nullopt;
    }
  }
  if (c.none && (c.some || c.later || c.sooner)) {
    call.reply.error("ERR NX and XX, GT or LT options at the same time are not compatible");
    return std::nullopt;
  }
  if (c.later && c.sooner) {
    call.reply.error("ERR GT and LT options at the same time are not compatible");
    return std::nullopt;
  }
  return c;
}

/// Whether a key that expires at `now` (0: never) may expire at `then`.
bool may_change(ExpireConditions const& c, std::int64_t now, std::int64_t then) {
  if (c.none && now != 0) return false;
  if (c.some && now == 0) return false;
  if (c.later && (now == 0 || then <= now)) return false;  // never is later than any moment
  return !c.sooner || now == 0 || then < now;
}

}  // namespace

void run_expire(Call& call) {
  auto const conditions = parse_conditions(call);
  if (!conditions) return;
  auto const number = parse_integer(call[2]);
  if (!number) return call.reply.error(kNoInteger);
  std::string_view const name = call.command.name;
  std::int64_t when = *number;
  if (!name.starts_with('p') && (__builtin_mul_overflow(when, 1000, &when)))
    return invalid_expiry(call);
  bool const relative = !name.ends_with("at");
  if (relative && __builtin_add_overflow(when, call.keys.now_ms(), &when))
    return invalid_expiry(call);
  Value value = call.keys.get(call[1]);
  if (value.type == Type::none || !may_change(*conditions, value.expires_ms, when))
    return call.reply.integer(0);
  if (when <= call.keys.now_ms()) {
    call.keys.remove(call[1]);
  } else if (value.type != Type::damaged) {
    value.expires_ms = when;
    call.keys.set(call[1], value);
  }
  call.reply.integer(1);
}

void run_ttl(Call& call) {
  Value const value = read_key(call, call[1]);
  if (value.type == Type::none) return call.reply.integer(-2);
  if (value.expires_ms == 0) return call.reply.integer(-1);
  std::int64_t const left = value.expires_ms - call.keys.now_ms();
  call.reply.integer(call.command.name == "pttl" ? left : (left + 500) / 1000);
}

void run_expiretime(Call& call) {
  Value const value = read_key(call, call[1]);
  if (value.type == Type::none) return call.reply.integer(-2);
  if (value.expires_ms == 0) return call.reply.integer(-1);
  call.reply.integer(call.command.name.starts_with('p') ? value.expires_ms
                                                        : (value.expires_ms + 500) / 1000);
}

void run_persist(Call& call) {
  Value value = call.keys.get(call[1]);
  if (value.type == Type::none || value.expires_ms == 0) return call.reply.integer(0);
  value.expires_ms = 0;
  call.keys.set(call[1], value);
  call.reply.integer(1);
}

}  // namespace perdure::serve
