// Changing the table, once for every machine: one thread a key, under the locks of its two buckets
// (Listing 10), and bringing another copy of it up to date.
//
// An eviction never leaves an entry without a bucket: a path of moves is looked for without locks,
// and then made from its end, so that a hole travels to the bucket that is full. Each move is made
// under the locks of its two buckets, if they are still what the path says. Invariants: a key
// stands in one bucket; locks are taken in ascending order and by trying, so of threads in conflict
// one gets on, whatever a GPU's warps do.
#pragma once

#include <cstdint>

#include "lookup.hpp"

namespace perdure::hetero {

/// Of the buckets' locks; of the second it is known that it is another one.
class BucketLocks {
 public:
  PERDURE_FN explicit BucketLocks(View const& table) : locks_(table.locks) {}

  template <class W>
  PERDURE_FN bool take(W& warp, std::uint32_t a, std::uint32_t b) const {
    std::uint32_t const low = a < b ? a : b, high = a < b ? b : a;
    if (W::fetch_or(locks_ + low, 1u) != 0) return false;
    if (W::fetch_or(locks_ + high, 1u) != 0) {
      W::store(locks_ + low, 0u);
      return false;
    }
    warp.local_fence();
    return true;
  }
  template <class W>
  PERDURE_FN void release(W& warp, std::uint32_t a, std::uint32_t b) const {
    warp.local_fence();
    W::store(locks_ + a, 0u);
    W::store(locks_ + b, 0u);
  }

 private:
  std::uint32_t* locks_;
};

/// The slot of that entry, or kNone.
template <class Row>
PERDURE_FN std::uint32_t slot_of(Row const& row, std::uint64_t entry) {
  for (std::uint32_t s = 0; s < kEntries; ++s)
    if (row.word[s] == entry) return s;
  return kNone;
}

/// Moves entries to their other buckets until `bucket` has room.
class Evictions {
 public:
  static constexpr std::uint32_t kMost = 32;  // moves of a path
  enum class Made : std::uint8_t { room, nothing, no_path };

  template <class W, class M>
  PERDURE_FN Made make_room(W& warp, M& mem, View const& t, std::uint32_t bucket,
                            std::uint64_t seed) {
    std::uint32_t length = 0;
    buckets_[0] = bucket;
    for (;; ++length) {
      auto const row = mem.template row<kEntries>(warp, t.row(buckets_[length]));
      if (slot_of(row, kEmpty) != kNone) break;
      if (length == kMost) return Made::no_path;
      seed = nth_hash(seed, length + 1);
      entries_[length] = row.word[seed % kEntries];
      buckets_[length + 1] = t.other(buckets_[length], signature_in(entries_[length]));
    }
    for (; length > 0; --length) {
      std::uint32_t const from = buckets_[length - 1], to = buckets_[length];
      BucketLocks const locks(t);
      if (!locks.take(warp, from, to)) return Made::nothing;
      bool const moved = move(warp, mem, t, entries_[length - 1], from, to);
      locks.release(warp, from, to);
      if (!moved) return Made::nothing;
    }
    return Made::room;
  }

 private:
  template <class W, class M>
  PERDURE_FN static bool move(W& warp, M& mem, View const& t, std::uint64_t entry,
                              std::uint32_t from, std::uint32_t to) {
    std::uint32_t const slot = slot_of(mem.template row<kEntries>(warp, t.row(from)), entry);
    std::uint32_t const hole = slot_of(mem.template row<kEntries>(warp, t.row(to)), kEmpty);
    if (slot == kNone || hole == kNone) return false;
    mem.store(warp, t.row(to) + 8 * hole, entry);
    mem.store(warp, t.row(from) + 8 * slot, kEmpty);
    if (t.trail.pairs != nullptr) {
      std::uint64_t const at = W::fetch_add(t.trail.moved_count, std::uint64_t{2});
      if (at + 2 <= t.trail.moved_room) {
        t.trail.moved[at] = from;
        t.trail.moved[at + 1] = to;
      }
    }
    return true;
  }

  std::uint32_t buckets_[kMost + 1];
  std::uint64_t entries_[kMost];
};

/// Inserts, or replaces the value of a key that is there. Operations of a batch on one key take
/// effect in any order, each whole.
struct PutBody {
  static constexpr int kStages = 2;
  static constexpr std::uint32_t kPaths = 8;  // that are tried before the table counts as full
  View table;
  std::uint64_t const* keys;
  std::uint64_t const* values;

  template <class W>
  struct State {
    std::uint64_t key;
    std::uint64_t hash;
  };

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t i, State<W>& s, Counts& counts) const {
    if constexpr (kStage == 0) {
      s.key = keys[i];
      s.hash = hash_word(s.key, sizeof s.key);
      mem.prefetch_to_write(warp, table.row(table.first(s.hash)), kRowBytes);
      warp.prefetch_to_write(table.locks + table.first(s.hash), sizeof(std::uint32_t));
    } else {
      ++counts[put(warp, mem, i, s)];
    }
  }

 private:
  template <class W, class M>
  PERDURE_FN TableCounts::Name put(W& warp, M& mem, std::uint64_t i, State<W> const& s) const {
    std::uint32_t const signature = signature_of(s.hash);
    std::uint32_t const a = table.first(s.hash), b = table.other(a, signature);
    BucketLocks const locks(table);
    TableCounts::Name done = TableCounts::kEnd;
    std::uint32_t paths = 0, refused = 0;
    for (std::uint32_t round = 0; done == TableCounts::kEnd; ++round) {
      bool const waits = sits_out(s.hash, round, refused);
      if (waits || !locks.take(warp, a, b)) {
        if (!waits) ++refused;
        W::pause();
        continue;
      }
      done = change(warp, mem, i, s.key, a, b, signature);
      locks.release(warp, a, b);
      if (done != TableCounts::kEnd) break;
      Evictions evictions;
      Evictions::Made const made = evictions.make_room(warp, mem, table, a, s.hash + round);
      if (made == Evictions::Made::nothing) ++refused;
      if (made == Evictions::Made::no_path && ++paths == kPaths) done = TableCounts::full;
    }
    if (done == TableCounts::full) leave_trail(i, kNone, kNone);
    return done;
  }

  /// By lot, and the more often the more a thread was refused. Threads of a warp go in step: two
  /// that are in each other's way would be so for ever if both came back in each round.
  PERDURE_FN static bool sits_out(std::uint64_t hash, std::uint32_t round, std::uint32_t refused) {
    constexpr std::uint32_t kMostBits = 6;
    std::uint32_t const bits = refused < kMostBits ? refused : kMostBits;
    return nth_hash(hash, round + 1) % (std::uint32_t{1} << bits) != 0;
  }

  /// With both locks held; kEnd where both buckets are full.
  template <class W, class M>
  PERDURE_FN TableCounts::Name change(W& warp, M& mem, std::uint64_t i, std::uint64_t key,
                                      std::uint32_t a, std::uint32_t b,
                                      std::uint32_t signature) const {
    std::uint32_t there = find_in(warp, mem, table, a, signature, key);
    if (there == kNone) there = find_in(warp, mem, table, b, signature, key);
    if (there != kNone) {
      mem.store(warp, table.pair(there) + 8, values[i]);
      leave_trail(i, there, kNone);
      return TableCounts::updated;
    }
    std::uint32_t bucket = a;
    std::uint32_t slot = slot_of(mem.template row<kEntries>(warp, table.row(a)), kEmpty);
    if (slot == kNone) {
      bucket = b;
      slot = slot_of(mem.template row<kEntries>(warp, table.row(b)), kEmpty);
    }
    if (slot == kNone) return TableCounts::kEnd;
    std::uint64_t const location = W::fetch_add(table.used, std::uint64_t{1});
    if (location >= table.capacity) return TableCounts::full;
    auto const fresh = static_cast<std::uint32_t>(location);
    mem.store(warp, table.pair(fresh), key);
    mem.store(warp, table.pair(fresh) + 8, values[i]);
    warp.local_fence();
    mem.store(warp, table.row(bucket) + 8 * slot, entry_of(signature, fresh));
    leave_trail(i, fresh, bucket);
    return TableCounts::inserted;
  }

  PERDURE_FN void leave_trail(std::uint64_t i, std::uint32_t pair, std::uint32_t bucket) const {
    if (table.trail.pairs == nullptr) return;
    table.trail.pairs[i] = pair;
    table.trail.buckets[i] = bucket;
  }
};

/// Rows of another copy of the table, with their contents there. A row that is named twice comes
/// with the same contents twice.
struct CopyBody {
  static constexpr int kStages = 1;
  View table;
  std::uint32_t const* ids;  // kNone: nothing to do
  std::uint64_t const* contents;
  std::uint32_t words;  // of a row
  bool of_buckets;

  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t i, State<W>&, Counts&) const {
    std::uint32_t const id = ids[i];
    if (id == kNone) return;
    Offset const row = of_buckets ? table.row(id) : table.pair(id);
    for (std::uint32_t w = 0; w < words; ++w) mem.store(warp, row + 8 * w, contents[i * words + w]);
  }
};

}  // namespace perdure::hetero
