#include "soak/children.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <thread>

#include "crash/pool_file.hpp"

namespace perdure::test {
namespace {

constexpr unsigned kHangs = 60;  // seconds
constexpr int kMostOrphans = 3;  // of one victim
constexpr int kTransactionServed = 20;

/// 0, or the number of the first call that is not refused.
int call_all(Store& store) {
  Strings keys(store.key_bytes()), values(store.value_bytes());
  keys.add(std::string(store.key_bytes(), 'k'));
  values.add(std::string(store.value_bytes(), 'v'));
  std::vector<KeyStatus> statuses(1);
  int number = 0, failed = 0;
  auto const refused = [&](Status const& status) {
    ++number;
    if (status.code() != Code::closed && failed == 0) failed = number;
  };
  refused(store.put(keys.column(), values.column()));
  refused(store.erase(keys.column()));
  refused(store.get_variable(keys.column(), statuses).status());
  refused(store.scan({}, 10).status());
  refused(store.begin().status());
  refused(store.verify().status());
  refused(store.snapshot("/dev/shm/perdure-soak-no-snapshot"));
  refused(store.close());
  return failed;
}

void sleep_for(std::chrono::milliseconds time) {
  for (auto const end = std::chrono::steady_clock::now() + time;
       std::chrono::steady_clock::now() < end;)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

/// What a child would do to the pool that still had it: here by its file.
void spoil(std::string const& path) {
  int const fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  struct stat st{};
  std::vector<char> const zeros(1u << 16);
  if (fd >= 0 && ::fstat(fd, &st) == 0)
    static_cast<void>(!::pwrite(fd, zeros.data(), zeros.size(), st.st_size / 2));
  ::close(fd);
}

}  // namespace

Children::Children(Assignment const& assignment, Page& page, std::optional<Store>& store)
    : assignment_(assignment),
      page_(page),
      store_(store),
      random_(assignment.seed * 1'000'003 + assignment.kill),
      random_within_(random_()) {}

void Children::begin() {
  std::thread([this] { go_on_forking(); }).detach();
}

void Children::go_on_forking() {
  for (int stay = 0;;) {
    sleep_for(std::chrono::milliseconds(random_() % 15));
    bool const by_itself = assignment_.plant == Plant::orphans;  // without fork's handlers
    auto does = by_itself ? Does::stays : static_cast<Does>(random_() % 6);
    if (does == Does::stays && ++stay > kMostOrphans && !by_itself) does = Does::calls;
    std::unique_lock lock(moving_);
    if (!store_) continue;
    ++page_.forked_off;
    auto const child =
        by_itself
            ? static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr))
            : ::fork();
    if (child == 0) be(does, by_itself);
    lock.unlock();
    if (child > 0 && does != Does::stays) await(child, does);
  }
}

void Children::be(Does does, bool silent) {
  ::alarm(kHangs);
  if (silent) {
    sleep_for(4 * kOrphanLives);  // whoever opens the pool next has to meet it, and may be slow
    ::_exit(0);
  }
  if (assignment_.plant == Plant::forks) spoil(assignment_.files.path);
  switch (does) {
    case Does::exits: std::exit(0);
    case Does::exits_at_once: ::_exit(0);
    case Does::destroys: store_.reset(); ::_exit(0);
    case Does::is_killed: sleep_for(kOrphanLives); ::_exit(0);
    case Does::stays: sleep_for(kOrphanLives); break;
    case Does::calls: break;
  }
  std::exit(call_all(*store_));
}

void Children::within(Transaction& transaction) {
  if (random_within_() % 4 != 0) return;
  ++page_.forked_off;
  pid_t const child = ::fork();
  if (child > 0) return await(child, Does::calls);
  if (child < 0) return;
  ::alarm(kHangs);
  bool const refused =
      transaction.commit().code() == Code::closed && transaction.abort().code() == Code::closed;
  {
    Transaction const gone = std::move(transaction);
  }
  std::exit(refused ? call_all(*store_) : kTransactionServed);
}

void Children::await(pid_t child, Does does) {
  if (does == Does::is_killed) {
    sleep_for(std::chrono::milliseconds(1));
    ::kill(child, SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!left_in_order(status)) page_.child_wrong = status;
}

bool left_in_order(int status) {
  return (WIFEXITED(status) && WEXITSTATUS(status) == 0) ||
         (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

std::string why_not_in_order(int status) {
  if (WIFSIGNALED(status))
    return "a forked child ended with signal " + std::to_string(WTERMSIG(status));
  return "a forked child was served by call " + std::to_string(WEXITSTATUS(status)) +
         " (tests/soak/children.cpp numbers them)";
}

}  // namespace perdure::test
