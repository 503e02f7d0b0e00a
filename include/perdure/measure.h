// How fast this machine's memory is, the host's and a GPU's, and the link between them: what an
// engine of tables that lie in host memory lives on. A measurement that this machine has no room
// for, or no GPU for, is left out by name, with the reason.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "perdure/export.h"
#include "perdure/litmus.h"
#include "perdure/status.h"

namespace perdure {

struct MeasureOptions {
  double seconds = 60;  // of all measurements together, about
  std::uint64_t memory_bytes = 0;  // that arrays may take; 0: half of what is free
  bool quick = false;  // smaller arrays, for a look at what there is
  /// Also sort more managed memory than the GPU has free. Some drivers do not survive that, and the
  /// GPU is then lost to everybody until it is reset.
  bool oversubscribe = false;
};

struct MeasuredRow {
  std::string what;  // read, write, copy, chase, random, sort, link, launch
  std::string how;  // "huge pages", "host to GPU"; may be empty
  std::uint32_t threads = 0;  // of the host; 0: the GPU's
  std::uint64_t span_bytes = 0;  // that are accessed
  std::uint64_t access_bytes = 0;  // of one access, where that was varied
  double value = 0;
  std::string unit;  // GB/s, ns, us, M/s
};

struct LeftOut {
  std::string what;
  std::string why;
};

struct MeasureReport {
  std::vector<MeasuredRow> rows;
  std::vector<LeftOut> left_out;
  std::string cpu, gpu;  // no GPU: empty
  std::uint64_t memory_bytes = 0;  // that arrays took at most
  double seconds = 0;
};

/// A number that the engine decides by, and which row measures the like: see MeasuredRow.
struct UsedNumber {
  std::string what;
  double value = 0;
  std::string unit;
  std::string row_what, row_how;  // empty: none does
};
[[nodiscard]] PERDURE_API std::vector<UsedNumber> numbers_of_stores();
namespace rocks {
/// Of the library perdure::rocks: by which memtables choose between the host and a GPU.
[[nodiscard]] PERDURE_API std::vector<UsedNumber> numbers_of_memtables();
}  // namespace rocks

/// `go_on` is called between rows.
PERDURE_API Result<MeasureReport> measure_machine(MeasureOptions const& options = {},
                                                  GoOn const& go_on = {});

}  // namespace perdure
