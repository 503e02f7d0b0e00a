// Options of the C interface as the C++ interface has them, each field checked. NULL stands for the
// defaults, which are the C++ interface's.
#pragma once

#include <cstdint>
#include <optional>

#include "capi/fields.hpp"
#include "capi/handles.hpp"
#include "perdure/batch.h"
#include "perdure/options.h"

namespace perdure::capi {

[[nodiscard]] Result<CreateOptions> create_options(perdure_create_options const* given);
[[nodiscard]] Result<OpenOptions> open_options(perdure_open_options const* given);
[[nodiscard]] Result<RestoreOptions> restore_options(perdure_restore_options const* given);
[[nodiscard]] Result<FileOptions> file_options(perdure_file_options const* given);
[[nodiscard]] Result<TransactionOptions> transaction_options(
    perdure_transaction_options const* given);
/// The transaction and the stop flag stay the caller's.
[[nodiscard]] Result<CallOptions> call_options(perdure_call_options const* given);
[[nodiscard]] Result<RangeQuery> range_query(perdure_range_query const* given);

}  // namespace perdure::capi
