// One run as a source of the merge: where the cursor stands in it, and the key beside that. Where
// the host can read the run's arrays, that is done directly, else by windows.
//
// Invariants:
//  1. A source stands in a gap between two entries of different keys, or at an end. Going forward
//     the head is the key behind the gap, going backward the key ahead of it.
//  2. How a run is read changes at a seek alone.
#pragma once

#include <rocksdb/slice.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "lsm/engine/engine.hpp"
#include "lsm/rocks/run_direct.hpp"
#include "lsm/rocks/run_window.hpp"
#include "lsm/rocks/version_chain.hpp"

namespace perdure::lsm {

/// Where a key is kept that no run has as it is.
struct KeyRoom {
  std::string bytes;
  std::uint64_t word = 0;
};

class RunSource {
 public:
  RunSource(Engine& engine, RunPtr run, RequestId limit, bool pin_keys)
      : limit_(limit),
        count_(run->count()),
        pin_keys_(pin_keys),
        engine_(&engine),
        window_(engine, std::move(run), pin_keys) {}

  /// Before each seek. Whether it is read directly only since now.
  bool look() {
    if (direct_.is_there()) return false;
    direct_ = DirectRun(engine_->host_view(window_.run()));
    return direct_.is_there();
  }
  [[nodiscard]] DirectRun const& direct() const { return direct_; }

  void seek_to_first() { position_ = 0; }
  void seek_to_last() { position_ = count_; }
  /// By windows.
  Status seek(rocksdb::Slice const& key, Bound bound) {
    return window_.seek(key, bound, position_);
  }
  /// Directly, once search() has been there.
  void seek(Search const& search, Bound bound, Direction direction) {
    position_ = direct_.bound(search, bound);
    direct_.prefetch_entries(position_, direction == Direction::forward);
  }

  /// No entry follows in this direction.
  [[nodiscard]] bool at_end(Direction direction) const {
    return position_ == (direction == Direction::forward ? count_ : 0);
  }

  /// Not at_end(). The head's word: directly, from a byte on up to which all keys of all sources
  /// are the same; by windows, its first.
  [[nodiscard]] std::uint64_t find_head(Direction direction, std::uint32_t from) {
    entry_ = direction == Direction::forward ? position_ : position_ - 1;
    return direct_.word(entry_, from);
  }
  Status find_head(Direction direction, std::uint64_t& word);
  /// The head, until the source moves.
  [[nodiscard]] rocksdb::Slice head() {
    return direct_.is_there() ? direct_.key(entry_, room_) : window_.key(entry_);
  }
  /// The head, until the next is kept in this room or, where keys are pinned, as long as this.
  rocksdb::Slice keep_head(KeyRoom& room) {
    if (!direct_.is_there()) return keep_window_head(room);
    rocksdb::Slice const head = direct_.key(entry_, room.word);
    return pin_keys_ && direct_.view().keys == nullptr ? pin(head) : head;
  }

  /// To the other side of all entries of the key that follow in this direction; those that the
  /// reader sees go to the chain, until it is closed.
  Status pass(rocksdb::Slice const& key, Direction direction, VersionChain& chain);
  /// The same of the head, whose key it is. Directly.
  void pass_head(rocksdb::Slice const& key, Direction direction, VersionChain& chain) {
    if (direction == Direction::forward && direct_.pass_one(entry_, limit_, chain)) {
      ++position_;
    } else {
      pass_directly(direct_.target_at(entry_, key), direction, chain);
    }
  }

  /// Directly: what a scan comes to next.
  void prefetch(Direction direction, std::uint32_t ahead) const {
    if (direction == Direction::forward) {
      direct_.prefetch_forward(position_, ahead);
    } else {
      direct_.prefetch_backward(position_, ahead);
    }
  }

 private:
  void pass_directly(Target const& target, Direction direction, VersionChain& chain) {
    position_ = direction == Direction::forward
                    ? direct_.pass_forward(position_, target, limit_, chain)
                    : direct_.pass_backward(position_, target, limit_, chain);
  }
  rocksdb::Slice keep_window_head(KeyRoom& room);
  rocksdb::Slice pin(rocksdb::Slice const& head);
  Status pass_forward(rocksdb::Slice const& key, VersionChain& chain);
  Status pass_backward(rocksdb::Slice const& key, VersionChain& chain);
  /// Versions from an entry on, which is the key's newest here; to where the chain ends.
  Status add_from(rocksdb::Slice const& key, std::uint32_t& position, VersionChain& chain);

  // what each step needs comes first
  DirectRun direct_;
  RequestId limit_;
  std::uint32_t count_;
  std::uint32_t position_ = 0;  // of the gap: the entry behind it
  std::uint32_t entry_ = 0;  // the head's
  bool pin_keys_;
  std::uint64_t room_ = 0;
  Engine* engine_;
  RunWindow window_;
  std::unique_ptr<std::deque<std::uint64_t>> pinned_;  // keys that are numbers in the run
  std::vector<Version> passed_;  // the chain's part of this run while it is read backward
};

}  // namespace perdure::lsm
