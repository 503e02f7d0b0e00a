// A cursor over a list of runs: the keys that a reader sees, in order, each with its versions.
//
// Invariants:
//  1. Going forward, every run's gap is the one behind the cursor's key, going backward the one
//     ahead of it. So a step in either direction is well defined, also from behind the last key and
//     from ahead of the first.
//  2. A key whose versions are all above the limit is not there.
//  3. In the order of a direction, words_ are those of the sources' heads behind the bytes that all
//     keys share, backward turned round, and of sources at their end above all others.
#pragma once

#include <rocksdb/slice.h>

#include <cstdint>
#include <span>
#include <vector>

#include "lsm/engine/engine.hpp"
#include "lsm/rocks/run_source.hpp"
#include "lsm/rocks/tournament.hpp"

namespace perdure::lsm {

class RunCursor {
 public:
  /// Of one family, newest run first; the engine outlives it. With `pin_keys` each key() stays
  /// where it is as long as the cursor.
  RunCursor(Engine& engine, RunList runs, RequestId limit, bool pin_keys);

  /// On a key. Never after an error.
  [[nodiscard]] bool valid() const { return valid_; }
  /// Until the next move.
  [[nodiscard]] rocksdb::Slice key() const { return key_; }
  /// The key's versions that the reader sees: newest first, down to the first that is no operand.
  [[nodiscard]] std::span<Version const> chain() const { return chain_.versions; }
  /// Of the last move. After an error a seek is due.
  [[nodiscard]] Status const& status() const { return status_; }

  void seek_to_first();
  void seek_to_last();
  void seek(rocksdb::Slice const& key);  // the first key not below
  void seek_for_prev(rocksdb::Slice const& key);  // the last key not above
  void seek_before(rocksdb::Slice const& key);  // the last key below
  void next() { step(Direction::forward); }
  void prev() { step(Direction::backward); }

 private:
  void seek_all(rocksdb::Slice const& key, Bound bound, Direction direction);
  void begin_seek();
  /// Every source's position.
  bool find_bounds(rocksdb::Slice const& key, Bound bound, Direction direction);
  /// How many bytes all keys begin with alike, where all sources are read directly.
  [[nodiscard]] std::uint32_t shared_bytes() const;
  void step(Direction direction);
  /// The order for a direction, from the other side of the cursor's key where it is on one.
  bool turn(Direction direction);
  // `direct`: that all sources are read directly is known, for steps are many.
  /// The source's word, where it stands now.
  bool find_word(std::uint32_t source, Direction direction, bool direct);
  /// The source, on whose head the cursor is, goes on.
  bool pass_head(std::uint32_t source, Direction direction, bool direct);
  /// The key at the front of the order, and its chain.
  bool take(Direction direction, bool direct);
  bool take();
  [[nodiscard]] bool tied_comes_before(std::uint32_t a, std::uint32_t b);
  [[nodiscard]] bool is_at_end() const {
    return sources_.empty() || sources_[order_.winner()].at_end(direction_);
  }
  /// Keeps an error.
  bool check(Status status);

  bool valid_ = false;
  bool ordered_ = false;  // the order is that of direction_
  bool direct_ = false;  // all sources are read directly
  Direction direction_ = Direction::forward;
  std::vector<RunSource> sources_;  // one a run, in the list's order
  std::uint32_t shared_ = 0;  // bytes
  std::uint32_t ahead_;  // entries whose values are on their way
  std::vector<std::uint64_t> words_;  // one a source
  Tournament order_;  // of sources
  KeyRoom room_;
  rocksdb::Slice key_;
  VersionChain chain_;
  Status status_;
};

}  // namespace perdure::lsm
