// The extension module perdure._rocks: perdure/rocks.h, call for call, over the columns of
// perdure._native, which has to be imported first. perdure/rocks.py is what users see.
// Invariant: every call that does work runs without the GIL, on columns that were made with it.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <rocksdb/utilities/checkpoint.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "errors.hpp"
#include "gil.hpp"
#include "long_call.hpp"
#include "machine.hpp"
#include "rocks_database.hpp"

namespace perdure::python {

namespace {

using Family = rocksdb::ColumnFamilyHandle;

constexpr std::size_t kLongOperations = 1u << 16;
constexpr std::uint64_t kLongBytes = 32u << 20;

bool is_large(Column const& keys, Column const& values) {
  return keys.count > kLongOperations || bytes_of(keys) + bytes_of(values) > kLongBytes;
}

/// Work that signal handlers do not wait for. It runs to its end, whatever they raise.
template <class Call>
void to_the_end(bool large, Call call) {
  raise_unless_ok(long_call(large, {}, [&](Stop) { return call(); }));
}

/// A key or value as a nanobind's bytes hold it.
std::string text_of(nb::bytes const& bytes) { return {bytes.c_str(), bytes.size()}; }

std::optional<std::string> text_of(std::optional<nb::bytes> const& bytes) {
  return bytes ? std::optional(text_of(*bytes)) : std::nullopt;
}

class Statuses {
 public:
  explicit Statuses(nb::handle array) : bytes_(array, true) {}
  [[nodiscard]] std::span<KeyStatus> span() const {
    return {reinterpret_cast<KeyStatus*>(bytes_.data()), bytes_.size()};
  }

 private:
  HostBytes bytes_;
};

nb::tuple to_tuple(VariableValues values) {
  return nb::make_tuple(to_numpy(std::move(values.offsets)), to_numpy(std::move(values.data)));
}

std::shared_ptr<RocksDatabase> open(std::string const& path, RocksOpening const& opening) {
  return value_or_raise(without_gil([&] { return RocksDatabase::open(path, opening); }));
}

/// Handle of a cudaStream_t, as Python has it; 0 where no array is on a GPU.
using StreamHandle = std::uintptr_t;

rocks::ArrayOptions writing(bool sync, bool log, StreamHandle stream) {
  rocks::ArrayOptions options;
  options.sync = sync;
  options.disable_wal = !log;
  options.stream = reinterpret_cast<CUstream_st*>(stream);
  return options;
}

rocks::ArrayOptions reading(rocksdb::Snapshot const* snapshot, StreamHandle stream) {
  rocks::ArrayOptions options;
  options.snapshot = snapshot;
  options.stream = reinterpret_cast<CUstream_st*>(stream);
  return options;
}

void put(RocksDatabase& database, KeptColumn const& keys, KeptColumn const& values,
         std::string const& family, bool sync, bool log, StreamHandle stream) {
  to_the_end(is_large(keys.column, values.column), [&] {
    return database.run(
        family, nullptr, [&](rocksdb::DB& db, Family* into, rocksdb::Snapshot const*) {
          return rocks::put(db, into, keys.column, values.column, writing(sync, log, stream));
        });
  });
}

void merge(RocksDatabase& database, KeptColumn const& keys, KeptColumn const& operands,
           std::string const& family, bool sync, bool log, StreamHandle stream) {
  to_the_end(is_large(keys.column, operands.column), [&] {
    return database.run(
        family, nullptr, [&](rocksdb::DB& db, Family* into, rocksdb::Snapshot const*) {
          return rocks::merge(db, into, keys.column, operands.column, writing(sync, log, stream));
        });
  });
}

void erase(RocksDatabase& database, KeptColumn const& keys, std::string const& family, bool sync,
           bool log, StreamHandle stream) {
  to_the_end(is_large(keys.column, {}), [&] {
    return database.run(family, nullptr,
                        [&](rocksdb::DB& db, Family* from, rocksdb::Snapshot const*) {
                          return rocks::erase(db, from, keys.column, writing(sync, log, stream));
                        });
  });
}

void get(RocksDatabase& database, KeptColumn const& keys, KeptMutableColumn const& values,
         nb::handle statuses, std::string const& family, RocksSnapshot const* snapshot,
         StreamHandle stream) {
  Statuses const held(statuses);
  to_the_end(is_large(keys.column, {}), [&] {
    return database.run(family, snapshot,
                        [&](rocksdb::DB& db, Family* from, rocksdb::Snapshot const* state) {
                          return rocks::get(db, from, keys.column, values.column, held.span(),
                                            reading(state, stream));
                        });
  });
}

nb::tuple get_variable(RocksDatabase& database, KeptColumn const& keys, nb::handle statuses,
                       std::string const& family, RocksSnapshot const* snapshot,
                       StreamHandle stream) {
  Statuses const held(statuses);
  VariableValues found;
  to_the_end(is_large(keys.column, {}), [&] {
    return database.run(
        family, snapshot, [&](rocksdb::DB& db, Family* from, rocksdb::Snapshot const* state) {
          return rocks::get(db, from, keys.column, found, held.span(), reading(state, stream));
        });
  });
  return to_tuple(std::move(found));
}

/// (status, value): of one key, without arrays.
nb::tuple get_one(RocksDatabase& database, nb::bytes const& key, std::string const& family,
                  RocksSnapshot const* snapshot) {
  std::string value;
  bool there = false;
  rocksdb::Slice const sought(key.c_str(), key.size());
  raise_unless_ok(without_gil([&] {
    return database.run(family, snapshot,
                        [&](rocksdb::DB& db, Family* from, rocksdb::Snapshot const* state) {
                          rocksdb::ReadOptions options;
                          options.snapshot = state;
                          auto const s = db.Get(options, from, sought, &value);
                          there = s.ok();
                          return s.IsNotFound() ? rocksdb::Status::OK() : s;
                        });
  }));
  return nb::make_tuple(there, nb::bytes(value.data(), value.size()));
}

void put_one(RocksDatabase& database, nb::bytes const& key, nb::bytes const& value,
             std::string const& family) {
  rocksdb::Slice const at(key.c_str(), key.size()), put(value.c_str(), value.size());
  raise_unless_ok(without_gil([&] {
    return database.run(family, nullptr,
                        [&](rocksdb::DB& db, Family* into, rocksdb::Snapshot const*) {
                          return db.Put(rocksdb::WriteOptions(), into, at, put);
                        });
  }));
}

nb::tuple range(RocksDatabase& database, KeptColumn const& begins, KeptColumn const& ends,
                std::uint64_t limit, std::string const& family, RocksSnapshot const* snapshot,
                StreamHandle stream) {
  rocks::Ranges found;
  to_the_end(true, [&] {
    return database.run(family, snapshot,
                        [&](rocksdb::DB& db, Family* from, rocksdb::Snapshot const* state) {
                          return rocks::range(db, from, begins.column, ends.column, limit, found,
                                              reading(state, stream));
                        });
  });
  return nb::make_tuple(to_numpy(std::move(found.offsets)), to_tuple(std::move(found.keys)),
                        to_tuple(std::move(found.values)));
}

nb::tuple apply(RocksDatabase& database, KeptColumn const& keys, nb::handle kinds,
                KeptColumn const& values, KeptMutableColumn const& out, nb::handle statuses,
                std::string const& family, bool sync, bool log, StreamHandle stream) {
  Statuses const held(statuses);
  HostBytes const codes(kinds, false);
  static_assert(sizeof(OpKind) == 1);
  MixedBatch batch;
  batch.keys = keys.column;
  batch.kinds = {reinterpret_cast<OpKind const*>(codes.data()), codes.size()};
  batch.values = values.column;
  batch.out = out.column;
  VariableValues found;
  to_the_end(is_large(keys.column, values.column), [&] {
    return database.run(
        family, nullptr, [&](rocksdb::DB& db, Family* on, rocksdb::Snapshot const*) {
          return rocks::apply(db, on, batch, found, held.span(), writing(sync, log, stream));
        });
  });
  return to_tuple(std::move(found));
}

std::shared_ptr<RocksSnapshot> snapshot(std::shared_ptr<RocksDatabase> const& database) {
  return value_or_raise(without_gil([&] { return RocksSnapshot::take(database); }));
}

std::shared_ptr<RocksCursor> cursor(std::shared_ptr<RocksDatabase> const& database,
                                    std::optional<nb::bytes> const& begin,
                                    std::optional<nb::bytes> const& end,
                                    std::optional<nb::bytes> const& prefix, bool reverse,
                                    std::string const& family, RocksSnapshot const* snapshot) {
  RocksBounds bounds{text_of(begin), text_of(end), text_of(prefix), reverse};
  return value_or_raise(without_gil(
      [&] { return RocksCursor::make(database, family, snapshot, std::move(bounds)); }));
}

nb::tuple next(RocksCursor& cursor, std::size_t limit) {
  auto page = value_or_raise(without_gil([&] { return cursor.next(limit); }));
  return nb::make_tuple(to_tuple(std::move(page.keys)), to_tuple(std::move(page.values)));
}

void flush(RocksDatabase& database, std::string const& family) {
  to_the_end(true, [&] {
    return database.run(family, nullptr,
                        [&](rocksdb::DB& db, Family* which, rocksdb::Snapshot const*) {
                          return db.Flush(rocksdb::FlushOptions(), which);
                        });
  });
}

void compact(RocksDatabase& database, std::string const& family) {
  to_the_end(true, [&] {
    return database.run(
        family, nullptr, [&](rocksdb::DB& db, Family* which, rocksdb::Snapshot const*) {
          return db.CompactRange(rocksdb::CompactRangeOptions(), which, nullptr, nullptr);
        });
  });
}

void checkpoint(RocksDatabase& database, std::string const& path) {
  to_the_end(true, [&] {
    return database.run([&](rocksdb::DB& db) {
      rocksdb::Checkpoint* made = nullptr;
      auto s = rocksdb::Checkpoint::Create(&db, &made);
      std::unique_ptr<rocksdb::Checkpoint> const owner(made);
      return s.ok() ? owner->CreateCheckpoint(path) : s;
    });
  });
}

void verify_checksums(RocksDatabase& database) {
  to_the_end(true,
             [&] { return database.run([](rocksdb::DB& db) { return db.VerifyChecksum(); }); });
}

std::optional<std::string> property(RocksDatabase& database, std::string const& name,
                                    std::string const& family) {
  std::optional<std::string> found;
  raise_unless_ok(without_gil([&] {
    return database.run(family, nullptr,
                        [&](rocksdb::DB& db, Family* of, rocksdb::Snapshot const*) {
                          std::string text;
                          if (db.GetProperty(of, name, &text)) found = std::move(text);
                          return rocksdb::Status::OK();
                        });
  }));
  return found;
}

void create_family(RocksDatabase& database, std::string const& name, OptionTexts const& options) {
  raise_unless_ok(without_gil([&] { return database.create_family(name, options); }));
}

void drop_family(RocksDatabase& database, std::string const& name) {
  raise_unless_ok(without_gil([&] { return database.drop_family(name); }));
}

std::vector<std::string> families(RocksDatabase& database) {
  return value_or_raise(without_gil([&] { return database.families(); }));
}

OptionTexts split(std::string const& text) { return value_or_raise(split_options(text)); }

void close(RocksDatabase& database) {
  to_the_end(true, [&] { return database.close(); });
}

void bind_memtables(nb::class_<RocksOpening>& opening) {
  opening
      .def_prop_rw(
          "memtable_bytes", [](RocksOpening const& one) { return one.gpu.memtable_bytes; },
          [](RocksOpening& one, std::uint64_t bytes) { one.gpu.memtable_bytes = bytes; })
      .def_prop_rw(
          "memtable_value_bytes",
          [](RocksOpening const& one) { return one.gpu.memtable_value_bytes; },
          [](RocksOpening& one, std::uint32_t bytes) { one.gpu.memtable_value_bytes = bytes; })
      .def_prop_rw(
          "immutable_memtables",
          [](RocksOpening const& one) { return one.gpu.immutable_memtables; },
          [](RocksOpening& one, std::uint32_t count) { one.gpu.immutable_memtables = count; })
      .def_prop_rw(
          "threshold", [](RocksOpening const& one) { return one.gpu.threshold; },
          [](RocksOpening& one, std::uint64_t count) { one.gpu.threshold = count; })
      .def_prop_rw(
          "block_cache_bytes", [](RocksOpening const& one) { return one.gpu.block_cache_bytes; },
          [](RocksOpening& one, std::uint64_t number) { one.gpu.block_cache_bytes = number; })
      .def_prop_rw(
          "block_cache_entry_bytes",
          [](RocksOpening const& one) { return one.gpu.block_cache_entry_bytes; },
          [](RocksOpening& one, std::uint32_t number) { one.gpu.block_cache_entry_bytes = number; })
      .def_prop_rw(
          "flushed_memtable_bytes",
          [](RocksOpening const& one) { return one.gpu.flushed_memtable_bytes; },
          [](RocksOpening& one, std::uint64_t number) { one.gpu.flushed_memtable_bytes = number; })
      .def_prop_rw(
          "idle_millis", [](RocksOpening const& one) { return one.gpu.idle_millis; },
          [](RocksOpening& one, std::uint32_t number) { one.gpu.idle_millis = number; })
      .def_prop_rw(
          "hand_overs_a_second",
          [](RocksOpening const& one) { return one.gpu.hand_overs_a_second; },
          [](RocksOpening& one, std::uint32_t number) { one.gpu.hand_overs_a_second = number; });
}

void bind_opening(nb::module_& module) {
  nb::enum_<rocks::Device>(module, "Device")
      .value("auto", rocks::Device::automatic)
      .value("cpu", rocks::Device::cpu)
      .value("cuda", rocks::Device::cuda);
  nb::enum_<rocks::Durability>(module, "Durability")
      .value("process", rocks::Durability::process)
      .value("power", rocks::Durability::power);
  nb::class_<RocksOpening> opening(module, "Opening");
  opening.def(nb::init<>())
      .def_rw("options", &RocksOpening::options)
      .def_rw("families", &RocksOpening::families)
      .def_rw("merge_operator", &RocksOpening::merge_operator)
      .def_rw("create", &RocksOpening::create)
      .def_rw("read_only", &RocksOpening::read_only)
      .def_prop_rw(
          "device", [](RocksOpening const& one) { return one.gpu.device; },
          [](RocksOpening& one, rocks::Device device) { one.gpu.device = device; })
      .def_prop_rw(
          "threads", [](RocksOpening const& one) { return one.gpu.threads; },
          [](RocksOpening& one, std::uint32_t threads) { one.gpu.threads = threads; })
      .def_prop_rw(
          "log_dir", [](RocksOpening const& one) { return one.gpu.log_dir; },
          [](RocksOpening& one, std::string path) { one.gpu.log_dir = std::move(path); })
      .def_prop_rw(
          "durability", [](RocksOpening const& one) { return one.gpu.durability; },
          [](RocksOpening& one, rocks::Durability durability) { one.gpu.durability = durability; })
      .def_prop_rw(
          "power_log_dir", [](RocksOpening const& one) { return one.gpu.power_log_dir; },
          [](RocksOpening& one, std::string path) { one.gpu.power_log_dir = std::move(path); })
      .def_prop_rw(
          "power_log_bytes", [](RocksOpening const& one) { return one.gpu.power_log_bytes; },
          [](RocksOpening& one, std::uint64_t bytes) { one.gpu.power_log_bytes = bytes; });
  bind_memtables(opening);
}

void bind_database(nb::module_& module) {
  nb::class_<RocksSnapshot>(module, "Snapshot").def("release", [](RocksSnapshot& one) {
    without_gil([&] { one.release(); });
  });
  nb::class_<RocksCursor>(module, "Cursor").def("next", &next, nb::arg("limit"));
  nb::class_<RocksDatabase>(module, "Database")
      .def_static("open", &open, nb::arg("path"), nb::arg("opening"))
      .def("put", &put, nb::arg("keys"), nb::arg("values"), nb::arg("family"), nb::arg("sync"),
           nb::arg("log"), nb::arg("stream"))
      .def("merge", &merge, nb::arg("keys"), nb::arg("operands"), nb::arg("family"),
           nb::arg("sync"), nb::arg("log"), nb::arg("stream"))
      .def("erase", &erase, nb::arg("keys"), nb::arg("family"), nb::arg("sync"), nb::arg("log"),
           nb::arg("stream"))
      .def("get", &get, nb::arg("keys"), nb::arg("values"), nb::arg("statuses"), nb::arg("family"),
           nb::arg("snapshot").none(), nb::arg("stream"))
      .def("get_variable", &get_variable, nb::arg("keys"), nb::arg("statuses"), nb::arg("family"),
           nb::arg("snapshot").none(), nb::arg("stream"))
      .def("get_one", &get_one, nb::arg("key"), nb::arg("family"), nb::arg("snapshot").none())
      .def("put_one", &put_one, nb::arg("key"), nb::arg("value"), nb::arg("family"))
      .def("range", &range, nb::arg("begins"), nb::arg("ends"), nb::arg("limit"), nb::arg("family"),
           nb::arg("snapshot").none(), nb::arg("stream"))
      .def("apply", &apply, nb::arg("keys"), nb::arg("kinds"), nb::arg("values"), nb::arg("out"),
           nb::arg("statuses"), nb::arg("family"), nb::arg("sync"), nb::arg("log"),
           nb::arg("stream"))
      .def("snapshot", &snapshot)
      .def("cursor", &cursor, nb::arg("begin").none(), nb::arg("end").none(),
           nb::arg("prefix").none(), nb::arg("reverse"), nb::arg("family"),
           nb::arg("snapshot").none())
      .def("flush", &flush, nb::arg("family"))
      .def("compact", &compact, nb::arg("family"))
      .def("checkpoint", &checkpoint, nb::arg("path"))
      .def("verify_checksums", &verify_checksums)
      .def("property", &property, nb::arg("name"), nb::arg("family"))
      .def("create_family", &create_family, nb::arg("name"), nb::arg("options"))
      .def("drop_family", &drop_family, nb::arg("name"))
      .def("families", &families)
      .def("path", [](RocksDatabase const& database) { return database.path(); })
      .def("close", &close);
}

}  // namespace

}  // namespace perdure::python

NB_MODULE(_rocks, module) {
  using namespace perdure::python;
  nb::module_::import_("perdure._native");  // whose columns these calls take
  register_errors();
  bind_opening(module);
  bind_database(module);
  module.def("split_options", &split, nb::arg("text"));
  module.def("numbers_of_memtables",
             [] { return as_list(perdure::rocks::numbers_of_memtables()); });
}
