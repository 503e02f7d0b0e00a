// The Hosts that designs are measured over, each with caches that are flushed or kept. Invariants:
// an index in DRAM is never flushed, and a thread that has flushed nothing does not fence; where
// caches are kept no line is flushed and none goes past them, so what media write is what caches
// evict.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <utility>
#include <variant>

#include "pm/counted_host.hpp"
#include "pm/emulated_host.hpp"
#include "pm/host.hpp"

namespace perdure::kv_baselines {

/// Nanoseconds that a host's thread was about each part; of hosts that are asked to.
class PartClock {
 public:
  void enters(pm::Part part, double now) {
    if (running_) ns_[static_cast<std::size_t>(part_)] += now - since_;
    running_ = true;
    part_ = part;
    since_ = now;
  }
  void stop(double now) {
    enters(part_, now);
    running_ = false;
  }
  void reset() { ns_ = {}; }
  [[nodiscard]] double ns(pm::Part part) const { return ns_[static_cast<std::size_t>(part)]; }

 private:
  std::array<double, 3> ns_{};
  pm::Part part_ = pm::Part::space;
  double since_ = 0;
  bool running_ = false;
};

template <class Base>
class MayKeep : public Base {
 public:
  template <class... Args>
  MayKeep(bool kept, pm::DurableRange durable, std::shared_ptr<PartClock> parts, Args&&... args)
      : Base(std::forward<Args>(args)...),
        kept_(kept),
        durable_(durable),
        parts_(std::move(parts)) {}

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

  void enters(pm::Part part) {
    if (parts_ != nullptr) parts_->enters(part, clock());
  }
  void leaves() {
    if (parts_ != nullptr) parts_->stop(clock());
  }
  [[nodiscard]] PartClock* parts() const { return parts_.get(); }

 private:
  [[nodiscard]] double clock() const {
    if constexpr (requires { this->now(); })
      return this->now();
    else
      return pm::tsc_ns();
  }

  bool kept_;
  pm::DurableRange durable_;
  std::shared_ptr<PartClock> parts_;  // null: nobody asked
  bool on_its_way_ = false;
};

using Flushed = MayKeep<pm::FlushedHost>;
using Counted = MayKeep<pm::CountedHost>;
using Emulated = MayKeep<pm::EmulatedHost>;
static_assert(pm::Host<Flushed> && pm::Host<Counted> && pm::Host<Emulated>);

using AnyHost = std::variant<Flushed, Counted, Emulated>;

}  // namespace perdure::kv_baselines
