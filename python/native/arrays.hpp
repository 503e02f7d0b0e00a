// Arrays of any library, seen through DLPack, and the columns of bytes the store takes.
// Invariant: a column keeps the arrays it points into alive; only contiguous arrays become columns.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "perdure/batch.h"

namespace perdure::python {

namespace nb = nanobind;

/// One array as its owner described it. `source` is a NumPy array or a DLPack capsule.
class Array {
 public:
  Array(nb::handle source, bool writable);

  [[nodiscard]] std::string dtype() const;  // NumPy's name, for example "int64" or "float32"
  [[nodiscard]] std::size_t itemsize() const;
  [[nodiscard]] std::size_t nbytes() const;
  [[nodiscard]] bool contiguous() const;
  [[nodiscard]] std::string device() const;  // "cpu", "cuda", or the number DLPack gives
  [[nodiscard]] int device_id() const { return view_.device_id(); }
  [[nodiscard]] nb::tuple shape() const;
  [[nodiscard]] nb::tuple strides() const;  // in elements

  [[nodiscard]] Place place() const;
  [[nodiscard]] std::byte* data() const;
  [[nodiscard]] bool writable() const { return writable_; }

 private:
  nb::ndarray<nb::ro> view_;
  bool writable_;
};

/// A perdure::Column together with the arrays that hold its bytes.
struct KeptColumn {
  Column column;
  std::vector<Array> kept;

  static KeptColumn fixed(Array const& rows, std::uint32_t width, std::size_t count);
  static KeptColumn variable(Array const& offsets, Array const& data);
};

/// A perdure::MutableColumn together with the array that receives its bytes.
struct KeptMutableColumn {
  MutableColumn column;
  std::vector<Array> kept;

  static KeptMutableColumn fixed(Array const& rows, std::uint32_t width, std::size_t count);
};

/// A NumPy array over a vector that it owns from now on; the bytes are not copied.
nb::object to_numpy(std::vector<std::byte> bytes);
nb::object to_numpy(std::vector<std::int64_t> numbers);

void bind_arrays(nb::module_& module);

}  // namespace perdure::python
