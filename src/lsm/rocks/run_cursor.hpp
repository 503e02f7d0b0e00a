// A cursor over a list of runs: the keys that a reader sees, in order, each with its versions.
//
// Invariants:
//  1. The cursor stands in a gap of every run. Going forward it is the gap behind its key's
//  entries,
//     going backward the one ahead of them. So a step in either direction is well defined, also
//     from behind the last key and from ahead of the first.
//  2. A key whose versions are all above the limit is not there.
#pragma once

#include <rocksdb/slice.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lsm/engine/engine.hpp"
#include "lsm/rocks/run_window.hpp"

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
  [[nodiscard]] std::span<Version const> chain() const { return chain_; }
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
  struct Source {
    RunWindow window;
    std::uint32_t position = 0;  // of the gap: the entry behind it
    rocksdb::Slice head;  // the key beside the gap, in the cursor's direction
    std::uint64_t head_word = 0;  // its first 8 bytes as a number: most comparisons end here
  };

  void seek_all(rocksdb::Slice const& key, Bound bound, Direction direction);
  void step(Direction direction);
  /// Heads and order for a direction; past the entries of the key that the cursor is on.
  bool turn(Direction direction);
  /// The source's head, and its place in the order, unless the run ends there.
  bool enter(std::uint32_t source, Direction direction);
  /// The key at the front of the order, and its chain.
  bool take(Direction direction);
  bool pass_forward(Source& source);
  bool pass_backward(Source& source);
  /// Versions from an entry on, which is the newest of the key in this run; to where the chain
  /// ends.
  bool add_from(Source& source, std::uint32_t& position);
  bool at_key(Source const& source, std::uint32_t position) const {
    return source.window.key(position) == key_;
  }
  [[nodiscard]] bool behind(std::uint32_t a, std::uint32_t b, Direction direction) const;
  bool check(Status status);

  RequestId limit_;
  bool pin_keys_;
  bool valid_ = false;
  bool closed_ = false;  // the chain has what it stands on
  bool ordered_ = false;  // heads and order are those of direction_
  Direction direction_ = Direction::forward;
  std::vector<Source> sources_;  // one a run, in the list's order
  std::vector<std::uint32_t> order_;  // a heap of the sources that have a head
  std::vector<std::uint32_t> same_;  // the sources that have the key, newest first
  std::string key_bytes_;
  rocksdb::Slice key_;
  std::vector<Version> chain_;
  std::vector<Version> passed_;  // one run's part of a chain while it is read backward
  Status status_;
};

}  // namespace perdure::lsm
