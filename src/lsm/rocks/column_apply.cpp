// apply(): a mixed batch of writes and reads (perdure/rocks.h), as H-Rocks runs one (section 4.1).
// Each operation has a request by its place in the array. The writes are appended first, every
// version of a key by itself; a read then sees the newest version below its own request.
#include <algorithm>
#include <span>
#include <utility>

#include "exec/range.hpp"
#include "lsm/rocks/array_call.hpp"
#include "lsm/rocks/array_read.hpp"
#include "lsm/rocks/mixed_columns.hpp"
#include "lsm/rocks/value_sink.hpp"

namespace perdure::rocks {

using namespace lsm;  // NOLINT: whose interface this is
using rocksdb::ColumnFamilyHandle;
using rocksdb::PinnableSlice;
using rocksdb::Slice;

namespace {

/// A call of apply().
class Apply {
 public:
  Apply(Database& database, ColumnFamilyHandle* family, MixedBatch const& batch,
        ArrayOptions const& options, VariableValues& found, std::span<KeyStatus> statuses)
      : db_(database),
        parts_(database.parts()),
        family_(family),
        batch_(batch),
        options_(options),
        found_(found),
        statuses_(statuses),
        rooms_(parts_.read_rooms->mixed.take()) {}

  rocksdb::Status run() {
    std::size_t const n = batch_.keys.count;
    rooms_->count(*parts_.workers, batch_);
    if (!rooms_->is_sane())
      return rocksdb::Status::InvalidArgument("an operation of no known kind");
    if (rooms_->has_values() && batch_.values.count != n)
      return rocksdb::Status::InvalidArgument("as many kinds and values as keys");
    if (rooms_->writes() == 0) return read_all();
    std::fill(statuses_.begin(), statuses_.end(), KeyStatus::not_tried);
    // Memtables that are there take all writes, and a batch of few costs them one turn.
    std::size_t const counts = parts_.tables->any() && n > 1 ? parts_.writer->threshold() : 0;
    bool const together = is_for_tables(db_, family_, rooms_->has_merges(), std::max(n, counts));
    return together ? apply_together() : apply_in_order();
  }

 private:
  rocksdb::Status read_all() {
    if (has_out()) return get(db_, family_, batch_.keys, batch_.out, statuses_, options_);
    return get(db_, family_, batch_.keys, found_, statuses_, options_);
  }
  [[nodiscard]] bool has_out() const { return batch_.out.count != 0; }

  /// f(where the values of `keys` gets go).
  template <class F>
  rocksdb::Status with_sink(std::size_t keys, Places places, F f) {
    if (has_out()) {
      FixedSink sink(batch_.out, places, statuses_);
      return f(sink);
    }
    auto const rooms = parts_.read_rooms->values.take();
    VariableSink sink(*parts_.workers, batch_.keys.count, keys, *rooms, places, statuses_, found_);
    return f(sink);
  }

  /// One operation after the other, as RocksDB has them.
  rocksdb::Status apply_in_order() {
    return with_sink(batch_.keys.count, {}, [&](ValueSink& sink) {
      ValueArena arena;
      rocksdb::Status s;
      for (std::size_t i = 0; i < batch_.keys.count && s.ok(); ++i) {
        if (batch_.kinds[i] == OpKind::get)
          read_one(i, sink, arena);
        else
          s = write_one(i);
      }
      sink.finish();
      return s;
    });
  }

  void read_one(std::size_t i, ValueSink& sink, ValueArena& arena) {
    PinnableSlice value;
    auto const s = db_.Get(rocksdb::ReadOptions(), family_, element(batch_.keys, i), &value);
    s.ok() ? sink.made(i, value, arena) : sink.none(i, status_of(s));
  }

  rocksdb::Status write_one(std::size_t i) {
    bool const has_value = batch_.kinds[i] != OpKind::erase;
    rocksdb::WriteBatch one;
    auto s = add_operation(one, family_, batch_.kinds[i], element(batch_.keys, i),
                           has_value ? element(batch_.values, i) : Slice());
    if (s.ok()) s = db_.Write(write_options(options_), &one);
    if (s.ok()) statuses_[i] = KeyStatus::ok;
    return s;
  }

  rocksdb::Status apply_together() {
    rooms_->take_apart(*parts_.workers, batch_);
    Writer::Columns columns;
    columns.family = family_->GetID();
    columns.ops = rooms_->write_ops();
    columns.requests = rooms_->write_places();
    columns.all_requests = batch_.keys.count;
    auto s = parts_.writer->write_columns(write_options(options_), columns);
    if (!s.ok()) return s;
    std::fill(statuses_.begin(), statuses_.end(), KeyStatus::ok);
    Sight sight;
    sight.view = columns.seen;
    sight.options.snapshot = columns.seen->base_snapshot();
    Limits const limits{rooms_->limits(*parts_.workers, columns.first)};
    return with_sink(rooms_->reads(), {rooms_->read_places()}, [&](ValueSink& sink) {
      return ArrayRead(parts_, sight, family_, rooms_->read_keys(), limits, sink).run();
    });
  }

  Database& db_;
  DatabaseParts& parts_;
  ColumnFamilyHandle* const family_;
  MixedBatch const& batch_;
  ArrayOptions const& options_;
  VariableValues& found_;
  std::span<KeyStatus> const statuses_;
  Reused<MixedColumns>::Loan rooms_;
};

}  // namespace

rocksdb::Status apply(rocksdb::DB& db, ColumnFamilyHandle* family, MixedBatch const& batch,
                      VariableValues& found, std::span<KeyStatus> statuses,
                      ArrayOptions const& options) {
  exec::Range const range("rocks apply");
  Database* database = nullptr;
  std::size_t const n = batch.keys.count;
  if (auto s = check_call(db, family, database); !s.ok()) return s;
  if (auto s = check_statuses(n, statuses); !s.ok()) return s;
  if (batch.kinds.size() != n)
    return rocksdb::Status::InvalidArgument("as many kinds and values as keys");
  if (batch.out.count != 0)
    if (auto s = check_output(batch.out, n); !s.ok()) return s;
  if (options.snapshot != nullptr)
    return rocksdb::Status::InvalidArgument("a batch that writes reads no snapshot");
  DeviceColumns device(*database->parts().device, *database->parts().workers, options);
  MixedBatch here = batch;
  here.keys = device.bring(batch.keys, "keys");
  here.values = device.bring(batch.values, "values");
  here.out = device.place(batch.out);
  if (auto s = device.arrived(); !s.ok()) return s;
  auto s = Apply(*database, family, here, options, found, statuses).run();
  return s.ok() ? device.send(statuses, batch.kinds) : s;
}

}  // namespace perdure::rocks
