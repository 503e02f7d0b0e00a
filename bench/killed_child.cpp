#include "killed_child.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "common.hpp"

namespace perdure::bench {
namespace {

/// Writes one byte to say that everything was acknowledged, and waits to be killed.
[[noreturn]] void work_and_wait(std::function<void()> const& work, int acknowledged) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // an interrupted benchmark leaves no process behind
  try {
    work();
    if (write(acknowledged, "a", 1) != 1) throw Failure("the parent is gone");
    for (;;) pause();
  } catch (std::exception const& error) {
    std::fprintf(stderr, "perdure-bench, in the process to be killed: %s\n", error.what());
    _exit(kUsage);
  }
}

}  // namespace

void run_and_kill(std::function<void()> const& work) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Failure("pipe: cannot make one");
  pid_t const child = fork();
  if (child < 0) throw Failure("fork: cannot start the process to be killed");
  if (child == 0) {
    close(ends[0]);
    work_and_wait(work, ends[1]);
  }
  close(ends[1]);
  char byte = 0;
  bool const worked = read(ends[0], &byte, 1) == 1;
  close(ends[0]);
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  if (!worked) throw Failure("the process to be killed ended before it had done its work");
}

}  // namespace perdure::bench
