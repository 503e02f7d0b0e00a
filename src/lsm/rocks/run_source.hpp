// One run as a source of the merge: where the cursor stands in it, and the key beside that.
//
// Invariant: a source stands in a gap between two entries of different keys, or at an end. Going
// forward the head is the key behind the gap, going backward the key ahead of it.
#pragma once

#include <rocksdb/slice.h>

#include <compare>
#include <cstdint>
#include <vector>

#include "lsm/engine/engine.hpp"
#include "lsm/rocks/run_window.hpp"

namespace perdure::lsm {

/// A key's versions that a reader sees, newest first, down to the first that is no operand.
struct VersionChain {
  std::vector<Version> versions;
  bool closed = false;  // it has what it stands on, or nobody asks for more

  void add(Version const& version) {
    versions.push_back(version);
    closed = version.kind != Kind::merge;
  }
};

class RunSource {
 public:
  RunSource(Engine& engine, RunPtr run, RequestId limit, bool pin_keys)
      : window_(engine, std::move(run), pin_keys), limit_(limit) {}

  void seek_to_first() { position_ = 0; }
  void seek_to_last() { position_ = window_.count(); }
  Status seek(rocksdb::Slice const& key, Bound bound) {
    return window_.seek(key, bound, position_);
  }

  /// No entry follows in this direction.
  [[nodiscard]] bool at_end(Direction direction) const {
    return position_ == (direction == Direction::forward ? window_.count() : 0);
  }
  /// Not at_end(). The head, until the source moves.
  Status find_head(Direction direction);
  [[nodiscard]] rocksdb::Slice head() const { return head_; }
  [[nodiscard]] std::strong_ordering order(RunSource const& other) const;

  /// To the other side of all entries of the key that follow in this direction; those that the
  /// reader sees go to the chain, until it is closed.
  Status pass(rocksdb::Slice const& key, Direction direction, VersionChain& chain) {
    return direction == Direction::forward ? pass_forward(key, chain) : pass_backward(key, chain);
  }

 private:
  Status pass_forward(rocksdb::Slice const& key, VersionChain& chain);
  Status pass_backward(rocksdb::Slice const& key, VersionChain& chain);
  /// Versions from an entry on, which is the key's newest here; to where the chain ends.
  Status add_from(rocksdb::Slice const& key, std::uint32_t& position, VersionChain& chain);

  RunWindow window_;
  RequestId limit_;
  std::uint32_t position_ = 0;  // of the gap: the entry behind it
  rocksdb::Slice head_;
  std::uint64_t head_word_ = 0;  // its first 8 bytes as a number: most comparisons end here
  std::vector<Version> passed_;  // the chain's part of this run while it is read backward
};

}  // namespace perdure::lsm
