// Commands of hashes. A hash is one record, so each write of a field writes all of them.
#include <unordered_map>
#include <vector>

#include "serve/command.hpp"

namespace perdure::serve {
namespace {

std::optional<Value> get_hash(Call& call) {
  return typed(call, call.keys.get(call[1]), Type::hash);
}
/// The same for a command that only reads it.
std::optional<Value> read_hash(Call& call) {
  return typed(call, read_key(call, call[1]), Type::hash);
}

/// Fields, to be changed and written back whole. Order is kept, as clients may see it.
class Editor {
 public:
  explicit Editor(std::string_view hash) {
    Fields fields(hash);
    while (auto const field = fields.next()) add(*field);
  }
  /// True: the field is new.
  bool set(Field const& field) {
    if (auto const at = by_name_.find(field.name); at != by_name_.end()) {
      all_[at->second].value = field.value;
      return false;
    }
    add(field);
    return true;
  }
  bool remove(std::string_view name) { return by_name_.erase(name) != 0; }
  [[nodiscard]] bool empty() const { return by_name_.empty(); }
  [[nodiscard]] std::string bytes() const {
    std::string all;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      auto const at = by_name_.find(all_[i].name);
      if (at != by_name_.end() && at->second == i) append_field(all, all_[i]);
    }
    return all;
  }

 private:
  void add(Field const& field) {
    by_name_.emplace(field.name, all_.size());
    all_.push_back(field);
  }

  std::vector<Field> all_;  // those that were removed, too
  std::unordered_map<std::string_view, std::size_t> by_name_;
};

/// False: it would be too long, which has been said.
bool set_hash(Call& call, Editor const& fields, std::int64_t expires_ms) {
  std::string const bytes = fields.bytes();
  if (!check_length(call, bytes.size())) return false;
  call.keys.set(call[1], {Type::hash, expires_ms, call.keys.keep(bytes)});
  return true;
}

void reply_field(Call& call, std::optional<std::string_view> value) {
  if (value)
    call.reply.bulk(*value);
  else
    call.reply.null();
}

}  // namespace

void run_hset(Call& call) {
  if (call.count() % 2 != 0) return wrong_arity(call);
  auto const hash = get_hash(call);
  if (!hash) return;
  Editor fields(hash->bytes);
  std::int64_t added = 0;
  for (std::size_t i = 2; i < call.count(); i += 2)
    added += fields.set({call[i], call[i + 1]}) ? 1 : 0;
  if (!set_hash(call, fields, hash->expires_ms)) return;
  if (call.command.name == "hmset")
    call.reply.ok();
  else
    call.reply.integer(added);
}

void run_hsetnx(Call& call) {
  auto const hash = get_hash(call);
  if (!hash) return;
  if (find_field(hash->bytes, call[2])) return call.reply.integer(0);
  Editor fields(hash->bytes);
  fields.set({call[2], call[3]});
  if (set_hash(call, fields, hash->expires_ms)) call.reply.integer(1);
}

void run_hget(Call& call) {
  if (auto const hash = read_hash(call)) reply_field(call, find_field(hash->bytes, call[2]));
}

void run_hmget(Call& call) {
  auto const hash = read_hash(call);
  if (!hash) return;
  call.reply.array(call.count() - 2);
  for (std::size_t i = 2; i < call.count(); ++i)
    reply_field(call, find_field(hash->bytes, call[i]));
}

/// HGETALL, HKEYS, HVALS
void run_hgetall(Call& call) {
  auto const hash = read_hash(call);
  if (!hash) return;
  bool const names = call.command.name != "hvals", values = call.command.name != "hkeys";
  std::size_t const count = count_fields(hash->bytes);
  if (names && values)
    call.reply.map(count);
  else
    call.reply.array(count);
  Fields fields(hash->bytes);
  while (auto const field = fields.next()) {
    if (names) call.reply.bulk(field->name);
    if (values) call.reply.bulk(field->value);
  }
}

void run_hdel(Call& call) {
  auto const hash = get_hash(call);
  if (!hash) return;
  Editor fields(hash->bytes);
  std::int64_t removed = 0;
  for (std::size_t i = 2; i < call.count(); ++i) removed += fields.remove(call[i]) ? 1 : 0;
  if (removed != 0 && fields.empty()) {
    call.keys.remove(call[1]);
  } else if (removed != 0 && !set_hash(call, fields, hash->expires_ms)) {
    return;
  }
  call.reply.integer(removed);
}

void run_hlen(Call& call) {
  if (auto const hash = read_hash(call))
    call.reply.integer(static_cast<std::int64_t>(count_fields(hash->bytes)));
}

void run_hexists(Call& call) {
  if (auto const hash = read_hash(call))
    call.reply.integer(find_field(hash->bytes, call[2]) ? 1 : 0);
}

void run_hstrlen(Call& call) {
  if (auto const hash = read_hash(call))
    call.reply.integer(
        static_cast<std::int64_t>(find_field(hash->bytes, call[2]).value_or("").size()));
}

void run_hincrby(Call& call) {
  auto const by = parse_integer(call[3]);
  if (!by) return call.reply.error(kNoInteger);
  auto const hash = get_hash(call);
  if (!hash) return;
  auto const old = find_field(hash->bytes, call[2]);
  auto const number = old ? parse_integer(*old) : std::optional<std::int64_t>(0);
  if (!number) return call.reply.error("ERR hash value is not an integer");
  std::int64_t sum = 0;
  if (__builtin_add_overflow(*number, *by, &sum))
    return call.reply.error("ERR increment or decrement would overflow");
  std::string const text = std::to_string(sum);
  Editor fields(hash->bytes);
  fields.set({call[2], text});
  if (set_hash(call, fields, hash->expires_ms)) call.reply.integer(sum);
}

}  // namespace perdure::serve
