// Level hashing (Zuo et al., OSDI'18; Dash's paper, section 6.1), rebuilt from its description: a
// top level and a bottom level of half as many buckets of 128 bytes; two hashes; a record that
// finds no room lets one other move to its other bucket of the same level; then the whole table is
// resized: the bottom level's records go to a new top level, and the old top level is the bottom.
// Invariants:
//
//  * A crash inside a move leaves a record in two of its buckets, both whole (level_slots.hpp): the
//    first in the order of a search counts, an update or an erasure clears the other.
//  * Whoever looks at a bucket holds its stripe (level_stripes.hpp), which is that of the bottom
//    bucket of a hash, shared or alone; a resize holds all of them.
//  * A resize is committed by one word that names the description that counts, durable before
//    others get in.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "exec/epochs.hpp"
#include "keys.hpp"
#include "level_slots.hpp"
#include "level_stripes.hpp"
#include "why_full.hpp"

namespace perdure::cpu_baselines {

template <class Keys>
class Level : public KnowsWhyFull {
 public:
  Level(BaselinePool& pool, Options const&) : pool_(&pool), slots_(pool), root_(root_of(pool)) {}

  template <class Host>
  Status create(Host& host, Options const& options) {
    std::uint32_t log2_top = 1;
    while ((std::uint64_t{3 * LevelBucket::kSlots} << log2_top) / 2 < options.initial_slots)
      ++log2_top;
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
    stripes_.make(static_cast<std::uint32_t>(host.load(&root_->log2_stripes)));
    return {};
  }

  template <class Host>
  Status open(Host& host) {
    shape_ = load(host, host.load(&root_->current));
    pool_->claim_run(Offset{shape_.top}, bytes_of(shape_.log2_top));
    pool_->claim_run(Offset{shape_.bottom}, bytes_of(shape_.log2_top - 1));
    stripes_.make(static_cast<std::uint32_t>(host.load(&root_->log2_stripes)));
    return {};
  }

  template <class Host>
  Outcome find(Host& host, Key bytes, std::uint64_t& value) {
    auto const key = slots_.keys.target(bytes);
    auto const held = stripes_.of(key.hash);
    stripes_.lock_shared(host, held);
    LevelSlot ref;
    bool const found = slots_.look_up(host, candidates(key.hash), key, ref);
    if (found) value = host.load(&ref.record().value);
    stripes_.unlock_shared(host, held);
    return found ? Outcome::done : Outcome::absent;
  }

  template <class Host>
  Outcome insert(Host& host, KeyLog& log, Key bytes, std::uint64_t value) {
    auto const key = slots_.keys.target(bytes);
    auto const held = stripes_.of(key.hash);
    for (;;) {
      stripes_.lock(host, held);
      LevelCandidates const buckets = candidates(key.hash);
      LevelSlot ref;
      if (slots_.look_up(host, buckets, key, ref))
        return stripes_.unlocked(host, held, Outcome::exists);
      if (slots_.find_room(host, buckets, ref) || make_room(host, buckets, held, ref)) {
        auto word = slots_.keys.make(host, log, bytes);
        if (!word) return stripes_.unlocked(host, held, fail(word.status()));
        slots_.fill(host, ref, {*word, value});
        return stripes_.unlocked(host, held, Outcome::done);
      }
      std::uint32_t const full = shape_.log2_top;
      stripes_.unlock(host, held);
      if (Status s = resize(host, full); !s.ok()) return fail(s);
    }
  }

  template <class Host>
  Outcome update(Host& host, KeyLog&, Key bytes, std::uint64_t value) {
    auto const key = slots_.keys.target(bytes);
    auto const held = stripes_.of(key.hash);
    stripes_.lock(host, held);
    LevelSlot ref;
    LevelCandidates const buckets = candidates(key.hash);
    if (!slots_.look_up(host, buckets, key, ref))
      return stripes_.unlocked(host, held, Outcome::absent);
    slots_.clear_matches(host, buckets, key, &ref);
    host.store(&ref.record().value, value);
    host.persist(&ref.record().value, sizeof value);
    return stripes_.unlocked(host, held, Outcome::done);
  }

  template <class Host>
  Outcome erase(Host& host, Key bytes) {
    auto const key = slots_.keys.target(bytes);
    auto const held = stripes_.of(key.hash);
    stripes_.lock(host, held);
    bool const found = slots_.clear_matches(host, candidates(key.hash), key, nullptr);
    return stripes_.unlocked(host, held, found ? Outcome::done : Outcome::absent);
  }

  template <class Host>
  TableStats stats(Host& host, bool count) {
    TableStats stats;
    for (std::uint32_t const log2 : {shape_.log2_top, shape_.log2_top - 1}) {
      std::uint64_t const place = log2 == shape_.log2_top ? shape_.top : shape_.bottom;
      stats.slots += std::uint64_t{LevelBucket::kSlots} << log2;
      for (std::uint64_t i = 0; count && i < std::uint64_t{1} << log2; ++i)
        stats.records +=
            static_cast<std::uint64_t>(std::popcount(host.load(&bucket(place, i)->tokens)));
    }
    return stats;
  }

  [[nodiscard]] exec::Epochs& epochs() { return epochs_; }

 private:
  static constexpr std::uint32_t kMostStripes = 12;  // a power of two of them

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
  static Root* root_of(BaselinePool& pool) {
    return reinterpret_cast<Root*>(pool.words(pool.index().bytes));
  }
  static std::uint64_t bytes_of(std::uint32_t log2) { return sizeof(LevelBucket) << log2; }
  [[nodiscard]] LevelBucket* bucket(std::uint64_t place, std::uint64_t i) const {
    return reinterpret_cast<LevelBucket*>(pool_->words(place)) + i;
  }
  [[nodiscard]] LevelCandidates candidates(std::uint64_t hash) const {
    std::uint64_t const other = second_hash(hash);
    std::uint32_t const bits = shape_.log2_top;
    return {bucket(shape_.top, top_bits(hash, bits)), bucket(shape_.top, top_bits(other, bits)),
            bucket(shape_.bottom, top_bits(hash, bits - 1)),
            bucket(shape_.bottom, top_bits(other, bits - 1))};
  }

  /// Moves one record of a full bucket to its other bucket of the level.
  template <class Host>
  bool make_room(Host& host, LevelCandidates const& buckets, LevelStripes::Pair const& held,
                 LevelSlot& room) {
    for (LevelBucket* const b : buckets) {
      for (std::uint32_t i = 0; i < LevelBucket::kSlots; ++i) {
        if (move_away(host, buckets, held, {b, i})) {
          room = {b, i};
          return true;
        }
      }
    }
    return false;
  }
  template <class Host>
  bool move_away(Host& host, LevelCandidates const& buckets, LevelStripes::Pair const& held,
                 LevelSlot from) {
    Slot const record{host.load(&from.record().key), host.load(&from.record().value)};
    std::uint64_t const hash = slots_.keys.hash_of(host, record.key);
    LevelCandidates const its = candidates(hash);
    std::size_t const level = from.bucket == buckets[0] || from.bucket == buckets[1] ? 0 : 2;
    LevelBucket* const to = its[level] == from.bucket ? its[level + 1] : its[level];
    if (to == from.bucket) return false;
    auto const both = stripes_.of(hash);
    std::uint64_t const mine =
        stripes_.number(its[level] == from.bucket ? hash : second_hash(hash));
    std::uint64_t const other = both.first == mine ? both.second : both.first;
    bool const have = other == held.first || other == held.second;
    if (!have && !stripes_.stripe(other).try_lock(host)) return false;
    host.read(to, sizeof *to);
    LevelSlot room;
    bool const moved = slots_.free_slot(host, to, room);
    if (moved) {
      slots_.fill(host, room, record);
      slots_.clear_token(host, from);
    }
    if (!have) stripes_.stripe(other).unlock(host);
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
    stripes_.lock_all(host);
    Status const status = shape_.log2_top == full ? resize_locked(host) : Status{};
    stripes_.unlock_all(host);
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
  bool rehash(Host& host, LevelBucket* from, std::uint64_t top, std::uint32_t log2_top) {
    host.read(from, sizeof *from);
    for (std::uint64_t left = host.load(&from->tokens); left != 0; left &= left - 1) {
      auto const i = static_cast<std::uint32_t>(std::countr_zero(left));
      Slot const record{host.load(&from->slots[i].key), host.load(&from->slots[i].value)};
      std::uint64_t const hash = slots_.keys.hash_of(host, record.key);
      LevelBucket* to = bucket(top, top_bits(hash, log2_top));
      LevelBucket* const other = bucket(top, top_bits(second_hash(hash), log2_top));
      if (std::popcount(host.load(&other->tokens)) < std::popcount(host.load(&to->tokens)))
        to = other;
      LevelSlot room;
      if (!slots_.free_slot(host, to, room)) return false;
      host.store(&room.record().key, record.key);
      host.store(&room.record().value, record.value);
      host.flush(&room.record(), sizeof(Slot));
      host.store(&to->tokens, host.load(&to->tokens) | std::uint64_t{1} << room.slot);
      host.flush(&to->tokens, sizeof to->tokens);
    }
    return true;
  }

  BaselinePool* pool_;
  LevelSlots<Keys> slots_;
  Root* root_;
  Shape shape_{};  // guarded by the stripes
  LevelStripes stripes_;
  exec::Epochs epochs_;
};

}  // namespace perdure::cpu_baselines
