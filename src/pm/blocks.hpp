// Blocks of one size in superblocks of their own: what indexes made of linked pieces (segments,
// chained buckets) take and give back, from any number of threads. Invariants: which blocks are
// free is volatile; after an opening every block there was counts as taken until a sweep has marked
// those that are reached, so nothing waits for the sweep but space, and a crash leaks nothing. A
// block given back is handed out again at once, so its owner makes sure first that nobody can reach
// it any more.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "base/offset.hpp"
#include "perdure/status.h"
#include "pm/pool.hpp"

namespace perdure::pm {

class Blocks {
 public:
  /// `memory` guards the pool, and whatever else takes from it. `block_bytes` is a multiple of
  /// kBlockAlign.
  Blocks(Pool& pool, Mutex& memory, std::uint64_t block_bytes);
  Blocks(Blocks const&) = delete;
  Blocks& operator=(Blocks const&) = delete;

  /// Who else takes from the pool gives back what it does not use, where the pool has no room;
  /// `memory` is held then.
  void when_full(std::function<void()> give_back) { give_back_ = std::move(give_back); }

  /// The block's bytes are as its last owner left them.
  Result<Offset> take();
  void give(Offset block);
  /// Whether such a block lies there, in use or not: what a damaged word names need not be one.
  [[nodiscard]] bool is_block(Offset at) const;
  /// Once they have been found: how many there are, in use or not.
  [[nodiscard]] std::uint64_t blocks() const;

  /// At open: superblocks that hold such blocks are in use, and so are all blocks in them, until a
  /// sweep has ended. They are found when something is first taken or given, or the sweep begins.
  void find_superblocks_later();
  /// Marks what is reached between begin_sweep() and finish_sweep(); blocks may be taken and given
  /// meanwhile.
  void begin_sweep();
  enum class Mark : std::uint8_t { first, again, invalid };
  /// Of blocks that were there at open. `invalid`: there is none.
  Mark mark(Offset block);
  void finish_sweep();

  /// Superblocks whose header a few flipped bits keep from being that of such blocks. Changes
  /// nothing; mend() does, before anything is found.
  [[nodiscard]] std::vector<Offset> damaged() const;
  void mend(std::vector<Offset> const& superblocks);

 private:
  static constexpr unsigned kMostFlips = 8;  // bits of a header, all of which is known
  struct Unswept {
    std::vector<bool> reached;
  };
  void find_superblocks() PERDURE_REQUIRES(*memory_);
  Status add_superblock() PERDURE_REQUIRES(*memory_);
  [[nodiscard]] std::uint64_t index_in_superblock(Offset block) const;
  [[nodiscard]] Offset block_at(std::uint64_t superblock, std::uint64_t index) const;
  [[nodiscard]] std::uint64_t capacity() const;
  [[nodiscard]] BlocksHeader header_of(std::uint64_t superblock) const;
  [[nodiscard]] bool is_whole(BlocksHeader const& header) const;

  Pool* pool_;
  Mutex* memory_;  // guards the rest
  std::uint64_t block_bytes_;
  std::function<void()> give_back_;  // none: nobody else takes
  std::uint64_t superblocks_ PERDURE_GUARDED_BY(*memory_) = 0;
  std::vector<Offset> free_ PERDURE_GUARDED_BY(*memory_);
  // superblocks found at open, until the sweep has ended
  std::unordered_map<std::uint64_t, Unswept> unswept_ PERDURE_GUARDED_BY(*memory_);
  std::vector<Offset> given_
      PERDURE_GUARDED_BY(*memory_);  // blocks of those that were given back meanwhile
};

}  // namespace perdure::pm
