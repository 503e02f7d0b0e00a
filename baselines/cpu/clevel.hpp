// Clevel (Chen et al., ATC'20), rebuilt from its description: levels of buckets of eight 8-byte
// slots, each level twice as large as the one below; two hashes. Searches take no lock and go from
// the lowest level to the highest, the way records move. A level that finds no room gets another on
// top, and the lowest level's records move up, one by one, beside all other operations. Simplified:
// Clevel's writers are free of locks and settle double inserts afterwards; here writers of one key
// are kept apart by a stripe of volatile locks, and the thread that found no room moves the
// records, in place of one in the background. Invariants:
//
//  * Two levels take records; a third, below them, only while it is being emptied, and nobody
//    inserts there: whoever adds a level passes through all locks before it moves anything.
//  * A record is durable on a higher level before it is cleared on the lowest. A crash between the
//    two leaves one word twice: the search finds either, a write sees to both.
//  * `context` names the levels there are. A search that finds nothing while it changed looks
//    again.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>

#include "exec/epochs.hpp"
#include "locks.hpp"
#include "why_full.hpp"
#include "word_slots.hpp"

namespace perdure::cpu_baselines {

class Clevel : public KnowsWhyFull {
 public:
  static constexpr bool kValuesInRecords = true;

  Clevel(BaselinePool& pool, Options const&) : pool_(&pool), words_(pool), root_(root_of(pool)) {}

  template <class Host>
  Status create(Host& host, Options const& options) {
    std::uint64_t log2 = 1;
    while ((std::uint64_t{3 * kWordSlots} << log2) / 2 < options.initial_slots) ++log2;
    host.store(&root_->log2_first, log2_first_ = log2 - 1);
    for (std::uint64_t level : {0, 1}) {
      if (Status s = make_level(host, level); !s.ok()) return s;
    }
    host.store(&root_->context, context_of(0, 1));
    host.persist(root_, sizeof *root_);
    return {};
  }
  template <class Host>
  Status open(Host& host) {
    log2_first_ = host.load(&root_->log2_first);
    std::uint64_t const context = host.load(&root_->context);
    for (std::uint64_t level = lowest(context); level <= highest(context); ++level)
      pool_->claim_run(Offset{host.load(&root_->levels[level])}, bytes_of(level));
    words_.sweep([&](auto mark) { for_each_word(host, context, mark); });
    return {};
  }

  template <class Host>
  Outcome find(Host& host, Key key, std::span<std::byte> value) {
    std::uint64_t const hash = hash_bytes(key.data(), key.size());
    for (;;) {
      std::uint64_t const context = host.load(&root_->context);
      for (std::uint64_t level = lowest(context); level <= highest(context); ++level) {
        for (WordBucket* const bucket : buckets(host, level, hash)) {
          auto const ref = words_.find(host, bucket, key, hash);
          if (!ref) continue;
          words_.value(host, ref->word, value);
          return Outcome::done;
        }
      }
      if (host.load(&root_->context) == context) return Outcome::absent;
    }
  }

  template <class Host>
  Outcome insert(Host& host, KeyLog& log, Key key, Value value) {
    std::uint64_t const hash = hash_bytes(key.data(), key.size());
    std::uint64_t word = 0;
    for (;;) {
      std::uint64_t context = 0;
      {
        HeldStripe const held(host, stripe(hash));
        context = host.load(&root_->context);
        if (for_each_match(host, context, key, hash, [](WordRef) { return false; })) {
          words_.retire(epochs_, word);
          return Outcome::exists;
        }
        if (word == 0) {
          auto made = words_.make(host, log, key, value, hash);
          if (!made) return fail(made.status());
          word = *made;
        }
        if (place(host, context, hash, word)) return Outcome::done;
      }
      if (Status s = grow(host, context); !s.ok()) {
        words_.retire(epochs_, word);
        return fail(s);
      }
    }
  }

  template <class Host>
  Outcome update(Host& host, KeyLog& log, Key key, Value value) {
    std::uint64_t const hash = hash_bytes(key.data(), key.size());
    HeldStripe const held(host, stripe(hash));
    std::uint64_t word = 0, before = 0;
    bool failed = false;
    bool const found =
        for_each_match(host, host.load(&root_->context), key, hash, [&](WordRef ref) {
          if (word == 0) {
            auto made = words_.make(host, log, key, value, hash);
            failed = !made;
            if (failed) return static_cast<void>(fail(made.status())), false;
            word = *made;
          }
          if (ref.word == word) return true;  // where both buckets are one
          before = ref.word;
          WordSlots::store(host, ref.slot, word);
          return true;
        });
    words_.retire(epochs_, before);
    if (failed) return Outcome::full;
    return found ? Outcome::done : Outcome::absent;
  }

  template <class Host>
  Outcome erase(Host& host, Key key) {
    std::uint64_t const hash = hash_bytes(key.data(), key.size());
    HeldStripe const held(host, stripe(hash));
    std::uint64_t before = 0;
    bool const found =
        for_each_match(host, host.load(&root_->context), key, hash, [&](WordRef ref) {
          before = ref.word;
          WordSlots::store(host, ref.slot, 0);
          return true;
        });
    words_.retire(epochs_, before);
    return found ? Outcome::done : Outcome::absent;
  }

  template <class Host>
  TableStats stats(Host& host, bool count) {
    TableStats stats;
    stats.growths = growths_.load(std::memory_order_relaxed);
    std::uint64_t const context = host.load(&root_->context);
    for (std::uint64_t level = lowest(context); level <= highest(context); ++level)
      stats.slots += std::uint64_t{kWordSlots} << log2_of(level);
    if (count) for_each_word(host, context, [&](std::uint64_t) { ++stats.records; });
    return stats;
  }
  [[nodiscard]] exec::Epochs& epochs() { return epochs_; }

 private:
  static constexpr std::uint64_t kMostLevels = 40;
  static constexpr std::size_t kStripes = 4096;
  struct Root {  // bytes
    std::uint64_t context;  //   0  lowest level << 8 | highest
    std::uint64_t log2_first;  //   8  buckets of level 0
    std::uint64_t levels[kMostLevels];  //  16  places
  };

  template <class Host>
  class HeldStripe {
   public:
    HeldStripe(Host& host, LockWord lock) : host_(host), lock_(lock) { lock_.lock(host_); }
    HeldStripe(HeldStripe const&) = delete;
    HeldStripe& operator=(HeldStripe const&) = delete;
    ~HeldStripe() { lock_.unlock(host_); }

   private:
    Host& host_;
    LockWord lock_;
  };

  static Root* root_of(BaselinePool& pool) {
    return reinterpret_cast<Root*>(pool.words(pool.index().bytes));
  }
  static std::uint64_t context_of(std::uint64_t lowest, std::uint64_t highest) {
    return lowest << 8 | highest;
  }
  static std::uint64_t lowest(std::uint64_t context) { return context >> 8; }
  static std::uint64_t highest(std::uint64_t context) { return context & 255; }
  [[nodiscard]] std::uint64_t log2_of(std::uint64_t level) const { return log2_first_ + level; }
  [[nodiscard]] std::uint64_t bytes_of(std::uint64_t level) const {
    return sizeof(WordBucket) << log2_of(level);
  }
  [[nodiscard]] LockWord stripe(std::uint64_t hash) {
    return {&stripes_[(hash >> 16) % kStripes], 0};
  }
  template <class Host>
  WordBucket* level_at(Host& host, std::uint64_t level) const {
    return reinterpret_cast<WordBucket*>(pool_->words(host.load(&root_->levels[level])));
  }
  template <class Host, class F>
  void for_each_word(Host& host, std::uint64_t context, F f) {
    for (std::uint64_t level = lowest(context); level <= highest(context); ++level) {
      WordBucket* const first = level_at(host, level);
      for (std::uint64_t i = 0; i < std::uint64_t{1} << log2_of(level); ++i)
        WordSlots::for_each(host, first + i, f);
    }
  }
  /// Both of a hash's, announced.
  template <class Host>
  std::array<WordBucket*, 2> buckets(Host& host, std::uint64_t level, std::uint64_t hash) const {
    WordBucket* const first = level_at(host, level);
    std::uint64_t const shift = 64 - log2_of(level);
    std::array<WordBucket*, 2> const both{first + (shift == 64 ? 0 : hash >> shift),
                                          first + (shift == 64 ? 0 : nth_hash(hash, 1) >> shift)};
    for (WordBucket* const bucket : both) WordSlots::announce(host, bucket);
    return both;
  }
  /// Whether there was one.
  template <class Host, class F>
  bool for_each_match(Host& host, std::uint64_t context, Key key, std::uint64_t hash, F f) {
    bool any = false;
    for (std::uint64_t level = lowest(context); level <= highest(context); ++level) {
      for (WordBucket* const bucket : buckets(host, level, hash)) {
        bool const on = words_.for_each_match(host, bucket, key, hash, [&](WordRef ref) {
          any = true;
          return f(ref);
        });
        if (!on) return any;
      }
    }
    return any;
  }
  /// Into the less loaded bucket of the lowest level that takes records, else of the one above it.
  template <class Host>
  bool place(Host& host, std::uint64_t context, std::uint64_t hash, std::uint64_t word) {
    for (std::uint64_t level = highest(context) - 1; level <= highest(context); ++level) {
      auto [a, b] = buckets(host, level, hash);
      if (WordSlots::count(host, b) < WordSlots::count(host, a)) std::swap(a, b);
      if (WordSlots::put(host, a, word) || WordSlots::put(host, b, word)) return true;
    }
    return false;
  }

  template <class Host>
  Status make_level(Host& host, std::uint64_t level) {
    if (level >= kMostLevels)
      return {Code::no_space, "clevel has as many levels as its root has room for"};
    auto run = pool_->take_run(bytes_of(level));
    if (!run) return run.status();
    std::uint64_t* const words = pool_->words(run->bytes);
    for (std::uint64_t i = 0; i < bytes_of(level) / 8; ++i) host.store(words + i, 0);
    host.persist(words, bytes_of(level));
    host.store(&root_->levels[level], run->bytes);
    host.persist(&root_->levels[level], sizeof(std::uint64_t));
    return {};
  }

  /// Adds a level and empties the lowest, unless another has since `seen`.
  template <class Host>
  Status grow(Host& host, std::uint64_t seen) {
    std::lock_guard const lock(grow_mutex_);
    for (std::uint64_t context; (context = host.load(&root_->context)) == seen ||
                                lowest(context) + 1 < highest(context);) {
      if (context == seen) {
        if (Status s = make_level(host, highest(context) + 1); !s.ok()) return s;
        context = context_of(lowest(context), highest(context) + 1);
        publish(host, context);
        growths_.fetch_add(1, std::memory_order_relaxed);
        for (std::size_t i = 0; i < kStripes; ++i) HeldStripe(host, LockWord(&stripes_[i], 0));
      }
      bool const emptied = empty_lowest(host, context);
      if (emptied) drop_lowest(host, context);
      seen = emptied ? seen : context;  // no room above: another level
    }
    return {};
  }
  template <class Host>
  void publish(Host& host, std::uint64_t context) {
    host.store(&root_->context, context);
    host.persist(&root_->context, sizeof context);
  }
  template <class Host>
  bool empty_lowest(Host& host, std::uint64_t context) {
    std::uint64_t const level = lowest(context);
    WordBucket* const first = level_at(host, level);
    for (std::uint64_t i = 0; i < std::uint64_t{1} << log2_of(level); ++i) {
      for (std::uint64_t& slot : first[i].slots) {
        while (std::uint64_t const word = host.load(&slot)) {
          std::uint64_t const hash = words_.hash(host, word);
          HeldStripe const held(host, stripe(hash));
          if (host.load(&slot) != word) continue;
          if (!stands_above(host, context, hash, word) && !place(host, context, hash, word))
            return false;
          WordSlots::store(host, &slot, 0);
        }
      }
    }
    return true;
  }
  /// A crash may have left it in both.
  template <class Host>
  bool stands_above(Host& host, std::uint64_t context, std::uint64_t hash, std::uint64_t word) {
    for (std::uint64_t level = lowest(context) + 1; level <= highest(context); ++level) {
      for (WordBucket* const bucket : buckets(host, level, hash)) {
        for (std::uint64_t const& slot : bucket->slots) {
          if (host.load(&slot) == word) return true;
        }
      }
    }
    return false;
  }
  template <class Host>
  void drop_lowest(Host& host, std::uint64_t context) {
    std::uint64_t const level = lowest(context), place = host.load(&root_->levels[level]),
                        bytes = bytes_of(level);
    publish(host, context_of(level + 1, highest(context)));
    epochs_.retire([pool = pool_, place, bytes] { pool->give_run(Offset{place}, bytes); });
  }

  BaselinePool* pool_;
  WordSlots words_;
  Root* root_;
  std::uint64_t log2_first_ = 0;
  std::array<std::uint64_t, kStripes> stripes_{};
  std::mutex grow_mutex_;
  std::atomic<std::uint64_t> growths_{0};
  exec::Epochs epochs_;  // last: what it frees is above
};

}  // namespace perdure::cpu_baselines
