// How the units of an engine launch their bodies: a machine of their own, the pool's memory, and
// one counter of what a launch did. Invariant: a launcher belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <span>

#include "base/assert.hpp"
#include "exec/counts.hpp"
#include "perdure/status.h"
#include "pm/memory.hpp"
#include "store/gphash/engine/engine_state.hpp"

namespace perdure {

template <class Machine>
class Launcher {
 public:
  template <class T>
  using Buffer = typename Machine::template Buffer<T>;

  explicit Launcher(EngineState<Machine>& state)
      : machine(state.machines), state_(&state), memory_(state.options.base) {}

  /// Before anything else, and once more for each call.
  Status begin(CUstream_st* stream) {
    if (Status s = machine.begin(stream); !s.ok()) return s;
    if (Status s = counts_.resize(1); !s.ok()) return s;
    return counts_.need_twin(1);
  }

  /// From here on launches count together, until counts() is asked.
  Status begin_counts() {
    PERDURE_ASSERT(counts_.data() != nullptr);  // begin() came before
    return machine.fill(counts_.data(), 0, 1);
  }
  template <class W, class Body>
  Status count(Body const& body, std::uint64_t items) {
    return machine.template warps<W>(items, body, memory_, counts_.data());
  }
  [[nodiscard]] pm::Memory const& memory() const { return memory_; }
  [[nodiscard]] exec::Counts* counts_here() const { return counts_.data(); }
  [[nodiscard]] exec::Counts* counts_twin() const { return counts_.twin(); }
  /// Waits for what was launched, and says what it counted.
  Result<exec::Counts> counts() {
    auto counts = machine.fetch(counts_, 1);
    if (!counts) return counts.status();
    return (*counts)[0];
  }

  template <class W, class Body>
  Status run(Body const& body, std::uint64_t items) {
    return machine.template warps<W>(items, body, memory_, nullptr);
  }

  /// Waits for the launch, and says what it counted.
  template <class W, class Body>
  Result<exec::Counts> counted(Body const& body, std::uint64_t items) {
    if (Status s = begin_counts(); !s.ok()) return s;
    if (Status s = count<W>(body, items); !s.ok()) return s;
    return counts();
  }

  /// Of what a get counts, only accesses are asked for: without them nobody waits for it.
  template <class Body>
  Status run_gets(Body const& body, std::uint64_t items) {
    using Warp = typename Machine::Warp;
    if (!state_->options.count_accesses) return run<Warp>(body, items);
    auto const counts = counted<Warp>(body, items);
    if (!counts) return counts.status();
    state_->add_get_counts(counts.value());
    return {};
  }

  template <class T>
  Status send(Buffer<T>& to, std::span<T const> from) {
    PERDURE_ASSERT(from.empty() || from.data() != nullptr);
    if (Status s = to.resize(from.size()); !s.ok()) return s;
    return machine.send(to.data(), from.data(), from.size());
  }

  Machine machine;

 private:
  EngineState<Machine>* state_;
  pm::Memory memory_;
  Buffer<exec::Counts> counts_;
};

/// Lists that bodies append to, and room to sort them in.
template <class Machine>
struct Lists {
  typename Machine::template Buffer<std::uint64_t> entries, spare, count, slots, values, gets;

  /// Of a batch of writes of so many operations, gets among them.
  Status resize_for_gets(std::uint64_t operations) {
    if (Status s = gets.resize(2 * operations); !s.ok()) return s;
    if (Status s = spare.resize(operations); !s.ok()) return s;
    return values.resize(operations);
  }
};

}  // namespace perdure
