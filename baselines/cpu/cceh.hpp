// CCEH: cacheline-conscious extendible hashing (Nam et al., FAST'19; section 2.3 of Dash's paper),
// rebuilt from its description with the locks that Dash's evaluation gave it. Segments of 16 KB
// hold 256 buckets of a line, four pairs each; a key stands in one of the four lines from its
// bucket on; a word a segment, on durable memory, is its reader-writer lock. Invariants:
//
//  * A pair counts if its key is not 0 and its hash is of its segment: a split leaves what moved in
//    the left segment, where it may be written over (lazy deletion).
//  * A pair's value is stored before its key, in one line: nobody finds half a pair, after a crash
//    either.
//  * A split fills the right segment, makes it durable, turns the directory's entries to it from
//    the last one to the first, and only then deepens the left segment. So an opening that looks at
//    every entry (as the paper's does) finds each split that a crash cut short by the last entry of
//    its range, and completes it.
//
// Key word 0 is taken, as in the paper.
#pragma once

#include <atomic>
#include <cstdint>

#include "directory.hpp"
#include "exec/epochs.hpp"
#include "keys.hpp"
#include "locks.hpp"
#include "pm/blocks.hpp"
#include "why_full.hpp"

namespace perdure::cpu_baselines {

template <class Keys>
class Cceh : public KnowsWhyFull {
 public:
  static constexpr std::uint32_t kPairs = 4, kBuckets = 256, kProbed = 4;

  Cceh(BaselinePool& pool, Options const&)
      : pool_(&pool),
        keys_(pool),
        blocks_(pool.pool, pool.memory, sizeof(Segment)),
        root_(root_of(pool)),
        directory_(pool, epochs_, &root_->directory) {}

  template <class Host>
  Status create(Host& host, Options const& options) {
    host.store(&root_->opening, opening_ = 1);
    std::uint32_t depth = 0;
    while ((std::uint64_t{kBuckets * kPairs} << (depth + 1)) <= options.initial_slots) ++depth;
    std::vector<std::uint64_t> segments(std::size_t{1} << depth);
    for (std::size_t i = 0; i < segments.size(); ++i) {
      auto block = blocks_.take();
      if (!block) return block.status();
      segments[i] = block->bytes;
      clear(host, segment(segments[i]), depth == 0 ? 0 : std::uint64_t{i} << (64 - depth), depth,
            0);
    }
    host.persist(&root_->opening, sizeof root_->opening);
    return directory_.create(host, depth, [&](std::uint64_t i) { return segments[i]; });
  }

  template <class Host>
  Status open(Host& host) {
    opening_ = static_cast<std::uint32_t>(host.load(&root_->opening) + 1);
    host.store(&root_->opening, opening_);
    host.persist(&root_->opening, sizeof root_->opening);
    directory_.open(host);
    blocks_.find_superblocks_later();
    scan_directory(host);
    return {};
  }

  template <class Host>
  Outcome find(Host& host, Key bytes, std::uint64_t& value) {
    auto const key = keys_.target(bytes);
    Segment& s = locked_shared(host, key.hash);
    Slot* const pair = look_up(host, s, key);
    if (pair != nullptr) value = host.load(&pair->value);
    lock_of(s).unlock_shared(host);
    return pair != nullptr ? Outcome::done : Outcome::absent;
  }

  template <class Host>
  Outcome insert(Host& host, KeyLog& log, Key bytes, std::uint64_t value) {
    auto const key = keys_.target(bytes);
    for (;;) {
      Segment& s = locked(host, key.hash);
      if (look_up(host, s, key) != nullptr) return unlocked(host, s, Outcome::exists);
      if (Slot* const room = find_room(host, s, key.hash)) {
        auto word = keys_.make(host, log, bytes);
        if (!word) return unlocked(host, s, fail(word.status()));
        host.store(&room->value, value);
        host.store(&room->key, *word);
        host.persist(room, sizeof *room);
        return unlocked(host, s, Outcome::done);
      }
      Status const status = split(host, s);
      lock_of(s).unlock(host);
      if (!status.ok()) return fail(status);
    }
  }

  template <class Host>
  Outcome update(Host& host, KeyLog&, Key bytes, std::uint64_t value) {
    auto const key = keys_.target(bytes);
    Segment& s = locked(host, key.hash);
    Slot* const pair = look_up(host, s, key);
    if (pair == nullptr) return unlocked(host, s, Outcome::absent);
    host.store(&pair->value, value);
    host.persist(&pair->value, sizeof pair->value);
    return unlocked(host, s, Outcome::done);
  }

  template <class Host>
  Outcome erase(Host& host, Key bytes) {
    auto const key = keys_.target(bytes);
    Segment& s = locked(host, key.hash);
    Slot* const pair = look_up(host, s, key);
    if (pair == nullptr) return unlocked(host, s, Outcome::absent);
    host.store(&pair->key, 0);
    host.persist(&pair->key, sizeof pair->key);
    return unlocked(host, s, Outcome::done);
  }

  template <class Host>
  TableStats stats(Host& host, bool count) {
    TableStats stats;
    std::uint64_t size = 0;
    std::uint64_t const* const entries = directory_.entries(size);
    std::uint64_t const global = directory_.depth(host);
    for (std::uint64_t i = 0; i < size;) {
      Segment& s = segment(host.load(entries + i));
      stats.slots += kBuckets * kPairs;
      for (std::uint32_t p = 0; count && p < kBuckets * kPairs; ++p)
        stats.records += counts(host, s, s.pairs[p]);
      i += std::uint64_t{1} << (global - host.load(&s.depth));
    }
    return stats;
  }

  [[nodiscard]] exec::Epochs& epochs() { return epochs_; }

 private:
  struct Root {  // bytes
    std::uint64_t opening;  //   0
    std::uint64_t directory;  //   8
  };
  struct Segment {  // bytes
    std::uint64_t lock;  //   0  see LockWord
    std::uint64_t depth;  //   8
    std::uint64_t start;  //  16  least hash
    std::uint64_t reserved[29];  //  24
    Slot pairs[kBuckets * kPairs];  // 256
  };
  static_assert(sizeof(Segment) == 256 + 16384);

  static Root* root_of(BaselinePool& pool) {
    return reinterpret_cast<Root*>(pool.words(pool.index().bytes));
  }
  [[nodiscard]] Segment& segment(std::uint64_t place) const {
    return *reinterpret_cast<Segment*>(pool_->words(place));
  }
  [[nodiscard]] std::uint64_t place_of(Segment& s) const {
    return static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(&s) - pool_->base());
  }
  [[nodiscard]] LockWord lock_of(Segment& s) const { return {&s.lock, opening_}; }

  template <class Host>
  static bool covers(Host& host, Segment& s, std::uint64_t hash) {
    std::uint64_t const depth = host.load(&s.depth);
    return depth == 0 || (hash ^ host.load(&s.start)) >> (64 - depth) == 0;
  }
  template <class Host>
  Segment& locked_shared(Host& host, std::uint64_t hash) {
    for (;; host.pause()) {
      Segment& s = segment(directory_.segment(host, hash));
      host.read(&s, 24);
      lock_of(s).lock_shared(host);
      if (covers(host, s, hash)) return s;
      lock_of(s).unlock_shared(host);
    }
  }
  template <class Host>
  Segment& locked(Host& host, std::uint64_t hash) {
    for (;; host.pause()) {
      Segment& s = segment(directory_.segment(host, hash));
      host.read(&s, 24);
      lock_of(s).lock(host);
      if (covers(host, s, hash)) return s;
      lock_of(s).unlock(host);
    }
  }
  template <class Host>
  Outcome unlocked(Host& host, Segment& s, Outcome outcome) {
    lock_of(s).unlock(host);
    return outcome;
  }

  /// The j-th line of a key's window.
  static Slot* line(Segment& s, std::uint64_t hash, std::uint32_t j) {
    return &s.pairs[((hash + j) % kBuckets) * kPairs];
  }
  template <class Host>
  Slot* look_up(Host& host, Segment& s, typename Keys::Target const& key) {
    // Processors run ahead of comparisons that fail, so the lines of a window arrive side by side.
    for (std::uint32_t j = 0; j < kProbed; ++j) host.prefetch(line(s, key.hash, j));
    for (std::uint32_t j = 0; j < kProbed; ++j) {
      Slot* const pairs = line(s, key.hash, j);
      host.read(pairs, kPairs * sizeof(Slot));
      for (std::uint32_t i = 0; i < kPairs; ++i) {
        std::uint64_t const word = host.load(&pairs[i].key);
        if (keys_.holds(host, word, key)) return &pairs[i];
      }
    }
    return nullptr;
  }
  template <class Host>
  bool counts(Host& host, Segment& s, Slot const& pair) {
    std::uint64_t const word = host.load(&pair.key);
    return word != 0 && covers(host, s, keys_.hash_of(host, word));
  }
  template <class Host>
  Slot* find_room(Host& host, Segment& s, std::uint64_t hash) {
    for (bool const left_over : {false, true}) {
      for (std::uint32_t j = 0; j < kProbed; ++j) {
        Slot* const pairs = line(s, hash, j);
        for (std::uint32_t i = 0; i < kPairs; ++i) {
          if (left_over ? !counts(host, s, pairs[i]) : host.load(&pairs[i].key) == 0)
            return &pairs[i];
        }
      }
    }
    return nullptr;
  }

  /// Nobody reaches it yet.
  template <class Host>
  void clear(Host& host, Segment& s, std::uint64_t start, std::uint64_t depth, std::uint64_t lock) {
    host.store(&s.lock, lock);
    host.store(&s.depth, depth);
    host.store(&s.start, start);
    for (Slot& pair : s.pairs) host.store(&pair.key, 0);
    host.persist(&s, sizeof s);
  }

  /// Of a segment that is locked.
  template <class Host>
  Status split(Host& host, Segment& s) {
    auto const depth = static_cast<std::uint32_t>(host.load(&s.depth));
    if (depth >= kMostDepth)
      return {Code::no_space, "more keys than a window has room for share the first " +
                                  std::to_string(depth) +
                                  " bits of their hash; no split would tell them apart"};
    for (std::uint32_t all; (all = directory_.depth(host)) <= depth;) {
      if (Status status = directory_.grow(host, all); !status.ok()) return status;
    }
    auto block = blocks_.take();
    if (!block) return block.status();
    Segment& right = segment(block->bytes);
    std::uint64_t const bit = std::uint64_t{1} << (63 - depth);
    std::uint64_t const start = host.load(&s.start) | bit;
    clear(host, right, start, depth + 1, lock_of(right).locked());
    for (std::uint32_t p = 0; p < kBuckets * kPairs; ++p) {
      if (!counts(host, s, s.pairs[p])) continue;
      std::uint64_t const word = host.load(&s.pairs[p].key);
      if ((keys_.hash_of(host, word) & bit) == 0) continue;
      host.store(&right.pairs[p].value, host.load(&s.pairs[p].value));
      host.store(&right.pairs[p].key, word);
    }
    host.persist(right.pairs, sizeof right.pairs);
    directory_.turn(host, start, depth + 1, block->bytes);
    host.store(&s.depth, depth + 1);
    host.persist(&s.depth, sizeof s.depth);
    lock_of(right).unlock(host);
    return {};
  }

  /// Completes splits that were cut short, and frees segments that no entry leads to; looks at
  /// every entry, and at every segment's depth.
  template <class Host>
  void scan_directory(Host& host) {
    std::uint64_t size = 0;
    std::uint64_t const* const entries = directory_.entries(size);
    std::uint32_t const global = directory_.depth(host);
    blocks_.begin_sweep();
    for (std::uint64_t i = 0; i < size;) {
      std::uint64_t const place = host.load(entries + i);
      blocks_.mark(Offset{place});
      Segment& s = segment(place);
      host.read(&s, 24);
      auto depth = static_cast<std::uint32_t>(host.load(&s.depth));
      std::uint64_t const last =
          host.load(entries + i + (std::uint64_t{1} << (global - depth)) - 1);
      if (last != place) {
        std::uint64_t const start = host.load(&segment(last).start);
        directory_.turn(host, start, depth + 1, last);
        host.store(&s.depth, ++depth);
        host.persist(&s.depth, sizeof s.depth);
      }
      i += std::uint64_t{1} << (global - depth);
    }
    blocks_.finish_sweep();
  }

  static constexpr std::uint32_t kMostDepth = 40;

  BaselinePool* pool_;
  Keys keys_;
  pm::Blocks blocks_;
  Root* root_;
  std::uint32_t opening_ = 0;
  exec::Epochs epochs_;
  SegmentDirectory directory_;
};

}  // namespace perdure::cpu_baselines
