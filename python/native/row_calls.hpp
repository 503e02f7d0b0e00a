// Rows of a store, or of a reader beside its writer, for libraries that cannot hold a Python
// object: PyTorch's operators, which are a library of their own, as they load beside any PyTorch
// and this module beside none. They name a store by a number, and call this module through a table
// of functions, so there is one engine in the process, and its symbols stay hidden.
//
// Invariant: a number that names nothing is an error, whatever became of its store. What it names
// stays alive until the last call of it has returned; a store that was closed meanwhile answers
// that it is.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;

namespace perdure::python {

inline constexpr std::uint32_t kRowCallsVersion = 1;
inline constexpr char const* kRowCallsName = "perdure.row_calls";  // of the capsule

/// What a call says when it fails.
struct RowError {
  char message[1024];
};

struct RowShape {
  std::uint32_t key_bytes;
  std::uint32_t value_bytes;  // 0: of any length
  bool on_gpu;                // takes arrays of a GPU's memory
  bool cuts;                  // a row of the answer may be a value's first bytes
};

/// A batch: `count` keys and rows of `row_bytes`, contiguous, both in host memory or both in a
/// GPU's. Of a key that is not there its row stays as it is, or holds anything.
struct RowBatch {
  std::byte const* keys;
  std::byte* rows;
  std::uint8_t* statuses;  // a KeyStatus a key, in host memory
  std::size_t count;
  std::uint32_t row_bytes;
  bool on_gpu;
  CUstream_st* stream;  // where arrays of a GPU are being made ready; null is the legacy one
};

/// Functions answer whether they did it; where not, the error says why, and the thread remembers
/// the Status until its next call (_native.raise_row_error).
struct RowCalls {
  std::uint32_t version;
  bool (*shape)(std::int64_t handle, RowShape* shape, RowError* error);
  bool (*get)(std::int64_t handle, RowBatch const* batch, RowError* error);
};

}  // namespace perdure::python
