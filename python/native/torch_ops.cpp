// perdure::get_rows, an operator of PyTorch over its stable ABI: built against one PyTorch, the
// library loads beside any from TORCH_TARGET_VERSION on. The operator's other parts, which are
// Python (its fake kernel), and who connects the library are in perdure/torch/ops.py.
//
// Invariant: rows go from the pool to where the keys are, and of a GPU's keys never through the
// host; the engine is that of perdure._native, which `connect` hands over.
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "row_calls.hpp"

// Of libtorch_cuda, which a PyTorch for CPUs alone has not.
extern "C" __attribute__((weak)) AOTITorchError
aoti_torch_get_current_cuda_stream(int32_t device_index, void** ret_stream);

namespace perdure::python {
namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

constexpr std::int64_t kKeyColumns = 2;  // an id and the number of its table
constexpr std::int64_t kMostColumns = INT32_MAX / 4;

std::atomic<RowCalls const*> connected{nullptr};

/// Raises a RuntimeError of these words. PyTorch's own check would put this file's name before
/// them.
template <class... Parts>
void require(bool holds, Parts const&... parts) {
  if (holds) return;
  std::ostringstream words;
  (words << "perdure::get_rows: " << ... << parts);
  throw std::runtime_error(words.str());
}

RowCalls const& calls() {
  RowCalls const* const found = connected.load(std::memory_order_acquire);
  require(found != nullptr, "import perdure.torch.ops first");
  return *found;
}

void check_keys(Tensor const& keys, std::int64_t columns) {
  require(keys.scalar_type() == ScalarType::Long && keys.dim() == 2 && keys.size(1) == kKeyColumns,
          "keys are int64 of shape (n, 2), an id and the number of its "
          "table; these have another dtype or shape");
  require(columns > 0 && columns <= kMostColumns,
          "columns is the number of float32 in a row, 1 or more, not ", columns);
}

/// How many float32 the engine answers for a row of `columns`.
std::int64_t width_of(RowShape const& shape, Tensor const& keys, std::int64_t columns) {
  require(shape.key_bytes == kKeyColumns * sizeof(std::int64_t), "keys of this pool have ",
          shape.key_bytes, " bytes, and those of tables 16; pass a store of perdure.torch.create");
  require(!keys.is_cuda() || shape.on_gpu,
          "the keys are in a GPU's memory, and this store runs on the "
          "CPU; open it with device='cuda', or pass keys in host memory");
  require(!keys.is_cuda() || keys.get_device_index() == 0,
          "the keys lie on cuda:", keys.is_cuda() ? keys.get_device_index() : 0,
          ", and stores are on the first GPU of their process, cuda:0; pass a copy there");
  if (shape.value_bytes == 0) return columns;
  auto const floats = static_cast<std::int64_t>(shape.value_bytes / sizeof(float));
  require(shape.value_bytes % sizeof(float) == 0 && columns <= floats, "rows of this pool have ",
          shape.value_bytes, " bytes, which are no ", columns, " float32 or more");
  return shape.cuts ? columns : floats;
}

CUstream_st* stream_of(Tensor const& keys) {
  if (!keys.is_cuda()) return nullptr;
  require(aoti_torch_get_current_cuda_stream != nullptr, "this PyTorch is built without CUDA");
  void* stream = nullptr;
  STABLE_TORCH_ERROR_CODE_CHECK(
      aoti_torch_get_current_cuda_stream(keys.get_device_index(), &stream));
  return static_cast<CUstream_st*>(stream);
}

/// Which rows hold anything, for their keys were not found.
std::vector<std::int64_t> absent_of(RowBatch const& batch) {
  std::vector<std::int64_t> absent;
  std::uint8_t const* const each = batch.statuses;
  if (batch.count == 0) return absent;
  bool const alike = std::memcmp(each, each + 1, batch.count - 1) == 0;
  if (alike && each[0] == 0) return absent;  // as most batches are; a look at each takes longer
  for (std::size_t i = 0; i < batch.count; ++i)
    if (each[i] != 0) absent.push_back(static_cast<std::int64_t>(i));
  return absent;
}

/// Zeros in some rows of a GPU's memory. PyTorch's own operator writes them, on its stream.
void clear_on_gpu(Tensor const& rows, std::vector<std::int64_t> const& which) {
  auto const count = static_cast<std::int64_t>(which.size());
  Tensor const here =
      torch::stable::empty(std::array{count}, ScalarType::Long, std::nullopt,
                           torch::stable::Device(torch::headeronly::DeviceType::CPU));
  std::memcpy(here.mutable_data_ptr(), which.data(), which.size() * sizeof which.front());
  Tensor const at = torch::stable::to(here, rows.device());
  Tensor const zeros = torch::stable::new_zeros(rows, std::array{count, rows.size(1)});
  std::array<StableIValue, 4> stack{
      torch::stable::detail::from(rows), torch::stable::detail::from(std::int64_t{0}),
      torch::stable::detail::from(at), torch::stable::detail::from(zeros)};
  STABLE_TORCH_ERROR_CODE_CHECK(
      torch_call_dispatcher("aten::index_copy_", "", stack.data(), TORCH_ABI_VERSION));
  torch::stable::detail::to<Tensor>(stack[0]);  // which is `rows`, and has to be let go
}

/// Behind the call, for most keys have a row.
void clear_absent(RowBatch const& batch, Tensor const& rows) {
  std::vector<std::int64_t> const absent = absent_of(batch);
  if (absent.empty()) return;
  if (batch.on_gpu) return clear_on_gpu(rows, absent);
  for (std::int64_t const i : absent)
    std::memset(batch.rows + static_cast<std::size_t>(i) * batch.row_bytes, 0, batch.row_bytes);
}

/// The whole answer of the engine: rows as wide as it gives them, and statuses.
void get(std::int64_t store, Tensor const& keys, Tensor const& rows, Tensor const& statuses) {
  RowBatch const batch{.keys = static_cast<std::byte const*>(keys.const_data_ptr()),
                       .rows = static_cast<std::byte*>(rows.mutable_data_ptr()),
                       .statuses = static_cast<std::uint8_t*>(statuses.mutable_data_ptr()),
                       .count = static_cast<std::size_t>(keys.size(0)),
                       .row_bytes = static_cast<std::uint32_t>(rows.size(1) * sizeof(float)),
                       .on_gpu = keys.is_cuda(),
                       .stream = stream_of(keys)};
  RowError error;
  require(calls().get(store, &batch, &error), error.message);
  clear_absent(batch, rows);
}

/// With `check`: a key that failed otherwise than by being absent raises.
void check_statuses(Tensor const& statuses) {
  constexpr std::uint8_t kNotFound = 1, kSizeMismatch = 2;  // ok and not_found are the two lowest
  auto const* const each = static_cast<std::uint8_t const*>(statuses.const_data_ptr());
  std::int64_t const count = statuses.size(0);
  auto const* const failed =
      std::find_if(each, each + count, [](std::uint8_t one) { return one > kNotFound; });
  if (failed == each + count) return;
  require(*failed != kSizeMismatch, "key ", failed - each, " of ", count,
          ": the stored row has another length (perdure.KeyStatus 2); pass the columns of its "
          "table, or check=False to have each key's status instead");
  require(false, "key ", failed - each, " of ", count,
          ": the stored record fails its checksum (perdure.KeyStatus ", static_cast<int>(*failed),
          "); pass check=False to have each key's status instead");
}

std::tuple<Tensor, Tensor> get_rows(Tensor keys, std::int64_t store, std::int64_t columns,
                                    bool check) {
  RowShape shape;
  RowError error;
  require(calls().shape(store, &shape, &error), error.message);
  check_keys(keys, columns);
  std::int64_t const count = keys.size(0), width = width_of(shape, keys, columns);
  Tensor const whole = torch::stable::contiguous(keys);
  Tensor rows = torch::stable::new_empty(whole, std::array{count, width}, ScalarType::Float);
  Tensor statuses =
      torch::stable::new_empty(whole, std::array{count}, ScalarType::Byte, std::nullopt,
                               torch::stable::Device(torch::headeronly::DeviceType::CPU));
  get(store, whole, rows, statuses);
  if (check) check_statuses(statuses);
  if (columns < width)  // a table that is narrower than the pool
    rows = torch::stable::contiguous(torch::stable::narrow(rows, 1, 0, columns));
  return {rows, statuses};
}

}  // namespace
}  // namespace perdure::python

/// Of perdure._native's table, once; false: it is of another build.
extern "C" __attribute__((visibility("default"))) bool perdure_torch_ops_connect(
    perdure::python::RowCalls const* calls) {
  if (calls->version != perdure::python::kRowCallsVersion) return false;
  perdure::python::connected.store(calls, std::memory_order_release);
  return true;
}

STABLE_TORCH_LIBRARY(perdure, library) {
  library.def("get_rows(Tensor keys, int store, int columns, bool check=True) -> (Tensor, Tensor)");
}
STABLE_TORCH_LIBRARY_IMPL(perdure, CPU, library) {
  library.impl("get_rows", TORCH_BOX(&perdure::python::get_rows));
}
STABLE_TORCH_LIBRARY_IMPL(perdure, CUDA, library) {
  library.impl("get_rows", TORCH_BOX(&perdure::python::get_rows));
}
