// Segments are made what an orderly close leaves before anybody uses them, once an opening: after a
// crash they are recovered; else they are only looked at, and damaged ones mended, if that was
// asked for. Invariants:
//
//  * An opening has a version of its own, durable before any segment has it. A segment has it once
//    it is sound, and what made it so is ordered before that.
//  * A damaged segment that is not mended is left as it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "base/mutex.hpp"
#include "exec/reader_writer_lock.hpp"
#include "index/dash/damage.hpp"
#include "index/dash/segment_sums.hpp"
#include "index/dash/table_core.hpp"

namespace perdure::dash {

/// Of a segment that has no chain.
struct NoChain {
  std::string operator()() const { return {}; }
};

template <class Keys, class K>
class Soundness {
 public:
  explicit Soundness(TableCore<Keys, K>& core) : core_(core) {}

  /// See Segmented::open().
  template <class Host>
  void begin(Host& host, bool sound, bool summed) {
    sound_ = sound || mutated("dash_recovery_skipped");
    summed_ = sound && summed;
    if (core_.pool->read_only()) return;
    core_.version = next_version(core_.version);
    host.store(&core_.root->version, core_.version);
    host.persist(&core_.root->version, sizeof core_.root->version);
  }

  /// Makes a segment sound. Answers why that cannot be; empty: it is. Where a segment has to be
  /// looked at, `fault_of_chain()` says first whether its chain is whole: else there is no mending.
  template <class Host, class ChainFault = NoChain>
  std::string make(Host& host, Segment s, ChainFault fault_of_chain = {}) {
    auto const fault_of = [&] {
      std::string fault = fault_of_chain();
      bool const mendable = fault.empty();
      if (mendable) fault = unsound(host, s);
      return std::pair(std::move(fault), mendable);
    };
    if (core_.pool->read_only()) return fault_of().first;
    if (host.load(&s.header->version) == core_.version) return {};
    exec::ExclusiveHold const held(
        host, recoveries_[core_.address_of(s) / core_.ops.shape().bytes() % kRecoveries]);
    if (host.load(&s.header->version) == core_.version) return {};
    auto const [fault, mendable] = fault_of();
    if (!fault.empty() && (!mends_ || !mendable)) return fault;
    PERDURE_ASSERT(fault.empty() || mends_);
    if (!fault.empty()) mend(host, s, fault);
    if (!sound_) {
      core_.touch(s);
      recover(host, s);
    }
    host.fence();
    host.store(&s.header->version, core_.version);
    host.persist(&s.header->version, sizeof s.header->version);
    return {};
  }

  /// From here on a segment that is entered, and whose contents are damaged, is mended. Nobody else
  /// is here.
  void begin_mending() {
    PERDURE_ASSERT(!core_.pool->read_only() && !mends_);
    mends_ = true;
  }
  void note_mended(std::string what) {
    MutexLock const lock(mutex_);
    mended_.push_back(std::move(what));
  }
  /// What was mended, a line each.
  [[nodiscard]] std::vector<std::string> mended() {
    MutexLock const lock(mutex_);
    return mended_;
  }

  /// Whether every segment has its sum, but for those that were touched.
  [[nodiscard]] bool summed() const { return summed_; }
  void note_summed(bool all) { summed_ |= all; }

 private:
  static constexpr std::size_t kRecoveries = 1024;  // that may go on at once

  /// What neither crashes nor an orderly close leave of a segment that nobody has entered yet.
  /// Empty: nothing. After a crash its buckets do not say which slots count, until it is recovered.
  template <class Host>
  std::string unsound(Host& host, Segment s) {
    bool const recovers = !sound_ && !core_.pool->read_only();
    if (recovers) return {};
    std::string fault = fault_of_states(core_.ops, host, s);
    if (!fault.empty() || !summed_) return fault;
    if (std::uint64_t const sum = host.load(&s.header->sum), is = sum_of(core_.ops, host, s);
        sum != is)
      return told("its sum is ", is, ", and the last close stored ", sum);
    return {};
  }
  template <class Host>
  void recover(Host& host, Segment s) {
    Extent const extent{host.load(&s.header->extent)};
    std::uint64_t const start = host.load(&s.header->start);
    core_.ops.recover(host, s, [&](std::uint64_t hash) {
      return mutated("dash_recovery_keeps_leftovers") || covers(extent, start, hash);
    });
  }
  /// Of a damaged segment: the one bit that its sum tells of; else what its slots say, as after a
  /// crash.
  template <class Host>
  void mend(Host& host, Segment s, std::string const& fault) {
    core_.touch(s);
    std::string const what = told("segment at byte ", core_.address_of(s), ": ", fault);
    if (summed_ && mend_bit(core_.ops, host, s))
      return note_mended(what + ": put right, nothing is lost");
    SegmentContents const before = core_.ops.contents(host, s);
    recover(host, s);
    SegmentContents const after = core_.ops.contents(host, s);
    note_mended(what + ": made anew from its slots; keys and values in slots may have changed");
    for (std::uint32_t b = 0; b < before.size(); ++b) {
      for (std::uint32_t i = 0; i < kSlots; ++i) {
        bool const was = (before[b].used >> i & 1) != 0, is = (after[b].used >> i & 1) != 0;
        std::uint64_t const hash = was ? before[b].hashes[i] : after[b].hashes[i];
        if (was != is)
          note_mended(told("slot ", i, " of bucket ", b, " of the segment at byte ",
                           core_.address_of(s), ", of hash ", hash,
                           was ? ": dropped" : ": counts again"));
      }
    }
  }

  TableCore<Keys, K>& core_;
  bool sound_ = true;  // what was there at open
  bool summed_ = false;
  bool mends_ = false;
  Mutex mutex_;
  std::vector<std::string> mended_ PERDURE_GUARDED_BY(mutex_);
  std::vector<exec::ReaderWriterLock> recoveries_{kRecoveries};
};

}  // namespace perdure::dash
