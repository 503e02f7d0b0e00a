#include "soak/victim.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "soak/gpu_hooks.hpp"

namespace perdure::test {
namespace {

constexpr std::uint64_t kStepsBetweenCloses = 10;
constexpr std::uint64_t kMostStepsToTrap = 3000;

[[noreturn]] void give_up(char const* doing, std::uint64_t number, Status const& status) {
  std::fprintf(stderr, "soak: the loading process, %s %llu: %s\n", doing, static_cast<unsigned long long>(number),
               status.message().c_str());
  ::_exit(1);
}

Result<Store> open_it(Assignment const& a, bool fresh, Page& page) {
  auto const begin = std::chrono::steady_clock::now();
  ++page.opens;
  page.phase = Phase::opening;
  auto store = fresh ? create_pool(a.files, a.kind) : open_pool(a.files, a.kind.device);
  auto const took = std::chrono::steady_clock::now() - begin;
  if (store.ok() && page.opened_in_us == 0)
    page.opened_in_us =
        1 + static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(took).count());
  if (store.ok()) page.phase = Phase::loading;
  return store;
}

/// The kernel has trapped, and with it went the CUDA context: the store must refuse to go on.
[[noreturn]] void die_trapped(Assignment const& a, Store* store, std::uint64_t number, Status const& status) {
  if (!a.trap || status.code() != Code::device_error || !context_is_dead()) give_up("step", number, status);
  if (store != nullptr) {
    Status const after = run(*store, a.kind, make_step(a.kind, a.seed, a.kill, number));
    if (after.code() != Code::closed) give_up("a write after the trap in step", number, after);
  }
  ::_exit(kTrapped);
}

/// Says what comes of it; the step is not acknowledged yet.
Status run_said(Store& store, Assignment const& a, Step const& step, std::uint64_t number, Page& page) {
  Running how;
  how.begun = [&] { page.open_transaction = 1; };
  how.ending = [&, number] { page.ending = number + 1; };
  how.without_transaction = a.plant == Plant::transactions;
  Status const s = run(store, a.kind, step, how);
  page.open_transaction = 0;
  return s;
}

[[noreturn]] void load(Assignment const& a, Page& page) {
  if (a.kind.device == Device::cuda) show_kernels(&page.kernel);
  if (a.trap) {
    if (Status s = arm_trap(a.trap->point, a.trap->nth); !s.ok()) give_up("arming trap", a.trap->nth, s);
  }
  auto store = open_it(a, a.fresh, page);
  if (!store.ok()) die_trapped(a, nullptr, 0, store.status());
  for (std::uint64_t number = 0; !a.trap || number < kMostStepsToTrap; ++number) {
    Step const step = make_step(a.kind, a.seed, a.kill, number);
    page.started = number + 1;
    if (a.plant == Plant::early) page.acknowledged = number + 1;
    if (Status s = run_said(*store, a, step, number, page); !s.ok()) die_trapped(a, &*store, number, s);
    page.acknowledged = number + 1;
    page.operations += step.operations();
    if (a.trap || number % kStepsBetweenCloses != kStepsBetweenCloses - 1) continue;
    page.closed_at = number + 1;
    page.phase = Phase::closing;
    if (Status s = store->close(); !s.ok()) give_up("closing after step", number, s);
    store = open_it(a, false, page);
    if (!store.ok()) give_up("opening after step", number, store.status());
  }
  give_up("waiting for the trap at pass", a.trap->nth, {Code::invalid_argument, "it never came"});
}

}  // namespace

pid_t start_victim(Assignment const& assignment, Page& page) {
  pid_t const child = ::fork();
  if (child == 0) load(assignment, page);
  return child;
}

}  // namespace perdure::test
