// The extension module perdure._native: the public C++ API, call for call. perdure/store.py is what
// users see; it turns their arrays into columns and leaves no check of theirs to this layer.
// Invariant: every call that does work runs without the GIL, on columns that were made with it.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "errors.hpp"
#include "exchange.hpp"
#include "gil.hpp"
#include "long_call.hpp"
#include "machine.hpp"
#include "perdure/store.h"
#include "pool_reader.hpp"
#include "records.hpp"
#include "row_handles.hpp"
#include "single.hpp"
#include "table_names.hpp"
#include "watch.hpp"

namespace perdure::python {

namespace {

constexpr std::size_t kLongScan = 1u << 16;  // records of a page

/// The statuses of a call, borrowed for as long as it lasts: a NumPy array of uint8.
class Statuses {
 public:
  explicit Statuses(nb::handle array) : bytes_(array, true) {
    static_assert(sizeof(KeyStatus) == 1);
  }
  [[nodiscard]] std::span<KeyStatus> span() const {
    return {reinterpret_cast<KeyStatus*>(bytes_.data()), bytes_.size()};
  }
  /// The greatest, `ok` of none: what a call answers, so that nobody goes through them once more
  /// to learn that all went well.
  [[nodiscard]] int worst() const {
    auto const* const at = reinterpret_cast<std::uint8_t const*>(bytes_.data());
    std::size_t const n = bytes_.size();
    std::uint8_t worst = 0;
    std::size_t i = 0;
    for (; i + kAtOnce <= n; i += kAtOnce) {
      std::uint8_t most = 0;
      for (std::size_t j = 0; j < kAtOnce; ++j) most = std::max(most, at[i + j]);
      worst = std::max(worst, most);
    }
    for (; i < n; ++i) worst = std::max(worst, at[i]);
    return worst;
  }

 private:
  static constexpr std::size_t kAtOnce = 64;  // a number that the compiler makes vectors of

  HostBytes bytes_;
};

CallOptions call_as(std::uintptr_t stream, bool atomic, Transaction* transaction, Stop stop) {
  return {.stream = reinterpret_cast<CUstream_st*>(stream),
          .atomic = atomic,
          .transaction = transaction,
          .stop = stop};
}

Store create(std::string const& path, CreateOptions const& options, OpenOptions const& open) {
  return value_or_raise(without_gil([&] { return Store::create(path, options, open); }));
}

Store open(std::string const& path, OpenOptions const& options) {
  return value_or_raise(without_gil([&] { return Store::open(path, options); }));
}

Store restore(std::string const& snapshot, std::string const& path, RestoreOptions const& options,
              OpenOptions const& open) {
  return value_or_raise(without_gil([&] { return Store::restore(snapshot, path, options, open); }));
}

int get(Store& store, KeptColumn const& keys, KeptMutableColumn const& values, nb::handle statuses,
        std::uintptr_t stream, Transaction* transaction) {
  if (transaction == nullptr) await_turn(store);
  Statuses const held(statuses);
  auto const each = held.span();
  MutableColumn const& to = values.column;
  raise_unless_ok(
      long_call(is_long(store, stream, keys.column, to.count * to.width), each, [&](Stop stop) {
        return store.get(keys.column, to, each, call_as(stream, false, transaction, stop));
      }));
  return held.worst();
}

nb::tuple get_variable(Store& store, KeptColumn const& keys, nb::handle statuses,
                       std::uintptr_t stream, Transaction* transaction) {
  if (transaction == nullptr) await_turn(store);
  Statuses const held(statuses);
  auto const each = held.span();
  auto found =
      value_or_raise(long_call(is_long(store, stream, keys.column, 0), each, [&](Stop stop) {
        return store.get_variable(keys.column, each, call_as(stream, false, transaction, stop));
      }));
  return nb::make_tuple(to_numpy(std::move(found.offsets)), to_numpy(std::move(found.data)),
                        held.worst());
}

/// A read-only array of each value where it lies; they keep the view together. None: no value.
nb::list view(Store& store, KeptColumn const& keys, nb::handle statuses) {
  await_turn(store);
  Statuses const held(statuses);
  auto const each = held.span();
  auto shown = std::make_unique<ValuesView>(
      value_or_raise(without_gil([&] { return store.view(keys.column, each); })));
  ValuesView const& all = *shown;
  nb::capsule const owner(shown.release(),
                          [](void* at) noexcept { delete static_cast<ValuesView*>(at); });
  nb::list values;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].data() == nullptr) {
      values.append(nb::none());
      continue;
    }
    auto const* const bytes = reinterpret_cast<std::uint8_t const*>(all[i].data());
    values.append(nb::cast(
        nb::ndarray<nb::numpy, std::uint8_t const, nb::ndim<1>>(bytes, {all[i].size()}, owner)));
  }
  return values;
}

int put(Store& store, KeptColumn const& keys, KeptColumn const& values, nb::handle statuses,
        std::uintptr_t stream, bool atomic, Transaction* transaction) {
  if (transaction == nullptr) await_turn(store);
  Statuses const held(statuses);
  auto const each = held.span();
  raise_unless_ok(
      long_call(is_long(store, stream, keys.column, bytes_of(values.column)), each, [&](Stop stop) {
        return store.put(keys.column, values.column, each,
                         call_as(stream, atomic, transaction, stop));
      }));
  return held.worst();
}

int update(Store& store, KeptColumn const& keys, KeptColumn const& operands, Rmw rmw,
           Element element, nb::handle statuses, std::uintptr_t stream, bool atomic,
           Transaction* transaction) {
  if (transaction == nullptr) await_turn(store);
  Statuses const held(statuses);
  auto const each = held.span();
  raise_unless_ok(long_call(is_long(store, stream, keys.column, bytes_of(operands.column)), each,
                            [&](Stop stop) {
                              return store.update(keys.column, operands.column, rmw, element, each,
                                                  call_as(stream, atomic, transaction, stop));
                            }));
  return held.worst();
}

int erase(Store& store, KeptColumn const& keys, nb::handle statuses, std::uintptr_t stream,
          bool atomic, Transaction* transaction) {
  if (transaction == nullptr) await_turn(store);
  Statuses const held(statuses);
  auto const each = held.span();
  raise_unless_ok(long_call(is_long(store, stream, keys.column, 0), each, [&](Stop stop) {
    return store.erase(keys.column, each, call_as(stream, atomic, transaction, stop));
  }));
  return held.worst();
}

int apply(Store& store, KeptColumn const& keys, nb::handle kinds, KeptColumn const& values, Rmw rmw,
          Element element, KeptMutableColumn const& out, nb::handle statuses, std::uintptr_t stream,
          bool atomic, Transaction* transaction) {
  if (transaction == nullptr) await_turn(store);
  Statuses const held(statuses);
  auto const each = held.span();
  HostBytes const codes(kinds, false);
  static_assert(sizeof(OpKind) == 1);
  MixedBatch const batch{.keys = keys.column,
                         .kinds = {reinterpret_cast<OpKind const*>(codes.data()), codes.size()},
                         .values = values.column,
                         .rmw = rmw,
                         .element = element,
                         .out = out.column};
  raise_unless_ok(
      long_call(is_long(store, stream, keys.column, bytes_of(values.column)), each, [&](Stop stop) {
        return store.apply(batch, each, call_as(stream, atomic, transaction, stop));
      }));
  return held.worst();
}

Transaction begin(Store& store, std::uint64_t max_operations, bool revertible) {
  await_turn(store);
  return value_or_raise(without_gil([&] { return store.begin({max_operations, revertible}); }));
}

void revert(Store& store) {
  await_turn(store);
  raise_unless_ok(without_gil([&] { return store.revert(); }));
}

bool can_revert(Store& store) {
  await_turn(store);
  return value_or_raise(without_gil([&] { return store.can_revert(); }));
}

void register_dense(Store& store, nb::list const& named) {
  await_turn(store);
  std::vector<DenseBuffer> buffers;
  for (nb::handle const one : named) {
    auto const pair = nb::cast<nb::tuple>(one);
    MutableColumn const& column = nb::cast<KeptMutableColumn const&>(pair[1]).column;
    buffers.push_back(
        {nb::cast<std::string>(pair[0]), column.data, column.count * column.width, column.space});
  }
  raise_unless_ok(without_gil([&] { return store.register_dense(buffers); }));
}

std::optional<std::uint64_t> restore_step(Store& store, std::uintptr_t stream) {
  await_turn(store);
  return value_or_raise(
      without_gil([&] { return store.restore_step(reinterpret_cast<CUstream_st*>(stream)); }));
}

void write_step(Transaction& transaction, std::uint64_t step, std::uintptr_t stream) {
  raise_unless_ok(without_gil(
      [&] { return transaction.write_step(step, reinterpret_cast<CUstream_st*>(stream)); }));
}

void commit(Transaction& transaction) {
  raise_unless_ok(without_gil([&] { return transaction.commit(); }));
}

void abort(Transaction& transaction) {
  raise_unless_ok(without_gil([&] { return transaction.abort(); }));
}

/// `here`: on this thread, which has a transaction open that scans and verifications cannot name.
nb::tuple scan(Store& store, ScanCursor const& from, std::size_t limit, bool here) {
  await_turn(store);
  auto page = value_or_raise(long_call(!here && limit > kLongScan, {},
                                       [&](Stop stop) { return store.scan(from, limit, stop); }));
  return nb::make_tuple(to_numpy(std::move(page.keys.offsets)), to_numpy(std::move(page.keys.data)),
                        to_numpy(std::move(page.values.offsets)),
                        to_numpy(std::move(page.values.data)), page.next);
}

RangeQuery range_query(std::optional<nb::bytes> const& start, std::optional<nb::bytes> const& end,
                       bool reverse) {
  auto const bound = [](std::optional<nb::bytes> const& key) {
    std::optional<std::vector<std::byte>> bytes;
    if (!key) return bytes;
    auto const* const from = reinterpret_cast<std::byte const*>(key->c_str());
    return bytes.emplace(from, from + key->size()), bytes;
  };
  return {.start = bound(start), .end = bound(end), .reverse = reverse};
}

/// Offsets and bytes of keys, of values, and the query for what is left, or None.
nb::tuple range(Store& store, RangeQuery const& query, std::size_t limit) {
  await_turn(store);
  RangeQuery asked = query;
  asked.limit = limit;
  auto page = value_or_raise(
      long_call(limit > kLongScan, {}, [&](Stop stop) { return store.range(asked, stop); }));
  return nb::make_tuple(to_numpy(std::move(page.keys.offsets)), to_numpy(std::move(page.keys.data)),
                        to_numpy(std::move(page.values.offsets)),
                        to_numpy(std::move(page.values.data)), std::move(page.next));
}

std::uint64_t count_range(Store& store, RangeQuery const& query) {
  await_turn(store);
  return value_or_raise(without_gil([&] { return store.count_range(query); }));
}

void snapshot(Store& store, std::string const& path, SnapshotOptions const& options) {
  await_turn(store);
  raise_unless_ok(without_gil([&] { return store.snapshot(path, options); }));
}

VerifyReport verify(Store& store, bool here) {
  await_turn(store);
  return value_or_raise(long_call(!here, {}, [&](Stop stop) { return store.verify(stop); }));
}

void acknowledge_repair(Store& store) {
  await_turn(store);
  raise_unless_ok(without_gil([&] { return store.acknowledge_repair(); }));
}

CacheReport load_cache(Store& store) {
  await_turn(store);
  return value_or_raise(without_gil([&] { return store.load_cache(); }));
}

/// Calls that answer no Status, refused like the others in another process than the one that opened
/// the store.
template <class F>
auto here(F call) {
  return [call](Store& store) {
    raise_unless_ok(store.belongs_here());
    await_turn(store);
    return without_gil([&] { return call(store); });
  };
}

void close(Store& store) {
  await_turn(store);
  raise_unless_ok(without_gil([&] { return store.close(); }));
}

void bind_store(nb::module_& module) {
  nb::class_<ScanCursor>(module, "ScanCursor").def(nb::init<>()).def_ro("done", &ScanCursor::done);
  nb::class_<RangeQuery>(module, "RangeQuery")
      .def_static("of", &range_query, nb::arg("start").none(), nb::arg("end").none(),
                  nb::arg("reverse"));
  nb::class_<Transaction>(module, "Transaction")
      .def("write_step", &write_step, nb::arg("step"), nb::arg("stream") = 0)
      .def("commit", &commit)
      .def("abort", &abort);
  nb::class_<Store> bound(module, "Store");
  bound.def_static("create", &create, nb::arg("path"), nb::arg("options"), nb::arg("open"))
      .def_static("open", &open, nb::arg("path"), nb::arg("options"))
      .def_static("restore", &restore, nb::arg("snapshot"), nb::arg("path"), nb::arg("options"),
                  nb::arg("open"))
      .def("get", &get, nb::arg("keys"), nb::arg("values"), nb::arg("statuses"),
           nb::arg("stream") = 0, nb::arg("transaction") = nb::none())
      .def("get_variable", &get_variable, nb::arg("keys"), nb::arg("statuses"),
           nb::arg("stream") = 0, nb::arg("transaction") = nb::none())
      .def("view", &view, nb::arg("keys"), nb::arg("statuses"))
      .def("put", &put, nb::arg("keys"), nb::arg("values"), nb::arg("statuses"),
           nb::arg("stream") = 0, nb::arg("atomic") = false, nb::arg("transaction") = nb::none())
      .def("update", &update, nb::arg("keys"), nb::arg("operands"), nb::arg("rmw"),
           nb::arg("element"), nb::arg("statuses"), nb::arg("stream") = 0,
           nb::arg("atomic") = false, nb::arg("transaction") = nb::none())
      .def("erase", &erase, nb::arg("keys"), nb::arg("statuses"), nb::arg("stream") = 0,
           nb::arg("atomic") = false, nb::arg("transaction") = nb::none())
      .def("apply", &apply, nb::arg("keys"), nb::arg("kinds"), nb::arg("values"), nb::arg("rmw"),
           nb::arg("element"), nb::arg("out"), nb::arg("statuses"), nb::arg("stream") = 0,
           nb::arg("atomic") = false, nb::arg("transaction") = nb::none())
      .def("begin", &begin, nb::arg("max_operations"), nb::arg("revertible") = false)
      .def("revert", &revert)
      .def("can_revert", &can_revert)
      .def("register_dense", &register_dense, nb::arg("buffers"))
      .def("restore_step", &restore_step, nb::arg("stream") = 0)
      .def("scan", &scan, nb::arg("cursor"), nb::arg("limit"), nb::arg("here") = false)
      .def("range", &range, nb::arg("query"), nb::arg("limit"))
      .def("count_range", &count_range, nb::arg("query"))
      .def("table", &table_of<Store>, nb::arg("name"), nb::arg("row_bytes"))
      .def("tables", &tables_of<Store>)
      .def("snapshot", &snapshot, nb::arg("path"), nb::arg("options"))
      .def("load_cache", &load_cache)
      .def("verify", &verify, nb::arg("here") = false)
      .def("acknowledge_repair", &acknowledge_repair)
      .def("stats", here([](Store& store) { return store.stats(); }))
      .def("reset_counts", here([](Store& store) { store.reset_counts(); }))
      .def("recovery", here([](Store& store) { return store.recovery(); }))
      .def("survives", here([](Store& store) { return store.survives(); }))
      .def("path", [](Store const& store) { return store.path(); })
      .def("key_bytes", &Store::key_bytes)
      .def("value_bytes", &Store::value_bytes)
      .def("value_type", &Store::value_type)
      .def("key_order", &Store::key_order)
      .def("device", &Store::device)
      .def("close", &close);
  bind_single(bound);
}

}  // namespace

}  // namespace perdure::python

NB_MODULE(_native, module) {
  using namespace perdure::python;
  register_errors();
  bind_records(module);
  bind_arrays(module);
  bind_exchange(module);
  bind_store(module);
  bind_machine(module);
  bind_pool_reader(module);
  bind_row_handles(module);
  bind_watch(module);
  module.def("devices", &perdure::devices, nb::call_guard<ReleasedGil>());
  module.def(
      "survives", [](perdure::Medium medium) { return perdure::survives(medium); },
      nb::arg("medium"));
  module.attr("__version__") = nb::str(perdure::version().data(), perdure::version().size());
  module.attr("built_with_cuda") = PERDURE_PYTHON_WITH_CUDA != 0;
}
