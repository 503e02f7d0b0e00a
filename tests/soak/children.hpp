// Children that a victim forks while it loads: they leave in every way a process can, call the
// store that is not theirs, are killed, or outlive their parent by some seconds. Invariant judged
// here: every call in a child is refused (closed). That none of them changes the pool or keeps its
// lock, the judge and the next opening find.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "soak/victim.hpp"

namespace perdure::test {

/// How long a child outlives its parent, and how long the parent's lock may be seen after that
/// died: children release it as they begin to run, which takes a while on a busy machine.
inline constexpr std::chrono::milliseconds kOrphanLives{6000};
inline constexpr std::chrono::milliseconds kLockLingers{5000};

/// Opens a pool whose last process may have left children a moment ago.
template <class Open>
Result<Store> open_soon(Open const& open) {
  auto const until = std::chrono::steady_clock::now() + kLockLingers;
  for (;;) {
    auto opened = open();
    if (opened.status().code() != Code::busy || std::chrono::steady_clock::now() > until)
      return opened;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

class Children {
 public:
  /// Of a store in static memory, so that a child that exits destroys it.
  Children(Assignment const& assignment, Page& page, std::optional<Store>& store);

  /// Begins to fork, beside whatever the process does with the store, until it is killed.
  void begin();
  /// Forks here and now, in the midst of a transaction, now and then.
  void within(Transaction& transaction);
  /// Held while the store is put in its place or taken out: no child is to find half of one.
  std::mutex& moving() { return moving_; }

 private:
  enum class Does : std::uint8_t { exits, exits_at_once, calls, destroys, is_killed, stays };

  [[noreturn]] void go_on_forking();
  /// `silent`: it neither releases anything nor calls anything.
  [[noreturn]] void be(Does does, bool silent);
  void await(pid_t child, Does does);

  Assignment const& assignment_;
  Page& page_;
  std::optional<Store>& store_;
  std::mutex moving_;
  std::mt19937_64 random_, random_within_;  // the thread's, and the loading one's
};

/// Of a child's status, as waitpid() gives it: it was refused by every call, or killed.
[[nodiscard]] bool left_in_order(int status);
[[nodiscard]] std::string why_not_in_order(int status);

}  // namespace perdure::test
