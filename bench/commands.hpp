// The subcommands: each adds its options to the command line and hands back what runs it.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace perdure::bench {

struct Command {
  CLI::App* app = nullptr;
  std::function<int()> run;  // the exit status
};

[[nodiscard]] Command add_ycsb(CLI::App& program);
[[nodiscard]] Command add_load_factor(CLI::App& program);
[[nodiscard]] Command add_accesses(CLI::App& program);
[[nodiscard]] Command add_batches(CLI::App& program);
[[nodiscard]] Command add_reopen(CLI::App& program);
[[nodiscard]] Command add_durability(CLI::App& program);
[[nodiscard]] Command add_replay(CLI::App& program);
[[nodiscard]] Command add_log(CLI::App& program);
[[nodiscard]] Command add_peers(CLI::App& program);
[[nodiscard]] Command add_fill(CLI::App& program);
[[nodiscard]] Command add_cache_load(CLI::App& program);
[[nodiscard]] Command add_indexes(CLI::App& program);
[[nodiscard]] Command add_index_load(CLI::App& program);
[[nodiscard]] Command add_index_segments(CLI::App& program);
[[nodiscard]] Command add_index_reopen(CLI::App& program);
[[nodiscard]] Command add_emulation(CLI::App& program);

}  // namespace perdure::bench
