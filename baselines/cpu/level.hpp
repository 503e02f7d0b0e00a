// Level hashing (Zuo et al., OSDI'18; Dash's paper, section 6.1), rebuilt from its description: a
// top level and a bottom level of half as many buckets of 128 bytes; two hashes; a record that
// finds no room lets one other move to its other bucket of the same level; then the whole table is
// resized: the bottom level's records go to a new top level, and the old top level is the bottom.
// Invariants:
//
//  * Bit i of a bucket's token says that slot i counts. A slot is durable before its bit, and its
//    bit is cleared
//  durably
//    before it is used again. So a crash inside a move leaves a record in two of its buckets, both
//    whole: the first in the order of a search counts, an update or an erasure clears the other.
//  * Locks are stripes of one small volatile array, by the bottom bucket of each hash: whoever
//    looks at a bucket holds its stripe, shared or alone; a resize holds all of them.
//  * A resize is committed by one word that names the description that counts, durable before
//    others get in.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "exec/epochs.hpp"
#include "keys.hpp"
#include "locks.hpp"
#include "pm/flush.hpp"
#include "why_full.hpp"

namespace perdure::cpu_baselines {

template <class Keys>
class Level : public KnowsWhyFull {
 public:
  static constexpr std::uint32_t kSlots = 7;

  Level(BaselinePool& pool, Options const&) : pool_(&pool), keys_(pool), root_(root_of(pool)) {}

  template <class Host>
  Status create(Host& host, Options const& options) {
    std::uint32_t log2_top = 1;
    while ((std::uint64_t{3 * kSlots} << log2_top) / 2 < options.initial_slots) ++log2_top;
    Shape made{0, 0, log2_top};
    for (auto const& [place, log2] :
         {std::pair{&made.top, log2_top}, std::pair{&made.bottom, log2_top - 1}}) {
      auto run = pool_->take_run(bytes_of(log2));
      if (!run) return run.status();
      *place = run->bytes;
      clear(host, *place, log2);
    }
    host.store(&root_->log2_stripes, std::min<std::uint64_t>(kMostStripes, log2_top - 1));
    host.persist(&root_->log2_stripes, sizeof root_->log2_stripes);
    publish(host, made);
    make_stripes(host);
    return {};
  }

  template <class Host>
  Status open(Host& host) {
    shape_ = load(host, host.load(&root_->current));
    pool_->claim_run(Offset{shape_.top}, bytes_of(shape_.log2_top));
    pool_->claim_run(Offset{shape_.bottom}, bytes_of(shape_.log2_top - 1));
    make_stripes(host);
    return {};
  }

  template <class Host>
  Outcome find(Host& host, Key bytes, std::uint64_t& value) {
    auto const key = keys_.wanted(bytes);
    Stripes const held = stripes(key.hash);
    lock_shared(host, held);
    SlotRef ref;
    bool const found = look_up(host, candidates(key.hash), key, ref);
    if (found) value = host.load(&slot(ref).value);
    unlock_shared(host, held);
    return found ? Outcome::done : Outcome::absent;
  }

  template <class Host>
  Outcome insert(Host& host, KeyLog& log, Key bytes, std::uint64_t value) {
    auto const key = keys_.wanted(bytes);
    Stripes const held = stripes(key.hash);
    for (;;) {
      lock(host, held);
      Candidates const buckets = candidates(key.hash);
      SlotRef ref;
      if (look_up(host, buckets, key, ref)) return unlocked(host, held, Outcome::exists);
      if (find_room(host, buckets, ref) || make_room(host, buckets, held, ref)) {
        auto word = keys_.make(host, log, bytes);
        if (!word) return unlocked(host, held, fail(word.status()));
        fill(host, ref, {*word, value});
        return unlocked(host, held, Outcome::done);
      }
      std::uint32_t const full = shape_.log2_top;
      unlock(host, held);
      if (Status s = resize(host, full); !s.ok()) return fail(s);
    }
  }

  template <class Host>
  Outcome update(Host& host, KeyLog&, Key bytes, std::uint64_t value) {
    auto const key = keys_.wanted(bytes);
    Stripes const held = stripes(key.hash);
    lock(host, held);
    SlotRef ref;
    Candidates const buckets = candidates(key.hash);
    if (!look_up(host, buckets, key, ref)) return unlocked(host, held, Outcome::absent);
    clear_matches(host, buckets, key, &ref);
    host.store(&slot(ref).value, value);
    host.persist(&slot(ref).value, sizeof value);
    return unlocked(host, held, Outcome::done);
  }

  template <class Host>
  Outcome erase(Host& host, Key bytes) {
    auto const key = keys_.wanted(bytes);
    Stripes const held = stripes(key.hash);
    lock(host, held);
    bool const found = clear_matches(host, candidates(key.hash), key, nullptr);
    return unlocked(host, held, found ? Outcome::done : Outcome::absent);
  }

  template <class Host>
  TableStats stats(Host& host, bool count) {
    TableStats stats;
    for (std::uint32_t const log2 : {shape_.log2_top, shape_.log2_top - 1}) {
      std::uint64_t const place = log2 == shape_.log2_top ? shape_.top : shape_.bottom;
      stats.slots += std::uint64_t{kSlots} << log2;
      for (std::uint64_t i = 0; count && i < std::uint64_t{1} << log2; ++i)
        stats.records +=
            static_cast<std::uint64_t>(std::popcount(host.load(&bucket(place, i)->tokens)));
    }
    return stats;
  }

  [[nodiscard]] exec::Epochs& epochs() { return epochs_; }

 private:
  static constexpr std::uint32_t kMostStripes = 12;  // a power of two of them
  static constexpr std::uint64_t kFull = (1u << kSlots) - 1;

  struct Bucket {  // bytes
    std::uint64_t tokens;  //   0
    std::uint64_t reserved;  //   8
    Slot slots[kSlots];  //  16
  };
  static_assert(sizeof(Bucket) == 128);
  struct Shape {  // bytes
    std::uint64_t top;  //   0  places
    std::uint64_t bottom;  //   8
    std::uint32_t log2_top;  //  16  buckets
    std::uint32_t reserved = 0;
  };
  struct Root {  // bytes
    std::uint64_t current;  //   0  which of the two counts
    std::uint64_t log2_stripes;  //   8
    std::uint64_t shapes[2][4];  //  16  top, bottom, log2_top, zero
  };
  using Candidates = std::array<Bucket*, 4>;  // top by each hash, bottom by each hash
  struct SlotRef {
    Bucket* bucket = nullptr;
    std::uint32_t slot = 0;
  };
  struct Stripes {
    std::uint64_t first = 0, second = 0;  // in the order of locking; may be the same
  };

  static Root* root_of(BaselinePool& pool) {
    return reinterpret_cast<Root*>(pool.words(pool.index().bytes));
  }
  static std::uint64_t bytes_of(std::uint32_t log2) { return sizeof(Bucket) << log2; }
  static std::uint64_t top_bits(std::uint64_t hash, std::uint64_t bits) {
    return bits == 0 ? 0 : hash >> (64 - bits);
  }
  static std::uint64_t second_hash(std::uint64_t hash) { return nth_hash(hash, 1); }
  static Slot& slot(SlotRef ref) { return ref.bucket->slots[ref.slot]; }
  [[nodiscard]] Bucket* bucket(std::uint64_t place, std::uint64_t i) const {
    return reinterpret_cast<Bucket*>(pool_->words(place)) + i;
  }
  [[nodiscard]] Candidates candidates(std::uint64_t hash) const {
    std::uint64_t const other = second_hash(hash);
    std::uint32_t const bits = shape_.log2_top;
    return {bucket(shape_.top, top_bits(hash, bits)), bucket(shape_.top, top_bits(other, bits)),
            bucket(shape_.bottom, top_bits(hash, bits - 1)),
            bucket(shape_.bottom, top_bits(other, bits - 1))};
  }

  // --- Locks
  // -----------------------------------------------------------------------------------------------

  template <class Host>
  void make_stripes(Host& host) {
    log2_stripes_ = static_cast<std::uint32_t>(host.load(&root_->log2_stripes));
    stripes_ = std::make_unique<std::uint64_t[]>(std::size_t{1} << log2_stripes_);
  }
  [[nodiscard]] LockWord stripe(std::uint64_t i) const { return {&stripes_[i], 0}; }
  [[nodiscard]] Stripes stripes(std::uint64_t hash) const {
    std::uint64_t const a = top_bits(hash, log2_stripes_),
                        b = top_bits(second_hash(hash), log2_stripes_);
    return {std::min(a, b), std::max(a, b)};
  }
  template <class Host>
  void lock(Host& host, Stripes const& s) {
    stripe(s.first).lock(host);
    if (s.second != s.first) stripe(s.second).lock(host);
  }
  template <class Host>
  void unlock(Host& host, Stripes const& s) {
    stripe(s.first).unlock(host);
    if (s.second != s.first) stripe(s.second).unlock(host);
  }
  template <class Host>
  Outcome unlocked(Host& host, Stripes const& s, Outcome outcome) {
    unlock(host, s);
    return outcome;
  }
  template <class Host>
  void lock_shared(Host& host, Stripes const& s) {
    stripe(s.first).lock_shared(host);
    if (s.second != s.first) stripe(s.second).lock_shared(host);
  }
  template <class Host>
  void unlock_shared(Host& host, Stripes const& s) {
    stripe(s.first).unlock_shared(host);
    if (s.second != s.first) stripe(s.second).unlock_shared(host);
  }

  // --- Buckets, under their stripes
  // -------------------------------------------------------------------------------

  /// Where all four are follows from the hashes alone, so processors that run ahead of comparisons
  /// that fail ask for all of their lines at once.
  template <class Host>
  static void announce(Host& host, Candidates const& buckets) {
    for (Bucket* const b : buckets) {
      host.prefetch(b);
      host.prefetch(reinterpret_cast<std::byte*>(b) + pm::kCacheLine);
    }
  }
  /// Bit i: slot i has this key in it, whether it counts or not. Processors guess well that words
  /// differ, and cannot guess which slots count, so that is asked afterwards.
  template <class Host>
  std::uint64_t holding(Host& host, Bucket* b, typename Keys::Wanted const& key) {
    std::uint64_t found = 0;
    for (std::uint32_t i = 0; i < kSlots; ++i)
      found |= std::uint64_t{keys_.equal(host, host.load(&b->slots[i].key), key)} << i;
    return found;
  }
  template <class Host, class F>
  void for_each_match(Host& host, Bucket* b, typename Keys::Wanted const& key, F f) {
    host.read(b, sizeof *b);
    std::uint64_t left = host.load(&b->tokens);
    if constexpr (Keys::kInline) left &= holding(host, b, key);
    for (; left != 0; left &= left - 1) {
      auto const i = static_cast<std::uint32_t>(std::countr_zero(left));
      if (keys_.equal(host, host.load(&b->slots[i].key), key) && !f(SlotRef{b, i})) return;
    }
  }
  template <class Host>
  bool look_up(Host& host, Candidates const& buckets, typename Keys::Wanted const& key,
               SlotRef& found) {
    announce(host, buckets);
    for (Bucket* const b : buckets) {
      bool here = false;
      for_each_match(host, b, key, [&](SlotRef ref) {
        found = ref;
        here = true;
        return false;
      });
      if (here) return true;
    }
    return false;
  }
  template <class Host>
  bool clear_matches(Host& host, Candidates const& buckets, typename Keys::Wanted const& key,
                     SlotRef const* but) {
    bool any = false;
    announce(host, buckets);
    for (Bucket* const b : buckets) {
      for_each_match(host, b, key, [&](SlotRef ref) {
        if (but == nullptr || ref.bucket != but->bucket || ref.slot != but->slot)
          clear_token(host, ref);
        return any = true;
      });
    }
    return any;
  }
  /// In the less loaded bucket of the top level, else of the bottom level.
  template <class Host>
  bool find_room(Host& host, Candidates const& buckets, SlotRef& room) {
    for (std::size_t const level : {0, 2}) {
      Bucket *a = buckets[level], *b = buckets[level + 1];
      if (std::popcount(host.load(&b->tokens)) < std::popcount(host.load(&a->tokens))) a = b;
      if (free_slot(host, a, room)) return true;
    }
    return false;
  }
  template <class Host>
  static bool free_slot(Host& host, Bucket* b, SlotRef& room) {
    auto const i = static_cast<std::uint32_t>(std::countr_one(host.load(&b->tokens)));
    if (i >= kSlots) return false;
    room = {b, i};
    return true;
  }
  template <class Host>
  static void fill(Host& host, SlotRef ref, Slot value) {
    host.store(&slot(ref).key, value.key);
    host.store(&slot(ref).value, value.value);
    host.persist(&slot(ref), sizeof(Slot));
    host.store(&ref.bucket->tokens, host.load(&ref.bucket->tokens) | std::uint64_t{1} << ref.slot);
    host.persist(&ref.bucket->tokens, sizeof ref.bucket->tokens);
  }
  template <class Host>
  static void clear_token(Host& host, SlotRef ref) {
    host.store(&ref.bucket->tokens,
               host.load(&ref.bucket->tokens) & ~(std::uint64_t{1} << ref.slot));
    host.persist(&ref.bucket->tokens, sizeof ref.bucket->tokens);
  }

  /// Moves one record of a full bucket to its other bucket of the level.
  template <class Host>
  bool make_room(Host& host, Candidates const& buckets, Stripes const& held, SlotRef& room) {
    for (Bucket* const b : buckets) {
      for (std::uint32_t i = 0; i < kSlots; ++i) {
        if (move_away(host, buckets, held, {b, i})) {
          room = {b, i};
          return true;
        }
      }
    }
    return false;
  }
  template <class Host>
  bool move_away(Host& host, Candidates const& buckets, Stripes const& held, SlotRef from) {
    Slot const record{host.load(&slot(from).key), host.load(&slot(from).value)};
    std::uint64_t const hash = keys_.hash_of(host, record.key);
    Candidates const its = candidates(hash);
    std::size_t const level = from.bucket == buckets[0] || from.bucket == buckets[1] ? 0 : 2;
    Bucket* const to = its[level] == from.bucket ? its[level + 1] : its[level];
    if (to == from.bucket) return false;
    Stripes const both = stripes(hash);
    std::uint64_t const mine =
        top_bits(its[level] == from.bucket ? hash : second_hash(hash), log2_stripes_);
    std::uint64_t const other = both.first == mine ? both.second : both.first;
    bool const have = other == held.first || other == held.second;
    if (!have && !stripe(other).try_lock(host)) return false;
    host.read(to, sizeof *to);
    SlotRef room;
    bool const moved = free_slot(host, to, room);
    if (moved) {
      fill(host, room, record);
      clear_token(host, from);
    }
    if (!have) stripe(other).unlock(host);
    return moved;
  }

  // --- The table
  // -----------------------------------------------------------------------------------------------

  template <class Host>
  void clear(Host& host, std::uint64_t place, std::uint32_t log2) {
    for (std::uint64_t i = 0; i < std::uint64_t{1} << log2; ++i) {
      host.store(&bucket(place, i)->tokens, 0);
      host.flush(&bucket(place, i)->tokens, 8);
    }
    host.fence();
  }
  template <class Host>
  Shape load(Host& host, std::uint64_t which) {
    std::uint64_t const* const words = root_->shapes[which & 1];
    return {host.load(words), host.load(words + 1),
            static_cast<std::uint32_t>(host.load(words + 2))};
  }
  template <class Host>
  void publish(Host& host, Shape const& made) {
    std::uint64_t const which = (host.load(&root_->current) & 1) ^ 1;
    std::uint64_t* const words = root_->shapes[which];
    host.store(words, made.top);
    host.store(words + 1, made.bottom);
    host.store(words + 2, made.log2_top);
    host.persist(words, 24);
    host.store(&root_->current, which);
    host.persist(&root_->current, sizeof which);
    shape_ = made;
  }

  /// Unless another has resized it since it was found full.
  template <class Host>
  Status resize(Host& host, std::uint32_t full) {
    std::uint64_t const n = std::uint64_t{1} << log2_stripes_;
    for (std::uint64_t i = 0; i < n; ++i) stripe(i).lock(host);
    Status const status = shape_.log2_top == full ? resize_locked(host) : Status{};
    for (std::uint64_t i = 0; i < n; ++i) stripe(i).unlock(host);
    return status;
  }
  template <class Host>
  Status resize_locked(Host& host) {
    Shape const old = shape_;
    std::uint32_t const log2_top = old.log2_top + 1, log2_bottom = old.log2_top - 1;
    auto run = pool_->take_run(bytes_of(log2_top));
    if (!run) return run.status();
    clear(host, run->bytes, log2_top);
    bool room = true;
    for (std::uint64_t i = 0; room && i < std::uint64_t{1} << log2_bottom; ++i)
      room = rehash(host, bucket(old.bottom, i), run->bytes, log2_top);
    if (!room) {
      pool_->give_run(*run, bytes_of(log2_top));
      return {Code::no_space,
              "a bucket of level hashing's new top level is full before the table is resized"};
    }
    host.fence();
    publish(host, {run->bytes, old.top, log2_top});
    pool_->give_run(Offset{old.bottom}, bytes_of(log2_bottom));
    return {};
  }
  /// Copies a bucket's records to the new top level; ordered by who fences next.
  template <class Host>
  bool rehash(Host& host, Bucket* from, std::uint64_t top, std::uint32_t log2_top) {
    host.read(from, sizeof *from);
    for (std::uint64_t left = host.load(&from->tokens); left != 0; left &= left - 1) {
      auto const i = static_cast<std::uint32_t>(std::countr_zero(left));
      Slot const record{host.load(&from->slots[i].key), host.load(&from->slots[i].value)};
      std::uint64_t const hash = keys_.hash_of(host, record.key);
      Bucket* to = bucket(top, top_bits(hash, log2_top));
      Bucket* const other = bucket(top, top_bits(second_hash(hash), log2_top));
      if (std::popcount(host.load(&other->tokens)) < std::popcount(host.load(&to->tokens)))
        to = other;
      SlotRef room;
      if (!free_slot(host, to, room)) return false;
      host.store(&slot(room).key, record.key);
      host.store(&slot(room).value, record.value);
      host.flush(&slot(room), sizeof(Slot));
      host.store(&to->tokens, host.load(&to->tokens) | std::uint64_t{1} << room.slot);
      host.flush(&to->tokens, sizeof to->tokens);
    }
    return true;
  }

  BaselinePool* pool_;
  Keys keys_;
  Root* root_;
  Shape shape_{};  // guarded by the stripes
  std::uint32_t log2_stripes_ = 0;
  std::unique_ptr<std::uint64_t[]> stripes_;
  exec::Epochs epochs_;
};

}  // namespace perdure::cpu_baselines
