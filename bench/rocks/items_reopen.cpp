// How long it takes to open a database whose process was killed with all of it in the log alone.
//
// The process to be killed is this program again (--fill), started anew: a forked one would have
// the engines' threads and the GPU's context in name only.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>

#include "failure.hpp"
#include "items.hpp"

namespace perdure::bench::rocks {
namespace {

std::uint64_t records_of(std::uint64_t mib, Pairs const& pairs) {
  return (mib << 20) / pairs.pair_bytes();
}

/// Memtables that hold all of the log, so that nothing is flushed.
Setting setting_of(std::uint64_t mib) { return {.memtable_mib = 4 * mib}; }

/// What the process to be killed is asked for.
std::vector<std::string> arguments(Options const& o, System system, std::uint64_t mib,
                                   std::string const& directory) {
  std::vector<std::string> all{"perdure-bench-rocks",
                               "--fill",
                               system == System::rocksdb ? "rocksdb" : "perdure",
                               "--fill-directory",
                               directory,
                               "--path",
                               o.path,
                               "--logs",
                               std::to_string(mib),
                               "--threads",
                               std::to_string(o.threads),
                               "--seed",
                               std::to_string(o.seed),
                               "--device",
                               o.device,
                               "--threshold",
                               std::to_string(o.threshold),
                               "--rocksdb-batch",
                               std::to_string(o.rocksdb_batch),
                               "--batch",
                               std::to_string(o.largest_batch())};
  for (std::string const& each : o.set) all.insert(all.end(), {"--set", each});
  return all;
}

/// Starts this program; what it says on its standard output comes out of `says`.
pid_t start(std::vector<std::string> words, int& says) {
  std::vector<char*> argv;
  for (std::string& each : words) argv.push_back(each.data());
  argv.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Failure("pipe: cannot make one");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t child = 0;
  int const error = posix_spawn(&child, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  says = ends[0];
  if (error != 0) throw Failure(std::string("cannot start myself: ") + std::strerror(error));
  return child;
}

void fill_and_kill(Options const& o, System system, std::uint64_t mib,
                   std::string const& directory) {
  int says = -1;
  pid_t const child = start(arguments(o, system, mib, directory), says);
  char byte = 0;
  bool const filled = read(says, &byte, 1) == 1 && byte == 'f';
  close(says);
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  if (!filled) throw Failure("the process to be killed ended before it had filled its database");
}

}  // namespace

void fill_and_wait(Options const& o) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // an interrupted benchmark leaves no process behind
  std::uint64_t const mib = o.logs.front();
  Pairs const pairs = pairs_of(o, 16, 100);
  System const system = system_named(o.fill);
  auto* const database = new Database(o, system, o.fill_directory, setting_of(mib));
  put_records(o, database->db(), pairs, 0, records_of(mib, pairs), loading_batch(o, system));
  if (write(STDOUT_FILENO, "f", 1) != 1) _exit(kUsage);
  for (;;) pause();
}

void measure_reopen(Context& c) {
  Pairs const pairs = pairs_of(c.o, 16, 100);
  for (std::uint64_t const mib : c.o.logs) {
    std::uint64_t const records = records_of(mib, pairs);
    Figure const figure{"reopen", "after SIGKILL, " + grouped(mib) + " MiB in the log", "ms",
                        Better::less};
    c.compare_alike(figure, 1, 1, [&](Turn const& turn) {
      std::string const directory = c.next_directory();
      fill_and_kill(c.o, turn.system, mib, directory);
      auto const begin = std::chrono::steady_clock::now();
      Fresh const database(c.o, turn.system, directory, setting_of(mib));
      std::string value;
      char key[16];
      pairs.key(0, key);
      require(database.db().Get({}, {key, sizeof key}, &value), "the first get");
      std::chrono::duration<double, std::milli> const took =
          std::chrono::steady_clock::now() - begin;
      verify_records(c.o, database.db(), pairs, records,
                     [](std::uint64_t) { return std::uint64_t{0}; });
      return took.count();
    });
  }
}

}  // namespace perdure::bench::rocks
