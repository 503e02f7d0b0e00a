#include "soak/victim.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "soak/allocations.hpp"
#include "soak/children.hpp"
#include "soak/forgetting_files.hpp"
#include "soak/gpu_hooks.hpp"

namespace perdure::test {
namespace {

constexpr std::uint64_t kStepsBetweenCloses = 10;
constexpr std::uint64_t kMostStepsToTrap = 3000;
constexpr int kMostOpenings = 12;  // that may fail on purpose

[[noreturn]] void give_up(char const* doing, std::uint64_t number, Status const& status) {
  std::fprintf(stderr, "soak: the loading process, %s %llu: %s\n", doing,
               static_cast<unsigned long long>(number), status.message().c_str());
  ::_exit(1);
}

/// In static memory: a child that exits destroys it.
std::optional<Store> store;

/// A victim's life.
class Loader {
 public:
  Loader(Assignment const& assignment, Page& page)
      : a_(assignment), page_(page), children_(a_, page, store) {}

  [[noreturn]] void load() {
    if (a_.kind.device == Device::cuda) show_kernels(&page_.kernel);
    if (a_.kind.disk) disk_.emplace();
    if (a_.plant == Plant::disks) disk_->lie();
    if (a_.trap) {
      if (Status s = arm_trap(a_.trap->point, a_.trap->nth); !s.ok())
        give_up("arming trap", a_.trap->nth, s);
    }
    if (Status s = open(a_.fresh); !s.ok()) die_trapped(0, s);
    fail(true);
    if (a_.forks) children_.begin();
    for (std::uint64_t number = 0; !a_.trap || number < kMostStepsToTrap; ++number) {
      take(number);
      if (!a_.trap && number % kStepsBetweenCloses == kStepsBetweenCloses - 1) reopen(number);
    }
    give_up("waiting for the trap at pass", a_.trap->nth,
            {Code::invalid_argument, "it never came"});
  }

 private:
  void take(std::uint64_t number) {
    Step const step = make_step(a_.kind, a_.seed, a_.kill, number);
    page_.started = number + 1;
    if (a_.plant == Plant::early) page_.acknowledged = number + 1;
    if (injecting() && number % 4 == 0) static_cast<void>(read_some(*store, a_.kind));
    Status const s = run_said(step, number);
    if (!s.ok() && injecting()) return refused(number);
    if (!s.ok()) die_trapped(number, s);
    page_.acknowledged = number + 1;
    page_.operations += step.operations();
  }

  [[nodiscard]] bool injecting() const { return a_.allocations_fail != 0 || a_.disk_fails != 0; }
  void fail(bool whether) {
    std::uint64_t const seed = a_.seed * 1'000'003 + a_.kill;
    fail_allocations(seed, whether ? a_.allocations_fail : 0);
    if (disk_) disk_->fail(seed, whether ? a_.disk_fails : 0);
    page_.failures = failed_allocations() + (disk_ ? disk_->failures() : 0);
  }

  /// Either the store goes on, and nothing of the step is there; or it refuses everything until it
  /// is opened anew, and of the step there may be what a kill would have left.
  void refused(std::uint64_t number) {
    fail(false);
    std::size_t const before = page_.refused;
    if (a_.plant == Plant::refused) page_.acknowledged = number + 1;
    if (!write_nothing(*store, a_.kind).ok()) give_way(number);
    if (a_.disk_fails != 0)
      give_up("a write after a failed one", number, {Code::ok, "it was taken"});
    if (before == kMostRefused) rest();
    if (a_.plant != Plant::refused) {
      page_.refused_step[before] = number;
      page_.refused = before + 1;
    }
    page_.acknowledged = number + 1;
    fail(true);
  }

  [[noreturn]] void give_way(std::uint64_t number) {
    ++page_.failed_for_good;
    page_.closed_at = number + 1;
    static_cast<void>(close_pool(*store));
    put_away();
    if (Status s = open(false); !s.ok()) give_up("opening after the refused step", number, s);
    rest();
  }

  [[noreturn]] void rest() {
    page_.phase = Phase::done;
    for (;;) ::pause();
  }

  /// Says what comes of it; the step is not acknowledged yet.
  Status run_said(Step const& step, std::uint64_t number) {
    Running how;
    how.begun = [&](Transaction& transaction) {
      page_.open_transaction = 1;
      if (a_.forks) children_.within(transaction);
    };
    how.ending = [&, number] { page_.ending = number + 1; };
    how.without_transaction = a_.plant == Plant::transactions;
    if (how.without_transaction && step.how == Step::How::committed)
      page_.open_transaction = 1;  // so it should be
    Status s = run(*store, a_.kind, step, how);
    page_.open_transaction = 0;
    return s;
  }

  Status open(bool fresh) {
    auto const begin = std::chrono::steady_clock::now();
    ++page_.opens;
    page_.phase = Phase::opening;
    auto const try_to = [&] {
      return fresh ? create_pool(a_.files, a_.kind) : open_pool(a_.files, a_.kind.device);
    };
    fail(true);
    auto opened = open_soon(try_to);
    for (int tries = 1; injecting() && !opened.ok() && tries <= kMostOpenings; ++tries) {
      fail(tries < kMostOpenings);
      opened = open_soon(try_to);
    }
    fail(false);
    auto const took = std::chrono::steady_clock::now() - begin;
    if (!opened.ok()) return opened.status();
    {
      std::lock_guard const lock(children_.moving());
      store.emplace(std::move(*opened));
    }
    if (page_.opened_in_us == 0)
      page_.opened_in_us =
          1 + static_cast<std::uint64_t>(
                  std::chrono::duration_cast<std::chrono::microseconds>(took).count());
    page_.phase = Phase::loading;
    return {};
  }

  void reopen(std::uint64_t number) {
    page_.closed_at = number + 1;
    page_.phase = Phase::closing;
    if (Status s = close_pool(*store); !s.ok() && !injecting())
      give_up("closing after step", number, s);
    put_away();
    if (Status s = open(false); !s.ok()) give_up("opening after step", number, s);
    fail(true);
  }

  void put_away() {
    std::lock_guard const lock(children_.moving());
    store.reset();
  }

  /// The kernel has trapped, and with it went the CUDA context: the store must refuse to go on.
  [[noreturn]] void die_trapped(std::uint64_t number, Status const& status) {
    if (!a_.trap || status.code() != Code::device_error || !context_is_dead())
      give_up("step", number, status);
    if (store) {
      Status const after = run(*store, a_.kind, make_step(a_.kind, a_.seed, a_.kill, number));
      if (after.code() != Code::closed) give_up("a write after the trap in step", number, after);
    }
    ::_exit(kTrapped);
  }

  Assignment const& a_;
  Page& page_;
  Children children_;
  std::optional<ForgettingFiles> disk_;
};

}  // namespace

pid_t start_victim(Assignment const& assignment, Page& page) {
  pid_t const child = ::fork();
  if (child == 0) Loader(assignment, page).load();
  return child;
}

}  // namespace perdure::test
