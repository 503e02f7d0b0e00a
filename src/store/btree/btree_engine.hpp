// The seam between a store and its B+-tree: operations of batches, ranges, and what openings and
// checks ask, by any number of threads at once. Behind it there is one tree for each kind of keys
// (btree_engine_on.hpp). Invariant: what a call answers has taken effect, operation by operation,
// and survives what the pool's medium does.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "perdure/options.h"
#include "pm/blocks.hpp"
#include "pm/heap.hpp"
#include "pm/pool.hpp"
#include "pm/value_log/value_log.hpp"
#include "store/threads/core.hpp"
#include "store/threads/engine.hpp"
#include "store/threads/space.hpp"

namespace perdure {

/// Keys from `start` on, up to `end`; none: without that bound.
struct BtreeRange {
  std::optional<std::span<std::byte const>> start = {};
  bool after_start = false;  // without `start` itself
  std::optional<std::span<std::byte const>> end = {};  // is not in it
  bool reverse = false;
};

struct BtreePage {
  std::size_t records = 0;
  bool more = false;  // there may be
  std::string fault;  // what is damaged, and ended the page; empty: nothing
};

struct BtreeShape {
  std::uint64_t leaves = 0, slots = 0, depth = 0, bytes = 0;
};

/// What an opening found in the records.
struct BtreeFound {
  std::uint64_t records = 0;  // that the tree has
  std::vector<std::uint64_t> superseded;  // valid, and another one of the same key is newer
  std::vector<std::uint64_t> damaged;  // neither free nor intact
  Status full;  // not ok: there was no memory for the tree
};

/// What was there of a tree that is durable.
struct BtreeRecovered {
  std::uint64_t records = 0;
  std::uint64_t undone_lines = 0;  // of the batch that a crash ended
  std::string fault;  // why there is no tree; empty: there is one
  std::vector<std::string> mended;  // of its undo log
};

struct BtreeOptions {
  std::uint32_t key_bytes = 0, value_bytes = 0;  // 0 = variable
  KeyOrder key_order = KeyOrder::bytes;
  bool verify_reads = true;
  bool count_accesses = false;
  // an operation ended in its midst, and its locks are released by nobody
  std::atomic<bool>* given_up = nullptr;
};

class BtreeLeaves;

class BtreeEngine : public threads::Engine {
 public:
  [[nodiscard]] bool numbers_each() const override { return true; }

  virtual Status create() = 0;
  /// Instead, where all of the tree is durable: what the pool has, and how many records. `repair`:
  /// what undoes batches is put right before.
  virtual Result<BtreeRecovered> recover(bool /*read_only*/, bool /*repair*/) {
    return Status{Code::unsupported, "nothing of its tree is durable"};
  }
  /// Of all that such a tree has beside its nodes, for the next opening to compare.
  virtual std::uint64_t sum() { return 0; }
  /// Whether all that it leads to is there, and nothing else is in use; no writer runs.
  virtual void check_tree(threads::Faults& /*faults*/) {}
  /// Makes it anew of the records that are whole, durably: how many there are.
  virtual Result<std::uint64_t> make_anew() {
    return Status{Code::unsupported, "each opening makes its tree anew"};
  }
  /// Where its records lie; null: in the heap. What is said of superblocks is for the heap alone.
  [[nodiscard]] virtual pm::ValueLog* log() { return nullptr; }
  /// Its leaves, where they are durable; null: each opening makes the tree anew.
  [[nodiscard]] virtual BtreeLeaves* leaves() { return nullptr; }

  // Where records say themselves whether they count:
  /// Puts the valid records of these superblocks into the tree, and notes them in use. Nothing of
  /// the pool changes. Any number of threads, of superblocks of their own.
  using Superblock = pm::RecordHeap::Superblock;
  virtual void rebuild(std::span<Superblock const> superblocks, BtreeFound& found) = 0;
  /// Frees records that nothing leads to, durably.
  virtual void free_records(std::span<std::uint64_t const> records) = 0;
  /// Looks at every record of these superblocks; no writer runs.
  virtual void check(std::span<Superblock const> superblocks, threads::Faults& faults) = 0;

  /// Records in the order of their keys, `limit` of them at most, or fewer where they have more
  /// than `most_bytes`.
  virtual BtreePage range(BtreeRange const& range, std::size_t limit, std::uint64_t most_bytes,
                          threads::Visitor const& visit) = 0;
  virtual std::uint64_t count(BtreeRange const& range) = 0;
  [[nodiscard]] virtual BtreeShape shape() = 0;
};

/// Keys of one size, of at most 8 bytes, are all in the tree.
[[nodiscard]] inline bool btree_word_keys(std::uint32_t key_bytes) {
  return key_bytes >= 1 && key_bytes <= 8;
}

std::unique_ptr<BtreeEngine> make_btree_of_words(pm::Pool& pool, threads::Space& space,
                                                 threads::BatchNumbers& numbers,
                                                 BtreeOptions const& options);
std::unique_ptr<BtreeEngine> make_btree_of_bytes(pm::Pool& pool, threads::Space& space,
                                                 threads::BatchNumbers& numbers,
                                                 BtreeOptions const& options);
/// Of keys of either kind, with durable leaves, which lie in blocks of `leaves`.
std::unique_ptr<BtreeEngine> make_btree_index(pm::Pool& pool, threads::Space& space,
                                              threads::BatchNumbers& numbers,
                                              BtreeOptions const& options, pm::Blocks& leaves);
/// Of keys of either kind, and durable as a whole: its batches are transactions.
std::unique_ptr<BtreeEngine> make_btree_full(pm::Pool& pool, Mutex& memory, threads::Space& space,
                                             threads::BatchNumbers& numbers,
                                             BtreeOptions const& options);
/// Of keys of either kind, and with a log for the records, which guards the pool by `memory`.
std::unique_ptr<BtreeEngine> make_btree_log(pm::Pool& pool, Mutex& memory, threads::Space& space,
                                            threads::BatchNumbers& numbers,
                                            BtreeOptions const& options,
                                            pm::LogSettings const& log);
/// The same with durable leaves.
std::unique_ptr<BtreeEngine> make_btree_log_leaves(pm::Pool& pool, Mutex& memory,
                                                   threads::Space& space,
                                                   threads::BatchNumbers& numbers,
                                                   BtreeOptions const& options,
                                                   pm::LogSettings const& log, pm::Blocks& leaves);

}  // namespace perdure
