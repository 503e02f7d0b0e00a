// Commands that look at all keys: SCAN, KEYS, DBSIZE, RANDOMKEY, FLUSHDB.
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "serve/command.hpp"

namespace perdure::serve {
namespace {

constexpr unsigned kSlotBits = 44;
constexpr std::uint64_t kSlotMask = (std::uint64_t{1} << kSlotBits) - 1;
constexpr std::size_t kPage = 4096;

/// A cursor as clients hold it: a slot, and which numbering of slots it belongs to, so that one
/// from before keys moved, or from another run, begins anew. Then keys are seen twice, and none is
/// missed that was there throughout.
class ClientCursor {
 public:
  explicit ClientCursor(ServerState const& server)
      : salt_(std::hash<std::string>{}(server.run_id)) {}
  [[nodiscard]] std::uint64_t pack(ScanCursor const& at) const {
    return at.done ? 0 : (at.slot & kSlotMask) | mark(at.generation) << kSlotBits;
  }
  [[nodiscard]] ScanCursor unpack(std::uint64_t cursor, std::uint64_t generation) const {
    if (cursor == 0 || cursor >> kSlotBits != mark(generation)) return {};
    ScanCursor at;
    at.slot = cursor & kSlotMask;
    at.generation = generation;
    return at;
  }

 private:
  [[nodiscard]] std::uint64_t mark(std::uint64_t generation) const {
    return (generation ^ salt_) & ((std::uint64_t{1} << (64 - kSlotBits)) - 1);
  }
  std::uint64_t salt_;
};

struct ScanOptions {
  std::string_view pattern = "*";
  std::string type = {};
  std::int64_t count = 10;
  [[nodiscard]] bool takes(Call& call, std::string_view key, Value const& value) const {
    if (pattern != "*" && !matches_glob(pattern, key)) return false;
    if (type.empty()) return true;
    count_read(call, value);
    return type == name_of(value.type);
  }
};

std::optional<ScanOptions> parse_scan(Call& call) {
  ScanOptions o;
  for (std::size_t i = 2; i < call.count(); i += 2) {
    if (i + 1 >= call.count()) {
      call.reply.error(kSyntaxError);
      return std::nullopt;
    }
    if (equal_letters(call[i], "match")) {
      o.pattern = call[i + 1];
    } else if (equal_letters(call[i], "type")) {
      o.type = in_small(call[i + 1]);
    } else if (equal_letters(call[i], "count")) {
      auto const count = parse_integer(call[i + 1]);
      if (!count || *count < 1) {
        call.reply.error(count ? kSyntaxError : kNoInteger);
        return std::nullopt;
      }
      o.count = *count;
    } else {
      call.reply.error(kSyntaxError);
      return std::nullopt;
    }
  }
  return o;
}

/// As the C library reads an unsigned number, which is how Redis does.
std::optional<std::uint64_t> parse_cursor(std::string_view text) {
  std::string const whole(text);
  if (!whole.empty() && std::isspace(static_cast<unsigned char>(whole[0])) != 0)
    return std::nullopt;
  char* end = nullptr;
  errno = 0;
  std::uint64_t const cursor = std::strtoull(whole.c_str(), &end, 10);
  if (errno == ERANGE || *end != '\0') return std::nullopt;
  return cursor;
}

}  // namespace

void run_scan(Call& call) {
  auto const cursor = parse_cursor(call[1]);
  if (!cursor) return call.reply.error("ERR invalid cursor");
  auto const options = parse_scan(call);
  if (!options) return;
  ClientCursor const cursors(call.server);
  ScanCursor at = cursors.unpack(*cursor, call.server.scan_generation);
  std::vector<std::string> found;
  auto const each = [&](std::string_view key, Value const& value) {
    if (options->takes(call, key, value)) found.emplace_back(key);
  };
  auto const limit = static_cast<std::size_t>(std::min<std::int64_t>(options->count, kPage * 16));
  if (!call.keys.scan(at, limit, each)) call.keys.scan(at = {}, limit, each);
  call.server.scan_generation = at.generation;
  call.reply.array(2);
  call.reply.bulk(std::to_string(cursors.pack(at)));
  call.reply.array(found.size());
  for (std::string const& key : found) call.reply.bulk(key);
}

void run_keys(Call& call) {
  std::vector<std::string> found;
  auto const each = [&](std::string_view key, Value const&) {
    if (matches_glob(call[1], key)) found.emplace_back(key);
  };
  for (ScanCursor at; !at.done;)
    if (!call.keys.scan(at, kPage, each)) break;  // the turn fails with the reason
  call.keys.each_made(each);
  call.reply.array(found.size());
  for (std::string const& key : found) call.reply.bulk(key);
}

void run_dbsize(Call& call) { call.reply.integer(static_cast<std::int64_t>(call.keys.records())); }

void run_randomkey(Call& call) {
  static thread_local std::mt19937_64 random(std::random_device{}());
  constexpr int kTries = 100;
  std::string found;
  bool any = false;
  auto const each = [&](std::string_view key, Value const&) {
    found = key;
    any = true;
  };
  ScanCursor at;
  call.keys.scan(at, 1, [](std::string_view, Value const&) {});
  std::uint64_t const generation = at.generation, slots = call.keys.slots();
  for (int i = 0; i < kTries && !any && slots != 0; ++i) {
    at = {};
    at.generation = generation;
    at.slot = random() % slots;
    call.keys.scan(at, 1, each);
  }
  for (at = {}; !any && !at.done;)
    if (!call.keys.scan(at, 1, each)) break;
  if (!any) call.keys.each_made(each);
  if (any)
    call.reply.bulk(found);
  else
    call.reply.null();
}

void run_flushdb(Call& call) {
  if (call.count() > 2 ||
      (call.count() == 2 && !equal_letters(call[1], "async") && !equal_letters(call[1], "sync")))
    return call.reply.error(kSyntaxError);
  if (!call.in_exec) {
    if (Status const s = call.keys.clear(); !s.ok()) return call.reply.error("ERR " + s.message());
    return call.reply.ok();
  }
  std::vector<std::string> keys;  // with the other commands of its transaction, or not at all
  auto const each = [&](std::string_view key, Value const&) { keys.emplace_back(key); };
  for (ScanCursor at; !at.done;)
    if (!call.keys.scan(at, kPage, each)) break;
  call.keys.each_made(each);
  for (std::string const& key : keys) call.keys.remove(call.keys.keep(key));
  call.reply.ok();
}

}  // namespace perdure::serve
