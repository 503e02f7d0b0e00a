// Picks the instantiation of a baseline for a machine, by its file's design and key size.
#pragma once

#include <memory>
#include <utility>

#include "assisted.hpp"
#include "baseline_on.hpp"
#include "clevel_table.hpp"
#include "machines.hpp"
#include "slabhash_table.hpp"

namespace perdure::baselines {

template <class Machine, class Table>
Result<std::unique_ptr<Baseline>> make_as(Making making, typename Machine::Shared const& machine) {
  auto baseline = std::make_unique<BaselineOn<Machine, Table>>(std::move(making.arena), machine,
                                                               std::move(making.workers));
  if (Status s =
          making.fresh ? baseline->create(making.options.expected_records) : baseline->recover();
      !s.ok())
    return s;
  return std::unique_ptr<Baseline>(std::move(baseline));
}

template <class Machine>
Result<std::unique_ptr<Baseline>> make_on(Making making, typename Machine::Shared const& machine) {
  if (making.index != nullptr)
    return std::unique_ptr<Baseline>(
        new Assisted<Machine>(std::move(making.index), machine, std::move(making.workers)));
  ArenaHeader const& header = making.arena->header();
  auto const design = static_cast<Design>(header.design);
  if (design == Design::slabhash_gpm && header.key_bytes == 8)
    return make_as<Machine, slabhash::Table<1>>(std::move(making), machine);
  if (design == Design::slabhash_gpm && header.key_bytes == 32)
    return make_as<Machine, slabhash::Table<4>>(std::move(making), machine);
  if (design == Design::clevel_gpm)
    return make_as<Machine, clevel::Table>(std::move(making), machine);
  return Status{Code::unsupported, "SlabHash-GPM has keys of 8 or 32 bytes"};
}

}  // namespace perdure::baselines
