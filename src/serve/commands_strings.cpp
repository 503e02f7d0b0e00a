// Commands of strings. Each reads what the turn's commands before it left, and sets bytes that stay
// until the turn ends.
#include <algorithm>
#include <limits>

#include "serve/command.hpp"
#include "serve/expiry.hpp"

namespace perdure::serve {
namespace {

/// A string's bytes; none where the error has been said. No key: empty.
std::optional<Value> get_string(Call& call, std::string_view key) {
  return typed(call, call.keys.get(key), Type::string);
}
/// The same for a command that only reads it.
std::optional<Value> read_string(Call& call, std::string_view key) {
  return typed(call, read_key(call, key), Type::string);
}

void reply_value(Call& call, Value const& value) {
  if (value.type == Type::none)
    call.reply.null();
  else
    call.reply.bulk(value.bytes);
}

/// One kind of moment may be given again, and the last counts; two kinds may not.
bool may_repeat(std::optional<Expiry> const& given, ExpiryUnit unit) {
  return !given || given->unit == unit;
}

struct SetOptions {
  bool if_absent = false, if_present = false, get = false, keep_expiry = false;
  std::optional<Expiry> expiry = {};
};

std::optional<SetOptions> parse_set_options(Call& call) {
  SetOptions o;
  for (std::size_t i = 3; i < call.count(); ++i) {
    std::string_view const word = call[i];
    if (equal_letters(word, "nx") && !o.if_present) {
      o.if_absent = true;
    } else if (equal_letters(word, "xx") && !o.if_absent) {
      o.if_present = true;
    } else if (equal_letters(word, "get")) {
      o.get = true;
    } else if (equal_letters(word, "keepttl") && !o.expiry) {
      o.keep_expiry = true;
    } else if (auto const unit = expiry_unit(word);
               unit && !o.keep_expiry && may_repeat(o.expiry, *unit) && i + 1 < call.count()) {
      o.expiry = Expiry{*unit, call[++i]};
    } else {
      call.reply.error(kSyntaxError);
      return std::nullopt;
    }
  }
  return o;
}

void set_string(Call& call, std::string_view key, std::string_view bytes,
                std::int64_t expires_ms = 0) {
  call.keys.set(key, {Type::string, expires_ms, bytes});
}

}  // namespace

void run_get(Call& call) {
  if (auto const value = read_string(call, call[1])) reply_value(call, *value);
}

void run_set(Call& call) {
  auto const options = parse_set_options(call);
  if (!options) return;
  std::int64_t expires = 0;
  if (options->expiry) {
    auto const at = moment_of(call, *options->expiry);
    if (!at) return;
    expires = *at;
  }
  if (!check_length(call, call[2].size())) return;
  bool const needs_old =
      options->if_absent || options->if_present || options->get || options->keep_expiry;
  Value old;
  if (options->get) {
    auto const value = read_string(call, call[1]);
    if (!value) return;
    reply_value(call, old = *value);
  } else if (needs_old) {
    old = call.keys.get(call[1]);
  }
  bool const there = old.type != Type::none;
  if ((options->if_absent && there) || (options->if_present && !there)) {
    if (!options->get) call.reply.null();
    return;
  }
  if (options->keep_expiry) expires = old.expires_ms;
  set_string(call, call[1], call[2], expires);
  if (!options->get) call.reply.ok();
}

void run_setnx(Call& call) {
  if (!check_length(call, call[2].size())) return;
  bool const absent = call.keys.get(call[1]).type == Type::none;
  if (absent) set_string(call, call[1], call[2]);
  call.reply.integer(absent ? 1 : 0);
}

void run_setex(Call& call) {
  ExpiryUnit const unit = call.command.name == "setex" ? ExpiryUnit::ex : ExpiryUnit::px;
  auto const at = moment_of(call, {unit, call[2]});
  if (!at || !check_length(call, call[3].size())) return;
  set_string(call, call[1], call[3], *at);
  call.reply.ok();
}

void run_getset(Call& call) {
  auto const old = read_string(call, call[1]);
  if (!old || !check_length(call, call[2].size())) return;
  reply_value(call, *old);
  set_string(call, call[1], call[2]);
}

void run_mget(Call& call) {
  call.reply.array(call.count() - 1);
  for (std::size_t i = 1; i < call.count(); ++i) {
    Value const value = read_key(call, call[i]);
    if (value.type == Type::string)
      call.reply.bulk(value.bytes);
    else
      call.reply.null();
  }
}

namespace {

bool check_pairs(Call& call) {
  if (call.count() % 2 == 0) {
    wrong_arity(call);
    return false;
  }
  for (std::size_t i = 2; i < call.count(); i += 2)
    if (!check_length(call, call[i].size())) return false;
  return true;
}

void set_pairs(Call& call) {
  for (std::size_t i = 1; i < call.count(); i += 2) set_string(call, call[i], call[i + 1]);
}

}  // namespace

void run_mset(Call& call) {
  if (!check_pairs(call)) return;
  set_pairs(call);
  call.reply.ok();
}

void run_msetnx(Call& call) {
  if (!check_pairs(call)) return;
  for (std::size_t i = 1; i < call.count(); i += 2)
    if (call.keys.get(call[i]).type != Type::none) return call.reply.integer(0);
  set_pairs(call);
  call.reply.integer(1);
}

void run_incr(Call& call) {
  std::string_view const name = call.command.name;
  bool const down = name.starts_with("decr");
  std::int64_t by = 1;
  if (name.ends_with("by")) {
    auto const given = parse_integer(call[2]);
    if (!given) return call.reply.error(kNoInteger);
    by = *given;
    if (down && by == std::numeric_limits<std::int64_t>::min())
      return call.reply.error("ERR decrement would overflow");
  }
  if (down) by = -by;
  auto const value = get_string(call, call[1]);
  if (!value) return;
  auto const number =
      value->type == Type::none ? std::optional<std::int64_t>(0) : parse_integer(value->bytes);
  if (!number) return call.reply.error(kNoInteger);
  std::int64_t sum = 0;
  if (__builtin_add_overflow(*number, by, &sum))
    return call.reply.error("ERR increment or decrement would overflow");
  set_string(call, call[1], call.keys.keep(std::to_string(sum)), value->expires_ms);
  call.reply.integer(sum);
}

void run_append(Call& call) {
  auto const value = get_string(call, call[1]);
  if (!value || !check_length(call, value->bytes.size() + call[2].size())) return;
  std::string bytes(value->bytes);
  bytes += call[2];
  set_string(call, call[1], call.keys.keep(bytes), value->expires_ms);
  call.reply.integer(static_cast<std::int64_t>(bytes.size()));
}

void run_strlen(Call& call) {
  auto const value = read_string(call, call[1]);
  if (!value) return;
  call.reply.integer(static_cast<std::int64_t>(value->bytes.size()));
}

void run_getrange(Call& call) {
  auto const from = parse_integer(call[2]), to = parse_integer(call[3]);
  if (!from || !to) return call.reply.error(kNoInteger);
  auto const value = read_string(call, call[1]);
  if (!value) return;
  auto const bytes = static_cast<std::int64_t>(value->bytes.size());
  if (bytes == 0 || (*from < 0 && *to < 0 && *from > *to)) return call.reply.bulk({});
  auto const within = [&](std::int64_t at) {
    return std::max<std::int64_t>(at < 0 ? bytes + at : at, 0);
  };
  std::int64_t const begin = within(*from), end = std::min(within(*to), bytes - 1);
  if (begin > end) return call.reply.bulk({});
  call.reply.bulk(value->bytes.substr(static_cast<std::size_t>(begin),
                                      static_cast<std::size_t>(end - begin + 1)));
}

void run_setrange(Call& call) {
  auto const offset = parse_integer(call[2]);
  if (!offset) return call.reply.error(kNoInteger);
  if (*offset < 0) return call.reply.error("ERR offset is out of range");
  auto const value = get_string(call, call[1]);
  if (!value) return;
  std::string_view const piece = call[3];
  if (piece.empty()) return call.reply.integer(static_cast<std::int64_t>(value->bytes.size()));
  auto const at = static_cast<std::size_t>(*offset);
  if (at > call.server.options.most_value_bytes) return call.reply.error(kTooLong);
  if (!check_length(call, at + piece.size())) return;
  std::string bytes(value->bytes);
  bytes.resize(std::max(bytes.size(), at + piece.size()));
  bytes.replace(at, piece.size(), piece);
  set_string(call, call[1], call.keys.keep(bytes), value->expires_ms);
  call.reply.integer(static_cast<std::int64_t>(bytes.size()));
}

void run_getdel(Call& call) {
  auto const value = read_string(call, call[1]);
  if (!value) return;
  reply_value(call, *value);
  call.keys.remove(call[1]);
}

void run_getex(Call& call) {
  std::optional<Expiry> expiry;
  bool persist = false;
  for (std::size_t i = 2; i < call.count(); ++i) {
    auto const unit = expiry_unit(call[i]);
    if (equal_letters(call[i], "persist") && !expiry) {
      persist = true;
    } else if (unit && may_repeat(expiry, *unit) && !persist && i + 1 < call.count()) {
      expiry = Expiry{*unit, call[++i]};
    } else {
      return call.reply.error(kSyntaxError);
    }
  }
  auto value = read_string(call, call[1]);
  if (!value) return;
  if (value->type == Type::none) return reply_value(call, *value);
  std::int64_t expires = 0;
  if (expiry) {
    auto const at = moment_of(call, *expiry);
    if (!at) return;
    expires = *at;
  }
  reply_value(call, *value);
  if (!expiry && !persist) return;
  value->expires_ms = expires;
  call.keys.set(call[1], *value);
}

}  // namespace perdure::serve
