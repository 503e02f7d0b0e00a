// Batches as arrays (perdure/rocks.h). Large ones go to the memtables as the columns that they are;
// few go the way that all writes go.
//
// Invariant: each call sees, or makes, one state of the database.

#include <cstddef>
#include <vector>

#include "exec/range.hpp"
#include "lsm/rocks/array_call.hpp"
#include "lsm/rocks/array_read.hpp"
#include "lsm/rocks/value_sink.hpp"

namespace perdure::rocks {

using namespace lsm;  // NOLINT: whose interface this is
using rocksdb::ColumnFamilyHandle;
using rocksdb::Slice;

namespace {

/// Where all elements are empty, `none` says so to the log, to which a width of 0 is no width.
Column for_log(Column column, std::vector<std::int64_t>& none) {
  if (column.offsets != nullptr || column.width != 0 || column.count == 0) return column;
  static constexpr std::byte kNothing{};
  none.assign(column.count + 1, 0);
  column.offsets = none.data();
  if (column.data == nullptr) column.data = &kNothing;
  return column;
}

rocksdb::Status write(rocksdb::DB& db, ColumnFamilyHandle* family, OpKind kind,
                      Column const& given_keys, Column const& given_values,
                      ArrayOptions const& options) {
  Database* database = nullptr;
  if (auto s = check_call(db, family, database); !s.ok()) return s;
  bool const has_values = kind != OpKind::erase;
  if (has_values && given_values.count != given_keys.count)
    return rocksdb::Status::InvalidArgument(std::to_string(given_keys.count) + " keys and " +
                                            std::to_string(given_values.count) + " values");
  DeviceColumns device(*database->parts().device, *database->parts().workers, options);
  Column const keys = device.bring(given_keys, "keys");
  Column const values = device.bring(given_values, "values");
  if (auto s = device.arrived(); !s.ok()) return s;
  if (is_for_tables(*database, family, kind == OpKind::update, keys.count)) {
    std::vector<std::int64_t> no_keys, no_values;
    Writer::Columns columns;
    columns.family = family->GetID();
    columns.ops.kind = kind;
    columns.ops.keys = for_log(keys, no_keys);
    if (has_values) columns.ops.values = for_log(values, no_values);
    columns.device_keys = device.there(given_keys);
    if (has_values) columns.device_values = device.there(given_values);
    columns.all_requests = keys.count;
    return database->parts().writer->write_columns(write_options(options), columns);
  }
  rocksdb::WriteBatch batch;
  for (std::size_t i = 0; i < keys.count; ++i) {
    Slice const value = has_values ? element(values, i) : Slice();
    if (auto s = add_operation(batch, family, kind, element(keys, i), value); !s.ok()) return s;
  }
  return db.Write(write_options(options), &batch);
}

}  // namespace

rocksdb::Status put(rocksdb::DB& db, ColumnFamilyHandle* family, Column const& keys,
                    Column const& values, ArrayOptions const& options) {
  exec::Range const range("rocks put");
  return write(db, family, OpKind::put, keys, values, options);
}

rocksdb::Status merge(rocksdb::DB& db, ColumnFamilyHandle* family, Column const& keys,
                      Column const& operands, ArrayOptions const& options) {
  exec::Range const range("rocks merge");
  return write(db, family, OpKind::update, keys, operands, options);
}

rocksdb::Status erase(rocksdb::DB& db, ColumnFamilyHandle* family, Column const& keys,
                      ArrayOptions const& options) {
  exec::Range const range("rocks erase");
  return write(db, family, OpKind::erase, keys, {}, options);
}

rocksdb::Status get(rocksdb::DB& db, ColumnFamilyHandle* family, Column const& keys,
                    MutableColumn const& values, std::span<KeyStatus> statuses,
                    ArrayOptions const& options) {
  exec::Range const range("rocks get");
  Database* database = nullptr;
  if (auto s = check_call(db, family, database); !s.ok()) return s;
  if (auto s = check_statuses(keys.count, statuses); !s.ok()) return s;
  if (auto s = check_output(values, keys.count); !s.ok()) return s;
  DatabaseParts& parts = database->parts();
  DeviceColumns device(*parts.device, *parts.workers, options);
  Column const sought = device.bring(keys, "keys");
  MutableColumn const found = device.place(values);
  if (auto s = device.arrived(); !s.ok()) return s;
  OneState const state(*database, options);
  Sight const sight = parts.reader->sight(state.options());
  if (!sight.refusal.ok()) return sight.refusal;
  FixedSink sink(found, {}, statuses);
  auto s = ArrayRead(parts, sight, family, sought, {{}, sight.view->last}, sink).run();
  return s.ok() ? device.send(statuses) : s;
}

rocksdb::Status get(rocksdb::DB& db, ColumnFamilyHandle* family, Column const& keys,
                    VariableValues& values, std::span<KeyStatus> statuses,
                    ArrayOptions const& options) {
  exec::Range const range("rocks get_variable");
  Database* database = nullptr;
  if (auto s = check_call(db, family, database); !s.ok()) return s;
  if (auto s = check_statuses(keys.count, statuses); !s.ok()) return s;
  DatabaseParts& parts = database->parts();
  DeviceColumns device(*parts.device, *parts.workers, options);
  Column const sought = device.bring(keys, "keys");
  if (auto s = device.arrived(); !s.ok()) return s;
  OneState const state(*database, options);
  Sight const sight = parts.reader->sight(state.options());
  if (!sight.refusal.ok()) return sight.refusal;
  auto const rooms = parts.read_rooms->values.take();
  VariableSink sink(*parts.workers, keys.count, keys.count, *rooms, {}, statuses, values);
  auto s = ArrayRead(parts, sight, family, sought, {{}, sight.view->last}, sink).run();
  return s.ok() ? device.send(statuses) : s;
}

}  // namespace perdure::rocks
