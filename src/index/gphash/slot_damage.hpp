// What damage has done to a table's slots, and how it is put right where one word or one key
// explains it. Invariant: nothing is changed before the caller has noted what will be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "index/gphash/slot_recovery.hpp"
#include "index/gphash/slots.hpp"

namespace perdure::gphash {

/// Mends what a crash does not leave, after a survey.
class SlotDamage {
 public:
  /// `missing` is what the survey's sum lacks of the one that is known to be right: a single word
  /// that one or two flipped bits changed is found by it. Where that does not explain it, slots are
  /// looked at one by one: a word or key that one or two bits explain gets them back; other entries
  /// that cannot be right are dropped. Records whose own checksum fails stay, where all else says
  /// that the slot is theirs. Unless it is the `last` pass, nothing is dropped while anything can
  /// be put right: the sum may then explain the rest.
  SlotDamage(Slots& slots, Survey const& found, std::optional<std::uint64_t> missing, bool last)
      : slots_(slots), changes_(changes(found, missing, last)) {}

  /// `note(lines)` comes before anything is changed. Then survey() again.
  template <class Note>
  [[nodiscard]] Mended mend(Note note) {
    Mended mended;
    for (Change const& c : changes_) {
      mended.lines.push_back(c.line);
      mended.dropped += c.drops;
    }
    PERDURE_ASSERT(mended.dropped <= changes_.size());
    if (mutated("repair_changes_before_note")) store_all();
    note(mended.lines);
    store_all();
    return mended;
  }

 private:
  void store_all() {
    for (Change const& c : changes_) slots_.store(c.at, c.word);
  }
  /// Of one word: what repairs are made of.
  struct Change {
    Offset at;
    std::uint64_t word;
    bool drops;  // the slot's entry
    std::string line;
  };
  [[nodiscard]] Change put_right(std::uint64_t number, Offset at, std::uint64_t word,
                                 std::string const& what) const;
  [[nodiscard]] Change drop(std::uint64_t number, std::string const& why) const;
  [[nodiscard]] std::optional<Change> change_by_sum(std::uint64_t missing) const;
  [[nodiscard]] std::optional<Change> change_for(std::uint64_t number, bool words_right) const;
  [[nodiscard]] std::optional<Change> key_nearby(std::uint64_t number) const;
  [[nodiscard]] std::optional<std::uint64_t> word_nearby(std::uint64_t number) const;
  [[nodiscard]] bool explains(std::uint64_t number, std::uint64_t word) const;
  [[nodiscard]] std::vector<Change> changes(Survey const& found,
                                            std::optional<std::uint64_t> missing, bool last) const;

  Slots& slots_;
  std::vector<Change> changes_;
};

}  // namespace perdure::gphash
