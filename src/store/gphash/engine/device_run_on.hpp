// A device session on a machine: its lists, from the free records it takes when it begins to those
// it gives back when it ends, and the operations of warps that the machine launches itself, which
// is how the tests and the explorer use a table (store/gphash/kernels/device_table.hpp) without a
// kernel of a user's. Invariant: between begin() and end() nobody else uses the table; the lists
// are volatile, so a crash leaves nothing of a session but whole operations.
#pragma once

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "pm/memory.hpp"
#include "store/gphash/engine/device_run.hpp"
#include "store/gphash/engine/engine_state.hpp"
#include "store/gphash/kernels/device_table.hpp"
#include "store/gphash/kernels/record_map.hpp"

namespace perdure {

/// DeviceOps in machine memory.
struct DeviceOpsView {
  exec::ByteColumn keys;
  exec::ByteColumn values;
  std::byte* out = nullptr;
  std::uint8_t const* kinds = nullptr;
  std::uint8_t* statuses = nullptr;
  std::uint64_t* began = nullptr;
  std::uint64_t* ended = nullptr;
  std::uint64_t* clock = nullptr;
  std::uint64_t* acknowledged = nullptr;
  std::uint64_t n = 0;
  std::uint64_t sequences = 1;
  bool updates_add = false;
};

/// One sequence an item.
template <class Ops>
struct DeviceOpsBody {
  static constexpr int kStages = 1;
  DeviceView view;
  DeviceOpsView ops;
  template <class W>
  struct State {};

  template <int kStage, class W, class M>
  PERDURE_FN void stage(W& warp, M& mem, std::uint64_t s, State<W>&, exec::Counts&) const {
    for (std::uint64_t i = s; i < ops.n; i += ops.sequences) {
      std::uint64_t const began = warp.elect([&] { return now<W>(); });
      PERDURE_ASSERT(!kCostlyAssertions ||
                     ops.kinds[i] <= static_cast<std::uint8_t>(OpKind::update));
      KeyStatus const status = carry_out(warp, mem, i);
      warp.elect([&] {
        ops.began[i] = began;
        ops.ended[i] = now<W>();
        ops.statuses[i] = static_cast<std::uint8_t>(status);
        if (ops.acknowledged != nullptr) W::store(ops.acknowledged + s, i / ops.sequences + 1);
        return std::uint64_t{0};
      });
    }
  }

 private:
  template <class W>
  PERDURE_FN std::uint64_t now() const {
    return W::fetch_add(ops.clock, std::uint64_t{1});
  }

  template <class W, class M>
  PERDURE_FN KeyStatus carry_out(W& warp, M& mem, std::uint64_t i) const {
    WarpTable<Ops> const table(view);
    std::byte* const out = ops.out + i * view.table.value_bytes;
    auto const kind = static_cast<OpKind>(ops.kinds[i]);
    if (kind == OpKind::get) return table.find(warp, mem, ops.keys.at(i), out);
    if (kind == OpKind::erase) return table.erase(warp, mem, ops.keys.at(i));
    if (kind == OpKind::put) return table.put(warp, mem, ops.keys.at(i), ops.values.at(i));
    if (!ops.updates_add) return table.update(warp, mem, ops.keys.at(i), ops.values.at(i));
    return table.modify(warp, mem, ops.keys.at(i), out, [&](bool there) {
      if (!there) return warp.copy(out, ops.values.at(i), view.table.value_bytes);
      warp.elect([&] {
        std::uint64_t sum = 0, more = 0;
        memcpy(&sum, out, sizeof sum);
        memcpy(&more, ops.values.at(i), sizeof more);
        sum += more;
        memcpy(out, &sum, sizeof sum);
        return std::uint64_t{0};
      });
    });
  }
};

template <class Machine, class Ops>
class DeviceRunOn final : public DeviceRun {
  template <class T>
  using Buffer = typename Machine::template Buffer<T>;

 public:
  explicit DeviceRunOn(EngineState<Machine>& shared)
      : shared_(&shared), machine_(shared.machines) {}

  Result<bool> begin(DeviceRoom const& room) override {
    std::uint64_t const records = room.records;
    RecordMap const& map = shared_->records;
    if (Status s = machine_.begin(nullptr); !s.ok()) return s;
    PERDURE_ASSERT(map.bits != nullptr && map.words() > 0);  // records are leased
    shared_->words_changed = true;  // the host, which looks once it is over, has older ones
    if (Status s = cleared(unlinked_, map.words()); !s.ok()) return s;
    if (Status s = cleared(locks_, kKeyLocks / 32); !s.ok()) return s;
    if (Status s = cleared(totals_, 1); !s.ok()) return s;
    if (Status s = shared_->make_free(machine_, records); !s.ok()) return s;
    auto const taken =
        take_records(machine_, map, shared_->free_records, records, free_, before_, fresh_);
    if (!taken || !taken.value()) return taken;
    view_ = {shared_->table,
             map,
             shared_->options.base,
             fresh_.data(),
             records,
             unlinked_.data(),
             locks_.data(),
             totals_.data(),
             room.sequence,
             shared_->options.verify_reads,
             room.erases,
             room.entries};
    if (Status s = send_segments(room.segments); !s.ok()) return s;
    if (Status s = machine_.wait(); !s.ok()) return s;
    return true;
  }

  [[nodiscard]] DeviceView const& view() const override { return view_; }

  Status run(DeviceOps const& ops) override {
    std::uint64_t const n = ops.keys.count;
    DeviceOpsView here;
    PERDURE_ASSERT(view_.totals != nullptr && ops.sequences > 0 && ops.kinds.size() == n);
    PERDURE_ASSERT(ops.statuses.empty() || ops.statuses.size() == n);
    here.n = n;
    here.sequences = ops.sequences;
    here.updates_add = ops.updates_add;
    here.acknowledged = ops.acknowledged;
    if (Status s = machine_.begin(nullptr); !s.ok()) return s;
    if (Status s = machine_.upload(ops.keys, here.keys, 0); !s.ok()) return s;
    if (Status s = machine_.upload(ops.values, here.values, 1); !s.ok()) return s;
    if (Status s = machine_.map_output(ops.out, here.out); !s.ok()) return s;
    if (Status s = kinds_.resize(n); !s.ok()) return s;
    if (Status s = machine_.send(kinds_.data(),
                                 reinterpret_cast<std::uint8_t const*>(ops.kinds.data()), n);
        !s.ok())
      return s;
    if (Status s = statuses_.resize(n); !s.ok()) return s;
    for (auto* const stamps : {&began_, &ended_})
      if (Status s = stamps->resize(n); !s.ok()) return s;
    if (Status s = cleared(clock_, 1); !s.ok()) return s;
    here.kinds = kinds_.data();
    here.statuses = statuses_.data();
    here.began = began_.data();
    here.ended = ended_.data();
    here.clock = clock_.data();
    pm::Memory const memory(shared_->options.base);
    DeviceOpsBody<Ops> const body{view_, here};
    std::uint64_t const warps = std::min(n, ops.sequences);
    if (Status s = machine_.template warps<typename Machine::Warp>(warps, body, memory, nullptr);
        !s.ok())
      return s;
    return fetch_answers(ops);
  }

  Result<exec::Counts> end() override {
    if (Status s = machine_.wait_for_all(); !s.ok()) return s;
    PERDURE_ASSERT(view_.totals != nullptr);  // it has begun
    auto fetched = machine_.fetch(totals_, 1);
    if (!fetched) return fetched.status();
    totals_now_ = (*fetched)[0];
    exec::Counts counts;
    counts[BatchCounts::inserted] = totals_now_.inserted;
    counts[BatchCounts::erased] = totals_now_.erased;
    return counts;
  }

  Status release() override {
    std::uint64_t const used = std::min(totals_now_.taken, view_.fresh_count);
    ReleaseUnlinkedBody const unlinked{view_.records, unlinked_.data()};
    ReleaseUnusedBody const unused{view_.records, fresh_.data() + used};
    pm::Memory const memory(shared_->options.base);
    if (Status s = machine_.threads(view_.records.words(), unlinked); !s.ok()) return s;
    if (Status s = machine_.template warps<typename Machine::Solo>(view_.fresh_count - used, unused,
                                                                   memory, nullptr);
        !s.ok())
      return s;
    return machine_.wait();
  }

 private:
  /// None: another layout.
  Status send_segments(std::span<std::uint64_t const> segments) {
    if (segments.empty()) return {};
    if (Status s = segments_.resize(segments.size()); !s.ok()) return s;
    if (Status s = machine_.send(segments_.data(), segments.data(), segments.size()); !s.ok())
      return s;
    view_.entries.segments = segments_.data();
    return {};
  }

  template <class T>
  Status cleared(Buffer<T>& buffer, std::uint64_t n) {
    if (Status s = buffer.resize(n); !s.ok()) return s;
    return machine_.fill(buffer.data(), 0, n);
  }

  template <class To, class T>
  Status fetch_into(std::span<To> to, Buffer<T>& from) {
    if (to.empty()) return {};
    auto fetched = machine_.fetch(from, to.size());
    if (!fetched) return fetched.status();
    std::transform(fetched->begin(), fetched->end(), to.begin(),
                   [](T value) { return static_cast<To>(value); });
    return {};
  }

  Status fetch_answers(DeviceOps const& ops) {
    if (Status s = fetch_into(ops.statuses, statuses_); !s.ok()) return s;
    if (Status s = fetch_into(ops.began, began_); !s.ok()) return s;
    if (Status s = fetch_into(ops.ended, ended_); !s.ok()) return s;
    auto const written = [&](std::size_t i) {
      bool const writes =
          ops.kinds[i] == OpKind::get || (ops.updates_add && ops.kinds[i] == OpKind::update);
      return writes && (ops.statuses.empty() || ops.statuses[i] == KeyStatus::ok);
    };
    if (Status s = machine_.download_output(ops.out, written); !s.ok()) return s;
    return machine_.wait();
  }

  EngineState<Machine>* shared_;
  Machine machine_;
  DeviceView view_;
  DeviceTotals totals_now_{};  // once it has ended
  Buffer<std::uint64_t> fresh_, segments_;
  Buffer<std::uint32_t> free_, before_, unlinked_, locks_;
  Buffer<DeviceTotals> totals_;
  Buffer<std::uint8_t> kinds_, statuses_;
  Buffer<std::uint64_t> began_, ended_, clock_;
};

}  // namespace perdure
