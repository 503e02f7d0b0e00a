#include "base/process.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <mutex>
#include <new>
#include <vector>

namespace perdure {
namespace {

struct Descriptors {
  std::mutex mutex;  // guards the rest; held across a fork, so that no child sees a file opened and not noted
  std::vector<int> held;
  void close_all() {
    for (int const fd : held) ::close(fd);  // never unlocked: the lock is the parent's, too
    held.clear();
  }
};

/// There to the very end, for stores in static memory; and had without memory, for this_process() cannot fail.
Descriptors& descriptors() {
  alignas(Descriptors) static std::byte room[sizeof(Descriptors)];
  static auto* const all = new (room) Descriptors;
  return *all;
}

std::atomic<std::uint64_t> last_number{0};  // a child has its parent's

/// This process's number, in a page that the kernel clears in every child; 0: not numbered yet.
std::atomic<std::uint64_t>& number() {
  static auto* const word = [] {
    static std::atomic<std::uint64_t> of_the_handler{0};  // where the kernel does not: cleared after fork() alone
    void* const page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool const wiped = page != MAP_FAILED && ::madvise(page, 4096, MADV_WIPEONFORK) == 0;
    static_cast<void>(descriptors());
    ::pthread_atfork([] { descriptors().mutex.lock(); }, [] { descriptors().mutex.unlock(); },
                     [] {
                       descriptors().close_all();
                       number().store(0);
                       descriptors().mutex.unlock();
                     });
    return wiped ? static_cast<std::atomic<std::uint64_t>*>(page) : &of_the_handler;
  }();
  return *word;
}

/// The first question in a process.
std::uint64_t enter_process() {
  std::uint64_t const next = last_number.load() + 1;
  std::uint64_t none = 0;
  if (!number().compare_exchange_strong(none, next)) return none;
  last_number.store(next);
  Descriptors& all = descriptors();
  // After a clone() without fork()'s handlers. Who held the mutex then is not here to let go of it.
  if (next > 1 && all.mutex.try_lock()) {
    all.close_all();
    all.mutex.unlock();
  }
  return next;
}

template <class F>
int held(F open) {
  static_cast<void>(this_process());
  Descriptors& all = descriptors();
  std::lock_guard const lock(all.mutex);
  if (all.held.size() == all.held.capacity()) all.held.reserve(2 * all.held.size() + 8);  // before there is one to note
  int const fd = open();
  if (fd >= 0) all.held.push_back(fd);
  return fd;
}

}  // namespace

std::uint64_t this_process() noexcept {
  std::uint64_t const known = number().load(std::memory_order_relaxed);
  return known != 0 ? known : enter_process();
}

int open_held(char const* path, int flags, mode_t mode) {
  return held([&] { return ::open(path, flags, mode); });
}

int memfd_held(char const* name) {
  return held([&] { return ::memfd_create(name, MFD_CLOEXEC); });
}

int eventfd_held() {
  return held([] { return ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); });
}

void hold(int fd) {
  static_cast<void>(this_process());
  Descriptors& all = descriptors();
  std::lock_guard const lock(all.mutex);
  all.held.push_back(fd);
}

bool is_held(int fd) {
  static_cast<void>(this_process());
  Descriptors& all = descriptors();
  std::lock_guard const lock(all.mutex);
  return std::find(all.held.begin(), all.held.end(), fd) != all.held.end();
}

void close_held(int fd) {
  if (!is_held(fd)) return;
  ::flock(fd, LOCK_UN);  // a child made by clone() may have the file open still
  Descriptors& all = descriptors();
  std::lock_guard const lock(all.mutex);
  if (std::erase(all.held, fd) == 0) return;
  int const error = errno;
  ::close(fd);
  errno = error;
}

void let_go_of(int fd) {
  Descriptors& all = descriptors();
  std::lock_guard const lock(all.mutex);
  std::erase(all.held, fd);
}

}  // namespace perdure
