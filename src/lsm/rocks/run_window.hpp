// A window on one run: the part of its entries that is in host memory. A run may lie in a GPU's
// memory, so entries come in windows: a small one after a seek, and larger ones as a scan goes on.
//
// Invariant: what key() returns stays where it is until the next load(), or, with pinned keys, as
// long as the window itself.
#pragma once

#include <rocksdb/slice.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "lsm/engine/engine.hpp"

namespace perdure::lsm {

enum class Direction : std::uint8_t { forward, backward };

class RunWindow {
 public:
  RunWindow(Engine& engine, RunPtr run, bool pin_keys);

  [[nodiscard]] Run const& run() const { return *run_; }
  [[nodiscard]] std::uint32_t count() const { return run_->count(); }
  [[nodiscard]] bool holds(std::uint32_t position) const {
    return position >= first_ && position - first_ < held();
  }
  /// Of an entry that it holds.
  [[nodiscard]] rocksdb::Slice key(std::uint32_t position) const;
  [[nodiscard]] Version const& version(std::uint32_t position) const {
    return block_->versions[position - first_];
  }

  /// Where the key's bound is in the run. The machine is asked only where the window cannot tell,
  /// and the next window is a small one then.
  Status seek(rocksdb::Slice const& key, Bound bound, std::uint32_t& position);
  /// Has it hold the entry, and more of those that a scan in this direction comes to next.
  Status load(std::uint32_t position, Direction direction);

 private:
  [[nodiscard]] std::uint32_t held() const { return static_cast<std::uint32_t>(block_->size()); }
  /// Whether the window has both sides of the bound; then the bound itself.
  [[nodiscard]] bool find_here(rocksdb::Slice const& key, Bound bound,
                               std::uint32_t& position) const;

  Engine* engine_;
  RunPtr run_;
  bool pin_keys_;
  std::vector<std::unique_ptr<EntryBlock>> blocks_;  // with pinned keys all so far, else one
  EntryBlock* block_;  // the last of them
  std::uint32_t first_ = 0;  // the entry that the window begins with
  std::uint32_t next_size_;  // entries of the next window
};

}  // namespace perdure::lsm
