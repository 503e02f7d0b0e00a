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

void TrackedKeys::Held::catch_up() {
  std::size_t const count = items.size();
  if (count - indexed > index.size()) index.reserve(count);
  for (; indexed < count; ++indexed) index.insert(indexed);
}

TrackedKeys::Entry* TrackedKeys::find(KeyRef const& key) {
  if (held_ == nullptr) return nullptr;
  held_->catch_up();
  auto const found = held_->index.find(key, key.hash);
  return found != held_->index.end() ? &held_->items[*found].entry : nullptr;
}

TrackedKeys::Entry* TrackedKeys::find_at(std::uint32_t place, KeyRef const& key) {
  if (place >= size() || !(held_->items[place].key == key)) return find(key);
  return &held_->items[place].entry;
}

TrackedKeys::Entry& TrackedKeys::append(KeyRef const& key) {
  if (held_ == nullptr) held_ = std::make_unique<Held>();
  PERDURE_ASSERT(held_->items.size() < std::numeric_limits<std::uint32_t>::max());
  auto* const copy = static_cast<char*>(held_->arena.allocate(key.bytes.size(), 1));
  if (!key.bytes.empty()) std::memcpy(copy, key.bytes.data(), key.bytes.size());
  KeyRef owned = key;
  owned.bytes = {copy, key.bytes.size()};
  return held_->items.emplace_back(Item{owned, {kNotYet, 0, 0, false}}).entry;
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
  --held_->indexed;
}

void TrackedKeys::track(KeyRef const& key, Entry* known, rocksdb::SequenceNumber since,
                        bool read_only, bool exclusive) {
  Entry& entry = known != nullptr ? *known : append(key);
  entry.since = std::min(entry.since, since);
  ++(read_only ? entry.reads : entry.writes);
  entry.exclusive |= exclusive;
}

TrackedKeys::Forgotten TrackedKeys::forget_read(KeyRef const& key) {
  Entry* const found = find(key);
  if (found == nullptr || found->reads == 0) return Forgotten::nothing;
  --found->reads;
  if (found->reads + found->writes != 0) return Forgotten::a_read;
  erase(key);
  return Forgotten::the_key;
}

void TrackedKeys::subtract(TrackedKeys const& newer) {
  newer.for_each([&](KeyRef const& key, Entry const& entry) {
    Entry* const found = find(key);
    if (found == nullptr) return;
    found->reads -= entry.reads;
    found->writes -= entry.writes;
    if (found->reads + found->writes == 0) erase(key);
  });
}

void TrackedKeys::add(TrackedKeys const& newer) {
  newer.for_each([&](KeyRef const& key, Entry const& entry) {
    Entry* const known = find(key);
    Entry& mine = known != nullptr ? *known : append(key);
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
