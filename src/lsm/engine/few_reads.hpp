// Reads of few keys in runs that lie in the host's memory: their caller's thread does them, and
// borrows nothing, so that any number of threads read side by side. Invariant: no machine is asked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "base/assert.hpp"
#include "lsm/engine/machine_engine.hpp"
#include "lsm/engine/read_bodies.hpp"
#include "lsm/engine/run_on.hpp"

namespace perdure::lsm {

template <class Machine>
class FewReads {
 public:
  static constexpr bool kPossible = !Machine::kPoolIsFar;
  static constexpr std::size_t kKeys = 4 * kGroup<Machine>;
  static constexpr std::size_t kRuns = 32;

  static bool are_few(RunSpan runs, Column const& keys) {
    return keys.count <= kKeys && runs.size() <= kRuns && keys.space == MemorySpace::host;
  }

  FewReads(RunSpan runs, Column const& keys, Limits const& limits) {
    PERDURE_ASSERT(limits.each.empty() || limits.each.size() == keys.count);
    std::byte* to = views_;
    for (Run const* run : runs) {
      new (to) RunView(RunOn<Machine>::of(*run).view());
      to += sizeof(RunView);
    }
    view_.runs = reinterpret_cast<RunView const*>(views_);
    view_.count = static_cast<std::uint32_t>(runs.size());
    view_.n = keys.count;
    view_.keys = {keys.data, keys.offsets, keys.width};
    view_.limits = limits.each.empty() ? nullptr : limits.each.data();
    view_.limit = limits.all;
  }
  FewReads(FewReads const&) = delete;
  FewReads& operator=(FewReads const&) = delete;

  [[nodiscard]] ReadView const& view() const { return view_; }
  template <class Body>
  void run(Body const& body) const {
    for (std::size_t group = 0; group < groups<Machine>(view_.n); ++group) body(group);
  }

 private:
  ReadView view_;
  alignas(RunView) std::byte views_[kRuns * sizeof(RunView)];  // as many as there are runs
};

}  // namespace perdure::lsm
