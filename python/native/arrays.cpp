// Buffers and DLPack arrays to columns, and vectors to NumPy arrays. What is refused here raises
// ValueError, but for what Python's buffer protocol and DLPack raise themselves.
#include "arrays.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "exchange.hpp"

namespace perdure::python {

namespace {

using Lent = nb::ndarray<nb::ro>;

void require(bool holds, char const* otherwise) {
  if (!holds) throw std::invalid_argument(otherwise);
}

// Whoever may not write gets a Column, which is const; nanobind refuses to lend a read-only array
// as a writable one.
Lent view_of(nb::handle capsule, bool writable) {
  if (writable) return Lent(nb::cast<nb::ndarray<>>(capsule, false));
  return nb::cast<Lent>(capsule, false);
}

std::string dtype_of(Lent const& array) {  // as NumPy names it: "int64", "float32"
  nb::dlpack::dtype const type = array.dtype();
  std::string const bits = std::to_string(type.bits * type.lanes);
  switch (static_cast<nb::dlpack::dtype_code>(type.code)) {
    case nb::dlpack::dtype_code::Int: return "int" + bits;
    case nb::dlpack::dtype_code::UInt: return "uint" + bits;
    case nb::dlpack::dtype_code::Float: return "float" + bits;
    case nb::dlpack::dtype_code::Bfloat: return "bfloat" + bits;
    case nb::dlpack::dtype_code::Complex: return "complex" + bits;
    case nb::dlpack::dtype_code::Bool: return "bool";
    default: return "dlpack" + std::to_string(type.code) + "_" + bits;
  }
}

std::size_t itemsize_of(Lent const& array) {
  nb::dlpack::dtype const type = array.dtype();
  return (static_cast<std::size_t>(type.bits) * type.lanes + 7) / 8;
}

bool is_contiguous(Lent const& array) {
  std::int64_t expected = 1;
  for (std::size_t i = array.ndim(); i-- > 0;) {
    auto const extent = static_cast<std::int64_t>(array.shape(i));
    if (extent == 0) return true;  // no element, so nothing lies apart
    if (extent != 1 && array.stride(i) != expected) return false;
    expected *= extent;
  }
  return true;
}

nb::tuple shape_of(Lent const& array) {
  nb::list extents;
  for (std::size_t i = 0; i < array.ndim(); ++i) extents.append(array.shape(i));
  return nb::tuple(extents);
}

MemorySpace space_of(Lent const& array) {
  switch (array.device_type()) {
    case nb::device::cpu::value:
    case nb::device::cuda_host::value: return MemorySpace::host;
    case nb::device::cuda::value:
    case nb::device::cuda_managed::value: return MemorySpace::device;
    default: throw std::invalid_argument("array: neither in host memory nor on a CUDA device");
  }
}

std::byte* data_of(Lent const& array) {
  auto* const base = static_cast<std::byte*>(array.data_handle());
  return base == nullptr ? nullptr : base + array.byte_offset();
}

template <class C>
C column_of(Lent const& array, bool whole) {
  std::size_t const first = array.ndim() == 0 ? 1 : array.shape(0);
  std::size_t width = itemsize_of(array);
  for (std::size_t i = 1; i < array.ndim(); ++i) width *= array.shape(i);
  C column{};
  column.data = data_of(array);
  column.space = space_of(array);
  column.count = whole ? first * width : first;
  require(whole || width <= std::numeric_limits<std::uint32_t>::max(),
          "array: its rows have 4 GiB or more");
  column.width = whole ? 1 : static_cast<std::uint32_t>(width);
  return column;
}

// Arrow's own arrays satisfy this; an array put together by hand may not, and would be read out of
// bounds.
void require_offsets(HostBytes const& offsets, std::size_t data_bytes) {
  require(offsets.size() >= sizeof(std::int64_t) && offsets.size() % sizeof(std::int64_t) == 0,
          "column: offsets must be int64, one more than there are elements");
  auto const* at = reinterpret_cast<std::int64_t const*>(offsets.data());
  std::size_t const count = offsets.size() / sizeof(std::int64_t) - 1;
  bool ascending = at[0] >= 0;
  for (std::size_t i = 0; i < count; ++i) ascending &= at[i] <= at[i + 1];
  require(ascending, "column: offsets must not be negative and must not descend");
  require(static_cast<std::uint64_t>(at[count]) <= data_bytes,
          "column: offsets reach past the end of data");
}

KeptColumn variable(nb::handle offsets, nb::handle data) {
  KeptColumn kept{
      .column = {}, .bytes = {data, false}, .offsets = {offsets, false}, .lent = {}, .dtype = {}};
  require_offsets(kept.offsets, kept.bytes.size());
  kept.column = {.data = kept.bytes.data(),
                 .offsets = reinterpret_cast<std::int64_t const*>(kept.offsets.data()),
                 .width = 0,
                 .count = kept.offsets.size() / sizeof(std::int64_t) - 1,
                 .space = MemorySpace::host};
  return kept;
}

template <class T>
nb::object own(std::vector<T> values, nb::dlpack::dtype dtype) {
  auto kept = std::make_unique<std::vector<T>>(std::move(values));
  std::size_t const count = kept->size();
  void* const data = kept->data();
  nb::capsule const owner(kept.get(),
                          [](void* held) noexcept { delete static_cast<std::vector<T>*>(held); });
  kept.release();
  return nb::cast(
      nb::ndarray<nb::numpy>(data, 1, &count, owner, nullptr, dtype, nb::device::cpu::value));
}

template <class C>
nb::class_<Kept<C>> bind_column(nb::module_& module, char const* name) {
  nb::class_<Kept<C>> bound(module, name);
  bound
      .def_static("rows", &Kept<C>::rows, nb::arg("array"), nb::arg("width"), nb::arg("count"),
                  nb::arg("dtype") = nb::none())
      .def_static("exchange", &Kept<C>::exchange, nb::arg("array").none(), nb::arg("width"),
                  nb::arg("stream"), nb::arg("far"))
      .def_static("lend", &Kept<C>::lend, nb::arg("capsule"), nb::arg("whole") = false)
      .def_static("empty", [] { return Kept<C>{}; })
      .def_prop_ro("count", [](Kept<C> const& kept) { return kept.column.count; })
      .def_prop_ro("row_bytes", [](Kept<C> const& kept) { return kept.column.width; })
      .def_ro("dtype", &Kept<C>::dtype)
      .def_prop_ro("on_gpu",
                   [](Kept<C> const& kept) { return kept.column.space == MemorySpace::device; })
      .def("length", &Kept<C>::length, nb::arg("row"));
  return bound;
}

}  // namespace

HostBytes::HostBytes(nb::handle array, bool writable) {
  if (PyObject_GetBuffer(array.ptr(), &view_, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) != 0)
    nb::raise_python_error();
}

template <class C>
Kept<C> Kept<C>::rows(nb::handle array, std::uint32_t width, std::size_t count,
                      std::optional<std::string> dtype) {
  Kept kept{.column = {},
            .bytes = {array, std::is_same_v<C, MutableColumn>},
            .offsets = {},
            .lent = {},
            .dtype = std::move(dtype)};
  require(kept.bytes.size() == static_cast<std::size_t>(width) * count,
          "column: width * count is not the array's size");
  kept.column.data = kept.bytes.data();
  kept.column.width = width;
  kept.column.count = count;
  return kept;
}

template <class C>
nb::object Kept<C>::exchange(nb::handle array, std::uint32_t width, std::uintptr_t stream,
                             bool far) try {
  nb::object const capsule = exchanged(array, stream);
  if (capsule.is_none()) return capsule;
  Lent const lent = view_of(capsule, std::is_same_v<C, MutableColumn>);
  if (lent.ndim() == 0 || !is_contiguous(lent)) return nb::none();
  C const column = column_of<C>(lent, false);
  if (column.width != width || (column.space == MemorySpace::device && !far)) return nb::none();
  return nb::cast(
      Kept{.column = column, .bytes = {}, .offsets = {}, .lent = lent, .dtype = dtype_of(lent)});
} catch (nb::cast_error const&) {  // it may only be read
  return nb::none();
}

template <class C>
nb::tuple Kept<C>::lend(nb::handle capsule, bool whole) {
  Lent const array = view_of(capsule, std::is_same_v<C, MutableColumn>);
  nb::object column = nb::none();
  if (is_contiguous(array))
    column = nb::cast(Kept{.column = column_of<C>(array, whole),
                           .bytes = {},
                           .offsets = {},
                           .lent = array,
                           .dtype = dtype_of(array)});
  return nb::make_tuple(column, shape_of(array));
}

template <class C>
std::uint64_t Kept<C>::length(std::size_t row) const {
  if (row >= column.count) throw nb::index_error();
  if constexpr (std::is_same_v<C, Column>) {
    if (column.offsets != nullptr)
      return static_cast<std::uint64_t>(column.offsets[row + 1] - column.offsets[row]);
  }
  return column.width;
}

nb::object to_numpy(std::vector<std::byte> bytes) {
  return own(std::move(bytes), nb::dtype<std::uint8_t>());
}

nb::object to_numpy(std::vector<std::int64_t> numbers) {
  return own(std::move(numbers), nb::dtype<std::int64_t>());
}

void bind_arrays(nb::module_& module) {
  bind_column<Column>(module, "Column")
      .def_static("variable", &variable, nb::arg("offsets"), nb::arg("data"));
  bind_column<MutableColumn>(module, "MutableColumn");
}

}  // namespace perdure::python
