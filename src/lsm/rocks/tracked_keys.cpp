#include "lsm/rocks/tracked_keys.hpp"

#include <algorithm>
#include <cstring>

#include "base/hash.hpp"

namespace perdure::lsm {

KeyRef::KeyRef(std::uint32_t in, rocksdb::Slice const& key)
    : bytes(key.data(), key.size()),
      hash(nth_hash(hash_bytes(reinterpret_cast<std::byte const*>(key.data()), key.size()), in)),
      family(in) {}

TrackedKeys::Entry const* TrackedKeys::find(KeyRef const& key) const {
  if (held_ == nullptr) return nullptr;
  auto const found = held_->entries.find(key);
  return found != held_->entries.end() ? &found->second : nullptr;
}

TrackedKeys::Entry& TrackedKeys::entry_of(KeyRef const& key) {
  if (held_ == nullptr) held_ = std::make_unique<Held>();
  auto const found = held_->entries.find(key);
  if (found != held_->entries.end()) return found->second;
  auto* const copy = static_cast<char*>(held_->arena.allocate(key.bytes.size(), 1));
  if (!key.bytes.empty()) std::memcpy(copy, key.bytes.data(), key.bytes.size());
  KeyRef owned = key;
  owned.bytes = {copy, key.bytes.size()};
  return held_->entries.emplace(owned, Entry{kNotYet, 0, 0, false}).first->second;
}

void TrackedKeys::track(KeyRef const& key, rocksdb::SequenceNumber since, bool read_only,
                        bool exclusive) {
  Entry& entry = entry_of(key);
  entry.since = std::min(entry.since, since);
  ++(read_only ? entry.reads : entry.writes);
  entry.exclusive |= exclusive;
}

TrackedKeys::Forgotten TrackedKeys::forget_read(KeyRef const& key) {
  if (held_ == nullptr) return Forgotten::nothing;
  auto const found = held_->entries.find(key);
  if (found == held_->entries.end() || found->second.reads == 0) return Forgotten::nothing;
  --found->second.reads;
  if (found->second.reads + found->second.writes != 0) return Forgotten::a_read;
  held_->entries.erase(found);
  return Forgotten::the_key;
}

void TrackedKeys::subtract(TrackedKeys const& newer) {
  newer.for_each([&](KeyRef const& key, Entry const& entry) {
    auto const found = held_->entries.find(key);
    if (found == held_->entries.end()) return;
    found->second.reads -= entry.reads;
    found->second.writes -= entry.writes;
    if (found->second.reads + found->second.writes == 0) held_->entries.erase(found);
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
