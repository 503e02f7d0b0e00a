// How a table of Dash's evaluation (baselines/cpu) becomes an index of the CPU-assisted path.
#pragma once

#include <memory>
#include <string>

#include "baseline.hpp"

namespace perdure::baselines {

/// `table`: a name of baselines/cpu that has values in records: clevel or seph-like. Not `fresh`:
/// the file is opened again, with keys and values of the same sizes.
Result<std::unique_ptr<Baseline>> make_table_baseline(std::string const& path,
                                                      std::string const& table,
                                                      BaselineOptions const& options, bool fresh);

}  // namespace perdure::baselines
