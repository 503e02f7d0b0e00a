// Arrays of any library as the columns of bytes that the store takes. An array comes in once, as a
// host array's buffer or as a DLPack capsule, and perdure/_arrays.py has checked its dtype, shape
// and device in the user's words. Checked here is what memory safety asks for: bytes in one piece,
// as many as the column says, and offsets that stay within them.
// Invariant: a column keeps the arrays that it points into alive.
#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "perdure/batch.h"

namespace perdure::python {

namespace nb = nanobind;

/// The bytes of a contiguous array in host memory, whatever its dtype, borrowed through Python's
/// buffer protocol. Made and destroyed with the GIL.
class HostBytes {
 public:
  HostBytes() = default;
  HostBytes(nb::handle array, bool writable);
  HostBytes(HostBytes&& other) noexcept : view_(other.view_) { other.view_.obj = nullptr; }
  HostBytes& operator=(HostBytes&& other) noexcept {
    std::swap(view_, other.view_);
    return *this;
  }
  ~HostBytes() { PyBuffer_Release(&view_); }  // does nothing where nothing is borrowed

  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(view_.buf); }
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(view_.len); }

 private:
  Py_buffer view_{};
};

/// A perdure::Column or MutableColumn together with the arrays that hold its bytes.
template <class C>
struct Kept {
  C column;
  HostBytes bytes, offsets;
  nb::ndarray<nb::ro> lent;
  std::optional<std::string> dtype;  // as NumPy names it; none of bytes of which nobody said it

  /// `count` rows of `width` bytes, in host memory.
  static Kept rows(nb::handle array, std::uint32_t width, std::size_t count,
                   std::optional<std::string> dtype);
  /// Rows of `width` bytes that are lent as exchange.hpp says, in a GPU's memory only where `far`
  /// says that the store reaches it. None: the array is another, or is lent otherwise.
  static nb::object exchange(nb::handle array, std::uint32_t width, std::uintptr_t stream,
                             bool far);
  /// What a DLPack capsule lends: (its column, shape). The column is None where
  /// the array is not contiguous; with `whole` it is the array's bytes, whatever the shape.
  static nb::tuple lend(nb::handle capsule, bool whole);

  /// Bytes of one element.
  [[nodiscard]] std::uint64_t length(std::size_t row) const;
};

using KeptColumn = Kept<Column>;
using KeptMutableColumn = Kept<MutableColumn>;

/// A NumPy array over a vector that it owns from now on; the bytes are not copied.
nb::object to_numpy(std::vector<std::byte> bytes);
nb::object to_numpy(std::vector<std::int64_t> numbers);

void bind_arrays(nb::module_& module);

}  // namespace perdure::python
