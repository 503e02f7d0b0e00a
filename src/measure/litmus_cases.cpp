#include "measure/litmus_cases.hpp"

namespace perdure::measure {

using enum Access;
using exec::Order;
using exec::Reliance;
using exec::Scope;

LitmusTest const kMessagePassing{
    "MP", 2, {{{store_x, store_y}, {load_y, load_x}}}, {0, 0b01, 0, 0}};
LitmusTest const kCanary{"canary", 2, {{{store_y, store_x}, {load_y, load_x}}}, {0, 0b01, 0, 0}};
LitmusTest const kStoreBuffering{
    "SB", 2, {{{store_x, load_y}, {store_y, load_x}}}, {0b00, 0b00, 0, 0}};
LitmusTest const kLoadBuffering{
    "LB", 2, {{{load_x, store_y}, {load_y, store_x}}}, {0b01, 0b01, 0, 0}};
LitmusTest const kIndependentReads{
    "IRIW",
    4,
    {{{store_x, none}, {store_y, none}, {load_x, load_y}, {load_y, load_x}}},
    {0, 0, 0b01, 0b01}};
LitmusTest const kAdd{"add", 2, {{{add, none}, {add, none}}}, {}};
LitmusTest const kCas{"cas", 2, {{{cas, none}, {cas, none}}}, {}};
LitmusTest const kSwap{"swap", 2, {{{swap, none}, {swap, none}}}, {}};

bool LitmusCase::has(SideOf side) const {
  for (std::uint32_t i = 0; i < test->threads; ++i)
    if (sides[i] == side) return true;
  return false;
}

std::string LitmusCase::shown_sides() const {
  auto const shown = [&](std::uint32_t i) { return sides[i] == SideOf::cpu ? "cpu" : "gpu"; };
  std::string all = shown(0);
  std::uint32_t const writers = test == &kIndependentReads ? 2 : 1;
  for (std::uint32_t i = 1; i < test->threads; ++i) {
    bool const passes = test == &kMessagePassing || test == &kCanary || test == &kIndependentReads;
    bool const turns = i == writers && passes;
    all += (turns ? " -> " : "+") + std::string(shown(i));
  }
  return all;
}

bool LitmusCase::allowed(bool shares_atomics) const {
  if ((crosses() && scope == Scope::device) || test == &kCanary) return true;
  if (test->is_update()) return crosses() && !shares_atomics;
  switch (order) {
    case Order::relaxed: return true;
    case Order::release_acquire: return test == &kStoreBuffering || test == &kIndependentReads;
    case Order::fenced:
    case Order::sequential: return false;
  }
  return true;
}

std::optional<exec::Reliance> LitmusCase::relied_on() const {
  bool const host_alone = !has(SideOf::gpu), gpu_alone = !has(SideOf::cpu);
  if (host_alone) {
    bool const counts = (test == &kMessagePassing && order == Order::release_acquire) ||
                        (test == &kStoreBuffering && order == Order::sequential) ||
                        (test == &kAdd || test == &kCas);
    if (counts) return Reliance::host_threads;
    return {};
  }
  bool const ordered = test == &kMessagePassing && order == Order::fenced;
  bool const to_host = sides[0] == SideOf::gpu && sides[1] == SideOf::cpu;
  if (ordered && to_host && scope == Scope::system) return Reliance::batches;
  // Who reads fences for the device alone (device_table.hpp).
  if (ordered && gpu_alone && scope == Scope::device) return Reliance::sessions;
  if (gpu_alone && test == &kCas && scope == Scope::device) return Reliance::batches;
  return {};
}

std::string_view name(Order order) {
  switch (order) {
    case Order::relaxed: return "relaxed";
    case Order::release_acquire: return "release-acquire";
    case Order::fenced: return "fenced";
    case Order::sequential: return "sequential";
  }
  return "";
}

std::string_view name(Scope scope) { return scope == Scope::system ? "system" : "device"; }

namespace {

using Sides = std::array<SideOf, kMostThreads>;
constexpr auto C = SideOf::cpu, G = SideOf::gpu;

void add_orders(std::vector<LitmusCase>& all, LitmusTest const& test, Sides const& sides) {
  LitmusCase one{&test, sides, Order::relaxed, Scope::system};
  if (test.is_update()) {
    all.push_back(one);
    one.scope = Scope::device;
    if (one.has(G)) all.push_back(one);
    return;
  }
  for (Order const order :
       {Order::relaxed, Order::release_acquire, Order::fenced, Order::sequential}) {
    one.order = order;
    all.push_back(one);
  }
  one.scope = Scope::device;
  for (Order const order : {Order::release_acquire, Order::fenced}) {
    one.order = order;
    if (one.has(G)) all.push_back(one);
  }
}

}  // namespace

std::vector<LitmusCase> litmus_cases(bool with_gpu) {
  std::vector<LitmusCase> all;
  auto const add_all = [&](std::vector<Sides> const& of_two, std::vector<Sides> const& of_mp,
                           std::vector<Sides> const& of_four) {
    for (LitmusTest const* test : {&kAdd, &kCas, &kSwap})
      for (Sides const& sides : of_two) add_orders(all, *test, sides);
    for (Sides const& sides : of_mp) {
      all.push_back({&kCanary, sides, Order::fenced, Scope::system});
      add_orders(all, kMessagePassing, sides);
    }
    for (LitmusTest const* test : {&kStoreBuffering, &kLoadBuffering})
      for (Sides const& sides : of_two) add_orders(all, *test, sides);
    for (Sides const& sides : of_four) add_orders(all, kIndependentReads, sides);
  };
  add_all({{C, C}}, {{C, C}}, {{C, C, C, C}});
  if (!with_gpu) return all;
  add_all({{C, G}}, {{C, G}, {G, C}}, {{C, C, G, G}, {G, G, C, C}, {C, G, C, G}});
  add_all({{G, G}}, {{G, G}}, {{G, G, G, G}});
  return all;
}

}  // namespace perdure::measure
