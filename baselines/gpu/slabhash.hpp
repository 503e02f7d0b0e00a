// SlabHash-GPM's operations, once for every machine. SlabHash (Ashkiani et al., IPDPS 2018;
// reference [3] of the GPHash paper) keeps a list of slabs a bucket; a slab is the 128 bytes that a
// warp reads at once, keys and what belongs to them side by side, without fingerprints (GPHash
// section 4.6).
//
//   8-byte keys     7 keys | 7 pointers | unused | next slab
//   32-byte keys    3 keys | 3 pointers | next slab
//
// A pointer says all about its slot:
//   63    48 47 40 39 0
//   | tag   | epoch | place / 16 | 0 = free; place 16 = an insert is writing the key
//
// Tag and epoch are there for warps that meet over one key, not to save reads. A row is not read in
// one piece, so a pointer may be newer than the key read beside it. Hence: what this very batch has
// published (its epoch) is read again, after a fence, before it is believed; and a warp waits for
// an insert that may be of its own key (its tag). Invariant: a batch of puts frees no slot, and
// each put takes the first free slot of its list; so of two puts of one key the later finds the
// earlier's slot, or fails to take it.
//
// Logging (sections 2.2, 4.1): before a pointer changes, an undo entry says what it was, and is
// ordered. All entries die at once, when the batch's end stores its epoch, as in libGPM's
// transactions (GPM section 5.2). An entry that does not check was never ordered, so its slot never
// changed.
#pragma once

#include <cstdint>
#include <cstring>

#include "batch.hpp"
#include "exec/bits.hpp"

namespace perdure::baselines::slabhash {

inline constexpr std::uint32_t kRowWords = 16;
inline constexpr std::uint64_t kSlabBytes = 8 * kRowWords;
inline constexpr std::uint32_t kNext = kRowWords - 1;

namespace word {
inline constexpr std::uint64_t kFree = 0;
inline constexpr std::uint64_t kPlaceMask = (std::uint64_t{1} << 40) - 1;
inline constexpr std::uint64_t kEpochMask = std::uint64_t{0xff} << 40;
inline constexpr std::uint64_t kTagMask = std::uint64_t{0xffff} << 48;
inline constexpr std::uint64_t kInserting = 1;  // as a place: inside the header, where no record is

PERDURE_FN std::uint64_t tag(std::uint64_t hash) {
  std::uint64_t const low = hash & 0xffff;  // bucket numbers use the top bits
  return (low == 0 ? 1 : low) << 48;
}
PERDURE_FN std::uint64_t epoch(std::uint64_t number) { return (number & 0xff) << 40; }
PERDURE_FN Offset place(std::uint64_t pointer) { return Offset{(pointer & kPlaceMask) * 16}; }
}  // namespace word

struct UndoEntry {  // bytes
  std::uint64_t pointer;  //   0  where it lies
  std::uint64_t before;  //   8
  std::uint64_t epoch;  //  16  of the batch
  std::uint64_t check;  //  24
};
static_assert(sizeof(UndoEntry) == 32);

PERDURE_FN std::uint64_t check_of(std::uint64_t pointer, std::uint64_t before,
                                  std::uint64_t epoch) {
  return hash_detail::fold(pointer ^ hash_detail::k1,
                           before ^ hash_detail::fold(epoch ^ hash_detail::k2, hash_detail::k3));
}

struct View {
  Offset buckets;  // the first slab of each
  std::uint32_t log2_buckets = 0;
  Offset slabs;  // the run that further slabs are taken from, all zero
  std::uint64_t slab_limit = 0;
  std::uint64_t* shared = nullptr;  // volatile: slabs of that run handed out
  Offset log;  // an entry for each operation of the batch
  std::uint64_t epoch = 0;  // of this batch

  PERDURE_FN Offset bucket(std::uint64_t hash) const {
    return buckets + (log2_buckets == 0 ? 0 : hash >> (64 - log2_buckets)) * kSlabBytes;
  }
};

template <std::uint32_t kKeyWords>
struct Key {
  std::uint64_t word[kKeyWords];
  std::uint64_t hash;
};

/// Where a search ended: at the key, or at the end of the list.
struct Found {
  Offset pointer;  // of the hit, else of the first free slot; 0 = none
  Offset key;
  Offset last;  // slab of the list
  std::uint64_t word = word::kFree;
  bool hit = false;
};

template <std::uint32_t kKeyWords>
struct Ops {
  using View = slabhash::View;
  using Key = slabhash::Key<kKeyWords>;
  static constexpr std::uint32_t kSlots = kNext / (kKeyWords + 1);
  static constexpr std::uint32_t kPointers = kSlots * kKeyWords;  // first word of them
  static constexpr std::uint32_t kSlotMask = (1u << kSlots) - 1;

  PERDURE_FN static Key key(std::byte const* data, std::uint32_t) {
    Key key;
    memcpy(key.word, data, sizeof key.word);
    key.hash = hash_bytes(data, sizeof key.word);
    return key;
  }

  template <class W, class M>
  PERDURE_FN static void prefetch(W& warp, M& mem, View const& t, Key const& key) {
    mem.prefetch(warp, t.bucket(key.hash), kSlabBytes);
  }

  /// Slots whose pointer is `want` under `mask`.
  template <class W, class Lanes>
  PERDURE_FN static std::uint32_t pointers(W& warp, Lanes const& lanes, std::uint64_t mask,
                                           std::uint64_t want) {
    return warp.match(lanes, mask, want) >> kPointers & kSlotMask;
  }

  /// Slots that hold these key words, in use or not.
  template <class W, class Lanes>
  PERDURE_FN static std::uint32_t same_key(W& warp, Lanes const& lanes, Key const& key) {
    std::uint32_t all = ~0u;
    for (std::uint32_t w = 0; w < kKeyWords; ++w)
      all &= warp.match(lanes, ~std::uint64_t{0}, key.word[w]) >> w;
    std::uint32_t slots = 0;
    for (std::uint32_t s = 0; s < kSlots; ++s) slots |= (all >> (s * kKeyWords) & 1) << s;
    return slots;
  }

  template <class W, class M>
  PERDURE_FN static auto read_slab(W& warp, M& mem, Offset slab) {
    return mem.rows(warp, 1, kRowWords, [&](std::uint32_t) { return slab; });
  }

  /// Walks the whole list unless the key is found: an insert must know that it is not there
  /// (section 4.2).
  template <bool kRacing, class W, class M>
  PERDURE_FN static Found search(W& warp, M& mem, View const& t, Key const& key) {
    std::uint64_t const tag = word::tag(key.hash);
    Found found;
    bool believed = !kRacing;
    for (Offset slab = t.bucket(key.hash);;) {
      auto const lanes = read_slab(warp, mem, slab);
      if constexpr (kRacing) {
        if (pointers(warp, lanes, word::kTagMask | word::kPlaceMask, tag | word::kInserting) != 0) {
          warp.fence();
          believed = false;
          continue;
        }
        if (!believed && pointers(warp, lanes, word::kTagMask | word::kEpochMask,
                                  tag | word::epoch(t.epoch)) != 0) {
          warp.fence();
          believed = true;
          continue;
        }
        believed = false;
      }
      std::uint32_t const hits =
          same_key(warp, lanes, key) & pointers(warp, lanes, word::kTagMask, tag);
      std::uint32_t const free = pointers(warp, lanes, ~std::uint64_t{0}, word::kFree);
      if (hits != 0 || (free != 0 && !found.pointer)) {
        std::uint32_t const slot = exec::lowest_bit(hits != 0 ? hits : free);
        found.hit = hits != 0;
        found.word = warp.broadcast(lanes, kPointers + slot);
        found.pointer = slab + 8 * (kPointers + slot);
        found.key = slab + 8 * (slot * kKeyWords);
        if (found.hit) return found;
      }
      Offset const next{warp.broadcast(lanes, kNext)};
      found.last = slab;
      if (!next) return found;
      slab = next;
    }
  }

  template <class W, class M>
  PERDURE_FN static std::byte const* get(W& warp, M& mem, View const& t, Key const& key) {
    Found const found = search<false>(warp, mem, t, key);
    return found.hit ? mem.read(word::place(found.word)) : nullptr;
  }

  template <class W, class M>
  PERDURE_FN static Verdict put(W& warp, M& mem, View const& t, BatchView const& batch,
                                std::uint64_t i, Key const& key, Counts& counts) {
    std::uint64_t const mine = published(t, key, Offset{batch.fresh[i]});
    Offset spare;
    bool written = false;
    for (;;) {
      Found const found = search<true>(warp, mem, t, key);
      if (!found.pointer) {
        if (!append(warp, mem, t, found.last, spare)) return Verdict::full;
        continue;
      }
      write_value(warp, mem, batch, i, written);
      log(warp, mem, t, i, found);
      mem.order(warp);
      if (found.hit) {
        if (!swap(warp, mem, batch, found, mine)) continue;
        return Verdict::done;
      }
      if (!insert(warp, mem, key, found, mine)) continue;
      ++counts[BatchCounts::inserted];
      return Verdict::done;
    }
  }

  template <class W, class M>
  PERDURE_FN static Verdict update(W& warp, M& mem, View const& t, BatchView const& batch,
                                   std::uint64_t i, Key const& key, Counts&) {
    bool written = false;
    for (;;) {
      Found const found = search<true>(warp, mem, t, key);
      if (!found.hit) return Verdict::absent;
      write_value(warp, mem, batch, i, written);
      log(warp, mem, t, i, found);
      mem.order(warp);
      if (swap(warp, mem, batch, found, published(t, key, Offset{batch.fresh[i]})))
        return Verdict::done;
    }
  }

  template <class W, class M>
  PERDURE_FN static Verdict erase(W& warp, M& mem, View const& t, BatchView const& batch,
                                  std::uint64_t i, Key const& key, Counts& counts) {
    for (;;) {
      Found const found = search<true>(warp, mem, t, key);
      if (!found.hit) return Verdict::absent;
      log(warp, mem, t, i, found);
      mem.order(warp);
      if (!swap(warp, mem, batch, found, word::kFree)) continue;
      ++counts[BatchCounts::erased];
      return Verdict::done;
    }
  }

  /// Copies the list of one bucket of a smaller table into this one. Its keys are no other warp's.
  template <class W, class M>
  PERDURE_FN static Verdict rehash(W& warp, M& mem, View const& t, Offset from) {
    for (Offset slab = from; slab;) {
      auto const lanes = read_slab(warp, mem, slab);
      std::uint32_t live = ~pointers(warp, lanes, ~std::uint64_t{0}, word::kFree) & kSlotMask;
      for (; live != 0; live &= live - 1) {
        std::uint32_t const slot = exec::lowest_bit(live);
        Key key;
        for (std::uint32_t w = 0; w < kKeyWords; ++w)
          key.word[w] = warp.broadcast(lanes, slot * kKeyWords + w);
        key.hash = hash_bytes(reinterpret_cast<std::byte const*>(key.word), sizeof key.word);
        if (!move(warp, mem, t, key, word::place(warp.broadcast(lanes, kPointers + slot))))
          return Verdict::full;
      }
      slab = Offset{warp.broadcast(lanes, kNext)};
    }
    return Verdict::done;
  }

 private:
  PERDURE_FN static std::uint64_t published(View const& t, Key const& key, Offset record) {
    return word::tag(key.hash) | word::epoch(t.epoch) | record.bytes / 16;
  }

  template <class W, class M>
  PERDURE_FN static bool move(W& warp, M& mem, View const& t, Key const& key, Offset record) {
    Offset spare;
    for (;;) {
      Found const found = search<true>(warp, mem, t, key);
      if (!found.pointer) {
        if (!append(warp, mem, t, found.last, spare)) return false;
      } else if (insert(warp, mem, key, found, published(t, key, record))) {
        return true;
      }
    }
  }

  /// Takes the free slot, writes the key, publishes the pointer.
  template <class W, class M>
  PERDURE_FN static bool insert(W& warp, M& mem, Key const& key, Found const& found,
                                std::uint64_t mine) {
    std::uint64_t const inserting = (mine & ~word::kPlaceMask) | word::kInserting;
    if (mem.cas(warp, found.pointer, word::kFree, inserting) != word::kFree) return false;
    auto* const words = reinterpret_cast<std::uint64_t*>(mem.write(found.key));
    warp.strided(kKeyWords, [&](std::size_t w) { W::store(words + w, key.word[w]); });
    mem.order(warp);
    mem.store(warp, found.pointer, mine);
    return true;
  }

  template <class W, class M>
  PERDURE_FN static bool swap(W& warp, M& mem, BatchView const& batch, Found const& found,
                              std::uint64_t mine) {
    if (mem.cas(warp, found.pointer, found.word, mine) != found.word) return false;
    free_record(warp, batch, word::place(found.word));
    return true;
  }

  template <class W, class M>
  PERDURE_FN static void write_value(W& warp, M& mem, BatchView const& batch, std::uint64_t i,
                                     bool& written) {
    if (!written)
      warp.copy(mem.write(Offset{batch.fresh[i]}), batch.values.at(i), batch.value_bytes);
    written = true;
  }

  template <class W, class M>
  PERDURE_FN static void log(W& warp, M& mem, View const& t, std::uint64_t i, Found const& found) {
    auto* const entry = reinterpret_cast<std::uint64_t*>(mem.write(t.log + i * sizeof(UndoEntry)));
    std::uint64_t const at = found.pointer.bytes;
    std::uint64_t const words[4] = {at, found.word, t.epoch, check_of(at, found.word, t.epoch)};
    warp.strided(4, [&](std::size_t w) { entry[w] = words[w]; });
  }

  /// Another slab at the list's end, whoever links it. `spare` is one this warp took and did not
  /// link.
  template <class W, class M>
  PERDURE_FN static bool append(W& warp, M& mem, View const& t, Offset last, Offset& spare) {
    if (!spare) {
      std::uint64_t const n = warp.elect([&] { return W::fetch_add(t.shared, 1); });
      if (n >= t.slab_limit) return false;
      spare = t.slabs + n * kSlabBytes;
    }
    if (mem.cas(warp, last + 8 * kNext, 0, spare.bytes) == 0) spare = {};
    return true;
  }
};

/// One bucket of the smaller table an item.
template <std::uint32_t kKeyWords>
struct RehashBody {
  static constexpr int kStages = 1;
  View table;
  Offset from;
  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t bucket, State<W>&, Counts& counts) const {
    if (Ops<kKeyWords>::rehash(warp, mem, table, from + bucket * kSlabBytes) == Verdict::full)
      ++counts[BatchCounts::full];
  }
};

}  // namespace perdure::baselines::slabhash
