// Level segments after SEPH (Wang et al., OSDI'23), a simplified rebuild from its description:
// extendible hashing whose entry is a level segment, one bottom segment and the two top segments of
// its halves. Where it finds no room, each top segment becomes the bottom of a level segment of its
// own with two new ones on top, and only what the old bottom held is moved: a third of the records
// (the paper's one-third split). Slots are words with 16 bits of hash, so a search looks at records
// that are likely its own. Simplified: buckets are Clevel's (a line of eight words, two hashes);
// writers of a level segment take one lock in place of SEPH's semi-lock-free protocol; splits are
// not spread over later operations. Invariants:
//
//  * Searches take no lock. A level segment that is split does not change any more, so what a
//    search read holds if the directory still leads to it afterwards.
//  * A split makes the new level segments durable, then turns entries, the last one first, and
//    nobody writes to either before all are turned. Until then both tell the same; an opening turns
//    what a crash left unturned.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>

#include "directory.hpp"
#include "exec/epochs.hpp"
#include "locks.hpp"
#include "pm/blocks.hpp"
#include "why_full.hpp"
#include "word_slots.hpp"

namespace perdure::cpu_baselines {

class LevelSegments : public KnowsWhyFull {
 public:
  static constexpr bool kValuesInRecords = true;
  static constexpr std::uint32_t kBuckets = 256;  // 16 KB a segment

  LevelSegments(BaselinePool& pool, Options const&)
      : pool_(&pool),
        words_(pool),
        blocks_(pool.pool, pool.memory, sizeof(Segment)),
        root_(reinterpret_cast<Root*>(pool.words(pool.index().bytes))),
        directory_(pool, epochs_, &root_->directory) {}

  template <class Host>
  Status create(Host& host, Options const& options) {
    begin_opening(host, 1);
    std::uint32_t depth = 0;
    while ((std::uint64_t{3 * kBuckets * kWordSlots} << (depth + 1)) <= options.initial_slots)
      ++depth;
    std::vector<std::uint64_t> made(std::size_t{1} << depth);
    for (std::size_t i = 0; i < made.size(); ++i) {
      auto bottom = take(host);
      if (!bottom) return bottom.status();
      made[i] = *bottom;
      if (Status s = dress(host, made[i], depth == 0 ? 0 : std::uint64_t{i} << (64 - depth), depth);
          !s.ok())
        return s;
    }
    return directory_.create(host, depth, [&](std::uint64_t i) { return made[i]; });
  }

  template <class Host>
  Status open(Host& host) {
    begin_opening(host, static_cast<std::uint32_t>(host.load(&root_->opening)) + 1);
    directory_.open(host);
    blocks_.find_superblocks_later();
    blocks_.begin_sweep();
    std::uint64_t size = 0;
    std::uint64_t const* const entries = directory_.entries(size);
    std::uint32_t const all = directory_.depth(host);
    for (std::uint64_t i = 0; i < size;) {
      Segment& s = segment(host.load(entries + i));
      auto const depth = static_cast<std::uint32_t>(host.load(&s.depth));
      std::uint64_t const n = std::uint64_t{1} << (all - depth);
      if (host.load(entries + i + n - 1) != place_of(s)) {
        turn(host, s);
        continue;  // to the left half
      }
      for (std::uint64_t const place : {place_of(s), host.load(&s.tops[0]), host.load(&s.tops[1])})
        blocks_.mark(Offset{place});
      i += n;
    }
    blocks_.finish_sweep();
    words_.sweep([&](auto mark) {
      for_each_segment(host, [&](Segment& s) { for_each_word(host, s, mark); });
    });
    return {};
  }

  template <class Host>
  Outcome find(Host& host, Key key, std::span<std::byte> value) {
    std::uint64_t const hash = hash_bytes(key.data(), key.size());
    for (;; host.pause()) {
      std::uint64_t const place = directory_.segment(host, hash);
      Outcome outcome = Outcome::absent;
      for (WordBucket* const bucket : buckets(host, segment(place), hash)) {
        auto const ref = words_.find(host, bucket, key, hash);
        if (!ref) continue;
        words_.value(host, ref->word, value);
        outcome = Outcome::done;
        break;
      }
      if (directory_.segment(host, hash) == place) return outcome;
    }
  }

  template <class Host>
  Outcome insert(Host& host, KeyLog& log, Key key, Value value) {
    std::uint64_t const hash = hash_bytes(key.data(), key.size());
    std::uint64_t word = 0;
    for (;;) {
      Segment& s = locked(host, hash);
      Buckets const its = buckets(host, s, hash);
      for (WordBucket* const bucket : its) {
        if (!words_.find(host, bucket, key, hash)) continue;
        words_.retire(epochs_, word);
        return unlocked(host, s, Outcome::exists);
      }
      if (word == 0) {
        auto made = words_.make(host, log, key, value, hash);
        if (!made) return unlocked(host, s, fail(made.status()));
        word = *made;
      }
      if (put(host, its, word)) return unlocked(host, s, Outcome::done);
      Status const status = split(host, s);
      lock_of(s).unlock(host);
      if (status.ok()) continue;
      words_.retire(epochs_, word);
      return fail(status);
    }
  }

  template <class Host>
  Outcome update(Host& host, KeyLog& log, Key key, Value value) {
    std::uint64_t const hash = hash_bytes(key.data(), key.size());
    Segment& s = locked(host, hash);
    for (WordBucket* const bucket : buckets(host, s, hash)) {
      auto const ref = words_.find(host, bucket, key, hash);
      if (!ref) continue;
      auto made = words_.make(host, log, key, value, hash);
      if (!made) return unlocked(host, s, fail(made.status()));
      WordSlots::store(host, ref->slot, *made);
      words_.retire(epochs_, ref->word);
      return unlocked(host, s, Outcome::done);
    }
    return unlocked(host, s, Outcome::absent);
  }

  template <class Host>
  Outcome erase(Host& host, Key key) {
    std::uint64_t const hash = hash_bytes(key.data(), key.size());
    Segment& s = locked(host, hash);
    for (WordBucket* const bucket : buckets(host, s, hash)) {
      auto const ref = words_.find(host, bucket, key, hash);
      if (!ref) continue;
      WordSlots::store(host, ref->slot, 0);
      words_.retire(epochs_, ref->word);
      return unlocked(host, s, Outcome::done);
    }
    return unlocked(host, s, Outcome::absent);
  }

  template <class Host>
  TableStats stats(Host& host, bool count) {
    TableStats stats;
    stats.growths = growths_.load(std::memory_order_relaxed);
    for_each_segment(host, [&](Segment& s) {
      stats.slots += std::uint64_t{3} * kBuckets * kWordSlots;
      if (count) for_each_word(host, s, [&](std::uint64_t) { ++stats.records; });
    });
    return stats;
  }
  [[nodiscard]] exec::Epochs& epochs() { return epochs_; }

 private:
  static constexpr std::uint32_t kMostDepth = 40;
  struct Root {  // bytes
    std::uint64_t opening;  //   0
    std::uint64_t directory;  //   8
  };
  /// What is before a segment's buckets counts of bottom segments alone.
  struct Segment {  // bytes
    std::uint64_t depth;  //   0
    std::uint64_t start;  //   8  least hash
    std::uint64_t tops[2];  //  16  places
    std::uint64_t lock;  //  32  see LockWord; writers'
    std::uint64_t reserved[27];  //  40
    WordBucket buckets[kBuckets];  // 256
  };
  static_assert(sizeof(Segment) == 256 + 16384);
  using Buckets = std::array<WordBucket*, 4>;  // bottom by each hash, top by each hash

  [[nodiscard]] Segment& segment(std::uint64_t place) const {
    return *reinterpret_cast<Segment*>(pool_->words(place));
  }
  [[nodiscard]] std::uint64_t place_of(Segment& s) const {
    return static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(&s) - pool_->base());
  }
  /// f(bottom) for each level segment.
  template <class Host, class F>
  void for_each_segment(Host& host, F f) {
    std::uint64_t size = 0;
    std::uint64_t const* const entries = directory_.entries(size);
    std::uint64_t const all = directory_.depth(host);
    for (std::uint64_t i = 0; i < size;) {
      Segment& s = segment(host.load(entries + i));
      f(s);
      i += std::uint64_t{1} << (all - host.load(&s.depth));
    }
  }
  template <class Host, class F>
  void for_each_word(Host& host, Segment& s, F f) {
    for (Segment* const each :
         {&s, &segment(host.load(&s.tops[0])), &segment(host.load(&s.tops[1]))}) {
      for (WordBucket const& bucket : each->buckets) WordSlots::for_each(host, &bucket, f);
    }
  }
  template <class Host>
  void begin_opening(Host& host, std::uint32_t opening) {
    opening_ = opening;
    host.store(&root_->opening, opening);
    host.persist(&root_->opening, sizeof root_->opening);
  }
  [[nodiscard]] LockWord lock_of(Segment& s) const { return {&s.lock, opening_}; }
  /// The level segment of a hash.
  template <class Host>
  Segment& locked(Host& host, std::uint64_t hash) {
    for (;; host.pause()) {
      std::uint64_t const place = directory_.segment(host, hash);
      Segment& s = segment(place);
      host.read(&s, 40);
      lock_of(s).lock(host);
      if (directory_.segment(host, hash) == place) return s;
      lock_of(s).unlock(host);
    }
  }
  template <class Host>
  Outcome unlocked(Host& host, Segment& s, Outcome outcome) {
    lock_of(s).unlock(host);
    return outcome;
  }

  /// All four, announced.
  template <class Host>
  Buckets buckets(Host& host, Segment& s, std::uint64_t hash) const {
    host.read(&s, 32);
    std::uint64_t const depth = host.load(&s.depth);
    Segment& top = segment(host.load(&s.tops[hash >> (63 - depth) & 1]));
    std::uint64_t const a = hash % kBuckets, b = nth_hash(hash, 1) % kBuckets;
    Buckets const all{&s.buckets[a], &s.buckets[b], &top.buckets[a], &top.buckets[b]};
    for (WordBucket* const bucket : all) WordSlots::announce(host, bucket);
    return all;
  }
  /// In the less loaded bucket of the bottom segment, else of the top one.
  template <class Host>
  static bool put(Host& host, Buckets const& buckets, std::uint64_t word) {
    for (std::size_t const level : {0, 2}) {
      WordBucket *a = buckets[level], *b = buckets[level + 1];
      if (WordSlots::count(host, b) < WordSlots::count(host, a)) std::swap(a, b);
      if (WordSlots::put(host, a, word) || WordSlots::put(host, b, word)) return true;
    }
    return false;
  }

  /// A segment without records.
  template <class Host>
  Result<std::uint64_t> take(Host& host) {
    auto block = blocks_.take();
    if (!block) return block.status();
    Segment& s = segment(block->bytes);
    host.store(&s.lock, 0);
    for (WordBucket& bucket : s.buckets) {
      for (std::uint64_t& slot : bucket.slots) host.store(&slot, 0);
    }
    host.persist(&s, sizeof s);
    return block->bytes;
  }
  /// Makes a segment the bottom of a level segment: with two new ones on top. Ordered when it
  /// returns.
  template <class Host>
  Status dress(Host& host, std::uint64_t bottom, std::uint64_t start, std::uint64_t depth) {
    Segment& s = segment(bottom);
    for (std::uint64_t& top : s.tops) {
      auto taken = take(host);
      if (!taken) return taken.status();
      host.store(&top, *taken);
    }
    host.store(&s.depth, depth);
    host.store(&s.start, start);
    host.persist(&s, 40);
    return {};
  }

  /// Of a level segment that is locked.
  template <class Host>
  Status split(Host& host, Segment& s) {
    auto const depth = static_cast<std::uint32_t>(host.load(&s.depth));
    if (depth + 1 >= kMostDepth)
      return {Code::no_space,
              "too many keys share the first " + std::to_string(depth) + " bits of their hash"};
    for (std::uint32_t all; (all = directory_.depth(host)) <= depth;) {
      if (Status status = directory_.grow(host, all); !status.ok()) return status;
    }
    std::uint64_t const bit = std::uint64_t{1} << (63 - depth), start = host.load(&s.start);
    for (std::uint64_t const half : {0, 1}) {
      if (Status status = dress(host, host.load(&s.tops[half]), start | half * bit, depth + 1);
          !status.ok())
        return status;
    }
    if (!move_bottom(host, s, bit))
      return {Code::no_space, "the new top of a level segment is full before its split has ended"};
    host.fence();
    // Whoever sees a turned entry waits until all are durable.
    for (std::uint64_t const top : s.tops) lock_of(segment(top)).lock(host);
    turn(host, s);
    for (std::uint64_t const top : s.tops) lock_of(segment(top)).unlock(host);
    growths_.fetch_add(1, std::memory_order_relaxed);
    epochs_.retire([this, place = place_of(s)] { blocks_.give(Offset{place}); });
    return {};
  }
  /// Copies what the bottom holds to the new top segments. Ordered by who fences next.
  template <class Host>
  bool move_bottom(Host& host, Segment& s, std::uint64_t bit) {
    for (WordBucket& from : s.buckets) {
      for (std::uint64_t& slot : from.slots) {
        std::uint64_t const word = host.load(&slot);
        if (word == 0) continue;
        std::uint64_t const hash = words_.hash(host, word);
        Segment& half = segment(host.load(&s.tops[(hash & bit) != 0]));
        Buckets const its = buckets(host, half, hash);
        WordBucket *a = its[2], *b = its[3];
        if (WordSlots::count(host, b) < WordSlots::count(host, a)) std::swap(a, b);
        if (!WordSlots::put(host, a, word)) return false;
      }
    }
    return true;
  }
  template <class Host>
  void turn(Host& host, Segment& s) {
    auto const depth = static_cast<std::uint32_t>(host.load(&s.depth));
    std::uint64_t const bit = std::uint64_t{1} << (63 - depth), start = host.load(&s.start);
    directory_.turn(host, start | bit, depth + 1, host.load(&s.tops[1]));
    directory_.turn(host, start, depth + 1, host.load(&s.tops[0]));
  }

  BaselinePool* pool_;
  WordSlots words_;
  pm::Blocks blocks_;
  Root* root_;
  std::uint32_t opening_ = 0;
  std::atomic<std::uint64_t> growths_{0};
  exec::Epochs epochs_;
  SegmentDirectory directory_;
};

}  // namespace perdure::cpu_baselines
