// Signals of the program that has a store: its threads get them, and none of the library's. A
// program may block one after it has opened a store, and wait for it then.
#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "lifetime/lifetime_store.hpp"

namespace perdure::test {
namespace {

constexpr std::uint64_t kMany = 3000;

/// Of this process.
std::size_t threads() {
  auto const all = std::filesystem::directory_iterator("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

std::atomic<int> handled{0};
void handle(int) { ++handled; }

/// SIGUSR1 has a handler, and this thread blocks it.
class Blocked {
 public:
  Blocked() {
    handled = 0;
    struct sigaction how{};
    how.sa_handler = handle;
    ::sigaction(SIGUSR1, &how, &handler_);
    ::sigaddset(&one_, SIGUSR1);
    ::pthread_sigmask(SIG_BLOCK, &one_, &mask_);
  }
  ~Blocked() {
    ::pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
    ::sigaction(SIGUSR1, &handler_, nullptr);
  }
  Blocked(Blocked const&) = delete;
  Blocked& operator=(Blocked const&) = delete;

  /// Whether the signal, sent to the process, is still there for who waits.
  [[nodiscard]] bool comes_to_who_waits() const {
    ::kill(::getpid(), SIGUSR1);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // for whoever else would take it
    timespec const most{1, 0};
    return ::sigtimedwait(&one_, nullptr, &most) == SIGUSR1;
  }

 private:
  sigset_t one_{}, mask_{};
  struct sigaction handler_{};
};

class Signals : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, Signals, testing::ValuesIn(kinds()),
                         [](auto const& one) { return std::string(one.param.name); });

TEST_P(Signals, ThatAProgramBlocksOnceItHasAStoreComeToWhoWaitsForThem) {
  std::size_t const before = threads();
  PoolHome home(GetParam());
  home.expected_records = kMany / 3;  // so that it grows
  auto store = home.create();
  ASSERT_TRUE(store.ok()) << store.status().message();
  ASSERT_TRUE(put(*store, 0, kMany).ok());
  ASSERT_GT(threads(), before) << "the library has none, so this is no test";
  Blocked const blocked;
  for (std::uint64_t n = 0; n < 20; ++n) {
    ASSERT_TRUE(blocked.comes_to_who_waits()) << "signal " << n;
    ASSERT_TRUE(put(*store, 100 * n, 300, n).ok());
  }
  ASSERT_TRUE(store->close().ok());
  EXPECT_EQ(handled, 0);
}

TEST_P(Signals, OfAProgramAreItsOwnAgainWhenACallReturns) {
  sigset_t before, after;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &before);
  PoolHome const home(GetParam());
  auto store = home.create();
  ASSERT_TRUE(store.ok() && put(*store, 0, 3000).ok() && store->close().ok());
  ::pthread_sigmask(SIG_BLOCK, nullptr, &after);
  for (int signal = 1; signal < NSIG; ++signal)
    EXPECT_EQ(::sigismember(&before, signal), ::sigismember(&after, signal)) << signal;
}

}  // namespace
}  // namespace perdure::test
