// perdure-bench: the figures of the store, each printed for people and as JSON. Exit status 0 when
// every answer of the store was right, 1 when one was wrong, 2 for wrong usage or a run that
// failed.
#include <array>
#include <cstdio>
#include <exception>

#include "commands.hpp"
#include "common.hpp"
#include "logs.hpp"

namespace {

int run(int argc, char** argv) {
  using namespace perdure::bench;
  CommandLine program("Measures Perdure. Every value read is checked.", "perdure-bench",
                      std::string(perdure::version()));
  std::array const commands{add_ycsb(program),          add_load_factor(program),
                            add_accesses(program),      add_reopen(program),
                            add_log(program),           add_durability(program),
                            add_replay(program),        add_batches(program),
                            add_baselines(program),     add_fill(program),
                            add_cache_load(program),    add_indexes(program),
                            add_index_load(program),    add_index_segments(program),
                            add_index_reopen(program),  add_emulation(program),
                            add_ordered(program),       add_prestores(program),
                            add_hetero(program),        add_kv(program),
                            add_shared_gets(program),   add_calls(program),
                            add_reader_revert(program), add_limits(program)};
  int status = kUsage;
  if (!program.parse(argc, argv, status)) return status;
  if (PERDURE_UNMEASURED)
    std::fputs(
        "perdure-bench: built to be tested, without optimisation: its figures say nothing of speed "
        "(scripts/build.sh PERDURE_BENCH=ON builds it to be measured)\n",
        stderr);
  log_as_asked();
  for (Command const& command : commands) {
    if (command.app->parsed()) return command.run();
  }
  return kUsage;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "perdure-bench: %s\n", error.what());
    return perdure::bench::kUsage;
  }
}
