// The subcommands: each adds its options to the command line and hands back what runs it.
#pragma once

#include <functional>

#include "command_line.hpp"

namespace perdure::bench {

struct Command {
  CommandLine* app = nullptr;
  std::function<int()> run;  // the exit status
};

[[nodiscard]] Command add_ycsb(CommandLine& program);
[[nodiscard]] Command add_load_factor(CommandLine& program);
[[nodiscard]] Command add_accesses(CommandLine& program);
[[nodiscard]] Command add_batches(CommandLine& program);
[[nodiscard]] Command add_reopen(CommandLine& program);
[[nodiscard]] Command add_durability(CommandLine& program);
[[nodiscard]] Command add_replay(CommandLine& program);
[[nodiscard]] Command add_log(CommandLine& program);
[[nodiscard]] Command add_baselines(CommandLine& program);
[[nodiscard]] Command add_fill(CommandLine& program);
[[nodiscard]] Command add_cache_load(CommandLine& program);
[[nodiscard]] Command add_indexes(CommandLine& program);
[[nodiscard]] Command add_index_load(CommandLine& program);
[[nodiscard]] Command add_index_segments(CommandLine& program);
[[nodiscard]] Command add_index_reopen(CommandLine& program);
[[nodiscard]] Command add_emulation(CommandLine& program);
[[nodiscard]] Command add_kv(CommandLine& program);
[[nodiscard]] Command add_ordered(CommandLine& program);
[[nodiscard]] Command add_prestores(CommandLine& program);
[[nodiscard]] Command add_hetero(CommandLine& program);
[[nodiscard]] Command add_shared_gets(CommandLine& program);
[[nodiscard]] Command add_calls(CommandLine& program);
[[nodiscard]] Command add_reader_revert(CommandLine& program);
[[nodiscard]] Command add_limits(CommandLine& program);

}  // namespace perdure::bench
