// What every store asks of its callers, whatever its index. Invariant: what is refused here has had
// no effect.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "batch/call.hpp"
#include "perdure/store.h"
#include "pm/named_file.hpp"
#include "pm/pool_format.hpp"

namespace perdure {

/// An argument that the message names is none that the call takes.
[[nodiscard]] inline Status bad_argument(std::string message) {
  return {Code::invalid_argument, std::move(message)};
}
/// How a file is made.
[[nodiscard]] inline pm::MakeOptions make_options(FileOptions const& o) {
  return {.overwrite = o.overwrite, .force = o.force, .mode = o.mode};
}
/// Sizes of keys, values, superblocks and the pool, as far as they are possible.
Status set_sizes(pm::PoolHeader& header, CreateOptions const& options);
/// What the values of a pool are.
[[nodiscard]] ValueType value_type_of(pm::PoolHeader const& header);
/// The pool has the sizes that its opener expects.
Status check_expected(std::string const& path, OpenOptions const& options,
                      pm::PoolHeader const& header);
/// Options of a log of values, for a pool whose values lie in the heap.
[[nodiscard]] Status check_no_value_log(std::string const& path, ValueLogOptions const& options);
/// The columns and arrays of a batch fit each other, and the pool.
Status check_batch(std::string const& path, pm::PoolHeader const& header, Call const& call,
                   std::span<KeyStatus> statuses);
/// The status each operation begins with: pending, or too_large.
Result<std::vector<std::uint8_t>> first_statuses(pm::PoolHeader const& header, Call const& call);
/// Durability power needs a pool that has a name, and a log_dir; the others have no use for a
/// log_dir.
[[nodiscard]] Status check_log_dir(std::string const& path, Durability durability,
                                   std::string const& log_dir);

}  // namespace perdure
