#include "files/call_hook.hpp"

#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

namespace perdure::test {
namespace {
thread_local int left = 0;
thread_local std::function<void()> hook;
}  // namespace

static void before_call() {
  if (left > 0 && --left == 0) hook();
}

BeforeNthCall::BeforeNthCall(int nth, std::function<void()> what) {
  hook = std::move(what);
  left = nth;
}
BeforeNthCall::~BeforeNthCall() {
  left = 0;
  hook = nullptr;
}
bool BeforeNthCall::happened() const { return left <= 0; }

}  // namespace perdure::test

extern "C" {

int flock(int fd, int operation) noexcept {
  perdure::test::before_call();
  return static_cast<int>(::syscall(SYS_flock, fd, operation));
}

int renameat2(int from_folder, char const* from, int to_folder, char const* to,
              unsigned flags) noexcept {
  perdure::test::before_call();
  return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}

int unlink(char const* path) noexcept {
  perdure::test::before_call();
  return static_cast<int>(::syscall(SYS_unlink, path));
}
}
