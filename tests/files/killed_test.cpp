// Files whose lock outlives the process that took it, as where io_uring still writes for it. A
// child of that process stands for the system here: it has the file open until a test lets go of
// it, which a test does between two tries to lock the file. No test goes by the clock.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "files/call_hook.hpp"
#include "pm/named_file.hpp"
#include "support/store_driver.hpp"

namespace perdure::test {
namespace {

/// A process that has the file locked, and whose child has it still after its end.
class Holder {
 public:
  explicit Holder(std::string const& path) {
    std::ofstream(path) << "there";
    std::array<int, 2> told{}, asked{};
    EXPECT_EQ(::pipe(told.data()), 0);
    EXPECT_EQ(::pipe(asked.data()), 0);
    process_ = ::fork();
    if (process_ == 0) {
      ::close(told[0]);
      ::close(asked[1]);
      hold(path, told[1], asked[0]);
    }
    ::close(told[1]);
    ::close(asked[0]);
    told_ = told[0];
    asked_ = asked[1];
    char locked = 0;
    EXPECT_EQ(::read(told_, &locked, 1), 1);
  }
  Holder(Holder const&) = delete;
  Holder& operator=(Holder const&) = delete;
  ~Holder() {
    kill();
    let_go();
    ::close(told_);
  }

  /// The process is gone, and its child has the lock.
  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }
  /// Nobody has the lock when this returns.
  void let_go() {
    if (asked_ < 0) return;
    ::close(asked_);
    asked_ = -1;
    char end = 0;
    EXPECT_EQ(::read(told_, &end, 1), 0) << "its child's end";
  }

 private:
  [[noreturn]] static void hold(std::string const& path, int told, int asked) {
    int const file = ::open(path.c_str(), O_RDWR);
    if (::flock(file, LOCK_EX | LOCK_NB) != 0) ::_exit(1);
    if (::fork() == 0) {
      char end = 0;
      bool const told_to_end = ::read(asked, &end, 1) >= 0;  // by let_go()
      ::close(file);
      ::_exit(told_to_end ? 0 : 1);
    }
    if (::write(told, "", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }

  pid_t process_ = 0;
  int told_ = -1, asked_ = -1;
};

TEST(KilledProcess, ItsFileIsOpenedOnceTheSystemLetsGoOfIt) {
  ScratchDir const dir;
  Holder holder(dir.file("log"));
  holder.kill();
  BeforeNthCall const second_try(2, [&] { holder.let_go(); });
  auto const fd = pm::open_file("file", dir.file("log"), true, pm::Lock::exclusive);
  EXPECT_TRUE(second_try.happened()) << "the first one was refused";
  EXPECT_TRUE(fd.ok()) << fd.status().message();
}

TEST(KilledProcess, TheFileOfOneThatLivesIsRefusedAtOnce) {
  ScratchDir const dir;
  Holder const holder(dir.file("log"));
  BeforeNthCall const second_try(3, [] {});  // behind the unlocking of what the first one opened
  auto const fd = pm::open_file("file", dir.file("log"), true, pm::Lock::exclusive);
  EXPECT_EQ(fd.status().code(), Code::busy);
  EXPECT_FALSE(second_try.happened()) << "nothing is waited for";
}

}  // namespace
}  // namespace perdure::test
