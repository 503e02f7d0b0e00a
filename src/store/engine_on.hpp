// The batch pipeline on a machine, once for all of them: what is launched, over what, in which order.
// Ordering points of a write batch: one after plan (records before words), one after publish (words
// before the acknowledgement). Everything durable a batch does lies before one of the two.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "base/mutants.hpp"
#include "pm/memory.hpp"
#include "store/batch_ops.hpp"
#include "store/engine.hpp"

namespace perdure {

/// What all sessions of an engine share.
template <class Machine>
struct EngineState {
  EngineOptions options;
  typename Machine::Shared machine;
  gphash::TableView table;
  typename Machine::template Buffer<std::uint32_t> claims;
  std::mutex mutex;       // guards get_counts
  exec::Counts get_counts;
};

template <class Machine, class Ops, bool kCounted>
class SessionOn final : public Session {
  template <class T>
  using Buffer = typename Machine::template Buffer<T>;
  using Memory = pm::Memory<kCounted>;
  using Warp = typename Machine::Warp;
  using PublishWarp = std::conditional_t<Ops::kPublishNeedsWarp, typename Machine::Warp, typename Machine::Solo>;

 public:
  explicit SessionOn(EngineState<Machine>& shared)
      : shared_(&shared), machine_(shared.machine), memory_(shared.options.base) {}

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
    if (Status s = send(status_, status); !s.ok()) return s;
    batch_.status = status_.data();
    if (!call.kinds.empty()) {
      if (Status s = send(kinds_, {reinterpret_cast<std::uint8_t const*>(call.kinds.data()), call.kinds.size()});
          !s.ok())
        return s;
      batch_.kinds = kinds_.data();
    }
    return counts_.resize(1);
  }

  Status get() override {
    auto const counts = launch<Warp>(GetBody<Ops, GetMode::copy>{batch_, shared_->table});
    if (!counts) return counts.status();
    add_get_counts(counts.value());
    return {};
  }

  Result<std::span<std::uint64_t const>> locate() override {
    if (Status s = located_.resize(batch_.n); !s.ok()) return s;
    if (Status s = lengths_.resize(batch_.n); !s.ok()) return s;
    batch_.located = located_.data();
    batch_.lengths = lengths_.data();
    if (Status s = machine_.fill(located_.data(), 0, batch_.n); !s.ok()) return s;
    if (Status s = machine_.fill(lengths_.data(), 0, batch_.n); !s.ok()) return s;
    auto const counts = launch<Warp>(GetBody<Ops, GetMode::locate>{batch_, shared_->table});
    if (!counts) return counts.status();
    add_get_counts(counts.value());
    return machine_.fetch(lengths_, batch_.n);
  }

  Status copy_located(std::span<std::int64_t const> offsets, std::byte* out) override {
    if (Status s = send(out_offsets_, offsets); !s.ok()) return s;
    batch_.out_offsets = out_offsets_.data();
    auto const bytes = static_cast<std::size_t>(offsets.back());
    auto place = machine_.place_for(out, bytes);
    if (!place) return place.status();
    batch_.out = *place;
    if (auto const counts = launch<Warp>(CopyLocatedBody{batch_, shared_->table}); !counts) return counts.status();
    return machine_.return_bytes(out, batch_.out, bytes);
  }

  Status prepare(std::span<std::uint64_t const> reserved, bool any_fits, std::uint64_t sequence) override {
    batch_.sequence = sequence;
    batch_.any_fits = any_fits;
    if (Status s = order_.resize(batch_.n); !s.ok()) return s;
    if (Status s = plans_.resize(batch_.n); !s.ok()) return s;
    if (Status s = unlinked_.resize(batch_.n); !s.ok()) return s;
    if (Status s = used_.resize(batch_.n); !s.ok()) return s;
    if (Status s = send(reserved_, reserved); !s.ok()) return s;
    if (Status s = settled_.resize(batch_.n); !s.ok()) return s;
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

  Result<exec::Counts> plan(bool displace, log::UndoPlace const* undo) override {
    ++batch_.round;
    batch_.displacement = displace && shared_->options.displacement;
    auto planned = launch<Warp>(PlanBody<Ops>{batch_, shared_->table});
    if (!planned) return planned;
    if (undo != nullptr) {
      if (Status s = log_undo(*undo, *planned); !s.ok()) return s;
    }
    return mutated(Mutant::no_order_after_plan) ? planned : ordered(*planned);
  }
  Result<exec::Counts> publish() override {
    auto published = launch<PublishWarp>(PublishBody<Ops>{batch_, shared_->table});
    if (!published || mutated(Mutant::no_order_after_publish)) return published;
    return ordered(*published);
  }

  Result<Call> kept() override {
    Call call = call_;
    if (Status s = machine_.kept(call.keys, 0); !s.ok()) return s;
    if (Status s = machine_.kept(call.values, 1); !s.ok()) return s;
    return call;
  }

  Result<std::span<std::uint8_t const>> statuses() override { return machine_.fetch(status_, batch_.n); }

  Result<Outcome> outcome() override {
    auto used = machine_.fetch(used_, batch_.n);
    if (!used) return used.status();
    auto unlinked = machine_.fetch(unlinked_, batch_.n);
    if (!unlinked) return unlinked.status();
    return Outcome{*used, *unlinked};
  }

  Status finish() override {
    if (Status s = machine_.return_out(call_.out); !s.ok()) return s;
    return machine_.wait();
  }

  Result<exec::Counts> rehash(gphash::Level const& retiring, std::uint64_t slots) {
    if (Status s = machine_.begin(nullptr); !s.ok()) return s;
    if (Status s = counts_.resize(1); !s.ok()) return s;
    batch_.n = slots;
    auto moved = launch<Warp>(RehashBody<Ops>{shared_->table, retiring});
    return moved ? ordered(*moved) : moved;
  }

 private:
  template <class T>
  Status send(Buffer<T>& to, std::span<T const> from) {
    if (Status s = to.resize(from.size()); !s.ok()) return s;
    return machine_.send(to.data(), from.data(), from.size());
  }

  template <class W, class Body>
  Result<exec::Counts> launch(Body const& body) {
    if (Status s = machine_.fill(counts_.data(), 0, 1); !s.ok()) return s;
    if (Status s = machine_.template warps<W>(batch_.n, body, memory_, counts_.data()); !s.ok()) return s;
    auto counts = machine_.fetch(counts_, 1);
    if (!counts) return counts.status();
    return (*counts)[0];
  }

  Result<exec::Counts> ordered(exec::Counts counts) {
    if (Status s = machine_.order(); !s.ok()) return s;
    ++counts[exec::Counts::orders];
    return counts;
  }

  Status log_undo(log::UndoPlace const& place, exec::Counts& counts) {
    if constexpr (Ops::kUndoable) {
      auto const logged = launch<PublishWarp>(UndoBody<Ops>{batch_, place});
      if (!logged) return logged.status();
      counts += logged.value();
      return {};
    } else {
      return {Code::unsupported, "this layout cannot undo a batch"};
    }
  }

  void add_get_counts(exec::Counts const& counts) {
    if constexpr (kCounted) {
      std::lock_guard const lock(shared_->mutex);
      for (std::uint32_t k = 0; k < exec::Counts::kNames; ++k) shared_->get_counts.value[k] += counts.value[k];
    }
  }

  EngineState<Machine>* shared_;
  Machine machine_;
  Memory memory_;
  Call call_;
  BatchView batch_;
  Buffer<std::uint8_t> status_, used_, kinds_, settled_;
  Buffer<std::uint64_t> reserved_, unlinked_, located_, lengths_;
  Buffer<std::int64_t> out_offsets_;
  Buffer<gphash::Plan> plans_;
  Buffer<exec::Sorted> order_;
  Buffer<exec::Counts> counts_;
};

template <class Machine, class Ops, bool kCounted>
class EngineOn final : public Engine {
  using Mine = SessionOn<Machine, Ops, kCounted>;

 public:
  EngineOn(EngineOptions const& options, typename Machine::Shared machine) {
    state_.options = options;
    state_.machine = std::move(machine);
  }

  Status set_table(gphash::TableView const& view, std::uint64_t slots) override {
    state_.table = view;
    if (Status s = state_.claims.resize((slots + 31) / 32); !s.ok()) return s;
    state_.table.claims = state_.claims.data();
    Machine machine(state_.machine);
    if (Status s = machine.begin(nullptr); !s.ok()) return s;
    if (Status s = machine.fill(state_.claims.data(), 0, (slots + 31) / 32); !s.ok()) return s;
    return machine.wait();
  }

  void set_pool_bytes(std::uint64_t bytes) override { state_.table.pool_bytes = bytes; }

  Result<std::unique_ptr<Session>> session() override { return std::unique_ptr<Session>(new Mine(state_)); }

  Result<exec::Counts> rehash(gphash::Level const& retiring, std::uint64_t slots) override {
    return Mine(state_).rehash(retiring, slots);
  }

  exec::Counts get_counts() override {
    std::lock_guard const lock(state_.mutex);
    return std::exchange(state_.get_counts, {});
  }

  [[nodiscard]] std::string describe() const override { return state_.machine.describe(); }

 private:
  EngineState<Machine> state_;
};

/// Picks the instantiation. Counting builds and unusual shapes share the generic shape's code.
template <class Machine>
std::unique_ptr<Engine> make_engine_on(EngineOptions const& options, typename Machine::Shared machine) {
  using gphash::InPlaceOps;
  using gphash::Shape228;
  using gphash::ShapeAny;
  using gphash::WordOps;
  if (options.in_place) {
    if (options.count_accesses)
      return std::make_unique<EngineOn<Machine, InPlaceOps<ShapeAny>, true>>(options, std::move(machine));
    if (options.default_shape)
      return std::make_unique<EngineOn<Machine, InPlaceOps<Shape228>, false>>(options, std::move(machine));
    return std::make_unique<EngineOn<Machine, InPlaceOps<ShapeAny>, false>>(options, std::move(machine));
  }
  if (options.count_accesses)
    return std::make_unique<EngineOn<Machine, WordOps<ShapeAny>, true>>(options, std::move(machine));
  if (options.default_shape)
    return std::make_unique<EngineOn<Machine, WordOps<Shape228>, false>>(options, std::move(machine));
  return std::make_unique<EngineOn<Machine, WordOps<ShapeAny>, false>>(options, std::move(machine));
}

}  // namespace perdure
