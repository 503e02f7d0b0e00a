// Which litmus tests there are, between whom, what the memory model says of each, and what of
// Perdure relies on it.
//
// The model is C++'s, and for a GPU's accesses PTX's: accesses of two devices are ordered by it
// only where the GPU's have the scope of the system, and updates of a word of host memory by both
// are atomic only where the GPU's link has atomics (CUDA's hostNativeAtomicSupported).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/lanes.hpp"
#include "exec/recorded_litmus.hpp"
#include "measure/litmus_pass.hpp"

namespace perdure::measure {

struct LitmusTest {
  std::string_view name;
  std::uint32_t threads;
  std::array<Steps, kMostThreads> steps;
  /// What each thread sees (bit 0, bit 1) in the outcome that sequential consistency forbids. Of
  /// atomics nothing: their words are summed up.
  std::array<std::uint32_t, kMostThreads> forbidden;
  [[nodiscard]] bool is_update() const {
    return steps[0].first == Access::add || steps[0].first == Access::cas ||
           steps[0].first == Access::swap;
  }
};

extern LitmusTest const kMessagePassing, kStoreBuffering, kLoadBuffering, kIndependentReads;
extern LitmusTest const kAdd, kCas, kSwap;
/// Message passing by a writer that stores in the wrong order: where even that is not seen, the two
/// sides were not in the same cells at the same time, and the other tests say little.
extern LitmusTest const kCanary;

enum class SideOf : std::uint8_t { cpu, gpu };

struct LitmusCase {
  LitmusTest const* test;
  std::array<SideOf, kMostThreads> sides;
  exec::Order order;
  exec::Scope scope;

  [[nodiscard]] bool has(SideOf side) const;
  [[nodiscard]] bool crosses() const { return has(SideOf::cpu) && has(SideOf::gpu); }
  /// "cpu -> gpu": who writes, who reads.
  [[nodiscard]] std::string shown_sides() const;
  /// Whether the model allows the outcome.
  [[nodiscard]] bool allowed(bool shares_atomics) const;
  /// None: nothing does.
  [[nodiscard]] std::optional<exec::Reliance> relied_on() const;
};

std::string_view name(exec::Order order);
std::string_view name(exec::Scope scope);

/// All of them, those of the host first.
std::vector<LitmusCase> litmus_cases(bool with_gpu);

}  // namespace perdure::measure
