// An open pool whose index is a Dash table (store/threads/core.hpp), and that table's engine.
// Invariant: there is an engine from the moment that the table has been found until the store is
// closed.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "store/dash/dash_engine.hpp"
#include "store/index_name.hpp"
#include "store/threads/core.hpp"

namespace perdure {

struct DashCore final : threads::Core {
  DashCore(std::string const& pool_path, OpenOptions const& open_options, RecoveryReport& report,
           pm::Pool made)
      : Core(pool_path, open_options, report, std::move(made)) {}

  [[nodiscard]] threads::Engine* operations() const override { return engine.get(); }
  [[nodiscard]] Offset index_at() const;  // 0: the root names none
  void make_engine(dash::SegmentShape segments);
  /// Nobody changes the table. False: some segments are damaged, and what they hold is left out.
  bool count_records();

  std::unique_ptr<DashEngine> engine;
};

}  // namespace perdure
