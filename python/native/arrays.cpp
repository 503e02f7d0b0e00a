// DLPack arrays to columns and back. Errors raised here are ValueError: perdure/_arrays.py has
// checked shapes and types before, in the user's words, so these guard the module's own use.
#include "arrays.hpp"

#include <nanobind/stl/string.h>

#include <memory>
#include <stdexcept>
#include <utility>

namespace perdure::python {

namespace {

constexpr int kCpu = nb::device::cpu::value;
constexpr int kCuda = nb::device::cuda::value;
constexpr int kCudaHost = nb::device::cuda_host::value;
constexpr int kCudaManaged = nb::device::cuda_managed::value;

// A writable request must not be met by a read-only array, so nanobind is asked for one or the
// other.
nb::ndarray<nb::ro> view_of(nb::handle source, bool writable) {
  if (writable) return nb::ndarray<nb::ro>(nb::cast<nb::ndarray<>>(source, false));
  return nb::cast<nb::ndarray<nb::ro>>(source, false);
}

void require(bool holds, char const* otherwise) {
  if (!holds) throw std::invalid_argument(otherwise);
}

void require_rows(Array const& rows, std::uint32_t width, std::size_t count) {
  require(rows.contiguous(), "column: the array is not C-contiguous");
  require(rows.nbytes() == static_cast<std::size_t>(width) * count,
          "column: width * count is not the array's size");
}

// Arrow's own arrays satisfy this; an array put together by hand may not, and would be read out of
// bounds.
void require_offsets(Array const& offsets, Array const& data) {
  require(offsets.dtype() == "int64" && offsets.nbytes() >= sizeof(std::int64_t) &&
              offsets.contiguous(),
          "column: offsets must be a contiguous int64 array of at least one element");
  require(data.contiguous(), "column: data is not C-contiguous");
  require(offsets.place() == data.place(), "column: offsets and data lie on different devices");
  if (offsets.place() == Place::device)
    return;  // not readable from here; the store checks on the device
  auto const* at = reinterpret_cast<std::int64_t const*>(offsets.data());
  std::size_t const count = offsets.nbytes() / sizeof(std::int64_t) - 1;
  bool ascending = at[0] >= 0;
  for (std::size_t i = 0; i < count; ++i) ascending &= at[i] <= at[i + 1];
  require(ascending, "column: offsets must not be negative and must not descend");
  require(static_cast<std::uint64_t>(at[count]) <= data.nbytes(),
          "column: offsets reach past the end of data");
}

template <class T>
nb::object own(std::vector<T> values, nb::dlpack::dtype dtype) {
  auto kept = std::make_unique<std::vector<T>>(std::move(values));
  std::size_t const count = kept->size();
  void* const data = kept->data();
  nb::capsule const owner(kept.get(),
                          [](void* held) noexcept { delete static_cast<std::vector<T>*>(held); });
  kept.release();
  return nb::cast(nb::ndarray<nb::numpy>(data, 1, &count, owner, nullptr, dtype, kCpu));
}

}  // namespace

Array::Array(nb::handle source, bool writable)
    : view_(view_of(source, writable)), writable_(writable) {}

std::string Array::dtype() const {
  nb::dlpack::dtype const type = view_.dtype();
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

std::size_t Array::itemsize() const {
  nb::dlpack::dtype const type = view_.dtype();
  return (static_cast<std::size_t>(type.bits) * type.lanes + 7) / 8;
}

std::size_t Array::nbytes() const {
  std::size_t bytes = itemsize();
  for (std::size_t i = 0; i < view_.ndim(); ++i) bytes *= view_.shape(i);
  return bytes;
}

bool Array::contiguous() const {
  std::int64_t expected = 1;
  for (std::size_t i = view_.ndim(); i-- > 0;) {
    auto const extent = static_cast<std::int64_t>(view_.shape(i));
    if (extent == 0) return true;  // no element, so nothing lies apart
    if (extent != 1 && view_.stride(i) != expected) return false;
    expected *= extent;
  }
  return true;
}

std::string Array::device() const {
  switch (view_.device_type()) {
    case kCpu:
    case kCudaHost: return "cpu";
    case kCuda:
    case kCudaManaged: return "cuda";
    default: return "dlpack device type " + std::to_string(view_.device_type());
  }
}

nb::tuple Array::shape() const {
  nb::list extents;
  for (std::size_t i = 0; i < view_.ndim(); ++i) extents.append(view_.shape(i));
  return nb::tuple(extents);
}

nb::tuple Array::strides() const {
  nb::list strides;
  for (std::size_t i = 0; i < view_.ndim(); ++i) strides.append(view_.stride(i));
  return nb::tuple(strides);
}

Place Array::place() const {
  std::string const where = device();
  require(where == "cpu" || where == "cuda", "array: neither in host memory nor on a CUDA device");
  return where == "cuda" ? Place::device : Place::host;
}

// Whoever asked for a read-only view gets a Column, which is const; the cast only spares a second
// type.
std::byte* Array::data() const {
  auto* const base = static_cast<std::byte*>(view_.data_handle());
  return base == nullptr ? nullptr : base + view_.byte_offset();
}

KeptColumn KeptColumn::fixed(Array const& rows, std::uint32_t width, std::size_t count) {
  require_rows(rows, width, count);
  return {{.data = rows.data(),
           .offsets = nullptr,
           .width = width,
           .count = count,
           .place = rows.place()},
          {rows}};
}

KeptColumn KeptColumn::variable(Array const& offsets, Array const& data) {
  require_offsets(offsets, data);
  return {{.data = data.data(),
           .offsets = reinterpret_cast<std::int64_t const*>(offsets.data()),
           .width = 0,
           .count = offsets.nbytes() / sizeof(std::int64_t) - 1,
           .place = data.place()},
          {offsets, data}};
}

KeptMutableColumn KeptMutableColumn::fixed(Array const& rows, std::uint32_t width,
                                           std::size_t count) {
  require_rows(rows, width, count);
  require(rows.writable(), "column: the array was not opened for writing");
  return {{.data = rows.data(), .width = width, .count = count, .place = rows.place()}, {rows}};
}

nb::object to_numpy(std::vector<std::byte> bytes) {
  return own(std::move(bytes), nb::dtype<std::uint8_t>());
}

nb::object to_numpy(std::vector<std::int64_t> numbers) {
  return own(std::move(numbers), nb::dtype<std::int64_t>());
}

void bind_arrays(nb::module_& module) {
  nb::class_<Array>(module, "Array")
      .def(nb::init<nb::handle, bool>(), nb::arg("source"), nb::arg("writable") = false)
      .def_prop_ro("dtype", &Array::dtype)
      .def_prop_ro("itemsize", &Array::itemsize)
      .def_prop_ro("nbytes", &Array::nbytes)
      .def_prop_ro("contiguous", &Array::contiguous)
      .def_prop_ro("device", &Array::device)
      .def_prop_ro("device_id", &Array::device_id)
      .def_prop_ro("shape", &Array::shape)
      .def_prop_ro("strides", &Array::strides);
  nb::class_<KeptColumn>(module, "Column")
      .def_static("fixed", &KeptColumn::fixed, nb::arg("rows"), nb::arg("width"), nb::arg("count"))
      .def_static("variable", &KeptColumn::variable, nb::arg("offsets"), nb::arg("data"))
      .def_static("empty", [] { return KeptColumn{}; })
      .def_prop_ro("count", [](KeptColumn const& self) { return self.column.count; });
  nb::class_<KeptMutableColumn>(module, "MutableColumn")
      .def_static("fixed", &KeptMutableColumn::fixed, nb::arg("rows"), nb::arg("width"),
                  nb::arg("count"))
      .def_static("empty", [] { return KeptMutableColumn{}; })
      .def_prop_ro("count", [](KeptMutableColumn const& self) { return self.column.count; });
}

}  // namespace perdure::python
