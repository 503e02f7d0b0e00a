#include "lsm/rocks/tracked_keys.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/assert.hpp"
#include "base/hash.hpp"

namespace perdure::lsm {

KeyRef::KeyRef(std::uint32_t in, rocksdb::Slice const& key)
    : bytes(key.data(), key.size()),
      hash(nth_hash(hash_bytes(reinterpret_cast<std::byte const*>(key.data()), key.size()), in)),
      family(in) {}

TrackedKeys::Entry* TrackedKeys::entry_at(KeyRef const& key) const {
  if (held_ == nullptr) return nullptr;
  auto const found = held_->index.find(key, key.hash);
  return found != held_->index.end() ? &held_->items[*found].entry : nullptr;
}

TrackedKeys::Entry const* TrackedKeys::find(KeyRef const& key) const { return entry_at(key); }

TrackedKeys::Entry& TrackedKeys::entry_of(KeyRef const& key) {
  if (Entry* const found = entry_at(key); found != nullptr) return *found;
  if (held_ == nullptr) held_ = std::make_unique<Held>();
  auto* const copy = static_cast<char*>(held_->arena.allocate(key.bytes.size(), 1));
  if (!key.bytes.empty()) std::memcpy(copy, key.bytes.data(), key.bytes.size());
  KeyRef owned = key;
  owned.bytes = {copy, key.bytes.size()};
  std::size_t const at = held_->items.size();
  PERDURE_ASSERT(at < std::numeric_limits<std::uint32_t>::max());
  held_->items.push_back({owned, {kNotYet, 0, 0, false}});
  held_->index.insert(static_cast<std::uint32_t>(at));
  return held_->items.back().entry;
}

void TrackedKeys::erase(KeyRef const& key) {
  Items& items = held_->items;
  Index& index = held_->index;
  std::uint32_t const at = *index.find(key, key.hash);
  KeyRef const last = items.back().key;
  auto const last_at = static_cast<std::uint32_t>(items.size() - 1);
  index.erase(key, key.hash);
  if (at != last_at) {
    index.erase(last, last.hash);
    items[at] = items.back();
    index.insert(at);
  }
  items.pop_back();
}

void TrackedKeys::track(KeyRef const& key, rocksdb::SequenceNumber since, bool read_only,
                        bool exclusive) {
  Entry& entry = entry_of(key);
  entry.since = std::min(entry.since, since);
  ++(read_only ? entry.reads : entry.writes);
  entry.exclusive |= exclusive;
}

TrackedKeys::Forgotten TrackedKeys::forget_read(KeyRef const& key) {
  Entry* const found = entry_at(key);
  if (found == nullptr || found->reads == 0) return Forgotten::nothing;
  --found->reads;
  if (found->reads + found->writes != 0) return Forgotten::a_read;
  erase(key);
  return Forgotten::the_key;
}

void TrackedKeys::subtract(TrackedKeys const& newer) {
  newer.for_each([&](KeyRef const& key, Entry const& entry) {
    Entry* const found = entry_at(key);
    if (found == nullptr) return;
    found->reads -= entry.reads;
    found->writes -= entry.writes;
    if (found->reads + found->writes == 0) erase(key);
  });
}

void TrackedKeys::add(TrackedKeys const& newer) {
  newer.for_each([&](KeyRef const& key, Entry const& entry) {
    Entry& mine = entry_of(key);
    mine.since = std::min(mine.since, entry.since);
    mine.reads += entry.reads;
    mine.writes += entry.writes;
    mine.exclusive |= entry.exclusive;
  });
}

std::vector<TrackedKey> TrackedKeys::list() const {
  std::vector<TrackedKey> keys;
  keys.reserve(size());
  for_each([&](KeyRef const& key, Entry const& entry) {
    keys.push_back({key.family, key.slice(), entry.since});
  });
  return keys;
}

}  // namespace perdure::lsm
