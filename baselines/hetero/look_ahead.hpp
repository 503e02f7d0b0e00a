// Runs a body on one host thread with a distance of its own: the first stage of an item comes
// `distance` items before its last one, and those between evenly spread (section 4.3.4, Figure
// 4.20). Distance 0 is no prefetching: the stages of an item follow each other. CpuMachine looks
// ahead by blocks of a fixed size, which is enough for everybody but this measurement.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "exec/counts.hpp"

namespace perdure::hetero {

inline constexpr std::uint32_t kMostAhead = 64;

template <class W, class M, class Body>
class LookAhead {
 public:
  LookAhead(Body const& body, M const& mem, std::uint32_t distance) : body_(body), mem_(mem) {
    for (int k = 0; k < kStages; ++k)
      behind_[k] = kStages == 1 ? 0 : distance * static_cast<std::uint32_t>(k) / (kStages - 1);
  }

  exec::Counts run(std::size_t begin, std::size_t end) {
    for (std::size_t now = begin; now < end + behind_[kStages - 1]; ++now)
      step(begin, end, now, std::make_integer_sequence<int, kStages>());
    return counts_;
  }

 private:
  static constexpr int kStages = Body::kStages;
  static constexpr std::size_t kStates = std::size_t{2} * kMostAhead;  // more than a distance

  template <int... kStage>
  void step(std::size_t begin, std::size_t end, std::size_t now,
            std::integer_sequence<int, kStage...>) {
    (stage<kStage>(begin, end, now - behind_[kStage]), ...);
  }
  template <int kStage>
  void stage(std::size_t begin, std::size_t end, std::size_t i) {
    if (i - begin >= end - begin) return;  // wraps where i is before begin
    body_.template stage<kStage>(warp_, mem_, i, states_[i % kStates], counts_);
  }

  Body const& body_;
  M mem_;
  W warp_;
  exec::Counts counts_;
  std::uint32_t behind_[kStages];
  typename Body::template State<W> states_[kStates];
};

}  // namespace perdure::hetero
