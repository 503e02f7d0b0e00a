// All applications, for a machine. Each is added here, and nowhere else.
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "bfs.hpp"
#include "black_scholes.hpp"
#include "cfd.hpp"
#include "db.hpp"
#include "dnn.hpp"
#include "hotspot.hpp"
#include "kvs.hpp"
#include "micro.hpp"
#include "prefix_sum.hpp"
#include "srad.hpp"

namespace perdure::bench::gpm {

template <class Grid>
inline constexpr std::array kApps{
    App<Grid>{"kvs", "transactional", &run_kvs<Grid>},
    App<Grid>{"kvs-95-5", "transactional", &run_kvs_mixed<Grid>},
    App<Grid>{"db-insert", "transactional", &run_db_insert<Grid>},
    App<Grid>{"db-update", "transactional", &run_db_update<Grid>},
    App<Grid>{"dnn", "checkpointing", &run_dnn<Grid>},
    App<Grid>{"cfd", "checkpointing", &run_cfd<Grid>},
    App<Grid>{"black-scholes", "checkpointing", &run_black_scholes<Grid>},
    App<Grid>{"hotspot", "checkpointing", &run_hotspot<Grid>},
    App<Grid>{"bfs", "native", &run_bfs<Grid>},
    App<Grid>{"srad", "native", &run_srad<Grid>},
    App<Grid>{"prefix-sum", "native", &run_prefix_sum<Grid>},
};

/// What runs on a machine: each machine is compiled by itself (on_cpu.cpp, on_cuda.cu).
struct Machine {
  std::string description;
  std::function<AppReport(std::string const& app, AppOptions const& options)> run;
  std::function<std::vector<MicroRow>(std::string const& name, MicroOptions const& options)>
      run_micro;
};
[[nodiscard]] Machine open_cpu(std::uint32_t threads);
[[nodiscard]] Machine open_cuda();
/// Builds with PERDURE_TRAPS: the next kernels abort at the n-th ordering point that their threads
/// pass.
void arm_trap(std::uint64_t nth);

/// name and kind, and of the micro-benchmarks name and what they measure
[[nodiscard]] std::vector<std::pair<std::string, std::string>> app_names();
[[nodiscard]] std::vector<std::pair<std::string, std::string>> micro_names();

template <class Grid>
[[nodiscard]] AppReport run_app(Grid& grid, std::string const& name, AppOptions const& options) {
  for (App<Grid> const& app : kApps<Grid>) {
    if (name == app.name) return app.run(grid, options);
  }
  throw Failure("no application " + name + "; --list names them");
}

/// The same, and what its kernels did to durable memory.
template <class Grid>
[[nodiscard]] AppReport run_counted(Grid& grid, std::string const& name,
                                    AppOptions const& options) {
  require(grid.count(), "counting");
  perdure::gpm::GridTally const before = require(grid.tally(), "counting");
  AppReport report = run_app(grid, name, options);
  perdure::gpm::GridTally const after = require(grid.tally(), "counting");
  report.more.emplace_back("stores", static_cast<double>(after.stores - before.stores));
  report.more.emplace_back("stored_bytes", static_cast<double>(after.bytes - before.bytes));
  report.more.emplace_back("ordering_points", static_cast<double>(after.orders - before.orders));
  return report;
}

}  // namespace perdure::bench::gpm
