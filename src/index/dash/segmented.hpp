// What Dash's two tables have alike: operations go to the segment that has their hash, make room
// where it is full, and walk and sweep one segment after the other; a segment is made sound when it
// is first needed (soundness.hpp), and the close stores the sums of those that were changed.
// Invariants:
//
//  * Whoever changes a segment touches it before it does (touched.hpp). So every segment has its
//  sum
//    after an orderly close, if all had one before.
//  * A sweep ends when nothing that was unlinked before it came by waits for readers: no block is
//    free twice.
//
// `Table`, which derives from it, knows which segment has a hash, and how there come to be more:
//
//   until_settled(host, hash, operation)  operation(segment, right) until it answers anything but
//                                         Answer::retry
//   holder(host, hash)           address of the segment that has the hash, sound; kDamaged:
//                                why_damaged()
//   holds(host, place, hash)     whether it is still that one
//   beyond(host, position)       where to go on after damage there
//   make_room(host, hash, s)     where `s` was found to be full; not ok: there is no memory
//   mark(host, place)            what of the core's blocks the segment has, for the sweep
//   claim(host), begin(host)     at open: what the root names is in use; the volatile directory,
//                                empty
//   epochs_                      its last member: what it frees may be any of Table's, or is here
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/mutex.hpp"
#include "exec/epochs.hpp"
#include "index/dash/segment_locks.hpp"
#include "index/dash/segment_sums.hpp"
#include "index/dash/soundness.hpp"
#include "index/dash/table_core.hpp"

namespace perdure::dash {

template <class Table, class Keys, class K>
class Segmented {
 public:
  using Core = TableCore<Keys, K>;
  using Ops = typename Core::Ops;
  using Key = typename Keys::Key;
  using Write = typename Ops::Write;

  Segmented(Segmented const&) = delete;
  Segmented& operator=(Segmented const&) = delete;

  /// `sound`: segments are only looked at before they are used, for the pool was closed in order.
  /// `summed`: that close left all their sums.
  template <class Host>
  Status open(Host& host, Offset index, bool sound, bool summed = false) {
    PERDURE_ASSERT(core_.root == nullptr && index.bytes % core_.pool->superblock_bytes() == 0);
    core_.set_root(index);
    host.read(core_.root, sizeof *core_.root);
    core_.version = host.load(&core_.root->version);
    if (Status s = self().claim(host); !s.ok()) return s;
    core_.blocks.find_superblocks_later();
    soundness_.begin(host, sound, summed);
    self().begin(host);
    return {};
  }

  // --- Single operations; the caller holds an EpochGuard of epochs().
  // ------------------------------------------

  template <class Host>
  Answer find(Host& host, Key const& key, Slot& found) {
    return self().until_settled(host, key.hash, [&](Segment s, auto right) {
      return core_.ops.find(host, s, key, right, found);
    });
  }

  /// Answer::full: there is no memory; why_full() says more.
  template <class Host>
  Answer write(Host& host, Key const& key, Slot const& slot, Write how,
               std::optional<Slot>& before) {
    for (;;) {
      Segment tried;
      Answer const answer =
          self().until_settled(host, key.hash, [&](Segment s, auto right) PERDURE_HOT_LAMBDA {
            tried = s;
            if (!mutated("dash_write_not_touched")) core_.touch(s);
            return core_.ops.write(host, s, key, slot, how, right, before);
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
      core_.touch(s);
      return core_.ops.modify(host, s, key, right, change, before);
    });
  }

  /// Brings near what an operation on this hash will read, after prefetch_entry(): its buckets.
  template <class Host>
  void prefetch(Host& host, std::uint64_t hash) {
    std::uint64_t const address = self().holder(host, hash);
    if (address != kDamaged) core_.ops.prefetch(host, core_.segment_at(address), hash);
  }
  /// Address of the segment that has this hash now, or kDamaged.
  template <class Host>
  std::uint64_t segment_of(Host& host, std::uint64_t hash) {
    return self().holder(host, hash);
  }
  /// The same for a search, whose steps segment_search.hpp tells. Answers its segment, for the
  /// next steps: all of them guesses, for it may be another one by then.
  template <class Host>
  std::uint64_t prefetch_metadata(Host& host, std::uint64_t hash) {
    std::uint64_t const address = segment_of(host, hash);
    if (address != kDamaged) core_.ops.prefetch_metadata(host, core_.segment_at(address), hash);
    return address;
  }
  template <class Host>
  void prefetch_candidates(Host& host, std::uint64_t address, std::uint64_t hash) {
    if (address != kDamaged) core_.ops.prefetch_candidates(host, core_.segment_at(address), hash);
  }
  /// f(slot) for what the key of this hash may have in that segment, of buckets that are near.
  template <class Host, class F>
  void guess(Host& host, std::uint64_t address, std::uint64_t hash, F f) {
    if (address != kDamaged) core_.ops.guess(host, core_.segment_at(address), hash, f);
  }

  // --- Walking
  // -----------------------------------------------------------------------------------------------

  /// f(slot) for each record of the segment that has `position`, while nobody can change it;
  /// answers where the next segment begins, 0 after the last; none: why_damaged(). Segments come in
  /// the order of hashes. A read-only pool, which nobody changes, is not locked.
  template <class Host, class F>
  std::optional<std::uint64_t> walk(Host& host, std::uint64_t position, F f) {
    for (;; host.pause()) {
      std::uint64_t const address = self().holder(host, position);
      if (address == kDamaged) return std::nullopt;
      Segment const s = core_.segment_at(address);
      LockedSegment const locked(host, core_.ops, s, !core_.pool->read_only());
      if (self().holds(host, address, position)) {
        std::uint64_t const next = core_.end_at(host, address);
        core_.ops.for_each(host, s, f);
        return next;
      }
    }
  }

  /// Tells the allocator which blocks segments have, so that the others are free again; f(slot) for
  /// each record. Asks go_on() after each segment: false ends it early, as damage does, and nothing
  /// is free. What was unlinked before it was reached has been released when this returns.
  template <class Host, class F, class GoOn>
  bool sweep(Host& host, F f, GoOn go_on) {
    core_.blocks.begin_sweep();
    std::uint64_t position = 0;
    do {
      {
        exec::EpochGuard const guard(epochs());
        std::uint64_t const address = self().holder(host, position);
        auto const next = walk(host, position, f);
        if (!next) return false;
        self().mark(host, address);
        position = *next;
      }
      if (!go_on()) return false;
    } while (position != 0);
    if (!mutated("dash_sweep_without_wait")) epochs().synchronize();
    core_.blocks.finish_sweep();
    return true;
  }
  template <class Host, class F>
  void sweep(Host& host, F f) {
    sweep(host, f, [] { return true; });
  }

  // --- Repair, and an orderly close
  // -----------------------------------------------------------------------------------------------

  [[nodiscard]] std::vector<std::string> mended() { return soundness_.mended(); }

  /// Nobody changes anything: every segment has its sum now, if it answers true; false: some are
  /// damaged, and had none. Takes time for those that were touched since the opening, and for all
  /// of a table whose sums were not known.
  template <class Host>
  bool store_sums(Host& host) {
    PERDURE_ASSERT(!core_.pool->read_only());
    for (std::uint64_t const address : core_.touched.take_gone())
      host.store(&core_.segment_at(address).header->sum, 0);
    bool all = true;
    for (std::uint64_t position = 0, more = !soundness_.summed(); more != 0; more = position) {
      exec::EpochGuard const guard(epochs());
      std::uint64_t const address = self().holder(host, position);
      all &= address != kDamaged;
      if (address != kDamaged) core_.touch(core_.segment_at(address));
      position = address == kDamaged ? self().beyond(host, position) : core_.end_at(host, address);
    }
    core_.touched.take_each([&](std::uint64_t address) {
      exec::EpochGuard const guard(epochs());
      Segment const s = core_.segment_at(address);
      bool const there = self().holds(
          host, address, host.load(&s.header->start));  // else it was merged into another
      if (!there) return;
      host.store(&s.header->sum, sum_of(core_.ops, host, s));
      host.flush(&s.header->sum, sizeof s.header->sum);
    });
    host.fence();
    soundness_.note_summed(all);
    return all;
  }

  [[nodiscard]] exec::Epochs& epochs() { return self().epochs_; }
  [[nodiscard]] Ops const& ops() const { return core_.ops; }
  [[nodiscard]] IndexRoot* root() const { return core_.root; }
  [[nodiscard]] Status why_full() {
    MutexLock const lock(why_mutex_);
    return why_full_;
  }
  [[nodiscard]] Status why_damaged() { return core_.damage.why(); }
  [[nodiscard]] std::uint64_t splits() const { return core_.splits.load(); }

 protected:
  Segmented(pm::Pool& pool, Mutex& memory, Ops ops, std::uint64_t block_bytes)
      : core_(pool, memory, ops, block_bytes) {}
  ~Segmented() = default;

  Core core_;
  Soundness<Keys, K> soundness_{core_};

 private:
  [[nodiscard]] Table& self() { return static_cast<Table&>(*this); }

  Mutex why_mutex_;
  Status why_full_ PERDURE_GUARDED_BY(why_mutex_);
};

}  // namespace perdure::dash
