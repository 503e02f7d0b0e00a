// The batch pipeline on a machine, once for all of them: what is launched, over what, in which
// order. Ordering points of a write batch: one after plan (records before words), one after publish
// (words before the acknowledgement). Everything durable a batch does lies before one of the two.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "base/hooks.hpp"
#include "base/prefetch.hpp"
#include "pm/host_verbs.hpp"
#include "pm/memory.hpp"
#include "store/gphash/engine/device_run.hpp"
#include "store/gphash/engine/engine.hpp"
#include "store/gphash/engine/engine_state.hpp"
#include "store/gphash/kernels/batch_ops.hpp"
#include "store/gphash/kernels/cache_ops.hpp"
#include "store/gphash/kernels/lane_per_key_plan.hpp"
#include "store/gphash/kernels/mirror_ops.hpp"
#include "store/gphash/kernels/record_map.hpp"
#include "store/gphash/kernels/rehash_ops.hpp"

namespace perdure {

/// How places on PM are written into 32 bits of an entry.
struct PlacesSorted {
  std::uint32_t
      shift;  // of places in units of kRecordAlign: more than 0 for pools of more than 64 GiB
  int bits;

  static PlacesSorted in(gphash::TableView const& table) {
    auto const bits = static_cast<int>(std::bit_width(table.pool_bytes / pm::kRecordAlign));
    return bits <= 32 ? PlacesSorted{0, bits}
                      : PlacesSorted{static_cast<std::uint32_t>(bits - 32), 32};
  }
};

template <class Machine, class Ops>
class SessionOn final : public Session {
  template <class T>
  using Buffer = typename Machine::template Buffer<T>;
  using Warp = typename Machine::Warp;
  using Solo = typename Machine::Solo;
  using PublishWarp =
      std::conditional_t<Ops::kPublishNeedsWarp, typename Machine::Warp, typename Machine::Solo>;

 public:
  explicit SessionOn(EngineState<Machine>& shared)
      : shared_(&shared), machine_(shared.machines), memory_(shared.options.base) {}

  Status begin(Call const& call, std::span<std::uint8_t const> status) override {
    call_ = call;
    batch_ = {};
    batch_.n = call.keys.count;
    batch_.kind = call.kind;
    batch_.rmw = call.rmw;
    batch_.element = call.element;
    batch_.verify = shared_->options.verify_reads;
    if (Status s = machine_.begin(call.stream); !s.ok()) return s;
    if (call.keep) {  // goes on beside the batch
      if (Status s = machine_.keep(call.keys, 0); !s.ok()) return s;
      if (Status s = machine_.keep(call.values, 1); !s.ok()) return s;
    }
    if (Status s = machine_.bring(call.keys, batch_.keys, 0); !s.ok()) return s;
    if (Status s = machine_.bring(call.values, batch_.values, 1); !s.ok()) return s;
    if (Status s = machine_.bring_out(call.out, batch_.out); !s.ok()) return s;
    batch_.all_pending = status.empty();
    if (batch_.all_pending) {
      if (Status s = status_.resize(batch_.n); !s.ok()) return s;
      bool const gets = call.kind == OpKind::get && call.kinds.empty();
      if (Status s = gets ? Status{} : machine_.fill(status_.data(), kPending, batch_.n); !s.ok())
        return s;
    } else if (Status s = send(status_, status); !s.ok()) {
      return s;
    }
    batch_.status = status_.data();
    if (!call.kinds.empty()) {
      if (Status s = send(kinds_, {reinterpret_cast<std::uint8_t const*>(call.kinds.data()),
                                   call.kinds.size()});
          !s.ok())
        return s;
      batch_.kinds = kinds_.data();
    }
    if (Status s = counts_.resize(1); !s.ok()) return s;
    return counts_.need_twin(1);
  }

  Status get() override {
    Status const got = [&] {
      if constexpr (Ops::kMirrored) {
        if (Ops::mirrored(shared_->table)) return get_timed();
      }
      note_uses();
      return launch_gets(batch_.n, GetBody<Ops, GetMode::copy>{batch_, shared_->table});
    }();
    if (!got.ok() || call_.device_statuses == nullptr) return got;
    return machine_.copy(reinterpret_cast<std::uint8_t*>(call_.device_statuses), status_.data(),
                         batch_.n);
  }

  Result<std::span<std::uint64_t const>> locate() override {
    if (Status s = located_.resize(batch_.n); !s.ok()) return s;
    if (Status s = lengths_.resize(batch_.n); !s.ok()) return s;
    batch_.located = located_.data();
    batch_.lengths = lengths_.data();
    if (Status s = machine_.fill(located_.data(), 0, batch_.n); !s.ok()) return s;
    if (Status s = machine_.fill(lengths_.data(), 0, batch_.n); !s.ok()) return s;
    if constexpr (Ops::kCachesBuckets) note_uses();
    if (Status s = launch_gets(batch_.n, GetBody<Ops, GetMode::locate>{batch_, shared_->table});
        !s.ok())
      return s;
    return machine_.fetch(lengths_, batch_.n);
  }

  Status copy_located(std::span<std::int64_t const> offsets, std::byte* out) override {
    if (Status s = send(out_offsets_, offsets); !s.ok()) return s;
    batch_.out_offsets = out_offsets_.data();
    auto const bytes = static_cast<std::size_t>(offsets.back());
    auto place = machine_.place_for(out, bytes);
    if (!place) return place.status();
    batch_.out = *place;
    if (Status s = launch_gets(batch_.n, CopyLocatedBody{batch_, shared_->table}); !s.ok())
      return s;
    return machine_.return_bytes(out, batch_.out, bytes);
  }

  Status prepare(std::span<std::uint64_t const> reserved, bool any_fits,
                 std::uint64_t sequence) override {
    if (Status s = send(reserved_, reserved); !s.ok()) return s;
    if (Status s = unlinked_.need_twin(batch_.n); !s.ok()) return s;  // for outcome()
    if (Status s = used_.need_twin(batch_.n); !s.ok()) return s;
    return sort_operations(any_fits, sequence);
  }

  /// What needs memory comes first: once records are taken, nothing is left that could fail but the
  /// device.
  Result<bool> prepare_lent(std::uint64_t records, std::uint64_t sequence) override {
    bool const everyone = records == batch_.n;
    std::uint64_t const most = std::max(shared_->records.words(), batch_.n) + 1;
    if (Status s = reserved_.resize(batch_.n); !s.ok()) return s;
    if (Status s = free_.resize(most); !s.ok()) return s;
    if (Status s = before_.resize(most); !s.ok()) return s;
    if (Status s = sort_operations(everyone, sequence); !s.ok()) return s;
    if (records > 0) {
      auto& into = everyone ? reserved_ : spare_;
      auto const taken = take_records(machine_, shared_->records, records, free_, before_, into);
      if (!taken || !taken.value()) return taken;
    }
    if (everyone) return true;
    if (Status s = deal_records(records); !s.ok()) return s;
    return true;
  }

  Status give_back_lent() override {
    GiveBackBody const body{shared_->records, reserved_.data(), unlinked_.data(), used_.data()};
    return machine_.template warps<Solo>(batch_.n, body, memory_, nullptr);
  }

  Result<exec::Counts> plan(bool displace, wal::UndoPlace const* undo) override {
    ++batch_.round;
    batch_.displacement = displace && shared_->options.displacement;
    auto planned = plan_all();
    if (!planned) return planned;
    if (undo != nullptr) {
      if (Status s = log_undo(*undo, *planned); !s.ok()) return s;
    }
    return mutated("no_order_after_plan") ? planned : ordered(*planned);
  }
  Result<exec::Counts> publish() override {
    auto published = launch<PublishWarp>(PublishBody<Ops>{batch_, shared_->table}, batch_.n);
    if (!published || mutated("no_order_after_publish")) return published;
    return ordered(*published);
  }

  Result<Call> kept() override {
    Call call = call_;
    if (Status s = machine_.kept(call.keys, 0); !s.ok()) return s;
    if (Status s = machine_.kept(call.values, 1); !s.ok()) return s;
    return call;
  }

  Result<std::span<std::uint8_t const>> statuses() override {
    return machine_.fetch(status_, batch_.n);
  }

  Result<std::span<std::uint64_t const>> reserved() override {
    return machine_.fetch(reserved_, batch_.n);
  }

  Result<Outcome> outcome() override {
    auto used = machine_.fetch(used_, batch_.n);
    if (!used) return used.status();
    auto unlinked = machine_.fetch(unlinked_, batch_.n);
    if (!unlinked) return unlinked.status();
    return Outcome{*used, *unlinked};
  }

  Status finish() override {
    if (Machine::must_be_returned(call_.out)) {
      auto const status = machine_.fetch(status_, batch_.n);
      if (!status) return status.status();
      auto const given = [&](std::size_t i) {
        bool const get =
            call_.kinds.empty() ? call_.kind == OpKind::get : call_.kinds[i] == OpKind::get;
        return get && status.value()[i] == code(KeyStatus::ok);
      };
      if (Status s = machine_.return_out(call_.out, given); !s.ok()) return s;
    }
    return machine_.wait();
  }

  /// The candidates by score, the best of them by place, their records into the cache.
  Result<exec::Counts> fill_cache(std::uint64_t slots, std::uint64_t& records) {
    records = 0;
    if (Status s = machine_.begin(nullptr); !s.ok()) return s;
    for (Buffer<std::uint64_t>* const buffer : {&entries_, &spare_, &located_})
      if (Status s = buffer->resize(slots); !s.ok()) return s;
    if (Status s = deferred_count_.resize(1); !s.ok()) return s;
    if (Status s = counts_.resize(1); !s.ok()) return s;
    if (Status s = machine_.fill(deferred_count_.data(), 0, 1); !s.ok()) return s;
    gphash::TableView const& table = shared_->table;
    ListMembersBody<SlotMembers> const list{{table},
                                            entries_.data(),
                                            deferred_count_.data(),
                                            slots,
                                            shared_->options.cache_policy == CachePolicy::lfu,
                                            shared_->batches.load(std::memory_order_relaxed)};
    if (Status s = machine_.template warps<Warp>(items_of(slots), list, memory_, nullptr); !s.ok())
      return s;
    auto count = machine_.fetch(deferred_count_, 1);
    if (!count) return count.status();
    std::uint64_t const all = (*count)[0];
    std::uint64_t const n = std::min(all, shared_->cache.capacity);
    if (n == 0) return exec::Counts{};
    std::uint64_t* listed = entries_.data();
    if (n < all) {
      auto by_score = machine_.sort_words(entries_.data(), spare_.data(), all, 32, 64);
      if (!by_score) return by_score.status();
      listed = *by_score;
    }
    std::uint64_t* const best = listed + (all - n);
    std::uint64_t* const other = listed == entries_.data() ? spare_.data() : entries_.data();
    PlacesSorted const order = PlacesSorted::in(shared_->table);
    if (Status s = machine_.threads(n, PlaceSlotsBody{table, best, located_.data(), order.shift});
        !s.ok())
      return s;
    auto sorted = machine_.sort_words(best, other, n, 32, 32 + order.bits);
    if (!sorted) return sorted.status();
    Deferred const placed{*sorted, nullptr, located_.data(), order.shift};
    records = n;
    return launch<Warp>(FillCacheBody<Ops>{table, placed, n, shared_->cache.entries.data(),
                                           shared_->cache.homes.data()},
                        items_of(n));
  }

  Result<exec::Counts> rehash(std::span<std::uint32_t const> units) {
    auto slots = bring_units(units);
    if (!slots) return slots.status();
    if (mutated("rehash_skips_last_slot")) --slots->n;
    exec::Counts done;
    std::uint64_t items = slots->n;
    std::uint64_t const* left = nullptr;  // null: all slots
    if constexpr (Ops::kMirrored) {
      if (shared_->table.mirror.identities != nullptr) {
        auto const known = rehash_known(*slots);
        if (!known) return known;
        done = known.value();
        items = mutated("rehash_forgets_left") ? 0 : done[exec::Counts::left];
        left = entries_.data();
      }
    }
    auto copied = launch<Warp>(RehashBody<Ops>{shared_->table, *slots, left}, items);
    if (!copied) return copied;
    done += copied.value();
    if (Status s = shared_->let_go(machine_, units); !s.ok()) return s;
    return mutated("unit_emptied_before_order") ? done : ordered(done);
  }

  Result<exec::Counts> empty(std::span<std::uint32_t const> units) {
    auto const slots = bring_units(units);
    if (!slots) return slots.status();
    return launch<Warp>(EmptyUnitsBody<Ops>{shared_->table, slots.value()},
                        items_of(slots.value().n));
  }

 private:
  template <class T>
  Status send(Buffer<T>& to, std::span<T const> from) {
    if (Status s = to.resize(from.size()); !s.ok()) return s;
    return machine_.send(to.data(), from.data(), from.size());
  }

  Status sort_operations(bool any_fits, std::uint64_t sequence) {
    batch_.sequence = sequence;
    batch_.any_fits = any_fits;
    if (Status s = order_.resize(batch_.n); !s.ok()) return s;
    if (Status s = plans_.resize(batch_.n); !s.ok()) return s;
    if (Status s = unlinked_.resize(batch_.n); !s.ok()) return s;
    if (Status s = used_.resize(batch_.n); !s.ok()) return s;
    if (Status s = settled_.resize(batch_.n); !s.ok()) return s;
    if (Status s = room_for_the_rest(); !s.ok()) return s;
    batch_.settled = settled_.data();
    batch_.order = order_.data();
    batch_.plans = plans_.data();
    batch_.unlinked = unlinked_.data();
    batch_.used = used_.data();
    batch_.reserved = reserved_.data();
    if (Status s = machine_.fill(used_.data(), 0, batch_.n); !s.ok()) return s;
    if (Status s = machine_.threads(batch_.n, HashBody{batch_}); !s.ok()) return s;
    return machine_.sort(order_.data(), batch_.n);
  }

  /// What planning and the end of the batch will need: in between, nothing may fail for want of
  /// memory.
  Status room_for_the_rest() {
    if (Status s = status_.need_twin(batch_.n); !s.ok()) return s;
    if constexpr (Ops::kMirrored) {
      if (Status s = entries_.resize(batch_.n); !s.ok()) return s;
      if (Status s = deferred_count_.resize(1); !s.ok()) return s;
    }
    return {};
  }

  /// To the operations that may write; the others get none.
  Status deal_records(std::uint64_t records) {
    if (records == 0) return machine_.fill(reserved_.data(), 0, batch_.n);
    if (Status s =
            machine_.threads(batch_.n + 1, FlagWritersBody{batch_.kinds, batch_.n, free_.data()});
        !s.ok())
      return s;
    if (Status s = machine_.sums_before(free_.data(), before_.data(), batch_.n + 1); !s.ok())
      return s;
    return machine_.threads(batch_.n,
                            DealRecordsBody{before_.data(), spare_.data(), reserved_.data()});
  }

  template <class W, class Body>
  Result<exec::Counts> launch(Body const& body, std::uint64_t items) {
    if (Status s = machine_.fill(counts_.data(), 0, 1); !s.ok()) return s;
    if (Status s = machine_.template warps<W>(items, body, memory_, counts_.data()); !s.ok())
      return s;
    auto counts = machine_.fetch(counts_, 1);
    if (!counts) return counts.status();
    return (*counts)[0];
  }

  /// Of what a get counts, only accesses are asked for: without them nobody waits for it.
  template <class Body>
  Status launch_gets(std::uint64_t items, Body const& body) {
    if (!shared_->options.count_accesses)
      return machine_.template warps<Warp>(items, body, memory_, nullptr);
    auto const counts = launch<Warp>(body, items);
    if (!counts) return counts.status();
    add_get_counts(counts.value());
    return {};
  }

  Result<UnitSlots> bring_units(std::span<std::uint32_t const> units) {
    gphash::TableView const& table = shared_->table;
    if (Status s = machine_.begin(nullptr); !s.ok()) return s;
    if (Status s = counts_.resize(1); !s.ok()) return s;
    if (Status s = send(units_, units); !s.ok()) return s;
    std::uint64_t const each =
        (std::uint64_t{table.slots} << table.retiring_level().log2_buckets) >> table.unit_bits;
    return UnitSlots{units_.data(), static_cast<std::uint32_t>(std::countr_zero(each)),
                     units.size() * each};
  }

  Result<exec::Counts> rehash_known(UnitSlots const& slots) {
    if (Status s = entries_.resize(slots.n); !s.ok()) return s;
    if (Status s = deferred_count_.resize(1); !s.ok()) return s;
    if (Status s = machine_.fill(deferred_count_.data(), 0, 1); !s.ok()) return s;
    LanePerSlotRehashBody<Ops> const body{shared_->table, slots, entries_.data(),
                                          deferred_count_.data()};
    return launch<Warp>(body, items_of(slots.n));
  }

  Result<exec::Counts> plan_all() {
    if constexpr (Ops::kMirrored) {
      if (shared_->table.mirror.identities != nullptr) return plan_lane_per_key();
    }
    return launch<Warp>(PlanBody<Ops>{batch_, shared_->table}, batch_.n);
  }

  Result<exec::Counts> plan_lane_per_key() {
    if (Status s = machine_.fill(deferred_count_.data(), 0, 1); !s.ok()) return s;
    LanePerKeyPlanBody<Ops> const body{batch_, shared_->table, entries_.data(),
                                       deferred_count_.data()};
    auto planned = launch<Warp>(body, items_of(batch_.n));
    if (!planned) return planned;
    std::uint64_t const left = planned.value()[exec::Counts::left];
    if (left == 0) return planned;
    auto rest = launch<Warp>(PlanBody<Ops>{batch_, shared_->table, entries_.data()}, left);
    if (rest) rest.value() += planned.value();
    return rest;
  }

  /// Which operations of a batch are watched follows no pattern, for callers' batches may.
  void note_uses() {
    std::uint32_t const number = shared_->batches.fetch_add(1, std::memory_order_relaxed);
    std::uint32_t const* const noted =
        Ops::kCachesBuckets ? shared_->table.buckets.uses : shared_->table.mirror.uses;
    if (noted == nullptr) return;
    batch_.watched = static_cast<std::uint32_t>(nth_hash(number, 1) >> 60);
    bool const lru = shared_->options.cache_policy == CachePolicy::lru;
    batch_.uses = lru ? BatchView::Uses::stamped : BatchView::Uses::counted;
    batch_.stamp = number + 1;
  }

  // entries that cross the link as fast as their number alone
  static constexpr std::uint64_t kFewAside = 1u << 14;
  using Clock = std::chrono::steady_clock;
  static double since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  Status get_timed() {
    auto const trial = shared_->gather.values(shared_->options.gather, batch_.n);
    auto const start = Clock::now();
    note_uses();
    bool const aside = trial.way == 1;
    Status const got =
        aside ? get_aside()
              : launch_gets(items_of(batch_.n), MirrorGetBody<Ops>{batch_, shared_->table, {}});
    if (!got.ok() || !trial.timed) return got;
    if (Status s = machine_.wait(); !s.ok()) return s;
    shared_->gather.noted(trial, batch_.n, since(start));
    return {};
  }

  /// Values that lie on PM are put aside first; how they are fetched then depends on how many there
  /// are.
  Status get_aside() {
    PlacesSorted const order = PlacesSorted::in(shared_->table);
    bool const few = batch_.n <= kFewAside;
    if (Status s = entries_.resize(batch_.n + 2); !s.ok()) return s;
    if (Status s = spare_.resize(batch_.n); !s.ok()) return s;
    if (Status s = located_.resize(batch_.n); !s.ok()) return s;
    if (Status s = deferred_count_.resize(2); !s.ok()) return s;
    std::uint64_t* const counts = few ? entries_.data() + batch_.n : deferred_count_.data();
    if (Status s = machine_.fill(counts, 0, 2); !s.ok()) return s;
    Deferred deferred{entries_.data(), counts, located_.data(), order.shift};
    deferred.upper = spare_.data();
    if (!few) {
      auto const all =
          static_cast<double>(shared_->table.pool_bytes / pm::kRecordAlign >> order.shift);
      deferred.pivot = static_cast<std::uint64_t>(all * shared_->gather.pivot(batch_.n));
    }
    if (Status s =
            launch_gets(items_of(batch_.n), MirrorGetBody<Ops>{batch_, shared_->table, deferred});
        !s.ok())
      return s;
    auto fetched =
        few ? machine_.fetch(entries_, batch_.n + 2) : machine_.fetch(deferred_count_, 2);
    if (!fetched) return fetched.status();
    Aside const aside{fetched->end()[-2], fetched->end()[-1], few ? fetched->data() : nullptr,
                      order.bits};
    if (aside.n() == 0) return {};
    auto const trial = shared_->gather.aside(shared_->options.gather, aside.n(), order.shift == 0);
    auto const start = Clock::now();
    if (Status s = gather(GatherChoice::kAside[trial.way], deferred, aside); !s.ok()) return s;
    if (!few) shared_->gather.parted(batch_.n, aside.below, aside.above);
    if (!trial.timed) return {};
    if (Status s = machine_.wait(); !s.ok()) return s;
    shared_->gather.noted(trial, aside.n(), since(start));
    return {};
  }

  /// What was put aside: so many below the pivot, in entries_, and above it, in spare_.
  struct Aside {
    std::uint64_t below, above;
    std::uint64_t const* known;  // to the host already, for all lie below; or null
    int place_bits;
    [[nodiscard]] std::uint64_t n() const { return below + above; }
  };

  Status gather(Gather way, Deferred deferred, Aside const& aside) {
    if (way == Gather::shared && aside.above > 0) return gather_shared(deferred, aside);
    if (Status s = machine_.copy(entries_.data() + aside.below, spare_.data(), aside.above);
        !s.ok())
      return s;
    if (way == Gather::in_order)
      return gather_in_order(deferred, entries_.data(), spare_.data(), aside.n(), aside);
    if (aside.known != nullptr) return gather_by_host(deferred, {aside.known, aside.n()});
    auto entries = machine_.fetch(entries_, aside.n());
    return entries ? gather_by_host(deferred, *entries) : entries.status();
  }

  Status gather_shared(Deferred const& deferred, Aside const& aside) {
    Status const beside = machine_.beside([&] {
      return gather_in_order(deferred, spare_.data(), entries_.data() + aside.below, aside.above,
                             aside);
    });
    if (!beside.ok()) return beside;
    auto entries = machine_.fetch(entries_, aside.below);
    if (!entries) return entries.status();
    if (Status s = gather_by_host(deferred, *entries); !s.ok()) return s;
    return machine_.rejoin();
  }

  /// n of them; `room` is for as many.
  Status gather_in_order(Deferred deferred, std::uint64_t* entries, std::uint64_t* room,
                         std::uint64_t n, Aside const& aside) {
    auto sorted = machine_.sort_words(entries, room, n, 32, 32 + aside.place_bits);
    if (!sorted) return sorted.status();
    deferred.entries = *sorted;
    return launch_gets(items_of(n), GatherBody<Ops>{batch_, shared_->table, deferred, n});
  }

  /// The host's threads read PM at random without the price of a device's address translation.
  /// Piece by piece, so that one is read while the device takes the one before.
  Status gather_by_host(Deferred deferred, std::span<std::uint64_t const> entries) {
    gphash::TableView const& table = shared_->table;
    std::uint64_t const bytes = table.value_bytes, n = entries.size();
    if (Status s = staging_.need_twin(n * bytes); !s.ok()) return s;
    std::byte const* const values = shared_->options.base + table.records.to_value(table.key_bytes);
    auto const at = [&](std::uint64_t i) {
      return values + Deferred::place(entries[i]) * pm::kRecordAlign;
    };
    constexpr std::uint64_t kPieces = 4, kLeast = 8192, kAhead = 16;
    std::uint64_t const piece =
        std::max(kLeast, (n / kPieces + kKeysPerItem) / kKeysPerItem * kKeysPerItem);
    // Small enough that every thread has some, large enough to be worth handing out.
    std::size_t const chunk = std::clamp<std::size_t>(
        std::min(n, piece) / (2 * shared_->options.workers->threads()), kKeysPerItem, 512);
    for (std::uint64_t first = 0; first < n; first += piece) {
      std::uint64_t const size = std::min(piece, n - first);
      shared_->options.workers->for_chunks(size, chunk, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = first + begin; i < first + end; ++i) {
          if (i + kAhead < first + end)
            for (std::uint64_t b = 0; b < bytes; b += 64) prefetch_line(at(i + kAhead) + b);
          std::memcpy(staging_.twin() + i * bytes, at(i), bytes);
        }
      });
      Deferred here = deferred;
      here.entries += first;
      GatherBody<Ops> const body{batch_, table, here, size, staging_.twin() + first * bytes};
      if (Status s = launch_gets(items_of(size), body); !s.ok()) return s;
    }
    return {};
  }

  Result<exec::Counts> ordered(exec::Counts counts) {
    if (Status s = machine_.order(); !s.ok()) return s;
    ++counts[exec::Counts::orders];
    return counts;
  }

  Status log_undo(wal::UndoPlace const& place, exec::Counts& counts) {
    if constexpr (Ops::kUndoable) {
      auto const logged = launch<PublishWarp>(UndoBody<Ops>{batch_, place}, batch_.n);
      if (!logged) return logged.status();
      counts += logged.value();
      return {};
    } else {
      return {Code::unsupported, "this layout cannot undo a batch"};
    }
  }

  void add_get_counts(exec::Counts const& counts) {
    std::lock_guard const lock(shared_->mutex);
    for (std::uint32_t k = 0; k < exec::Counts::kNames; ++k)
      shared_->get_counts.value[k] += counts.value[k];
  }

  EngineState<Machine>* shared_;
  Machine machine_;
  pm::Memory memory_;
  Call call_;
  BatchView batch_;
  Buffer<std::uint8_t> status_, used_, kinds_, settled_;
  Buffer<std::uint64_t> reserved_, unlinked_, located_, lengths_, entries_, spare_, deferred_count_;
  Buffer<std::int64_t> out_offsets_;
  Buffer<std::uint32_t> free_, before_, units_;
  Buffer<std::byte> staging_;
  Buffer<gphash::Plan> plans_;
  Buffer<exec::Sorted> order_;
  Buffer<exec::Counts> counts_;
};

template <class Machine, class Ops>
class EngineOn final : public Engine {
  using Mine = SessionOn<Machine, Ops>;

 public:
  EngineOn(EngineOptions const& options, typename Machine::Shared machine) {
    state_.options = options;
    state_.machines = std::move(machine);
  }

  Status set_table(gphash::TableView const& view, std::uint64_t slots) override {
    Machine machine(state_.machines);
    if (Status s = machine.begin(nullptr); !s.ok()) return s;
    if (Status s = state_.need_bits(view, slots); !s.ok()) return s;
    gphash::TableView const before = std::exchange(state_.table, view);
    bool const had_none = state_.mirror == nullptr && before.levels != 0;
    if constexpr (Ops::kMirrored) {
      if (Status s = state_.lay_out_mirror(machine, before, slots); !s.ok()) return s;
    }
    if constexpr (Ops::kCachesBuckets) {
      Status const s = state_.buckets.lay_out(machine, state_.options, before, state_.table, slots,
                                              state_.mirror_report);
      if (!s.ok()) return s;
    }
    if (Status s = state_.lay_out_bits(machine, slots); !s.ok()) return s;
    // There may be room for a mirror now, and it knows nothing of the levels that stay.
    return had_none ? refresh() : Status{};
  }

  Status refresh() override {
    if constexpr (Ops::kMirrored) {
      Machine machine(state_.machines);
      if (Status s = machine.begin(nullptr); !s.ok()) return s;
      if (state_.mirror == nullptr || mutated("mirror_not_refreshed")) return {};
      if (Status s = machine.threads(state_.mirror_slots,
                                     RefreshBody<Ops>{state_.table, state_.options.base});
          !s.ok())
        return s;
      return machine.wait();
    }
    return {};
  }

  Status choose_cache() override {
    if constexpr (Ops::kCachesBuckets) {
      if (!state_.buckets.has_maps())
        return {Code::no_space, "there is no memory for " + state_.mirror_report.lacks};
      return given_up(state_.buckets.choose(state_.machines, state_.options, state_.table));
    }
    return {};
  }

  Status empty_cache() override {
    if constexpr (Ops::kCachesBuckets)
      return given_up(
          state_.buckets.invalidate(state_.options, state_.table, state_.mirror_report));
    if (Ops::kMirrored && !state_.options.mirrored)
      return {Code::unsupported, "the record cache needs residency mirrored"};
    if constexpr (Ops::kMirrored) {
      if (state_.mirror == nullptr)
        return {Code::unsupported, "there is no memory for a mirror, which the record cache needs"};
      Machine machine(state_.machines);
      if (Status s = machine.begin(nullptr); !s.ok()) return s;
      if (state_.cache.capacity == 0) return state_.make_cache();
      if (Status s = machine.threads(state_.mirror_slots, EmptyCacheBody<Ops>{state_.table});
          !s.ok())
        return s;
      state_.mirror_report.cache_records = 0;
      return machine.wait();
    }
    return {Code::unsupported, "the record cache needs residency mirrored"};
  }

  Result<CacheReport> fill_cache() override {
    CacheReport report;
    if constexpr (Ops::kMirrored) {
      auto const counts = Mine(state_).fill_cache(state_.mirror_slots, report.records);
      if (!counts) return counts.status();
      report.corrupt = counts.value()[exec::Counts::corrupt];
      report.records -= report.corrupt;
      state_.gather.forget();  // what is put aside from here on lies elsewhere
      std::lock_guard const lock(state_.mutex);
      report.bytes = state_.mirror_report.cache_bytes;
      state_.mirror_report.cache_records = report.records;
    }
    if constexpr (Ops::kCachesBuckets) {
      auto const records = state_.buckets.fetch(state_.table, state_.options.base);
      if (!records) return given_up(records.status());
      std::lock_guard const lock(state_.mutex);
      report.records = records.value();
      report.bytes = state_.mirror_report.cache_bytes;
      state_.mirror_report.cache_records = report.records;
    }
    return report;
  }

  [[nodiscard]] bool can_borrow() const override { return Ops::kMirrored; }

  Status borrow(pm::RecordHeap::Loan const& loan) override {
    Machine machine(state_.machines);
    if (Status s = machine.begin(nullptr); !s.ok()) return s;
    if (Status s = state_.record_bits.resize(loan.bits.size()); !s.ok()) return s;
    if (Status s = state_.record_lent.resize(loan.lent.size()); !s.ok()) return s;
    if (Status s = machine.send(state_.record_bits.data(), loan.bits.data(), loan.bits.size());
        !s.ok())
      return s;
    if (Status s = machine.send(state_.record_lent.data(), loan.lent.data(), loan.lent.size());
        !s.ok())
      return s;
    state_.records = {state_.record_bits.data(),
                      state_.record_lent.data(),
                      loan.lent.size(),
                      loan.shape,
                      loan.stride,
                      loan.words_each};
    return machine.wait();
  }

  Status give_back(pm::RecordHeap::Loan& loan) override {
    Machine machine(state_.machines);
    if (Status s = machine.begin(nullptr); !s.ok()) return s;
    auto bits = machine.fetch(state_.record_bits, loan.bits.size());
    if (!bits) return bits.status();
    loan.bits.assign(bits->begin(), bits->end());
    state_.records = {};
    return {};
  }

  MirrorReport mirror() override {
    std::lock_guard const lock(state_.mutex);
    MirrorReport report = state_.mirror_report;
    bool const host =
        state_.options.gather == Gather::by_host || state_.options.gather == Gather::shared;
    if (host && PlacesSorted::in(state_.table).shift > 0) {
      if (!report.lacks.empty()) report.lacks += "; ";
      report.lacks +=
          "gathering by the host, which pools above 64 GiB do not have: values are read in order "
          "instead";
    }
    return report;
  }

  void set_pool_bytes(std::uint64_t bytes) override { state_.table.pool_bytes = bytes; }

  Result<std::unique_ptr<Session>> session() override {
    return std::unique_ptr<Session>(new Mine(state_));
  }

  Result<std::unique_ptr<DeviceRun>> device_run() override {
    if constexpr (Ops::kMirrored) {
      if (state_.mirror != nullptr)
        return std::unique_ptr<DeviceRun>(new DeviceRunOn<Machine, Ops>(state_));
    }
    return Status{
        Code::unsupported,
        "device sessions need residency mirrored, and a memory_budget that has room for the slots"};
  }

  Result<exec::Counts> rehash(std::span<std::uint32_t const> units) override {
    return mover().rehash(units);
  }
  Result<exec::Counts> empty(std::span<std::uint32_t const> units) override {
    return mover().empty(units);
  }

  Status set_moved(std::span<std::uint32_t const> bits) override {
    Machine machine(state_.machines);
    if (Status s = machine.begin(nullptr); !s.ok()) return s;
    return mutated("unit_not_noted") ? Status{} : state_.set_moved(machine, bits);
  }

  Result<std::vector<std::uint32_t>> take_refused() override {
    Machine machine(state_.machines);
    if (Status s = machine.begin(nullptr); !s.ok()) return s;
    std::uint64_t const words = (state_.unit_count() + 31) / 32;
    auto bits = machine.fetch(state_.refused, words);
    if (!bits) return bits.status();
    std::vector<std::uint32_t> units;
    for (std::uint32_t unit = 0; unit < state_.unit_count(); ++unit)
      if (((*bits)[unit / 32] >> unit % 32 & 1) != 0) units.push_back(unit);
    if (Status s = machine.fill(state_.refused.data(), 0, words); !s.ok()) return s;
    if (Status s = machine.wait(); !s.ok()) return s;
    return units;
  }

  Status save(std::span<PoolCopy const> copies, CUstream_st* stream) override {
    return copy_each(copies, stream, [](Machine& machine, PoolCopy const& copy) {
      Status const sent = machine.return_bytes(copy.pool, copy.array, copy.bytes);
      pm::wrote(copy.pool, copy.bytes);
      return sent;
    });
  }

  Status load(std::span<PoolCopy const> copies, CUstream_st* stream) override {
    return copy_each(copies, stream, [](Machine& machine, PoolCopy const& copy) {
      pm::will_read(copy.pool, copy.bytes);
      return machine.send(copy.array, copy.pool, copy.bytes);
    });
  }

  exec::Counts get_counts() override {
    std::lock_guard const lock(state_.mutex);
    return std::exchange(state_.get_counts, {});
  }

  [[nodiscard]] std::string describe() const override { return state_.machines.describe(); }

 private:
  /// By the machine's own copying, so that arrays in its memory need no way round.
  template <class F>
  Status copy_each(std::span<PoolCopy const> copies, CUstream_st* stream, F one) {
    if constexpr (Machine::kPoolIsFar) {
      Machine machine(state_.machines);
      if (Status s = machine.begin(stream); !s.ok()) return s;
      for (PoolCopy const& copy : copies)
        if (Status s = one(machine, copy); !s.ok()) return s;
      return machine.wait();
    }
    return {Code::unsupported, "this machine has no memory of its own"};
  }
  /// The session that moves units; its buffers stay from one batch to the next.
  Mine& mover() {
    if (mover_ == nullptr) mover_ = std::make_unique<Mine>(state_);
    return *mover_;
  }
  /// A load of the bucket cache that fails holds no memory.
  Status given_up(Status status) {
    if (!status.ok()) state_.buckets.give_up();
    return status;
  }

  EngineState<Machine> state_;
  std::unique_ptr<Mine> mover_;
};

}  // namespace perdure
