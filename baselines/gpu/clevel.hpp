// Clevel-GPM's operations, once for every machine. Clevel hashing (Chen et al., ATC 2020; reference
// [12] of the GPHash paper): levels of buckets, level k with 2^k, eight slots of 8 bytes a bucket,
// two hash functions, lock-free by compare-and-swap on slots alone. In its GPM port "each thread
// independently performs index operations without intra-warp communication" (section 4.1).
//
//   63  48 47 0
//   | tag | record address |     0 = empty; a tag is never 0
//
// Order of slots: level from the top, hash function, slot. Two puts of one new key in a batch may
// both take a slot; the first in that order is the valid one, and whoever changes the key later
// removes the others (section 3.2.2 says the same of GPHash, "akin to" Clevel). Invariants: a
// record is whole and ordered before a slot leads to it; a slot's key never changes but through
// empty.
//
// A thread that finds no room publishes a further top level with one compare-and-swap on the
// context (which levels there are), and all go on in it. The level that is then the third is
// emptied after the batch.
#pragma once

#include <cstdint>

#include "batch.hpp"

namespace perdure::baselines::clevel {

inline constexpr std::uint32_t kSlots = 8;
inline constexpr std::uint64_t kBucketBytes = 8 * kSlots;
inline constexpr std::uint32_t kMaxLevels = 32;

namespace word {
inline constexpr std::uint64_t kEmpty = 0;
inline constexpr std::uint64_t kPlaceMask = (std::uint64_t{1} << 48) - 1;
inline constexpr std::uint64_t kTagMask = ~kPlaceMask;

PERDURE_FN std::uint64_t tag(std::uint64_t hash) {
  std::uint64_t const low = hash & 0xffff;  // bucket numbers use the top bits
  return (low == 0 ? 1 : low) << 48;
}
PERDURE_FN Offset place(std::uint64_t slot) { return Offset{slot & kPlaceMask}; }
}  // namespace word

/// The live levels, as one word: in the file, and a volatile copy that kernels read.
struct Context {
  std::uint32_t bottom;
  std::uint32_t top;

  PERDURE_FN static Context of(std::uint64_t word) {
    return {static_cast<std::uint32_t>(word), static_cast<std::uint32_t>(word >> 32)};
  }
  PERDURE_FN std::uint64_t as_word() const { return bottom | std::uint64_t{top} << 32; }
};

struct View {
  Offset level[kMaxLevels];  // by number
  Offset context;  // the word in the file
  std::uint64_t* shared = nullptr;  // its volatile copy
  std::uint32_t most = 0;  // highest level that may be published
  std::uint32_t key_bytes = 0;

  PERDURE_FN Offset bucket(std::uint32_t number, std::uint64_t hash) const {
    return level[number] + (number == 0 ? 0 : hash >> (64 - number)) * kBucketBytes;
  }
  /// Values begin on 16 bytes, whatever the key's size.
  PERDURE_FN static std::uint64_t value_at(std::uint32_t key_bytes) {
    return (key_bytes + 15) / 16 * 16;
  }
};

struct Key {
  std::byte const* data;
  std::uint32_t bytes;
  std::uint64_t hash;
};

/// What a look at a key's candidates found.
struct Scan {
  Offset slot;  // the valid one that holds the key; 0 = none
  std::uint64_t word = 0;
  std::byte const* record = nullptr;
  std::uint32_t others = 0;  // further slots that hold it
  Offset empty;  // where it would be inserted; 0 = no room
};

struct Ops {
  using View = clevel::View;
  using Key = clevel::Key;

  PERDURE_FN static Key key(std::byte const* data, std::uint32_t bytes) {
    return {data, bytes, hash_bytes(data, bytes)};
  }

  template <class W>
  PERDURE_FN static Context context(W& warp, View const& t) {
    return Context::of(warp.elect([&] { return W::load(t.shared); }));
  }

  template <class W, class M>
  PERDURE_FN static void prefetch(W& warp, M& mem, View const& t, Key const& key) {
    std::uint32_t const top = context(warp, t).top;
    for (std::uint32_t n = 0; n < 2; ++n)
      mem.prefetch(warp, t.bucket(top, nth_hash(key.hash, n)), kBucketBytes);
  }

  template <class W, class M>
  PERDURE_FN static std::byte const* get(W& warp, M& mem, View const& t, Key const& key) {
    Scan const found = scan<true>(warp, mem, t, key, [](Offset, std::uint64_t) {});
    return found.slot ? found.record + View::value_at(t.key_bytes) : nullptr;
  }

  template <class W, class M>
  PERDURE_FN static Verdict put(W& warp, M& mem, View const& t, BatchView const& batch,
                                std::uint64_t i, Key const& key, Counts& counts) {
    bool written = false;
    for (;;) {
      std::uint64_t const before = warp.elect([&] { return W::load(t.shared); });
      Scan const found = scan_alone(warp, mem, t, batch, key, counts);
      if (!found.slot && !found.empty) {
        if (!expand(warp, mem, t, before)) return Verdict::full;
        continue;
      }
      std::uint64_t const mine = write_record(warp, mem, t, batch, i, key, written);
      if (found.slot) {
        if (swap(warp, mem, batch, found.slot, found.word, mine)) return Verdict::done;
      } else if (mem.cas(warp, found.empty, word::kEmpty, mine) == word::kEmpty) {
        ++counts[BatchCounts::inserted];
        return Verdict::done;
      }
    }
  }

  template <class W, class M>
  PERDURE_FN static Verdict update(W& warp, M& mem, View const& t, BatchView const& batch,
                                   std::uint64_t i, Key const& key, Counts& counts) {
    bool written = false;
    for (;;) {
      Scan const found = scan_alone(warp, mem, t, batch, key, counts);
      if (!found.slot) return Verdict::absent;
      std::uint64_t const mine = write_record(warp, mem, t, batch, i, key, written);
      if (swap(warp, mem, batch, found.slot, found.word, mine)) return Verdict::done;
    }
  }

  template <class W, class M>
  PERDURE_FN static Verdict erase(W& warp, M& mem, View const& t, BatchView const& batch,
                                  std::uint64_t, Key const& key, Counts& counts) {
    for (;;) {
      Scan const found = scan_alone(warp, mem, t, batch, key, counts);
      if (!found.slot) return Verdict::absent;
      if (found.others != 0)
        mem.order(warp);  // the valid one goes last, or an overwritten value comes back
      if (!swap(warp, mem, batch, found.slot, found.word, word::kEmpty)) continue;
      ++counts[BatchCounts::erased];
      return Verdict::done;
    }
  }

  /// Moves what a slot of the bottom level holds up into the others: copied first, then emptied.
  template <class W, class M>
  PERDURE_FN static Verdict rehash(W& warp, M& mem, View const& t, BatchView const& batch,
                                   Offset slot, Counts& counts) {
    std::uint64_t const moving = mem.load(warp, slot);
    if (moving == word::kEmpty) return Verdict::done;
    Key const key = Ops::key(mem.read(word::place(moving)), t.key_bytes);
    for (;;) {
      Scan const found = scan<false>(warp, mem, t, key, [](Offset, std::uint64_t) {});
      if (!(found.slot == slot)) {  // overwritten long ago
        if (swap(warp, mem, batch, slot, moving, word::kEmpty)) ++counts[BatchCounts::erased];
        return Verdict::done;
      }
      if (!found.empty || in_level(t, context(warp, t).bottom, found.empty)) return Verdict::full;
      if (mem.cas(warp, found.empty, word::kEmpty, moving) != word::kEmpty) continue;
      mem.order(warp);
      mem.store(warp, slot, word::kEmpty);
      return Verdict::done;
    }
  }

 private:
  PERDURE_FN static bool in_level(View const& t, std::uint32_t number, Offset slot) {
    std::uint64_t const first = t.level[number].bytes;
    return slot.bytes >= first && slot.bytes < first + (kBucketBytes << number);
  }

  /// From the top level down. The empty slot is one of the emptier bucket in the highest level with
  /// room. Calls `extra` for each slot but the first that holds the key; `kFirst` stops at that
  /// one.
  template <bool kFirst, class W, class M, class F>
  PERDURE_FN static Scan scan(W& warp, M& mem, View const& t, Key const& key, F extra) {
    Context const live = context(warp, t);
    std::uint64_t const hash[2] = {key.hash, nth_hash(key.hash, 1)};
    Scan scan;
    for (std::uint32_t number = live.top + 1; number-- > live.bottom;) {
      std::uint32_t most_free = 0;
      bool const roomy = !scan.empty;
      for (std::uint32_t n = 0; n < 2; ++n) {
        Offset const bucket = t.bucket(number, hash[n]);
        if (n == 1 && bucket == t.bucket(number, hash[0])) continue;
        auto const row = mem.template row<kSlots>(warp, bucket);
        std::uint32_t free = 0;
        Offset first_free;
        for (std::uint32_t s = 0; s < kSlots; ++s) {
          Offset const slot = bucket + 8 * s;
          if (row.word[s] == word::kEmpty) {
            ++free;
            if (!first_free) first_free = slot;
          } else if ((row.word[s] & word::kTagMask) == word::tag(key.hash)) {
            std::byte const* const record = mem.read(word::place(row.word[s]));
            if (!warp.equal(record, key.data, key.bytes)) continue;
            if (scan.slot) {
              ++scan.others;
              extra(slot, row.word[s]);
              continue;
            }
            scan.slot = slot;
            scan.word = row.word[s];
            scan.record = record;
            if (kFirst) return scan;
          }
        }
        if (roomy && free > most_free) {
          most_free = free;
          scan.empty = first_free;
        }
      }
    }
    return scan;
  }

  /// The same, and duplicates of the key are removed.
  template <class W, class M>
  PERDURE_FN static Scan scan_alone(W& warp, M& mem, View const& t, BatchView const& batch,
                                    Key const& key, Counts& counts) {
    return scan<false>(warp, mem, t, key, [&](Offset slot, std::uint64_t found) {
      if (swap(warp, mem, batch, slot, found, word::kEmpty)) ++counts[BatchCounts::erased];
    });
  }

  template <class W, class M>
  PERDURE_FN static bool swap(W& warp, M& mem, BatchView const& batch, Offset slot,
                              std::uint64_t before, std::uint64_t after) {
    if (mem.cas(warp, slot, before, after) != before) return false;
    free_record(warp, batch, word::place(before));
    return true;
  }

  /// The operation's record, once and ordered; the word that leads to it.
  template <class W, class M>
  PERDURE_FN static std::uint64_t write_record(W& warp, M& mem, View const& t,
                                               BatchView const& batch, std::uint64_t i,
                                               Key const& key, bool& written) {
    Offset const at{batch.fresh[i]};
    if (!written) {
      std::byte* const to = mem.write(at);
      warp.copy(to, key.data, key.bytes);
      warp.copy(to + View::value_at(t.key_bytes), batch.values.at(i), batch.value_bytes);
      mem.order(warp);
      written = true;
    }
    return word::tag(key.hash) | at.bytes;
  }

  /// One more level than `before` had, by whoever comes first.
  template <class W, class M>
  PERDURE_FN static bool expand(W& warp, M& mem, View const& t, std::uint64_t before) {
    Context next = Context::of(before);
    if (next.top == t.most) return false;
    ++next.top;
    mem.cas(warp, t.context, before, next.as_word());
    mem.order(warp);
    // Others may have gone on from there meanwhile; nobody goes back.
    warp.elect([&] { return W::cas(t.shared, before, next.as_word()); });
    return true;
  }
};

/// One slot of the bottom level an item.
struct RehashBody {
  static constexpr int kStages = 1;
  View table;
  BatchView batch;
  Offset from;
  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t slot, State<W>&, Counts& counts) const {
    if (Ops::rehash(warp, mem, table, batch, from + 8 * slot, counts) == Verdict::full)
      ++counts[BatchCounts::full];
  }
};

}  // namespace perdure::baselines::clevel
