#include "store/gphash/entry_index.hpp"

#include <algorithm>
#include <cstring>
#include <random>

#include "base/assert.hpp"
#include "base/hash.hpp"
#include "base/prefetch.hpp"

namespace perdure::gphash {
namespace {

constexpr std::uint64_t kFirstSlots = 8;
constexpr std::size_t kAhead = 16;  // entries whose slots are on their way

constexpr std::size_t kKey = 0, kWhat = 1, kRest = 2;  // words of a cell

std::uint64_t any_salt() {
#if defined(PERDURE_EXPLORE)
  return 1;  // a run follows from its seed
#else
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
#endif
}

}  // namespace

EntryIndex::EntryIndex(std::uint32_t key_bytes)
    : key_bytes_(key_bytes),
      cell_words_(wal::cell_bytes_for(key_bytes) / 8),
      salt_(any_salt()),
      parts_(std::size_t{1} << kPartBits) {
  PERDURE_ASSERT(key_bytes > 0 && key_bytes <= wal::kMostEntryKey);
}

EntryIndex::Key EntryIndex::key_of(std::byte const* key) const {
  Key k;
  wal::NewEntry const entry{key, key_bytes_, 0};
  k.cell[kKey] = entry.first().key;
  for (std::uint32_t word = kRest; word < cell_words_; word += kRest) {
    wal::KeyPart const part = entry.part(word * 8);
    std::memcpy(&k.cell[word], part.words, sizeof part.words);
  }
  k.hash = hash_of(k.cell.data());
  return k;
}

std::uint64_t EntryIndex::hash_of(std::uint64_t const* cell) const {
  std::uint64_t hash = hash_word(cell[kKey] ^ salt_, 8);
  for (std::uint32_t word = kRest; word < cell_words_; ++word)
    hash = hash_word(hash ^ cell[word], 8);
  return hash;
}

bool EntryIndex::same_key(std::uint64_t const* a, std::uint64_t const* b) const {
  return a[kKey] == b[kKey] && std::equal(a + kRest, a + cell_words_, b + kRest);
}

/// By the bits below those that choose the part.
std::uint64_t EntryIndex::first_slot(Part const& p, std::uint64_t hash) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(static_cast<Wide>(hash << kPartBits) * p.slots >> 64);
}

void EntryIndex::prefetch(Key const& key) const {
  Part const& p = part(key.hash);
  if (p.slots != 0) prefetch_line(&p.words[first_slot(p, key.hash) * cell_words_]);
}

/// The key's, or the free one where it would be. Of a part that has slots.
std::uint64_t EntryIndex::slot_of(Part const& p, Key const& key) const {
  PERDURE_ASSERT(!kCostlyAssertions || p.used < p.slots);
  std::uint64_t slot = first_slot(p, key.hash);
  for (;;) {
    std::uint64_t const* const cell = &p.words[slot * cell_words_];
    if (cell[kWhat] == 0 || same_key(cell, key.cell.data())) return slot;
    if (++slot == p.slots) slot = 0;
  }
}

std::uint64_t EntryIndex::find(Key const& key) const {
  Part const& p = part(key.hash);
  return p.slots == 0 ? 0 : p.words[slot_of(p, key) * cell_words_ + kWhat];
}

void EntryIndex::apply(std::span<std::byte const> entries) {
  std::size_t const bytes = cell_words_ * 8, n = entries.size() / bytes;
  PERDURE_ASSERT(entries.size() % bytes == 0);
  Key some[kAhead];
  for (std::size_t from = 0; from < n; from += kAhead) {
    std::size_t const here = std::min(kAhead, n - from);
    for (std::size_t i = 0; i < here; ++i) {
      std::memcpy(some[i].cell.data(), &entries[(from + i) * bytes], bytes);
      some[i].hash = hash_of(some[i].cell.data());
      prefetch(some[i]);
    }
    for (std::size_t i = 0; i < here; ++i) apply_one(some[i]);
  }
}

void EntryIndex::apply_one(Key const& entry) {
  std::uint64_t const what = entry.cell[kWhat];
  if (what == 0) return;
  Part& p = part(entry.hash);
  if (wal::says_erase(what)) {
    if (p.slots == 0) return;
    std::uint64_t const slot = slot_of(p, entry);
    if (p.words[slot * cell_words_ + kWhat] != 0) erase(p, slot);
    return;
  }
  if (p.used >= p.slots - p.slots / 8) grow(p);
  std::uint64_t* const cell = &p.words[slot_of(p, entry) * cell_words_];
  p.used += cell[kWhat] == 0;
  std::copy_n(entry.cell.data(), cell_words_, cell);
}

void EntryIndex::grow(Part& p) const {
  Part wider;
  wider.slots = std::max(kFirstSlots, p.slots + p.slots / 2);
  wider.words.resize(wider.slots * cell_words_);
  wider.used = p.used;
  Key key;
  for (std::uint64_t slot = 0; slot < p.slots; ++slot) {
    std::uint64_t const* const cell = &p.words[slot * cell_words_];
    if (cell[kWhat] == 0) continue;
    std::copy_n(cell, cell_words_, key.cell.data());
    key.hash = hash_of(cell);
    std::copy_n(cell, cell_words_, &wider.words[slot_of(wider, key) * cell_words_]);
  }
  p = std::move(wider);
}

/// Those behind it that its slot kept from theirs move up.
void EntryIndex::erase(Part& p, std::uint64_t slot) const {
  PERDURE_ASSERT(p.used > 0);
  --p.used;
  std::uint64_t free = slot;
  for (std::uint64_t next = slot;;) {
    if (++next == p.slots) next = 0;
    std::uint64_t const* const cell = &p.words[next * cell_words_];
    if (cell[kWhat] == 0) break;
    std::uint64_t const first = first_slot(p, hash_of(cell));
    bool const behind = free < next ? first > free && first <= next : first > free || first <= next;
    if (behind) continue;
    std::copy_n(cell, cell_words_, &p.words[free * cell_words_]);
    free = next;
  }
  std::fill_n(&p.words[free * cell_words_], cell_words_, 0);
}

void EntryIndex::clear() {
  for (Part& p : parts_) p = Part{};
}

std::uint64_t EntryIndex::keys() const {
  std::uint64_t n = 0;
  for (Part const& p : parts_) n += p.used;
  return n;
}

std::uint64_t EntryIndex::bytes() const {
  std::uint64_t n = parts_.size() * sizeof(Part);
  for (Part const& p : parts_) n += p.words.capacity() * 8;
  return n;
}

}  // namespace perdure::gphash
