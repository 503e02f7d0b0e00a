// Memtables that RocksDB has by now. They stay where they are as long as there is room, and reads
// of many keys ask them before they go to the block cache and RocksDB: what was written last is in
// the machine's memory, and nobody has to bring it there. Hot entries of the block cache are one
// generation more (HotEntries).
//
// Invariant: in RocksDB's state `sequence`, each key that one of them has is as the newest that has
// it says. So they hold in one state alone, each generation that leaves the view joins them or ends
// them, and none has operands, which RocksDB has folded. Guarded by whoever publishes views
// (Tables).
#pragma once

#include <cstdint>
#include <deque>

#include "lsm/engine/engine.hpp"
#include "lsm/rocks/generation.hpp"
#include "lsm/rocks/view.hpp"

namespace perdure::lsm {

/// What is worth keeping of a generation with one run a family: itself, or a copy where it fills
/// little of its memory. Null: nothing, for it has operands, takes more than `most_bytes`, or
/// leaves the machine too little.
[[nodiscard]] GenerationPtr worth_keeping(Engine& engine, GenerationPtr const& generation,
                                          std::uint64_t most_bytes);

class FlushedTables {
 public:
  /// `most_bytes`: of values and runs together. 0: none is kept.
  explicit FlushedTables(std::uint64_t most_bytes) : most_bytes_(most_bytes) {}

  /// RocksDB took over a generation, and nothing else changed it; `kept` is what is worth keeping
  /// of that.
  void add(GenerationPtr kept, std::uint64_t sequence);
  /// What RocksDB has of some keys in the state `sequence`, in place of what this was last called
  /// with.
  void add_hot(GenerationPtr hot, std::uint64_t sequence);
  /// RocksDB changed, or may have.
  void forget();
  [[nodiscard]] bool hold_at(std::uint64_t sequence) const {
    return sequence_ == sequence && !generations_.empty();
  }
  /// They are what the view's readers ask behind its own runs.
  void add_to(View& view) const;

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t generations() const { return generations_.size(); }
  [[nodiscard]] std::uint64_t hot_entries() const;

 private:
  void push(GenerationPtr newest);
  void drop(std::deque<GenerationPtr>::iterator at);

  std::uint64_t const most_bytes_;
  std::uint64_t bytes_ = 0;
  std::uint64_t sequence_ = 0;
  std::deque<GenerationPtr> generations_;  // newest first
  GenerationPtr hot_;  // one of them, or null
};

}  // namespace perdure::lsm
