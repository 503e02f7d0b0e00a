// Files whose lock outlives the process that took it, as where io_uring still writes for it. A
// child of that process stands for the system here: it has the file open a moment longer.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>

#include "pm/named_file.hpp"
#include "support/store_driver.hpp"

namespace perdure::test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr useconds_t kLongerUs = 100'000;

/// A process that has the file locked, and whose child has it still for a moment after its end.
class Holder {
 public:
  explicit Holder(std::string const& path) {
    std::ofstream(path) << "there";
    std::array<int, 2> ready{};
    EXPECT_EQ(::pipe(ready.data()), 0);
    process_ = ::fork();
    if (process_ == 0) hold(path, ready[1]);
    ::close(ready[1]);
    char locked = 0;
    EXPECT_EQ(::read(ready[0], &locked, 1), 1);
    ::close(ready[0]);
  }
  Holder(Holder const&) = delete;
  Holder& operator=(Holder const&) = delete;
  ~Holder() { kill(); }

  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  [[noreturn]] static void hold(std::string const& path, int ready) {
    int const file = ::open(path.c_str(), O_RDWR);
    pid_t const parent = ::getpid();
    if (::flock(file, LOCK_EX | LOCK_NB) != 0) ::_exit(1);
    if (::fork() == 0) {
      while (::getppid() == parent) ::usleep(1000);
      ::usleep(kLongerUs);
      ::_exit(0);
    }
    static_cast<void>(::write(ready, "", 1));
    for (;;) ::pause();
  }

  pid_t process_ = 0;
};

TEST(KilledProcess, ItsFileIsOpenedOnceTheSystemLetsGoOfIt) {
  ScratchDir const dir;
  Holder holder(dir.file("log"));
  holder.kill();
  auto const fd = pm::open_file("file", dir.file("log"), true, pm::Lock::exclusive);
  EXPECT_TRUE(fd.ok()) << fd.status().message();
}

TEST(KilledProcess, TheFileOfOneThatLivesIsRefusedAtOnce) {
  ScratchDir const dir;
  Holder const holder(dir.file("log"));
  auto const before = Clock::now();
  auto const fd = pm::open_file("file", dir.file("log"), true, pm::Lock::exclusive);
  EXPECT_EQ(fd.status().code(), Code::busy);
  EXPECT_LT(Clock::now() - before, std::chrono::milliseconds(400));
}

}  // namespace
}  // namespace perdure::test
