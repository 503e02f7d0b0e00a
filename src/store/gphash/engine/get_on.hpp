// Gets on a machine: whether values are fetched as they come or put aside, and by whom. What pays
// is measured while running (gather_autotuner.hpp). Invariant: nothing here changes the table, so
// gets of several sessions run side by side.
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/crc32c.hpp"
#include "base/line_instructions.hpp"
#include "base/prefetch.hpp"
#include "store/gphash/engine/gather_autotuner.hpp"
#include "store/gphash/engine/launcher.hpp"
#include "store/gphash/kernels/cache_ops.hpp"
#include "store/gphash/kernels/get_ops.hpp"
#include "store/gphash/kernels/mirror_ops.hpp"

namespace perdure {

/// How addresses in the pool are written into 32 bits of an entry.
struct AddressesSorted {
  // of addresses in units of kRecordAlign: more than 0 for pools of more than 64 GiB
  std::uint32_t shift;
  int bits;

  static AddressesSorted in(gphash::TableView const& table) {
    auto const bits = static_cast<int>(std::bit_width(table.pool_bytes / pm::kRecordAlign));
    PERDURE_ASSERT(bits > 0 && bits < 64);
    return bits <= 32 ? AddressesSorted{0, bits}
                      : AddressesSorted{static_cast<std::uint32_t>(bits - 32), 32};
  }
};

template <class Machine, class Ops>
class GetOn {
  template <class T>
  using Buffer = typename Machine::template Buffer<T>;
  using Clock = std::chrono::steady_clock;

 public:
  GetOn(EngineState<Machine>& state, Launcher<Machine>& launcher, Lists<Machine>& lists)
      : state_(&state), launcher_(launcher), machine_(launcher.machine), lists_(lists) {}

  /// Each value to its address in the batch's output, `out`. Where that lies in host memory and the
  /// host gathers, it copies values there itself: see delivered().
  Status copy(BatchView const& batch, MutableColumn const& out) {
    begin();
    batch_ = batch;
    batch_.row_bytes = out.width;
    if (state_->table.value_bytes == 0) return copy_rows();
    bool const by_itself = out.space == MemorySpace::host && !state_->options.count_accesses &&
                           state_->table.mirror.entries == nullptr;
    to_host_ = by_itself ? out.data : nullptr;
    downloads_ = to_host_ != nullptr && Machine::must_be_downloaded(out);
    if constexpr (Ops::kMirrored && !Ops::kHashed) {  // else keys are in the records alone
      if (Ops::mirrored(state_->table)) return copy_timed();
    }
    note_uses();
    if constexpr (Ops::kCachesBuckets) {
      if (finds_first()) return find_then_gather();
    }
    return launcher_.run_gets(GetBody<Ops, GetMode::copy>{batch_, state_->table}, batch_.n);
  }

  /// Of a pool whose values have any length: where they lie, and how long they are, is in their
  /// records alone.
  Status copy_rows() {
    if constexpr (Ops::kCachesBuckets) note_uses();
    return launcher_.run_gets(GetBody<Ops, GetMode::copy>{batch_, state_->table}, batch_.n);
  }

  /// Before a batch, whatever it does.
  void begin() {
    to_host_ = nullptr;
    downloads_ = delivered_all_ = false;
    delivered_.clear();
    corrupt_.clear();
    trial_ = {};
  }
  /// Whether the caller's array has the value of each operation that found one.
  [[nodiscard]] bool delivered_all() const { return delivered_all_; }
  [[nodiscard]] bool delivered(std::size_t operation) const {
    return !delivered_.empty() && delivered_[operation] != 0;
  }
  /// Operations whose values, so delivered, do not match their checksums. `here`: the statuses are
  /// their twin's.
  Status mark_corrupt(Buffer<std::uint8_t>& statuses, bool here) {
    for (std::uint64_t const i : corrupt_) {
      if (here) {
        statuses.twin()[i] = code(KeyStatus::corrupt);
      } else if (Status s = machine_.fill(statuses.data() + i, code(KeyStatus::corrupt), 1);
                 !s.ok()) {
        return s;
      }
    }
    return {};
  }
  /// The caller's array has all values.
  void ended() {
    if (trial_.timed) tuner().noted(trial_, since(start_), aside_);
    trial_ = {};
  }

  /// First where each value lies and how long it is, then the values one behind the other.
  Result<VariableValues> variable(BatchView const& batch) {
    batch_ = batch;
    auto const lengths = locate();
    if (!lengths) return lengths.status();
    VariableValues values;
    values.offsets.resize(batch_.n + 1);
    PERDURE_ASSERT(lengths.value().size() == batch_.n);
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < batch_.n; ++i) {
      values.offsets[i] = sum;
      sum += static_cast<std::int64_t>(lengths.value()[i]);
    }
    values.offsets.back() = sum;
    values.data.resize(static_cast<std::size_t>(sum));
    if (Status s = copy_located(values); !s.ok()) return s;
    return values;
  }

  /// The gets of a mixed batch that its lanes have planned, a position each, in the order of their
  /// addresses where that pays. `room` is for as many, and may have the answer.
  Result<std::uint64_t*> sort_planned(BatchView const& batch, Deferred const& planned,
                                      std::uint64_t* room) {
    bool const sorts = Machine::kPoolIsFar && state_->options.gather != Gather::at_once &&
                       batch.n >= kPlannedSorted;
    if (!sorts) return planned.entries;
    int const bits = AddressesSorted::in(state_->table).bits;
    return machine_.sort_words(planned.entries, room, batch.n, 32, 32 + bits);
  }
  /// Their values, for these entries.
  Status gather_planned(BatchView const& batch, Deferred planned, std::uint64_t* entries) {
    planned.entries = entries;
    GatherBody<Ops> const body{batch, state_->table, planned, batch.n};
    return launcher_.template count<typename Machine::Warp>(body, items_of(batch.n));
  }
  [[nodiscard]] std::uint32_t shift() const { return AddressesSorted::in(state_->table).shift; }

 private:
  // below it sorting costs more than it saves
  static constexpr std::uint64_t kPlannedSorted = std::uint64_t{1} << 13;
  // gets for each slot of the table, of all that are counted
  static constexpr std::uint64_t kHalvedAfter = 8;

  Result<std::span<std::uint64_t const>> locate() {
    if (Status s = lists_.slots.resize(batch_.n); !s.ok()) return s;
    if (Status s = lengths_.resize(batch_.n); !s.ok()) return s;
    batch_.located = lists_.slots.data();
    batch_.lengths = lengths_.data();
    if (Status s = machine_.fill(batch_.located, 0, batch_.n); !s.ok()) return s;
    if (Status s = machine_.fill(batch_.lengths, 0, batch_.n); !s.ok()) return s;
    if constexpr (Ops::kCachesBuckets) note_uses();
    if (Status s =
            launcher_.run_gets(GetBody<Ops, GetMode::locate>{batch_, state_->table}, batch_.n);
        !s.ok())
      return s;
    return machine_.fetch(lengths_, batch_.n);
  }

  Status copy_located(VariableValues& values) {
    if (Status s = launcher_.send(out_offsets_, std::span<std::int64_t const>(values.offsets));
        !s.ok())
      return s;
    PERDURE_ASSERT(values.offsets.size() == batch_.n + 1);
    batch_.out_offsets = out_offsets_.data();
    auto room = machine_.room_for(values.data.data(), values.data.size());
    if (!room) return room.status();
    batch_.out = *room;
    if (Status s = launcher_.run_gets(CopyLocatedBody{batch_, state_->table}, batch_.n); !s.ok())
      return s;
    return machine_.download_bytes(values.data.data(), batch_.out, values.data.size());
  }

  /// Which operations of a batch are watched follows no pattern, for callers' batches may.
  void note_uses() {
    std::uint32_t const number = state_->batches.fetch_add(1, std::memory_order_relaxed);
    std::uint32_t const* const noted =
        Ops::kCachesBuckets ? state_->table.buckets.uses : state_->table.mirror.uses;
    if (noted == nullptr) return;
    batch_.watched = static_cast<std::uint32_t>(nth_hash(number, 1) >> 60);
    bool const lru = state_->options.cache_policy == CachePolicy::lru;
    batch_.uses = lru ? BatchView::Uses::stamped : BatchView::Uses::counted;
    batch_.stamp = number + 1;
  }

  /// Counts are halved now and then. The longer they stand, the better they tell keys apart that
  /// are seldom got; but also the longer do keys count that are no longer got.
  Status age_uses() {
    if (batch_.uses != BatchView::Uses::counted) return {};
    std::uint64_t const slots = state_->mirror_slots, gets = kHalvedAfter * slots;
    PERDURE_ASSERT(slots > 0);
    std::uint64_t const before = state_->gets.fetch_add(batch_.n, std::memory_order_relaxed);
    if (before / gets == (before + batch_.n) / gets) return {};
    AgeUsesBody const body{state_->table.mirror.uses, slots};
    return launcher_.template run<typename Machine::Warp>(body, items_of(slots));
  }

  /// Whether keys are found without their records, which are then read in the order of their
  /// addresses.
  [[nodiscard]] bool finds_first() const {
    gphash::TableView const& table = state_->table;
    Gather const asked = state_->options.gather;
    bool const can = table.key_bytes != 0 && table.records.split() && table.value_bytes % 4 == 0 &&
                     AddressesSorted::in(table).shift == 0;
    bool const pays = Machine::kPoolIsFar && batch_.n >= kPlannedSorted;
    return can && (asked == Gather::in_order || (asked == Gather::automatic && pays));
  }

  Status find_then_gather() {
    if (Status s = lists_.entries.resize(batch_.n); !s.ok()) return s;
    if (Status s = lists_.spare.resize(batch_.n); !s.ok()) return s;
    batch_.located = lists_.entries.data();
    if (Status s = machine_.fill(batch_.located, 0xff, batch_.n); !s.ok()) return s;
    GetBody<Ops, GetMode::find> const find{batch_, state_->table};
    if (Status s = launcher_.run_gets(find, batch_.n); !s.ok()) return s;
    int const bits = AddressesSorted::in(state_->table).bits;
    auto sorted =
        machine_.sort_words(lists_.entries.data(), lists_.spare.data(), batch_.n, 32, 32 + bits);
    if (!sorted) return sorted.status();
    GatherFoundBody const gather{batch_, state_->table, *sorted};
    return launcher_.run_gets(gather, items_of(batch_.n));
  }

  static double since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  /// What fetches fastest depends on where values go, too.
  [[nodiscard]] GatherAutotuner& tuner() const {
    return downloads_ ? state_->gather_to_host : state_->gather;
  }

  Status copy_timed() {
    auto const trial = tuner().next(state_->options.gather, batch_.n,
                                    AddressesSorted::in(state_->table).shift == 0);
    auto const start = Clock::now();
    note_uses();
    if (Status s = age_uses(); !s.ok()) return s;
    GatherAutotuner::Aside aside;
    Status const got =
        trial.way == Gather::at_once
            ? launcher_.run_gets(MirrorGetBody<Ops>{batch_, state_->table, {}}, items_of(batch_.n))
            : get_aside(trial, aside);
    if (!got.ok() || !trial.timed) return got;
    trial_ = trial;
    start_ = start;
    aside_ = aside;
    if (downloads_) return {};  // it ends when the values are there
    if (Status s = machine_.wait(); !s.ok()) return s;
    ended();
    return {};
  }

  /// Values that lie on PM are put aside first, and fetched once it is known how many there are.
  Status get_aside(GatherAutotuner::Trial const& trial, GatherAutotuner::Aside& was_aside) {
    Deferred deferred;
    if (Status s = make_room_aside(trial, deferred); !s.ok()) return s;
    if (Status s = launcher_.run_gets(MirrorGetBody<Ops>{batch_, state_->table, deferred},
                                      items_of(batch_.n));
        !s.ok())
      return s;
    auto const put = deferred.told != nullptr ? told() : counted(deferred);
    if (!put) return put.status();
    Aside const aside = put.value();
    PERDURE_ASSERT(aside.n() <= batch_.n && (aside.known == nullptr || aside.above == 0));
    bool const by_host = to_host_ != nullptr && trial.way != Gather::in_order;
    delivered_all_ =
        to_host_ != nullptr && aside.copied == 0 && aside.above == 0 && (by_host || aside.n() == 0);
    if (by_host && !delivered_all_) delivered_.assign(batch_.n, 0);
    if (aside.n() == 0) return {};
    auto const start = Clock::now();
    if (Status s = gather(trial.way, deferred, aside); !s.ok()) return s;
    was_aside = {aside.below, aside.above, 0};
    if (deferred.told == nullptr && trial.way == Gather::shared)
      tuner().parted(batch_.n, was_aside);
    if (!trial.timed) return {};
    if (Status s = machine_.wait(); !s.ok()) return s;
    was_aside.seconds = since(start);
    return {};
  }

  /// Few gets tell the host themselves what they put aside: that takes less time than to count and
  /// to copy it.
  Status make_room_aside(GatherAutotuner::Trial const& trial, Deferred& deferred) {
    bool const few = batch_.n <= GatherAutotuner::kFewAside;
    if (Status s = lists_.entries.resize(batch_.n); !s.ok()) return s;
    if (Status s = lists_.spare.resize(batch_.n); !s.ok()) return s;
    if (Status s = lists_.values.resize(batch_.n); !s.ok()) return s;
    if (Status s = few ? lists_.entries.need_twin(batch_.n) : lists_.count.resize(kCounts); !s.ok())
      return s;
    if (Status s = few ? Status{} : machine_.fill(lists_.count.data(), 0, kCounts); !s.ok())
      return s;
    deferred = {lists_.entries.data(), lists_.count.data(), lists_.values.data(),
                AddressesSorted::in(state_->table).shift};
    deferred.upper = lists_.spare.data();
    deferred.told = few ? lists_.entries.twin() : nullptr;
    if (!few && trial.way == Gather::shared) {
      auto const all =
          static_cast<double>(state_->table.pool_bytes / pm::kRecordAlign >> deferred.shift);
      deferred.pivot = static_cast<std::uint64_t>(all * tuner().pivot(batch_.n));
    }
    if (to_host_ == nullptr) return {};
    deferred.copied = few ? nullptr : lists_.count.data() + 2;
    if (!batch_.verify || trial.way == Gather::in_order) return {};
    if (Status s = sums_.resize(batch_.n); !s.ok()) return s;
    if (Status s = sums_.need_twin(batch_.n); !s.ok()) return s;
    deferred.sums = few ? sums_.twin() : sums_.data();
    return {};
  }

  /// What was put aside: so many below the pivot, in `entries`, and above it, in `spare`.
  struct Aside {
    std::uint64_t below = 0, above = 0;
    std::uint64_t copied = 0;  // values that were not, where somebody asks
    // To the host already, one for each operation, for all lie below; or null.
    std::uint64_t const* known = nullptr;
    [[nodiscard]] std::uint64_t n() const { return below + above; }
  };

  /// Of few gets.
  Result<Aside> told() {
    if (Status s = machine_.wait(); !s.ok()) return s;
    Aside aside;
    aside.known = lists_.entries.twin();
    for (std::uint64_t const entry : std::span(aside.known, batch_.n)) {
      aside.below += Deferred::is_entry(entry) ? 1 : 0;
      aside.copied += entry == Deferred::kCopied ? 1 : 0;
    }
    return aside;
  }
  Result<Aside> counted(Deferred const& deferred) {
    if (deferred.sums != nullptr) {
      if (Status s = machine_.begin_fetch(sums_, batch_.n); !s.ok()) return s;
    }
    auto const counts = machine_.fetch(lists_.count, kCounts);
    if (!counts) return counts.status();
    return Aside{counts.value()[0], counts.value()[1], counts.value()[2], nullptr};
  }

  Status gather(Gather way, Deferred deferred, Aside const& aside) {
    std::uint64_t* const entries = lists_.entries.data();
    std::uint64_t const n = aside.known != nullptr ? batch_.n : aside.n();
    if (way == Gather::shared && aside.above > 0) return gather_shared(deferred, aside);
    if (Status s = machine_.copy(entries + aside.below, lists_.spare.data(), aside.above); !s.ok())
      return s;
    if (way == Gather::in_order) return gather_in_order(deferred, entries, lists_.spare.data(), n);
    if (aside.known != nullptr) return gather_by_host(deferred, {aside.known, n});
    auto fetched = machine_.fetch(lists_.entries, n);
    return fetched ? gather_by_host(deferred, *fetched) : fetched.status();
  }

  Status gather_shared(Deferred const& deferred, Aside const& aside) {
    Status const beside = machine_.beside([&] {
      return gather_in_order(deferred, lists_.spare.data(), lists_.entries.data() + aside.below,
                             aside.above);
    });
    if (!beside.ok()) return beside;
    auto entries = machine_.fetch(lists_.entries, aside.below);
    if (!entries) return entries.status();
    if (Status s = gather_by_host(deferred, *entries); !s.ok()) return s;
    return machine_.rejoin();
  }

  /// n of them; `room` is for as many. What is none comes last.
  Status gather_in_order(Deferred deferred, std::uint64_t* entries, std::uint64_t* room,
                         std::uint64_t n) {
    int const bits = AddressesSorted::in(state_->table).bits;
    auto sorted = machine_.sort_words(entries, room, n, 32, 32 + bits);
    if (!sorted) return sorted.status();
    deferred.entries = *sorted;
    return launcher_.run_gets(GatherBody<Ops>{batch_, state_->table, deferred, n}, items_of(n));
  }

  /// The host's threads read PM at random without the price of a device's address translation.
  /// Piece by piece, so that one is read while the device takes the one before.
  Status gather_by_host(Deferred deferred, std::span<std::uint64_t const> entries) {
    gphash::TableView const& table = state_->table;
    PERDURE_ASSERT(deferred.shift == 0);  // else entries do not say where exactly
    if (to_host_ != nullptr) return deliver(entries);
    exec::Workers& workers = *state_->options.workers;
    std::uint64_t const bytes = table.value_bytes, n = entries.size();
    if (Status s = staging_.need_twin(n * bytes); !s.ok()) return s;
    auto const at = [&](std::uint64_t i) { return value_of(entries[i]); };
    constexpr std::uint64_t kPieces = 4, kLeast = 8192;
    std::uint64_t const piece =
        std::max(kLeast, (n / kPieces + kKeysPerItem) / kKeysPerItem * kKeysPerItem);
    // Small enough that every thread has some, large enough to be worth handing out.
    std::size_t const chunk =
        std::clamp<std::size_t>(std::min(n, piece) / (2 * workers.threads()), kKeysPerItem, 512);
    PERDURE_ASSERT(piece % kKeysPerItem == 0 && chunk > 0);
    for (std::uint64_t first = 0; first < n; first += piece) {
      std::uint64_t const size = std::min(piece, n - first);
      workers.for_chunks(size, chunk, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = first + begin; i < first + end; ++i) {
          if (i + kAhead < first + end) prefetch_entry(entries[i + kAhead]);
          if (!Deferred::is_entry(entries[i])) continue;
          PERDURE_ASSERT(!kCostlyAssertions ||
                         at(i) + bytes <= state_->options.base + table.pool_bytes);
          std::memcpy(staging_.twin() + i * bytes, at(i), bytes);
        }
      });
      Deferred here = deferred;
      here.entries += first;
      GatherBody<Ops> const body{batch_, table, here, size, staging_.twin() + first * bytes};
      if (Status s = launcher_.run_gets(body, items_of(size)); !s.ok()) return s;
    }
    return {};
  }

  [[nodiscard]] std::byte const* value_of(std::uint64_t entry) const {
    gphash::TableView const& table = state_->table;
    return state_->options.base + table.records.to_value(table.key_bytes) +
           Deferred::address(entry) * pm::kRecordAlign;
  }
  void prefetch_entry(std::uint64_t entry) const {
    if (!Deferred::is_entry(entry)) return;
    for (std::uint64_t b = 0; b < state_->table.value_bytes; b += 64)
      prefetch_line(value_of(entry) + b);
  }

  /// As gather_by_host(), straight into the caller's array: the device never has these values.
  Status deliver(std::span<std::uint64_t const> entries) {
    exec::Workers& workers = *state_->options.workers;
    std::uint64_t const bytes = state_->table.value_bytes;
    std::uint32_t const* const sums = batch_.verify ? sums_.twin() : nullptr;
    std::size_t const chunk =
        std::clamp<std::size_t>(entries.size() / (4 * workers.threads()), kKeysPerItem, 4096);
    std::mutex mutex;  // guards corrupt_
    workers.for_chunks(entries.size(), chunk, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        if (i + kAhead < end) prefetch_entry(entries[i + kAhead]);
        if (!Deferred::is_entry(entries[i])) continue;
        std::byte const* const from = value_of(entries[i]);
        std::uint64_t const operation = Deferred::operation(entries[i]);
        PERDURE_ASSERT(!kCostlyAssertions ||
                       from + bytes <= state_->options.base + state_->table.pool_bytes);
        copy_past_caches(to_host_ + operation * bytes, from, bytes);
        if (!delivered_.empty()) delivered_[operation] = 1;
        if (sums == nullptr || Ops::kept_sum(crc32c(0, from, bytes)) == sums[operation]) continue;
        std::lock_guard const lock(mutex);
        corrupt_.push_back(operation);
      }
      order_line_instructions();
    });
    return {};
  }

  // below, above the pivot, and what was copied at once
  static constexpr std::size_t kCounts = 3;
  static constexpr std::uint64_t kAhead =
      16;  // values, of which a host's thread asks for the lines

  EngineState<Machine>* state_;
  Launcher<Machine>& launcher_;
  Machine& machine_;
  Lists<Machine>& lists_;
  BatchView batch_;
  Buffer<std::uint64_t> lengths_;
  Buffer<std::int64_t> out_offsets_;
  Buffer<std::byte> staging_;
  Buffer<std::uint32_t> sums_;
  // Of a batch whose output is in host memory: see copy().
  std::byte* to_host_ = nullptr;
  bool downloads_ = false;  // or else the device's values are written there at once
  bool delivered_all_ = false;
  std::vector<std::uint8_t> delivered_;  // by operation, where some are and some are not
  std::vector<std::uint64_t> corrupt_;
  // Of a batch that is timed.
  GatherAutotuner::Trial trial_;
  Clock::time_point start_;
  GatherAutotuner::Aside aside_;
};

}  // namespace perdure
