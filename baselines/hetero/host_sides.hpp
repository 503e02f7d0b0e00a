// The sides behind the face: the host's threads and what one of them does, and the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "exec/workers.hpp"
#include "hetero.hpp"
#include "region.hpp"
#include "sides.hpp"

namespace perdure::hetero {

class HostSides final : public Sides {
 public:
  static Result<std::shared_ptr<Sides>> open(perdure::Device device, std::uint32_t threads);
  static HostSides& of(Sides& sides) { return static_cast<HostSides&>(sides); }

  [[nodiscard]] std::string describe() const override {
    return std::to_string(workers_.threads()) + " host threads; device: " + device_->describe();
  }
  [[nodiscard]] std::uint32_t threads() const override { return workers_.threads(); }

  [[nodiscard]] exec::Workers& workers() { return workers_; }
  [[nodiscard]] HostThread const& thread() const { return *thread_; }
  [[nodiscard]] hetero::Device& device() { return *device_; }
  /// Memory that both sides reach.
  [[nodiscard]] Result<Region> region(std::size_t bytes) const {
    return Region::make(bytes, on_gpu_);
  }

  /// f(begin, end) over [0, n), by all host threads: small enough that every thread has some. What
  /// one thread answers before others have come to help is left to the caller.
  template <class F>
  void share_out(std::size_t n, F&& f) {
    std::size_t const each = n / (std::size_t{4} * workers_.threads()) + 1;
    workers_.for_chunks(n, each < kLeast ? kLeast : each > kMost ? kMost : each, f);
  }

 private:
  static constexpr std::size_t kLeast = 512, kMost = 4096;  // keys a thread takes at a time

  HostSides(bool on_gpu, std::uint32_t threads)
      : on_gpu_(on_gpu), workers_(threads), second_(on_gpu ? 1 : workers_.threads()) {}

  bool on_gpu_;
  exec::Workers workers_;
  exec::Workers second_;  // the device, where there is no GPU
  std::unique_ptr<HostThread> thread_;
  std::unique_ptr<hetero::Device> device_;
};

}  // namespace perdure::hetero
