// What a log of entries comes to, in the memory of who reads it: for each key that is there,
// LogEntry::what of the entry that put it. Keys of up to 32 bytes, as entries have them.
//
// Invariants: a slot is an entry as the log has it, zeros where it is free; no key has two; from
// where a key's hash leads to its slot no slot is free. A call that finds no memory has changed
// nothing but what earlier entries of it changed, each as a whole.
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
  [[nodiscard]] Key key_of(std::byte const* key) const;

  void prefetch(Key const& key) const;
  /// 0: it is not there.
  [[nodiscard]] std::uint64_t find(Key const& key) const;

  /// Does what entries say, which lie one behind the other. Throws where there is no memory.
  void apply(std::span<std::byte const> entries);
  /// Nothing is there, and no memory is kept.
  void clear();

  [[nodiscard]] std::uint64_t keys() const;
  [[nodiscard]] std::uint64_t bytes() const;

 private:
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
  [[nodiscard]] std::uint64_t slot_of(Part const& p, Key const& key) const;
  [[nodiscard]] bool same_key(std::uint64_t const* a, std::uint64_t const* b) const;
  void apply_one(Key const& entry);
  void grow(Part& p) const;
  void erase(Part& p, std::uint64_t slot) const;

  std::uint32_t key_bytes_;
  std::uint32_t cell_words_;
  std::uint64_t salt_;  // so that nobody who makes keys knows which meet
  std::vector<Part> parts_;
};

}  // namespace perdure::gphash
