// The slots of a GPHash table, as the host reads and changes them one by one: what stands in each,
// whether it is right, and the sum of all. Invariant: slot numbers run over all levels, highest
// first, the retiring one last; a level begins at a multiple of 32, so between levels there are
// numbers without a slot, which read as empty. Layout `log`: slots are volatile; what is read here
// are the words, keys and checksums of the engine's mirror, which alone changes them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/assert.hpp"
#include "base/hash.hpp"
#include "exec/workers.hpp"
#include "index/gphash/candidates.hpp"
#include "index/gphash/slot_sums.hpp"
#include "pm/heap.hpp"
#include "pm/host_verbs.hpp"
#include "pm/pool.hpp"

namespace perdure::gphash {

/// What stands in a slot.
struct Entry {
  Offset record;
  std::span<std::byte const> key;
  std::span<std::byte const> value;
  std::uint32_t value_sum = 0;  // layout `log` only: what the record's entry says
  std::uint64_t hash = 0;  // of layout `log` whose entries have hashes: what it says, too
  bool readable = false;  // false: the slot leads outside any record
};

struct SlotAt {
  Level const* level;
  std::uint64_t slot;  // within it
};

class Slots {
 public:
  Slots(pm::Pool& pool, pm::RecordHeap& heap);

  [[nodiscard]] TableView const& view() const { return view_; }
  [[nodiscard]] std::uint64_t slots() const { return slots_; }  // with some rounding between levels
  [[nodiscard]] bool is_in_place() const { return in_place_; }
  [[nodiscard]] pm::RecordHeap& heap() const { return *heap_; }
  [[nodiscard]] std::byte* base() const { return pool_->base(); }

  /// The entry in slot `number`; none if the slot is empty.
  [[nodiscard]] std::optional<Entry> entry(std::uint64_t number) const;
  /// The entry of a key. `is_its`: it is whole enough to have this key; else its slot has the key's
  /// fingerprint, and it may be this very key's, damaged, or another's.
  struct Found {
    Entry entry;
    bool is_its = false;
  };
  /// None where no slot has the key's fingerprint.
  [[nodiscard]] std::optional<Found> find(std::span<std::byte const> key) const;
  /// What is wrong with that entry (checksum, place, a second copy), or empty.
  [[nodiscard]] std::string fault(std::uint64_t number, Entry const& entry) const;
  /// Whether the checksum of a readable entry's record matches.
  [[nodiscard]] bool intact(Entry const& entry) const;
  /// "slot 5 at byte 1000, record at byte 2000".
  [[nodiscard]] std::string name(std::uint64_t number) const;
  /// Slots that lead to no record.
  [[nodiscard]] std::uint64_t astray() const;
  /// Slots that hold something, and the sum of all of them: what a survey of the same slots comes
  /// to.
  struct Sum {
    std::uint64_t records = 0, sum = 0;
  };
  [[nodiscard]] Sum sum(exec::Workers& workers) const;
  /// Of one slot. A word that changes always changes it: mixing is one to one.
  [[nodiscard]] std::uint64_t sum_of(SlotAt at, std::uint64_t word) const;

  /// Whether a slot word of a level stands at this place.
  [[nodiscard]] bool has_slot(Offset at) const;
  [[nodiscard]] SlotAt locate(std::uint64_t number) const;
  [[nodiscard]] static Offset word_of(SlotAt at) { return at.level->base + at.slot * 8; }
  [[nodiscard]] std::uint64_t word_at(SlotAt at) const;
  [[nodiscard]] Offset record_at(SlotAt at) const;
  [[nodiscard]] bool holds_entry(SlotAt at) const;
  [[nodiscard]] Entry read_entry(SlotAt at, std::uint64_t room) const;
  [[nodiscard]] pm::RecordView view_at(SlotAt at, Offset record, std::uint64_t room) const;
  [[nodiscard]] std::vector<std::uint64_t> candidate_slots(std::span<std::byte const> key) const;
  [[nodiscard]] std::vector<std::uint64_t> slots_at(Candidates<ShapeAny> const& where) const;

  /// Layout `log`: whose entry a slot has, by the log: the key, or the hash that it has for it.
  [[nodiscard]] std::byte const* identity(std::uint64_t number) const {
    PERDURE_ASSERT(logged_ && number < slots_);
    return mirror_.identity(number);
  }

  /// Layout `log`: where words and identities are from here on.
  void show_words(Mirror const& mirror) {
    // those who read side by side change nothing
    if (mirror_.words != mirror.words || mirror_.identities != mirror.identities ||
        mirror_.sources != mirror.sources)
      mirror_ = mirror;
  }

  /// Stores a word of a slot; ordered by whoever changes several. Not of layout `log`.
  void store(Offset at, std::uint64_t word);
  void clear(SlotAt at) { store(word_of(at), 0); }

 protected:
  pm::Pool* pool_;
  pm::RecordHeap* heap_;
  bool in_place_;
  bool logged_;
  bool hashed_;  // its entries have hashes of keys
  Mirror mirror_;  // layout `log`
  TableView view_;
  std::uint64_t slots_ = 0;
};

// Inline: an opening and a close call these for every slot there is.

inline SlotAt Slots::locate(std::uint64_t number) const {
  PERDURE_ASSERT(!kCostlyAssertions || number < slots_);
  std::uint32_t i = view_.all_levels() - 1;
  while (view_.level[i].first_slot > number) --i;
  return {&view_.level[i], number - view_.level[i].first_slot};
}

inline std::uint64_t Slots::word_at(SlotAt at) const {
  if (at.slot >= in_place::level_slots(*at.level, view_.slots))
    return 0;  // rounding up to claim words
  if (logged_) {
    // A load of the cache may change it meanwhile.
    std::uint64_t const* const word = mirror_.words + at.level->first_slot + at.slot;
    return word::on_pm(mirror_, __atomic_load_n(word, __ATOMIC_ACQUIRE));
  }
  return pm::load_word(pool_->base() + (at.level->base + at.slot * 8).bytes);
}

inline Offset Slots::record_at(SlotAt at) const {
  if (!in_place_) return word::record(word_at(at));
  return Offset{pm::load_word(pool_->base() + in_place::address(view_, *at.level, at.slot).bytes)};
}

inline bool Slots::holds_entry(SlotAt at) const {
  std::uint64_t const word = word_at(at);
  return word != 0 && !(in_place_ && word == in_place::kInsert);
}

inline std::uint64_t Slots::sum_of(SlotAt at, std::uint64_t word) const {
  PERDURE_ASSERT(!kCostlyAssertions || word != 0);  // empty slots add nothing
  using slot_sums::mixed;
  // Wherever it stands: an opening may put it elsewhere.
  if (logged_) return mixed(word, Offset{});
  std::uint64_t sum = mixed(word, word_of(at));
  if (!in_place_) return sum;
  Offset const address = in_place::address(view_, *at.level, at.slot);
  sum += mixed(pm::load_word(pool_->base() + address.bytes), address);
  if (view_.key_bytes == 0) return sum;
  Offset const key = in_place::key(view_, *at.level, at.slot);
  pm::will_read(pool_->base() + key.bytes, view_.key_bytes);
  return sum + mixed(hash_bytes(pool_->base() + key.bytes, view_.key_bytes), key);
}

}  // namespace perdure::gphash
