#include "serve/keyspace.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/hooks.hpp"

namespace perdure::serve {
namespace {

constexpr std::size_t kManyBuckets = 1u << 16;
constexpr std::size_t kClearedAtOnce = 1u << 15;

std::string_view text_of(VariableValues const& values, std::size_t i) {
  auto const begin = static_cast<std::size_t>(values.offsets[i]);
  auto const end = static_cast<std::size_t>(values.offsets[i + 1]);
  return {reinterpret_cast<char const*>(values.data.data()) + begin, end - begin};
}

std::byte const* bytes_of(std::string const& text) {
  return reinterpret_cast<std::byte const*>(text.data());
}

}  // namespace

Column Keyspace::Columns::column() const {
  return {bytes_of(bytes), offsets.data(), 0, offsets.size() - 1, MemorySpace::host};
}

Keyspace::Keyspace(Store& store, std::pmr::memory_resource& turn_memory)
    : store_(store), memory_(turn_memory) {}

void Keyspace::begin(std::int64_t now_ms) {
  now_ms_ = std::max(now_ms_, now_ms);  // a clock that is set back brings no key back
  entries_.clear();
  awaited_.clear();
  got_.clear();
  failure_ = {};
  too_large_ = false;
  if (by_key_.bucket_count() > kManyBuckets)
    by_key_ = {};
  else
    by_key_.clear();
}

Keyspace::Entry& Keyspace::entry_of(std::string_view key) {
  auto const [at, is_new] = by_key_.try_emplace(key, static_cast<std::uint32_t>(entries_.size()));
  if (is_new) entries_.push_back({.key = key});
  return entries_[at.value()];
}

void Keyspace::will_read(std::string_view key) {
  std::size_t const before = entries_.size();
  entry_of(key);
  if (entries_.size() != before) awaited_.push_back(static_cast<std::uint32_t>(before));
}

Keyspace::Entry& Keyspace::looked_at(std::string_view key) {
  Entry* entry = &entry_of(key);
  if (entry->looked) return *entry;
  std::erase_if(awaited_, [&](std::uint32_t i) { return entries_[i].looked; });
  auto const number = static_cast<std::uint32_t>(entry - entries_.data());
  if (std::ranges::find(awaited_, number) == awaited_.end()) awaited_.push_back(number);
  load(awaited_);
  awaited_.clear();
  return entries_[number];
}

void Keyspace::load(std::vector<std::uint32_t> const& which) {
  keys_.clear();
  for (std::uint32_t const i : which) {
    keys_.bytes += entries_[i].key;
    keys_.end_element();
  }
  statuses_.assign(which.size(), KeyStatus::not_tried);
  auto values = store_.get_variable(keys_.column(), statuses_);
  if (!values) {
    if (failure_.ok()) failure_ = values.status();
    for (std::uint32_t const i : which) entries_[i].looked = entries_[i].known = true;
    return;
  }
  VariableValues const& got = got_.emplace_back(std::move(*values));
  for (std::size_t i = 0; i < which.size(); ++i)
    take(entries_[which[i]], statuses_[i], text_of(got, i));
}

/// What the store has of a key, unless this turn has set it by now.
void Keyspace::take(Entry& entry, KeyStatus status, std::string_view record) {
  entry.looked = true;
  entry.stored = status != KeyStatus::not_found;
  if (entry.known) return;
  entry.known = true;
  if (!entry.stored) return;
  auto const value = status == KeyStatus::ok ? read_value(record) : std::nullopt;
  if (!value) {
    entry.value.type = Type::damaged;
  } else if (has_expired(*value)) {  // nobody is told so before it is gone for good
    ++expired_;
    if (!mutated("serve_expired_not_erased")) change(entry, {});
  } else {
    entry.value = *value;
  }
}

void Keyspace::change(Entry& entry, Value const& value) {
  entry.value = value;
  entry.known = entry.dirty = true;
  has_expiring_ |= value.expires_ms != 0;
  if (on_change) on_change(entry.key);
}

Value Keyspace::get(std::string_view key) {
  Entry& entry = entry_of(key);
  if (entry.known) {
    if (has_expired(entry.value)) change(entry, {});
    return entry.value;
  }
  return looked_at(key).value;
}

void Keyspace::set(std::string_view key, Value const& value) {
  ++changes_;
  change(entry_of(key), value);
}

bool Keyspace::remove(std::string_view key) {
  if (get(key).type == Type::none) return false;
  ++changes_;
  change(entry_of(key), {});
  return true;
}

std::string_view Keyspace::keep(std::string_view bytes) {
  auto* const to = static_cast<char*>(memory_.allocate(bytes.size() + 1, 1));
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  return {to, bytes.size()};
}

std::uint64_t Keyspace::records() {
  std::int64_t change = 0;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (!entries_[i].dirty) continue;
    bool const stored = looked_at(entries_[i].key).stored;
    change += static_cast<int>(entries_[i].value.type != Type::none) - static_cast<int>(stored);
  }
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(store_.stats().records) + change);
}

bool Keyspace::scan(ScanCursor& at, std::size_t limit,
                    std::function<void(std::string_view, Value const&)> const& each) {
  auto page = store_.scan(at, limit);
  if (!page) {
    if (page.status().code() != Code::busy && failure_.ok()) failure_ = page.status();
    return false;
  }
  at = page->next;
  for (std::size_t i = 0; i + 1 < page->keys.offsets.size(); ++i) {
    std::string_view const key = text_of(page->keys, i);
    if (auto const found = by_key_.find(key); found != by_key_.end()) {
      Entry const& entry = entries_[found.value()];
      if (entry.known) {
        if (entry.value.type != Type::none) each(entry.key, entry.value);
        continue;
      }
    }
    auto const value = read_value(text_of(page->values, i));
    if (value && has_expired(*value))
      remove(keep(key));  // gets it, which finds that it has expired
    else
      each(key, value.value_or(Value{.type = Type::damaged}));
  }
  return true;
}

void Keyspace::each_made(std::function<void(std::string_view, Value const&)> const& each) {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (!entries_[i].dirty || entries_[i].value.type == Type::none) continue;
    if (!looked_at(entries_[i].key).stored) each(entries_[i].key, entries_[i].value);
  }
}

Status Keyspace::clear() {
  for (;;) {
    auto const page = store_.scan({}, kClearedAtOnce);
    if (!page) return page.status();
    std::size_t const count = page.value().keys.offsets.size() - 1;
    if (count == 0) return {};
    VariableValues const& keys = page.value().keys;
    if (on_change)
      for (std::size_t i = 0; i < count; ++i) on_change(text_of(keys, i));
    changes_ += count;
    Column const column{keys.data.data(), keys.offsets.data(), 0, count, MemorySpace::host};
    if (Status s = store_.erase(column); !s.ok()) return s;
  }
}

Status Keyspace::commit(bool in_pieces) {
  if (!failure_.ok()) return failure_;
  keys_.clear();
  values_.clear();
  kinds_.clear();
  std::size_t puts = 0;
  for (Entry const& entry : entries_) {
    if (!entry.dirty) continue;
    bool const put = entry.value.type != Type::none;
    if (!put && entry.looked && !entry.stored) continue;  // made and gone in this turn
    keys_.bytes += entry.key;
    keys_.end_element();
    if (put) write_value(entry.value, values_.bytes);
    values_.end_element();
    kinds_.push_back(put ? OpKind::put : OpKind::erase);
    puts += put ? 1 : 0;
  }
  std::size_t const count = kinds_.size();
  if (count == 0) return {};
  statuses_.assign(count, KeyStatus::not_tried);
  CallOptions how;
  how.atomic = count > 1 && !(in_pieces && puts == 0) && !mutated("serve_turn_not_atomic");
  Status done;
  if (puts == count) {
    done = store_.put(keys_.column(), values_.column(), statuses_, how);
  } else if (puts == 0) {
    done = store_.erase(keys_.column(), statuses_, how);
  } else {
    done = store_.apply({.keys = keys_.column(), .kinds = kinds_, .values = values_.column()},
                        statuses_, how);
  }
  too_large_ = std::ranges::find(statuses_, KeyStatus::too_large) != statuses_.end();
  if (done.ok() && too_large_)
    done = {Code::invalid_argument, "a key or value is longer than the pool allows"};
  bool const refused = std::ranges::find(statuses_, KeyStatus::no_space) != statuses_.end();
  if (done.ok() && refused) done = {Code::no_space, "the pool is full"};
  return done;
}

}  // namespace perdure::serve
