// The Hosts that designs are measured over, each with caches that are flushed or kept. Invariants:
// an index in DRAM is never flushed, and a thread that has flushed nothing does not fence; where
// caches are kept no line is flushed and none goes past them, so what media write is what caches
// evict.
#pragma once

#include <cstddef>
#include <utility>
#include <variant>

#include "pm/counted_host.hpp"
#include "pm/emulated_host.hpp"
#include "pm/host.hpp"

namespace perdure::kv_baselines {

template <class Base>
class MayKeep : public Base {
 public:
  template <class... Args>
  MayKeep(bool kept, pm::DurableRange durable, Args&&... args)
      : Base(std::forward<Args>(args)...), kept_(kept), durable_(durable) {}

  void flush(void const* at, std::size_t bytes) {
    if (kept_ || !durable_.has(at)) return;
    Base::flush(at, bytes);
    on_its_way_ = true;
  }
  void fence() {
    if (std::exchange(on_its_way_, false)) Base::fence();
  }
  void persist(void const* at, std::size_t bytes) {
    flush(at, bytes);
    fence();
  }
  void stream(std::byte* to, std::byte const* from, std::size_t bytes) {
    kept_ ? Base::write(to, from, bytes) : Base::stream(to, from, bytes);
    on_its_way_ = !kept_;
  }

 private:
  bool kept_;
  pm::DurableRange durable_;
  bool on_its_way_ = false;
};

using Flushed = MayKeep<pm::FlushedHost>;
using Counted = MayKeep<pm::CountedHost>;
using Emulated = MayKeep<pm::EmulatedHost>;
static_assert(pm::Host<Flushed> && pm::Host<Counted> && pm::Host<Emulated>);

using AnyHost = std::variant<Flushed, Counted, Emulated>;

}  // namespace perdure::kv_baselines
