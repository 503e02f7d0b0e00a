// What Dash's two tables have alike: operations go to the segment that has their hash, make room
// where it is full, and walk and sweep one segment after the other; opening makes each segment
// sound when it is first wanted. Invariants:
//
//  * An opening has a version of its own, durable before any segment has it. A segment has it once
//    it is sound, and what made it so is ordered before that.
//  * Whoever changes a segment marks it as touched before it does. An orderly close stores the sums
//    of those, so that every segment has its sum if all had one before, and the next opening
//    compares it when it enters the segment.
//  * A sweep ends when nothing that was unlinked before it came by waits for readers: no block is
//    free twice.
//
// `Table`, which derives from it, knows which segment has a hash, and how there come to be more:
//
//   until_settled(host, hash, operation)  operation(segment, right) until it answers anything but
//                                         Answer::retry
//   holder(host, hash)           place of the segment that has the hash, sound; kDamaged:
//                                why_damaged()
//   holds(host, place, hash)     whether it is still that one
//   make_room(host, hash, s)     where `s` was found to be full; not ok: there is no memory
//   mark(host, place)            what of blocks_ the segment has, for the sweep
//   unsound(host, s)             more than what is looked at here, if need be
//   claim(host), begin(host)     at open: what the root names is in use; the volatile directory,
//                                empty
//   epochs_                      its last member: what it frees may be any of Table's, or is here
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/mutex.hpp"
#include "base/zero_words.hpp"
#include "exec/epochs.hpp"
#include "exec/reader_writer_lock.hpp"
#include "index/dash/whole_segment.hpp"
#include "pm/blocks.hpp"
#include "pm/pool.hpp"

namespace perdure::dash {

template <class Table, class Keys, class K>
class Segmented {
 public:
  using Ops = WholeSegmentOps<Keys, K>;
  using Key = typename Keys::Key;
  using Write = typename Ops::Write;

  Segmented(Segmented const&) = delete;
  Segmented& operator=(Segmented const&) = delete;

  /// `sound`: segments are only looked at before they are used, for the pool was closed in order.
  /// `summed`: that close left all their sums.
  template <class Host>
  Status open(Host& host, Offset index, bool sound, bool summed = false) {
    PERDURE_ASSERT(root_ == nullptr && index.bytes % pool_->superblock_bytes() == 0);
    set_root(index);
    host.read(root_, sizeof *root_);
    version_ = host.load(&root_->version);
    if (Status s = self().claim(host); !s.ok()) return s;
    blocks_.find_superblocks_later();
    sound_ = sound || mutated("dash_recovery_skipped");
    summed_ = sound && summed;
    if (!pool_->read_only()) {
      version_ = next_version(version_);
      host.store(&root_->version, version_);
      host.persist(&root_->version, sizeof root_->version);
    }
    self().begin(host);
    return {};
  }

  // --- Single operations; the caller holds an EpochGuard of epochs().
  // ------------------------------------------

  template <class Host>
  Answer find(Host& host, Key const& key, Slot& found) {
    return self().until_settled(host, key.hash, [&](Segment s, auto right) {
      return ops_.find(host, s, key, right, found);
    });
  }

  /// Answer::full: there is no memory; why_full() says more.
  template <class Host>
  Answer write(Host& host, Key const& key, Slot const& slot, Write how,
               std::optional<Slot>& before) {
    for (;;) {
      Segment tried;
      Answer const answer = self().until_settled(host, key.hash, [&](Segment s, auto right) {
        tried = s;
        if (!mutated("dash_write_not_touched")) touch(s);
        return ops_.write(host, s, key, slot, how, right, before);
      });
      if (answer != Answer::full) return answer;
      if (Status s = self().make_room(host, key.hash, tried); !s.ok()) {
        MutexLock const lock(why_mutex_);
        why_full_ = s;
        return Answer::full;
      }
    }
  }

  template <class Host, class Change>
  Answer modify(Host& host, Key const& key, Change change, Slot& before) {
    return self().until_settled(host, key.hash, [&](Segment s, auto right) {
      touch(s);
      return ops_.modify(host, s, key, right, change, before);
    });
  }

  /// Brings near what an operation on this hash will read, after prefetch_entry(): its buckets.
  template <class Host>
  void prefetch(Host& host, std::uint64_t hash) {
    std::uint64_t const place = self().holder(host, hash);
    if (place != kDamaged) ops_.prefetch(host, segment_at(place), hash);
  }
  /// f(slot) for what the key of this hash may have, of buckets that are near: a guess.
  template <class Host, class F>
  void guess(Host& host, std::uint64_t hash, F f) {
    std::uint64_t const place = self().holder(host, hash);
    if (place != kDamaged) ops_.guess(host, segment_at(place), hash, f);
  }

  // --- Walking
  // -----------------------------------------------------------------------------------------------

  /// f(slot) for each record of the segment that has `position`, while nobody can change it;
  /// answers where the next segment begins, 0 after the last; none: why_damaged(). Segments come in
  /// the order of hashes. A read-only pool, which nobody changes, is not locked.
  template <class Host, class F>
  std::optional<std::uint64_t> walk(Host& host, std::uint64_t position, F f) {
    for (;; host.pause()) {
      std::uint64_t const place = self().holder(host, position);
      if (place == kDamaged) return std::nullopt;
      Segment const s = segment_at(place);
      Locked<Host> const locked(host, ops_, s, !pool_->read_only());
      if (self().holds(host, place, position)) {
        std::uint64_t const next = end_at(host, place);
        ops_.for_each(host, s, f);
        return next;
      }
    }
  }

  /// Tells the allocator which blocks segments have, so that the others are free again; f(slot) for
  /// each record. Asks go_on() after each segment: false ends it early, as damage does, and nothing
  /// is free. What was unlinked before it was reached has been let go of when this returns.
  template <class Host, class F, class GoOn>
  bool sweep(Host& host, F f, GoOn go_on) {
    blocks_.begin_sweep();
    std::uint64_t position = 0;
    do {
      {
        exec::EpochGuard const guard(epochs());
        std::uint64_t const place = self().holder(host, position);
        auto const next = walk(host, position, f);
        if (!next) return false;
        self().mark(host, place);
        position = *next;
      }
      if (!go_on()) return false;
    } while (position != 0);
    if (!mutated("dash_sweep_without_wait")) epochs().synchronize();
    blocks_.finish_sweep();
    return true;
  }
  template <class Host, class F>
  void sweep(Host& host, F f) {
    sweep(host, f, [] { return true; });
  }

  // --- Repair
  // -----------------------------------------------------------------------------------------------

  /// From here on a segment that is entered, and whose contents are damaged, is mended. Nobody else
  /// is here.
  template <class Host>
  void begin_mending(Host& host) {
    PERDURE_ASSERT(!pool_->read_only() && !mends_);
    mends_ = true;
    self().mend_directory(host);
  }
  /// What was mended, a line each.
  [[nodiscard]] std::vector<std::string> mended() {
    MutexLock const lock(why_mutex_);
    return mended_;
  }

  // --- An orderly close
  // -----------------------------------------------------------------------------------------

  /// Nobody changes anything: every segment has its sum now, if it answers true; false: some are
  /// damaged, and had none. Takes time for those that were touched since the opening, and for all
  /// of a table whose sums were not known.
  template <class Host>
  bool store_sums(Host& host) {
    PERDURE_ASSERT(!pool_->read_only());
    for (std::uint64_t const place : std::exchange(gone_, {}))
      host.store(&segment_at(place).header->sum, 0);
    bool all = true;
    for (std::uint64_t position = 0, more = !summed_; more != 0; more = position) {
      exec::EpochGuard const guard(epochs());
      std::uint64_t const place = self().holder(host, position);
      all &= place != kDamaged;
      if (place != kDamaged) touch(segment_at(place));
      position = place == kDamaged ? self().beyond(host, position) : end_at(host, place);
    }
    // One by one: where memory lacks in between, the rest is for the next close.
    for (; !touched_places_.empty(); touched_places_.pop_back()) {
      exec::EpochGuard const guard(epochs());
      std::uint64_t const place = touched_places_.back();
      Segment const s = segment_at(place);
      bool const there = self().holds(
          host, place, host.load(&s.header->start));  // else it was merged into another
      if (there) {
        host.store(&s.header->sum, ops_.sum(host, s));
        host.flush(&s.header->sum, sizeof s.header->sum);
      }
      if (!mutated("dash_touched_kept"))
        touched_[number(place) / 64] &= ~(std::uint64_t{1} << number(place) % 64);
    }
    host.fence();
    summed_ |= all;
    return all;
  }

  [[nodiscard]] exec::Epochs& epochs() { return self().epochs_; }
  [[nodiscard]] Ops const& ops() const { return ops_; }
  [[nodiscard]] IndexRoot* root() const { return root_; }
  [[nodiscard]] Status why_full() {
    MutexLock const lock(why_mutex_);
    return why_full_;
  }
  [[nodiscard]] Status why_damaged() { return damage_.why(); }
  [[nodiscard]] std::uint64_t splits() const { return splits_.load(); }

 protected:
  /// `memory` guards pool and blocks, which have `block_bytes`.
  Segmented(pm::Pool& pool, Mutex& memory, Ops ops, std::uint64_t block_bytes)
      : pool_(&pool),
        base_(pool.base()),
        memory_(&memory),
        ops_(ops),
        blocks_(pool, memory, block_bytes),
        touched_(pool.addresses().size() / ops.shape().bytes() / 64 + 1) {}
  ~Segmented() = default;

  /// All of a segment that its holder is about to change. An exception lets go of it where begins()
  /// has not been called; else its locks stay, for it is half changed, and who waits for them is
  /// told so (the host's give_up()).
  template <class Host>
  class Changing {
   public:
    Changing(Host& host, Ops const& ops, Segment s) : host_(host), ops_(ops), s_(s) {
      ops_.lock_all(host_, s_);
    }
    Changing(Changing const&) = delete;
    Changing& operator=(Changing const&) = delete;
    ~Changing() {
      bool const thrown = std::uncaught_exceptions() > before_;
      if (!begun_ || !thrown)
        ops_.unlock_all(host_, s_);
      else if constexpr (requires { host_.give_up(); })
        host_.give_up();
    }
    void begins() { begun_ = true; }

   private:
    Host& host_;
    Ops const& ops_;
    Segment s_;
    int before_ = std::uncaught_exceptions();
    bool begun_ = false;
  };

  [[nodiscard]] Segment segment_at(std::uint64_t place) const { return Segment::at(base_ + place); }
  [[nodiscard]] std::uint64_t place_of(Segment s) const {
    return static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(s.header) - base_);
  }
  template <class Host>
  [[nodiscard]] std::uint64_t end_at(Host& host, std::uint64_t place) const {
    SegmentHeader const* const header = segment_at(place).header;
    return end_of(host.load(&header->start), Extent{host.load(&header->extent)}.depth());
  }
  /// Its sum will be stored by the close. Volatile, one bit for every place that a segment can
  /// have.
  PERDURE_HOT void touch(Segment s) {
    PERDURE_ASSERT(!kCostlyAssertions || place_of(s) > 0);  // there the pool has its head
    std::uint64_t const at = number(place_of(s)), bit = std::uint64_t{1} << at % 64;
    if ((__atomic_load_n(&touched_[at / 64], __ATOMIC_RELAXED) & bit) == 0) [[unlikely]]
      note_touched(place_of(s));
  }
  void note_touched(std::uint64_t place) {
    std::uint64_t const bit = std::uint64_t{1} << number(place) % 64;
    MutexLock const lock(why_mutex_);
    if ((__atomic_load_n(&touched_[number(place) / 64], __ATOMIC_RELAXED) & bit) != 0) return;
    touched_places_.push_back(place);  // first: where there is no memory for it, the bit is not set
    __atomic_fetch_or(&touched_[number(place) / 64], bit, __ATOMIC_RELAXED);
  }
  /// Nobody is to take it for a segment again, should a damaged word lead there.
  void gone(Segment s) {
    MutexLock const lock(why_mutex_);
    gone_.push_back(place_of(s));
  }
  void note_mended(std::string what) {
    MutexLock const lock(why_mutex_);
    mended_.push_back(std::move(what));
  }
  static bool covers(Extent extent, std::uint64_t start, std::uint64_t hash) {
    return ((hash ^ start) >> (64 - extent.depth())) == 0;
  }

  void set_root(Offset index) {
    PERDURE_ASSERT(index.bytes > 0 && index.bytes + sizeof(IndexRoot) <= pool_->bytes());
    root_ = reinterpret_cast<IndexRoot*>(base_ + index.bytes);
  }
  /// Of an index that is new: the words that openings change, in one line.
  template <class Host>
  void store_root(Host& host, std::uint64_t first, std::uint64_t directory) {
    PERDURE_ASSERT(first != 0 && version_ != 0);
    host.store(&root_->version, version_);
    host.store(&root_->first, first);
    host.store(&root_->counted, 0);
    host.store(&root_->directory, directory);
    host.persist(&root_->directory, 32);
  }

  /// Makes a segment what an orderly close leaves, once an opening. Answers why that cannot be;
  /// empty: it is.
  template <class Host>
  std::string make_sound(Host& host, Segment s) {
    if (pool_->read_only()) return self().unsound(host, s);
    if (host.load(&s.header->version) == version_) return {};
    exec::ExclusiveHold const held(host,
                                   recoveries_[place_of(s) / ops_.shape().bytes() % kRecoveries]);
    if (host.load(&s.header->version) == version_) return {};
    std::string const fault = self().unsound(host, s);
    if (!fault.empty() && (!mends_ || !self().mendable(host, s))) return fault;
    PERDURE_ASSERT(fault.empty() || mends_);
    if (!fault.empty()) mend(host, s, fault);
    if (!sound_) {
      touch(s);
      recover(host, s);
    }
    host.fence();
    host.store(&s.header->version, version_);
    host.persist(&s.header->version, sizeof s.header->version);
    return {};
  }
  /// What neither crashes nor an orderly close leave of a segment that nobody has entered yet.
  /// Empty: nothing. After a crash its buckets do not say which slots count, until it is recovered.
  template <class Host>
  std::string unsound(Host& host, Segment s) {
    bool const recovers = !sound_ && !pool_->read_only();
    if (recovers) return {};
    std::string fault = ops_.unsound(host, s);
    if (!fault.empty() || !summed_) return fault;
    if (std::uint64_t const sum = host.load(&s.header->sum), is = ops_.sum(host, s); sum != is)
      return told("its sum is ", is, ", and the last close stored ", sum);
    return {};
  }
  /// Whether its slots may be trusted as far as after a crash.
  template <class Host>
  bool mendable(Host&, Segment) {
    return true;
  }

  pm::Pool* pool_;
  std::byte* base_;  // its
  Mutex* memory_;
  Ops ops_;
  pm::Blocks blocks_;  // Extendible's segments, Linear's chained buckets
  IndexRoot* root_ = nullptr;
  std::uint64_t version_ = 0;
  std::atomic<std::uint64_t> splits_{0};
  Damage damage_;

 private:
  static constexpr std::size_t kRecoveries = 1024;  // that may go on at once

  /// All of a segment that is only looked at: let go of by an exception, too.
  template <class Host>
  class Locked {
   public:
    Locked(Host& host, Ops const& ops, Segment s, bool locks)
        : host_(host), ops_(ops), s_(s), locks_(locks) {
      if (locks_) ops_.lock_all(host_, s_);
    }
    Locked(Locked const&) = delete;
    Locked& operator=(Locked const&) = delete;
    ~Locked() {
      if (locks_) ops_.unlock_all(host_, s_);
    }

   private:
    Host& host_;
    Ops const& ops_;
    Segment s_;
    bool locks_;
  };

  [[nodiscard]] Table& self() { return static_cast<Table&>(*this); }

  template <class Host>
  void recover(Host& host, Segment s) {
    Extent const extent{host.load(&s.header->extent)};
    std::uint64_t const start = host.load(&s.header->start);
    ops_.recover(host, s, [&](std::uint64_t hash) {
      return mutated("dash_recovery_keeps_leftovers") || covers(extent, start, hash);
    });
  }

  [[nodiscard]] std::uint64_t number(std::uint64_t place) const {
    return place / ops_.shape().bytes();
  }
  /// Of a damaged segment: the one bit that its sum tells of; else what its slots say, as after a
  /// crash.
  template <class Host>
  void mend(Host& host, Segment s, std::string const& fault) {
    touch(s);
    std::string const what = told("segment at byte ", place_of(s), ": ", fault);
    if (summed_ && ops_.mend_bit(host, s))
      return note_mended(what + ": put right, nothing is lost");
    SegmentContents const before = ops_.contents(host, s);
    recover(host, s);
    SegmentContents const after = ops_.contents(host, s);
    note_mended(what + ": made anew from its slots; keys and values in slots may have changed");
    for (std::uint32_t b = 0; b < before.size(); ++b) {
      for (std::uint32_t i = 0; i < kSlots; ++i) {
        bool const was = (before[b].used >> i & 1) != 0, is = (after[b].used >> i & 1) != 0;
        std::uint64_t const hash = was ? before[b].hashes[i] : after[b].hashes[i];
        if (was != is)
          note_mended(told("slot ", i, " of bucket ", b, " of the segment at byte ", place_of(s),
                           ", of hash ", hash, was ? ": dropped" : ": counts again"));
      }
    }
  }

  bool sound_ = true;  // what was there at open
  bool summed_ = false;  // every segment has its sum, but for those that were touched
  bool mends_ = false;
  ZeroWords touched_;
  Mutex why_mutex_;
  Status why_full_ PERDURE_GUARDED_BY(why_mutex_);
  std::vector<std::string> mended_ PERDURE_GUARDED_BY(why_mutex_);
  std::vector<std::uint64_t>
      touched_places_;  // of segments whose bit is set; guarded by why_mutex_
  std::vector<std::uint64_t> gone_;  // places of segments that were merged; guarded by why_mutex_
  /// Elsewhere, so that what searches read, here and of Table, lies together.
  std::vector<exec::ReaderWriterLock> recoveries_{kRecoveries};
};

}  // namespace perdure::dash
