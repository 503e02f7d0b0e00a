// What damage has done to an entry log, and what puts it right: links and headers of segments,
// heads of extents, entries. One or two flipped bits are found exactly, by the checks that they
// spoil. Of what nothing explains, entries stay that something besides their extent vouches for;
// the others become erasures of the keys that they name, and every extent is whole again.
//
// Invariants: nothing is changed before apply(), so that whoever repairs can say first what will
// be; the log's end is never taken for damage unless the pool was closed in order, or a whole
// extent follows; what a crash leaves of apply() is mended by doing all of it again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "exec/workers.hpp"
#include "perdure/status.h"
#include "pm/pool.hpp"
#include "wal/entry_cells.hpp"

namespace perdure::wal {

/// A header or a head with one bit the other way round.
template <class Head>
[[nodiscard]] Head flipped(Head head, std::uint32_t bit) {
  reinterpret_cast<std::uint8_t*>(&head)[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
  return head;
}

class EntryDamage {
 public:
  /// What is known of a put without its extent. Asked by several threads.
  enum class Word : std::uint8_t {
    kept,  // its record says the same
    doubtful,  // it leads to a record, which does not say whose it is
    nonsense,  // it leads to none
  };
  using Judge = std::function<Word(std::byte const* cell)>;

  /// The pool's other runs are claimed, and the log's segments are not.
  EntryDamage(pm::Pool& pool, exec::Workers& workers, Judge judge)
      : pool_(&pool),
        workers_(&workers),
        judge_(std::move(judge)),
        cells_(pool.header()),
        closed_(pool.root().clean == 1) {
    cells_.base = pool.base();
  }

  /// Code::corrupt: it is beyond repair.
  Status look();
  /// What will be changed, a line each. None: no damage was found.
  [[nodiscard]] std::vector<std::string> const& lines() const { return lines_; }
  /// Entries that nothing vouches for.
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }
  /// Whether keys may have older values, or be gone.
  [[nodiscard]] bool lossy() const { return lossy_; }
  /// Durably.
  void apply();

 private:
  struct Change {
    Offset at;
    std::uint64_t word;
  };
  struct Found {
    std::uint64_t position = 0;  // of its head
    EntryExtent extent;
  };
  /// Of an extent whose entries do not add up to its sum.
  struct Sum {
    EntryExtent extent;  // without what undoes it
    std::uint64_t missing = 0;
  };
  /// Bits of a cell, counted from the extent's first one.
  struct Flip {
    std::uint64_t cell = 0;
    std::uint32_t bit = 0;
  };

  // Segments (entry_damage_segments.cpp).
  Status find_segments();
  Status find_first(std::uint64_t at);
  void note_headers();
  [[nodiscard]] std::optional<SegmentHeader> near_header(std::uint64_t at) const;
  [[nodiscard]] bool is_segment(std::uint64_t at, std::uint64_t number) const;
  void follow(std::uint64_t at);
  [[nodiscard]] std::uint64_t next_of(std::uint64_t at, std::uint64_t number);
  [[nodiscard]] std::optional<std::uint64_t> other_next(std::uint64_t next,
                                                        std::uint64_t number) const;
  bool extend();
  void put_header(std::uint64_t at, SegmentHeader const& header);
  void put_link(std::uint64_t at, std::uint64_t next);

  // Heads.
  Status walk();
  [[nodiscard]] std::optional<EntryExtent> whole_head_at(std::uint64_t position,
                                                         std::uint64_t above) const;
  [[nodiscard]] bool is_cut_off(std::uint64_t position) const;
  [[nodiscard]] std::optional<Found> next_whole(std::uint64_t from) const;
  [[nodiscard]] std::optional<ExtentHead> near_head(std::uint64_t position,
                                                    std::optional<Found> const& next) const;
  [[nodiscard]] std::optional<ExtentHead> head_of_words(ExtentHead const& damaged,
                                                        std::uint64_t position,
                                                        std::optional<Found> const& next) const;
  [[nodiscard]] bool may_stand(ExtentHead const& head, std::uint64_t position) const;
  [[nodiscard]] bool fits(ExtentHead const& head, std::uint64_t position) const;
  Status bridge(std::uint64_t position, Found const& next);
  [[nodiscard]] std::optional<ExtentHead> head_of_session(ExtentHead head, std::uint64_t position,
                                                          std::optional<Found> const& next) const;
  Status bridge_session(std::uint64_t position, Found const& next);
  Status take(EntryExtent const& extent);
  void end_transaction();
  void put_session_end(std::uint64_t number);
  [[nodiscard]] ExtentHead head_at(std::uint64_t position) const;
  void put_head(std::uint64_t position, ExtentHead head);
  void put_head(std::uint64_t position, ExtentHead head, std::vector<Change>& among);

  // Entries (entry_damage_entries.cpp).
  [[nodiscard]] std::uint64_t sum_of_entries(EntryExtent const& extent) const;
  [[nodiscard]] bool is_whole(EntryExtent const& extent) const;
  void mend_entries(EntryExtent const& extent);
  void mend_session(EntryExtent const& end);
  [[nodiscard]] std::optional<std::vector<Flip>> explained(Sum const& sum) const;
  [[nodiscard]] std::vector<std::vector<Flip>> one_flip(Sum const& sum) const;
  [[nodiscard]] std::vector<std::vector<Flip>> two_in_a_cell(Sum const& sum) const;
  [[nodiscard]] std::vector<std::vector<Flip>> two_in_two_cells(Sum const& sum) const;
  [[nodiscard]] static std::string named(std::vector<Flip> const& flips);
  void put_flips(EntryExtent const& extent, std::vector<Flip> const& flips);
  /// The sum of what is left. `sure`: these cells are entries.
  [[nodiscard]] std::uint64_t keep_what_is_sure(EntryExtent const& extent, bool sure);
  [[nodiscard]] std::optional<std::uint64_t> instead(std::byte const* cell, bool sure) const;

  void apply(std::vector<Change> const& changes);
  void put_word(std::uint64_t at, std::uint64_t word) { changes_.push_back({Offset{at}, word}); }
  void say(std::string line) { lines_.push_back(std::move(line)); }

  pm::Pool* pool_;
  exec::Workers* workers_;
  Judge judge_;
  EntryCells cells_;
  bool closed_;  // in order
  std::multimap<std::uint64_t, std::uint64_t> by_number_;  // headers that are whole: where
  std::uint64_t position_ = 0, last_ = 0;  // how far the walk has come
  bool parts_wait_ = false;  // for their commit
  std::optional<EntryExtent> session_;  // waits for its end
  std::vector<Change> found_heads_;  // put right as they were
  std::vector<Change> changes_, heads_;  // of entries and segments; of new heads, and new sums
  std::vector<std::string> lines_;
  std::uint64_t dropped_ = 0;
  bool lossy_ = false;
};

}  // namespace perdure::wal
