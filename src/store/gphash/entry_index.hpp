// What a log of entries comes to, in the memory of who reads it: for each key that is there,
// LogEntry::what of the entry that put it. Where entries have hashes of keys, it is a set of pairs,
// a hash and a record, as wal::HashCell says: for each key's hash those that may be the key's.
//
// Invariants: a slot is an entry as the log has it, of hashes without what it replaced, zeros where
// it is free; no key, or pair, has two; from where its hash leads to its slot no slot is free. A
// call that finds no memory has changed nothing but what earlier entries of it changed, each as a
// whole.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "wal/entries.hpp"

namespace perdure::gphash {

class EntryIndex {
 public:
  explicit EntryIndex(std::uint32_t key_bytes);

  /// A key as an entry has it, and where it belongs.
  struct Key {
    std::uint64_t hash = 0;
    std::array<std::uint64_t, wal::cell_bytes_for(wal::kMostEntryKey) / 8> cell{};
  };
  [[nodiscard]] Key key_of(std::span<std::byte const> key) const;

  void prefetch(Key const& key) const;
  /// Calls f(LogEntry::what) for each entry that may be the key's: one at most, but for hashes.
  template <class F>
  void each(Key const& key, F f) const {
    Part const& p = part(key.hash);
    if (p.slots == 0) return;
    for (std::uint64_t slot = first_slot(p, key.hash);; slot = behind(p, slot)) {
      std::uint64_t const* const cell = &p.words[slot * slot_words_];
      if (cell[kWhat] == 0) return;
      if (!same_key(cell, key.cell.data())) continue;
      f(cell[kWhat]);
      if (!hashes_) return;
    }
  }

  /// Does what entries say, which lie one behind the other. Throws where there is no memory.
  void apply(std::span<std::byte const> entries) { apply(entries, 0, 1); }
  /// Does that share, of so many, of what they say. All entries of one key are of one share, so
  /// each may be done by another thread beside the others.
  void apply(std::span<std::byte const> entries, std::uint32_t share, std::uint32_t shares);
  /// Nothing is there, and no memory is kept.
  void clear();
  /// Nothing is there, but room for as much as there was: it will be so again, or nearly.
  void empty();

  [[nodiscard]] std::uint64_t keys() const;
  [[nodiscard]] std::uint64_t bytes() const;

 private:
  static constexpr std::size_t kKey = 0, kWhat = 1, kRest = 2;  // words of a cell
  static constexpr std::size_t kOld = 2;  // of one that has a hash

  // So many tables, each of which grows by itself, so that nobody waits for all of them.
#if defined(PERDURE_EXPLORE)
  static constexpr std::uint32_t kPartBits = 1;  // for indexes of a few keys are made all the time
#else
  static constexpr std::uint32_t kPartBits = 9;
#endif
  struct Part {
    std::vector<std::uint64_t> words;
    std::uint64_t slots = 0, used = 0;
  };

  [[nodiscard]] std::uint64_t hash_of(std::uint64_t const* cell) const;
  [[nodiscard]] Part const& part(std::uint64_t hash) const {
    return parts_[hash >> (64 - kPartBits)];
  }
  [[nodiscard]] Part& part(std::uint64_t hash) { return parts_[hash >> (64 - kPartBits)]; }
  [[nodiscard]] static std::uint64_t first_slot(Part const& p, std::uint64_t hash);
  [[nodiscard]] static std::uint64_t behind(Part const& p, std::uint64_t slot) {
    return slot + 1 == p.slots ? 0 : slot + 1;
  }
  [[nodiscard]] std::uint64_t slot_of(Part const& p, Key const& key) const;
  [[nodiscard]] bool same_key(std::uint64_t const* a, std::uint64_t const* b) const;
  [[nodiscard]] bool same_slot(std::uint64_t const* a, std::uint64_t const* b) const;
  void apply_one(Key const& entry);
  void take_out(Part& p, Key const& entry) const;
  void grow(Part& p) const;
  void erase(Part& p, std::uint64_t slot) const;

  std::uint32_t key_bytes_;
  bool hashes_;  // is what entries have of keys
  std::uint32_t cell_words_;  // of an entry
  std::uint32_t slot_words_;  // that a slot keeps of it
  std::uint64_t salt_;  // so that nobody who makes keys knows which meet
  std::vector<Part> parts_;
};

}  // namespace perdure::gphash
