#include "perdure/pool_reader.h"

#include <nanobind/stl/string.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "errors.hpp"
#include "gil.hpp"
#include "pool_reader.hpp"
#include "table_names.hpp"

namespace perdure::python {
namespace {

/// Numbers of a contiguous NumPy array, borrowed.
template <class T>
std::span<T const> numbers(HostBytes const& array, std::size_t count, char const* what) {
  if (array.size() != count * sizeof(T))
    throw nb::value_error((std::string(what) + ": one for each key").c_str());
  return {reinterpret_cast<T const*>(array.data()), count};
}

/// The buffers of a call, borrowed for as long as it lasts.
class Buffers {
 public:
  explicit Buffers(nb::list const& buffers) {
    for (nb::handle const one : buffers) all_.emplace_back(one, true);
  }

  /// `bytes` bytes of one of them.
  [[nodiscard]] PoolReader::Target at(std::int64_t buffer, std::int64_t offset,
                                      std::int64_t bytes) const {
    bool const there = buffer >= 0 && static_cast<std::size_t>(buffer) < all_.size();
    if (!there || offset < 0 || bytes < 0 || bytes > UINT32_MAX)
      throw nb::value_error("a target is no part of its buffer");
    HostBytes const& all = all_[static_cast<std::size_t>(buffer)];
    auto const from = static_cast<std::size_t>(offset), n = static_cast<std::size_t>(bytes);
    if (from > all.size() || n > all.size() - from)
      throw nb::value_error("a target is no part of its buffer");
    return {all.data() + from, static_cast<std::uint32_t>(n)};
  }

 private:
  std::vector<HostBytes> all_;
};

/// Key i's value goes to lengths[i] bytes of buffer which[i], from offsets[i] on; found[i] is how
/// long it is, unless `found` is None.
void get(PoolReader& reader, KeptColumn const& keys, nb::list const& buffers, nb::handle which,
         nb::handle offsets, nb::handle lengths, nb::handle statuses, nb::handle found) {
  std::size_t const n = keys.column.count;
  HostBytes const which_bytes(which, false), offset_bytes(offsets, false),
      length_bytes(lengths, false), status_bytes(statuses, true);
  auto const to = numbers<std::int64_t>(which_bytes, n, "which");
  auto const from = numbers<std::int64_t>(offset_bytes, n, "offsets");
  auto const bytes = numbers<std::int64_t>(length_bytes, n, "lengths");
  if (status_bytes.size() != n) throw nb::value_error("statuses: one for each key");
  Buffers const all(buffers);
  std::vector<PoolReader::Target> targets(n);
  for (std::size_t i = 0; i < n; ++i) targets[i] = all.at(to[i], from[i], bytes[i]);
  std::span const each{reinterpret_cast<KeyStatus*>(status_bytes.data()), n};
  std::optional<HostBytes> found_bytes;
  std::span<std::uint32_t> found_lengths;
  if (!found.is_none()) {
    found_bytes.emplace(found, true);
    if (found_bytes->size() != n * sizeof(std::uint32_t))
      throw nb::value_error("found: one uint32 for each key");
    found_lengths = {reinterpret_cast<std::uint32_t*>(found_bytes->data()), n};
  }
  raise_unless_ok(
      without_gil([&] { return reader.get(keys.column, targets, each, found_lengths); }));
}

PoolReader open(std::string const& path, std::uint32_t threads) {
  return value_or_raise(without_gil([&] { return PoolReader::open(path, {.threads = threads}); }));
}

}  // namespace

void bind_pool_reader(nb::module_& module) {
  nb::class_<PoolReader>(module, "PoolReader")
      .def_static("open", &open, nb::arg("path"), nb::arg("threads") = 0)
      .def("get", &get, nb::arg("keys"), nb::arg("buffers"), nb::arg("which"), nb::arg("offsets"),
           nb::arg("lengths"), nb::arg("statuses"), nb::arg("found").none() = nb::none())
      .def("table", &table_of<PoolReader>, nb::arg("name"), nb::arg("row_bytes"))
      .def("tables", &tables_of<PoolReader>)
      .def("key_bytes", &PoolReader::key_bytes)
      .def("value_bytes", &PoolReader::value_bytes)
      .def("replaced", &PoolReader::replaced, nb::call_guard<ReleasedGil>());
}

}  // namespace perdure::python
