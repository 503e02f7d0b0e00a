#include "store/gphash/entry_index.hpp"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "base/assert.hpp"
#include "base/hash.hpp"
#include "base/hooks.hpp"
#include "base/prefetch.hpp"

namespace perdure::gphash {
namespace {

constexpr std::uint64_t kFirstSlots = 8;
constexpr std::size_t kAhead = 16;  // entries whose slots are on their way

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
      hashes_(key_bytes == 0 || key_bytes > wal::kMostEntryKey),
      cell_words_(wal::cell_bytes_for(key_bytes) / 8),
      slot_words_(hashes_ ? kRest : cell_words_),
      salt_(any_salt()),
      parts_(std::size_t{1} << kPartBits) {}

EntryIndex::Key EntryIndex::key_of(std::span<std::byte const> key) const {
  Key k;
  if (hashes_) {
    k.cell[kKey] = hash_bytes(key.data(), key.size());
    k.hash = hash_of(k.cell.data());
    return k;
  }
  PERDURE_ASSERT(key.size() == key_bytes_);
  wal::NewEntry const entry{key.data(), key_bytes_, 0};
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
  for (std::uint32_t word = kRest; word < slot_words_; ++word)
    hash = hash_word(hash ^ cell[word], 8);
  return hash;
}

bool EntryIndex::same_key(std::uint64_t const* a, std::uint64_t const* b) const {
  return a[kKey] == b[kKey] && std::equal(a + kRest, a + slot_words_, b + kRest);
}

/// Pairs of one hash are told apart by their records.
bool EntryIndex::same_slot(std::uint64_t const* a, std::uint64_t const* b) const {
  bool const any = !hashes_ || mutated("log_reader_by_hash_alone");
  return same_key(a, b) && (any || wal::record_of(a[kWhat]) == wal::record_of(b[kWhat]));
}

/// By the bits below those that choose the part.
std::uint64_t EntryIndex::first_slot(Part const& p, std::uint64_t hash) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(static_cast<Wide>(hash << kPartBits) * p.slots >> 64);
}

void EntryIndex::prefetch(Key const& key) const {
  Part const& p = part(key.hash);
  if (p.slots != 0) prefetch_line(&p.words[first_slot(p, key.hash) * slot_words_]);
}

/// The key's, or the free one where it would be. Of a part that has slots.
std::uint64_t EntryIndex::slot_of(Part const& p, Key const& key) const {
  PERDURE_ASSERT(!kCostlyAssertions || p.used < p.slots);
  std::uint64_t slot = first_slot(p, key.hash);
  for (;;) {
    std::uint64_t const* const cell = &p.words[slot * slot_words_];
    if (cell[kWhat] == 0 || same_slot(cell, key.cell.data())) return slot;
    slot = behind(p, slot);
  }
}

/// All that an entry does is done in one part, and a part is of one share.
void EntryIndex::apply(std::span<std::byte const> entries, std::uint32_t share,
                       std::uint32_t shares) {
  std::size_t const bytes = cell_words_ * 8;
  PERDURE_ASSERT(entries.size() % bytes == 0 && share < shares);
  std::array<Key, kAhead> some;
  std::size_t n = 0;
  auto const do_some = [&] {
    auto const these = std::span(some).first(std::exchange(n, 0));
    for (Key const& entry : these) prefetch(entry);
    for (Key const& entry : these) apply_one(entry);
  };
  for (std::size_t at = 0; at < entries.size(); at += bytes) {
    Key& entry = some[n];
    std::memcpy(entry.cell.data(), &entries[at], bytes);
    entry.hash = hash_of(entry.cell.data());
    n += (entry.hash >> (64 - kPartBits)) * shares >> kPartBits == share;  // no branch to guess
    if (n == kAhead) do_some();
  }
  do_some();
}

void EntryIndex::apply_one(Key const& entry) {
  std::uint64_t const what = entry.cell[kWhat];
  if (what == 0) return;
  Part& p = part(entry.hash);
  bool const puts = wal::says_put(what);
  if (puts && p.used >= p.slots - p.slots / 8) grow(p);  // before anything has changed
  if (std::uint64_t const old = entry.cell[kOld]; hashes_ && old != 0 && wal::can_be_record(old)) {
    Key replaced = entry;
    replaced.cell[kWhat] = old / pm::kRecordAlign;
    take_out(p, replaced);
  }
  if (!puts) {
    if (!hashes_) take_out(p, entry);
    return;
  }
  std::uint64_t* const cell = &p.words[slot_of(p, entry) * slot_words_];
  p.used += cell[kWhat] == 0;
  std::copy_n(entry.cell.data(), slot_words_, cell);
}

void EntryIndex::take_out(Part& p, Key const& entry) const {
  if (p.slots == 0) return;
  std::uint64_t const slot = slot_of(p, entry);
  if (p.words[slot * slot_words_ + kWhat] != 0) erase(p, slot);
}

void EntryIndex::grow(Part& p) const {
  Part wider;
  wider.slots = std::max(kFirstSlots, p.slots + p.slots / 2);
  wider.words.resize(wider.slots * slot_words_);
  wider.used = p.used;
  Key key;
  for (std::uint64_t slot = 0; slot < p.slots; ++slot) {
    std::uint64_t const* const cell = &p.words[slot * slot_words_];
    if (cell[kWhat] == 0) continue;
    std::copy_n(cell, slot_words_, key.cell.data());
    key.hash = hash_of(cell);
    std::copy_n(cell, slot_words_, &wider.words[slot_of(wider, key) * slot_words_]);
  }
  p = std::move(wider);
}

/// Those behind it that its slot kept from theirs move up.
void EntryIndex::erase(Part& p, std::uint64_t slot) const {
  PERDURE_ASSERT(p.used > 0);
  --p.used;
  std::uint64_t free = slot;
  for (std::uint64_t next = slot;;) {
    next = behind(p, next);
    std::uint64_t const* const cell = &p.words[next * slot_words_];
    if (cell[kWhat] == 0) break;
    std::uint64_t const first = first_slot(p, hash_of(cell));
    bool const stays = free < next ? first > free && first <= next : first > free || first <= next;
    if (stays) continue;
    std::copy_n(cell, slot_words_, &p.words[free * slot_words_]);
    free = next;
  }
  std::fill_n(&p.words[free * slot_words_], slot_words_, 0);
}

void EntryIndex::clear() {
  for (Part& p : parts_) p = Part{};
}

void EntryIndex::empty() {
  for (Part& p : parts_) {
    std::ranges::fill(p.words, 0);
    p.used = 0;
  }
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
