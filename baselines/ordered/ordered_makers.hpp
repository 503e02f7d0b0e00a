// Who makes which map. Invariant: a maker is null where this build or machine lacks what it needs.
#pragma once

#include "ordered_baseline.hpp"

namespace perdure::ordered_baselines {

using Made = Result<std::unique_ptr<Map>>;

Made make_btree();
Made make_std_map();
[[nodiscard]] bool has_absl();
Made make_absl_map();
/// Which of RocksDB's builds is there: "release", "distribution", or "".
[[nodiscard]] std::string rocksdb_build();
Made make_rocksdb_memtable(std::uint64_t keys, std::uint32_t threads);

}  // namespace perdure::ordered_baselines
