#include "base/process.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

/// A descriptor's number, and the file that it stood for.
struct Held {
  int fd;
  dev_t device;
  ino_t inode;
  explicit Held(int number) : fd(number), device(0), inode(0) {
    struct stat st{};
    if (::fstat(fd, &st) != 0) return;
    device = st.st_dev;
    inode = st.st_ino;
  }
  /// Whoever closes all descriptors closes ours too, and their numbers are given out again.
  [[nodiscard]] bool still_stands() const {
    Held const now(fd);
    return now.inode != 0 && now.device == device && now.inode == inode;
  }
};

struct Descriptors {
  std::mutex
      mutex;  // guards the rest; held across a fork, so that no child sees the rest half changed
  std::vector<Held> held;
  std::uint64_t forks = 0;  // that began here
  void close_all() {
    for (Held const& one : held) {
      if (one.still_stands()) ::close(one.fd);  // never unlocked: the lock is the parent's, too
    }
    held.clear();
  }
  auto find(int fd) {
    return std::find_if(held.begin(), held.end(), [fd](Held const& one) { return one.fd == fd; });
  }
  /// In place of one of that number that others closed.
  void note(int fd) {
    forget(fd);
    held.emplace_back(fd);
  }
  void forget(int fd) {
    std::erase_if(held, [fd](Held const& one) { return one.fd == fd; });
  }
};

/// There to the very end, for stores in static memory; and had without memory, for this_process()
/// cannot fail.
Descriptors& descriptors() {
  alignas(Descriptors) static std::byte room[sizeof(Descriptors)];
  static auto* const all = new (room) Descriptors;
  return *all;
}

std::atomic<std::uint64_t> last_number{0};  // a child has its parent's

/// This process's number, in a page that the kernel clears in every child; 0: not numbered yet.
std::atomic<std::uint64_t>& number() {
  static auto* const word = [] {
    static std::atomic<std::uint64_t> of_the_handler{
        0};  // where the kernel does not: cleared after fork() alone
    void* const page =
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool const wiped = page != MAP_FAILED && ::madvise(page, 4096, MADV_WIPEONFORK) == 0;
    static_cast<void>(descriptors());
    ::pthread_atfork(
        [] {
          descriptors().mutex.lock();
          ++descriptors().forks;
        },
        [] { descriptors().mutex.unlock(); },
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
  // After a clone() without fork()'s handlers. Who held the mutex then is not here to release it.
  if (next > 1 && all.mutex.try_lock()) {
    all.close_all();
    all.mutex.unlock();
  }
  return next;
}

/// The file that was opened or made by `flags`, by a descriptor that no child has. -1 with EEXIST:
/// it was made, and is not there any more.
int open_again(int shared, char const* path, int flags) {
  Held const made(shared);
  ::close(shared);
  int const fd = above_standard(::open(path, flags & ~(O_CREAT | O_EXCL | O_TRUNC)));
  bool const makes = (flags & O_EXCL) != 0;
  if (!makes || (fd >= 0 && Held(fd).inode == made.inode && Held(fd).device == made.device))
    return fd;
  if (fd >= 0) ::close(fd);
  errno = EEXIST;
  return -1;
}

/// Room for one more, which is had before there is one to note; and how many forks there were.
std::uint64_t begin_to_open() {
  static_cast<void>(this_process());
  Descriptors& all = descriptors();
  std::lock_guard const lock(all.mutex);
  if (all.held.size() == all.held.capacity()) all.held.reserve(2 * all.held.size() + 8);
  return all.forks;
}

/// A descriptor that is made without waiting for anything.
template <class Make>
int made_held(Make make) {
  static_cast<void>(begin_to_open());
  Descriptors& all = descriptors();
  std::lock_guard const lock(all.mutex);
  int const fd = above_standard(make());
  if (fd >= 0) all.note(fd);
  return fd;
}

/// False: there was a fork since, whose child has it too.
bool note_unless_forked(int fd, std::uint64_t forks) {
  Descriptors& all = descriptors();
  std::lock_guard const lock(all.mutex);
  if (forks == all.forks) all.note(fd);
  return forks == all.forks;
}

/// Whether the number stands for what was opened here; else it is known no more.
bool forget_unless_ours(int fd) {
  Descriptors& all = descriptors();
  std::lock_guard const lock(all.mutex);
  auto const found = all.find(fd);
  if (found == all.held.end()) return false;
  bool const ours = found->still_stands();
  if (!ours) all.held.erase(found);
  return ours;
}

}  // namespace

std::uint64_t this_process() noexcept {
  std::uint64_t const known = number().load(std::memory_order_relaxed);
  return known != 0 ? known : enter_process();
}

// Opening may take long (a file system over a network, a FIFO): nobody waits for it, neither others
// that open nor a fork.
int open_held(char const* path, int flags, mode_t mode) {
  std::uint64_t forks = begin_to_open();
  int fd = above_standard(::open(path, flags, mode));
  while (fd >= 0 && !note_unless_forked(fd, forks)) {
    forks = begin_to_open();
    fd = open_again(fd, path, flags);
  }
  return fd;
}

int memfd_held(char const* name) {
  return made_held([name] { return ::memfd_create(name, MFD_CLOEXEC); });
}

int eventfd_held() {
  return made_held([] { return ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); });
}

int above_standard(int fd) {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  int const above = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  int const error = errno;
  ::close(fd);
  errno = error;
  return above;
}

void hold(int fd) {
  static_cast<void>(begin_to_open());
  Descriptors& all = descriptors();
  std::lock_guard const lock(all.mutex);
  all.note(fd);
}

bool is_held(int fd) {
  static_cast<void>(this_process());
  Descriptors& all = descriptors();
  std::lock_guard const lock(all.mutex);
  auto const found = all.find(fd);
  return found != all.held.end() && found->still_stands();
}

// The lock first, so that no child that is forked in between has it; and nothing is held while the
// system works.
void close_held(int fd) {
  static_cast<void>(this_process());
  if (!forget_unless_ours(fd)) return;
  int const error = errno;
  ::flock(fd, LOCK_UN);  // a child made by clone() may have the file open still
  let_go_of(fd);
  ::close(fd);
  errno = error;
}

void let_go_of(int fd) {
  Descriptors& all = descriptors();
  std::lock_guard const lock(all.mutex);
  all.forget(fd);
}

}  // namespace perdure
