// Batches of one key. Lengths are checked here, for a column of a fixed width does not say how long
// its bytes are. Invariant: bytes objects are kept by their callers while the GIL is released, and
// the result's are written before anybody else has it.
#include "single.hpp"

#include <nanobind/stl/string.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "errors.hpp"
#include "gil.hpp"
#include "long_call.hpp"

namespace perdure::python {
namespace {

/// Columns of one element point into it.
class One {
 public:
  /// `width`: of the pool's; 0 where lengths vary.
  One(char const* what, nb::bytes const& bytes, std::uint32_t width)
      : data_(reinterpret_cast<std::byte const*>(bytes.c_str())),
        ends_{0, static_cast<std::int64_t>(bytes.size())} {
    if (width != 0 && bytes.size() != width)
      throw nb::value_error((std::string(what) + ": has " + std::to_string(bytes.size()) +
                             " bytes, but this pool's " + what + "s have " + std::to_string(width))
                                .c_str());
    column_ = width != 0 ? Column{data_, nullptr, width, 1} : Column{data_, ends_, 0, 1};
  }
  One(One const&) = delete;
  One& operator=(One const&) = delete;
  [[nodiscard]] Column const& column() const { return column_; }

 private:
  std::byte const* data_;
  std::int64_t ends_[2];
  Column column_;
};

CallOptions as(Transaction* transaction) { return {.transaction = transaction}; }

/// (status, the value's bytes); where the key is absent they say nothing.
nb::tuple get_one(Store& store, nb::bytes const& key) {
  await_turn(store);
  One const keys("key", key, store.key_bytes());
  KeyStatus status{};
  std::uint32_t const width = store.value_bytes();
  if (width != 0) {
    nb::bytes value = nb::steal<nb::bytes>(PyBytes_FromStringAndSize(nullptr, width));
    if (!value.is_valid()) nb::raise_python_error();
    MutableColumn const out{reinterpret_cast<std::byte*>(PyBytes_AsString(value.ptr())), width, 1};
    raise_unless_ok(without_gil([&] { return store.get(keys.column(), out, {&status, 1}); }));
    return nb::make_tuple(static_cast<int>(status), std::move(value));
  }
  auto const values =
      value_or_raise(without_gil([&] { return store.get_variable(keys.column(), {&status, 1}); }));
  return nb::make_tuple(
      static_cast<int>(status),
      nb::bytes(reinterpret_cast<char const*>(values.data.data()), values.data.size()));
}

int put_one(Store& store, nb::bytes const& key, nb::bytes const& value, Transaction* transaction) {
  if (transaction == nullptr) await_turn(store);
  One const keys("key", key, store.key_bytes()), values("value", value, store.value_bytes());
  KeyStatus status{};
  raise_unless_ok(without_gil(
      [&] { return store.put(keys.column(), values.column(), {&status, 1}, as(transaction)); }));
  return static_cast<int>(status);
}

int erase_one(Store& store, nb::bytes const& key, Transaction* transaction) {
  if (transaction == nullptr) await_turn(store);
  One const keys("key", key, store.key_bytes());
  KeyStatus status{};
  raise_unless_ok(
      without_gil([&] { return store.erase(keys.column(), {&status, 1}, as(transaction)); }));
  return static_cast<int>(status);
}

}  // namespace

void bind_single(nb::class_<Store>& store) {
  store.def("get_one", &get_one, nb::arg("key"))
      .def("put_one", &put_one, nb::arg("key"), nb::arg("value"),
           nb::arg("transaction") = nb::none())
      .def("erase_one", &erase_one, nb::arg("key"), nb::arg("transaction") = nb::none());
}

}  // namespace perdure::python
