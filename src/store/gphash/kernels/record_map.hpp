// The free records of a pool of fixed sizes, kept in machine memory, so that a write batch takes
// and gives back its records without the host: a bit a record, set = in use. The host's RecordHeap
// leases the superblocks and takes them back where it needs them itself (growth, transactions).
//
// Invariants: a record is taken only while its bit is clear; it is given back after the ordering
// point that commits the batch which unlinked it. What a crash leaves of this is nothing: recovery
// marks what slots lead to.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "batch/counts.hpp"
#include "exec/bits.hpp"
#include "exec/counts.hpp"
#include "perdure/batch.h"
#include "perdure/status.h"
#include "pm/record_shape.hpp"

namespace perdure {

struct RecordMap {
  // words_each for every superblock of the pool; of what is not leased all are set
  std::uint32_t* bits = nullptr;
  std::uint8_t* leased = nullptr;  // by superblock
  std::uint64_t superblocks = 0;
  pm::RecordShape shape;
  std::uint64_t stride = 0;
  std::uint64_t words_each = 0;
  // machine memory: the word where taking goes on, and where what is under way began
  std::uint64_t* next = nullptr;

  [[nodiscard]] PERDURE_FN std::uint64_t words() const { return superblocks * words_each; }

  /// Which bit of `bits` is a record's. False: it is no record of ours, for a damaged pool's slots
  /// lead anywhere.
  PERDURE_FN bool locate(std::uint64_t record, std::uint64_t& word, std::uint32_t& bit) const {
    PERDURE_ASSERT(!kCostlyAssertions || (shape.superblock_bytes > 0 && stride > 0));
    std::uint64_t const superblock = record / shape.superblock_bytes;
    std::uint64_t i = 0;
    if (superblock >= superblocks || leased[superblock] == 0) return false;
    if (!shape.index(stride, record % shape.superblock_bytes, i)) return false;
    word = superblock * words_each + i / 32;
    bit = 1u << (i % 32);
    return true;
  }

  template <class W>
  PERDURE_FN void release(std::uint64_t record) const {
    std::uint64_t word = 0;
    std::uint32_t bit = 0;
    if (locate(record, word, bit)) W::fetch_and(bits + word, ~bit);
  }
};

/// The i-th word from `begin` on, around the whole map.
PERDURE_FN std::uint64_t word_from(std::uint64_t begin, std::uint64_t i, std::uint64_t words) {
  std::uint64_t const w = begin + i;
  return w < words ? w : w - words;
}

/// Free records in each word, from where the last taking ended. So what batches free has the
/// longest time to become many neighbours, whose heads share packets of a GPU's link. To begin at
/// the first word each time would find what the last batches freed, records that lie one by one.
struct CountFreeBody {
  RecordMap map;
  std::uint64_t looks;  // at so many words; one more element, 0, ends their counts
  std::uint32_t* counts;
  PERDURE_FN void operator()(std::uint64_t i) const {
    std::uint64_t const words = map.words();
    PERDURE_ASSERT(!kCostlyAssertions || (i <= looks && looks <= words));
    std::uint64_t const begin = map.next[0] < words ? map.next[0] : 0;
    if (i == 0) map.next[1] = begin;
    counts[i] = i < looks ? exec::popcount(~map.bits[word_from(begin, i, words)]) : 0;
  }
};

/// Takes n free records, those of a word in the order of their addresses. `before` is how many are
/// free before each word.
struct TakeRecordsBody {
  RecordMap map;
  std::uint32_t const* before;
  std::uint64_t n;
  std::uint64_t* taken;

  PERDURE_FN void operator()(std::uint64_t i) const {
    std::uint64_t next = before[i];
    if (next >= n) return;
    std::uint64_t const w = word_from(map.next[1], i, map.words());
    std::uint32_t free = ~map.bits[w];
    if (free == 0) return;
    PERDURE_ASSERT(!kCostlyAssertions || w < map.words());
    std::uint64_t const superblock = w / map.words_each;
    std::uint64_t const first = w % map.words_each * 32;
    std::uint64_t const base = superblock * map.shape.superblock_bytes;
    for (; free != 0 && next < n; free &= free - 1)
      taken[next++] = base + map.shape.address(map.stride, first + exec::lowest_bit(free));
    if (!mutated("kept_record_handed_out_twice")) map.bits[w] = ~free;
    if (next == n) map.next[0] = w;
  }
};

/// 1 for each operation that may write a record; one more element, 0, ends them.
struct FlagWritersBody {
  std::uint8_t const* kinds;
  std::uint64_t n;
  std::uint32_t* flags;
  PERDURE_FN void operator()(std::uint64_t i) const {
    flags[i] = i < n && (kinds[i] == static_cast<std::uint8_t>(OpKind::put) ||
                         kinds[i] == static_cast<std::uint8_t>(OpKind::update));
  }
};

/// Deals taken records out to the operations that may write one.
struct DealRecordsBody {
  std::uint32_t const* before;  // writers before each operation
  std::uint64_t const* taken;
  std::uint64_t* reserved;
  PERDURE_FN void operator()(std::uint64_t i) const {
    PERDURE_ASSERT(!kCostlyAssertions || before[i + 1] - before[i] <= 1);
    reserved[i] = before[i + 1] > before[i] ? taken[before[i]] : 0;
  }
};

/// Gives back, of each position, the record that was unlinked and the one that was not used.
struct GiveBackBody {
  static constexpr int kStages = 1;
  RecordMap map;
  std::uint64_t const* reserved;
  std::uint64_t const* unlinked;
  std::uint8_t const* used;
  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M&, std::uint64_t i, State<W>&, exec::Counts&) const {
    warp.elect([&] {
      if (reserved[i] != 0 && used[i] == 0) map.release<W>(reserved[i]);
      if (unlinked[i] != 0) map.release<W>(unlinked[i]);
      return std::uint64_t{0};
    });
  }
};

/// The same at the end of a batch's pass, if nothing of it is left for another.
struct GiveBackWhenDoneBody {
  static constexpr int kStages = 1;
  GiveBackBody body;
  exec::Counts const* counts;
  bool undoable = false;  // and so is undone where it found a damaged record
  // It is a launch of its own, and so may cache what it looks at: a million threads that ask one
  // address of the memory wait for each other.
  bool apart = false;
  std::uint64_t const* unless = nullptr;  // this is not 0: the pass has not ended
  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t i, State<W>&, exec::Counts& mine) const {
    if (unless != nullptr && look<W>(unless) != 0) return;
    if (look<W>(&counts->value[BatchCounts::pending]) != 0) return;
    if (undoable && look<W>(&counts->value[BatchCounts::corrupt]) != 0) return;
    typename GiveBackBody::template State<W> state;
    body.template stage<kStage>(warp, mem, i, state, mine);
  }

 private:
  template <class W>
  PERDURE_FN std::uint64_t look(std::uint64_t const* at) const {
    return apart ? *at : W::load(at);
  }
};

/// Of a device session that ends: gives back the records it unlinked, a word of bits an item.
struct ReleaseUnlinkedBody {
  RecordMap map;
  std::uint32_t const* unlinked;
  PERDURE_FN void operator()(std::uint64_t w) const { map.bits[w] &= ~unlinked[w]; }
};

/// And those it took and did not use.
struct ReleaseUnusedBody {
  static constexpr int kStages = 1;
  RecordMap map;
  std::uint64_t const* unused;
  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M&, std::uint64_t i, State<W>&, exec::Counts&) const {
    warp.elect([&] {
      map.release<W>(unused[i]);
      return std::uint64_t{0};
    });
  }
};

/// How many words take_records() looks at first. Where a launch costs nothing, as many as have room
/// for the records and their neighbours, so that a batch does not look at the whole pool's map;
/// elsewhere all: to wait for how many are free there takes longer than to count.
template <class Machine>
std::uint64_t words_to_look_at(RecordMap const& map, std::uint64_t n) {
#if defined(PERDURE_EXPLORE)  // whose maps have a few words
  constexpr std::uint64_t kAnyhow = 1;
#else
  constexpr std::uint64_t kAnyhow = 64;
#endif
  if (Machine::kChains) return map.words();
  return std::min(map.words(), n / 16 + kAnyhow);
}

/// Takes n free records, from the next word on; false: so many are not free. `at_least` is
/// how many are known to be, and is asked for only where that is too few: to wait for the answer
/// takes longer than a small batch. All memory it needs comes first.
template <class Machine>
Result<bool> take_records(Machine& machine, RecordMap const& map, std::uint64_t& at_least,
                          std::uint64_t n, typename Machine::template Buffer<std::uint32_t>& free,
                          typename Machine::template Buffer<std::uint32_t>& before,
                          typename Machine::template Buffer<std::uint64_t>& into) {
  std::uint64_t const words = map.words();
  PERDURE_ASSERT(words > 0 && map.bits != nullptr);
  if (Status s = into.resize(n); !s.ok()) return s;
  if (Status s = free.resize(words + 1); !s.ok()) return s;
  if (Status s = before.resize(words + 1); !s.ok()) return s;
  std::uint64_t looks = words_to_look_at<Machine>(map, n);
  for (;; looks = std::min(words, 4 * looks)) {
    CountFreeBody const count{map, looks, free.data()};
    if (Status s = machine.threads(looks + 1, count); !s.ok()) return s;
    if (Status s = machine.sums_before(free.data(), before.data(), looks + 1); !s.ok()) return s;
    if (looks == words && at_least >= n) break;
    if (Status s = machine.copy(free.data(), before.data() + looks, 1); !s.ok()) return s;
    auto total = machine.fetch(free, 1);
    if (!total) return total.status();
    PERDURE_ASSERT((*total)[0] <= looks * 32);
    at_least = looks == words ? (*total)[0] : std::max<std::uint64_t>(at_least, (*total)[0]);
    if ((*total)[0] >= n) break;
    if (looks == words) return false;
  }
  at_least -= n;
  if (Status s = machine.threads(looks, TakeRecordsBody{map, before.data(), n, into.data()});
      !s.ok())
    return s;
  return true;
}

}  // namespace perdure
