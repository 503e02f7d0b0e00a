// apply(): a mixed batch of writes and reads (perdure/rocks.h), as H-Rocks runs one (section 4.1).
// Each operation has a request by its place in the array. The writes are appended first, every
// version of a key by itself; a read then sees the newest version below its own request.
#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lsm/rocks/array_call.hpp"

namespace perdure::rocks {

using namespace lsm;  // NOLINT: whose interface this is
using rocksdb::ColumnFamilyHandle;
using rocksdb::PinnableSlice;
using rocksdb::Slice;

namespace {

/// The writes of a mixed batch as columns, and which operations they are.
struct Writes {
  std::vector<RequestId> requests;
  std::vector<OpKind> kinds;
  std::vector<std::byte> keys, values;
  std::vector<std::int64_t> key_offsets = {0}, value_offsets = {0};
  bool merges = false;

  explicit Writes(MixedBatch const& batch) {
    for (std::size_t i = 0; i < batch.keys.count; ++i) {
      if (batch.kinds[i] == OpKind::get) continue;
      requests.push_back(i);
      kinds.push_back(batch.kinds[i]);
      append(element(batch.keys, i), keys, key_offsets);
      bool const has_value = batch.kinds[i] != OpKind::erase;
      append(has_value ? element(batch.values, i) : Slice(), values, value_offsets);
      merges |= batch.kinds[i] == OpKind::update;
    }
  }
  [[nodiscard]] wal::BatchOps ops() const {
    wal::BatchOps ops;
    ops.kinds = kinds;
    ops.keys = {keys.data(), key_offsets.data(), 0, kinds.size(), MemorySpace::host};
    ops.values = {values.data(), value_offsets.data(), 0, kinds.size(), MemorySpace::host};
    return ops;
  }

 private:
  static void append(Slice const& bytes, std::vector<std::byte>& all,
                     std::vector<std::int64_t>& offsets) {
    auto const* const data = reinterpret_cast<std::byte const*>(bytes.data());
    all.insert(all.end(), data, data + bytes.size());
    offsets.push_back(static_cast<std::int64_t>(all.size()));
  }
};

/// What the reads of a batch found.
struct Found {
  std::vector<std::string> values;
  std::span<KeyStatus> statuses;

  void set(std::size_t i, rocksdb::Status const& status, Slice const& value) {
    statuses[i] = status_of(status);
    if (status.ok()) values[i] = value.ToString();
  }
};

/// One operation after the other, as RocksDB has them.
rocksdb::Status apply_in_order(rocksdb::DB& db, ColumnFamilyHandle* family, MixedBatch const& batch,
                               ArrayOptions const& options, Found& found) {
  for (std::size_t i = 0; i < batch.keys.count; ++i) {
    Slice const key = element(batch.keys, i);
    if (batch.kinds[i] == OpKind::get) {
      PinnableSlice value;
      auto const s = db.Get(rocksdb::ReadOptions(), family, key, &value);
      found.set(i, s, value);
      continue;
    }
    bool const has_value = batch.kinds[i] != OpKind::erase;
    rocksdb::WriteBatch one;
    auto s = add_operation(one, family, batch.kinds[i], key,
                           has_value ? element(batch.values, i) : Slice());
    if (s.ok()) s = db.Write(write_options(options), &one);
    if (!s.ok()) return s;
    found.statuses[i] = KeyStatus::ok;
  }
  return rocksdb::Status::OK();
}

rocksdb::Status apply_together(Database& database, ColumnFamilyHandle* family,
                               MixedBatch const& batch, ArrayOptions const& options, Found& found) {
  Writes const writes(batch);
  Writer::Columns columns;
  columns.family = family->GetID();
  columns.ops = writes.ops();
  columns.requests = writes.requests;
  columns.all_requests = batch.keys.count;
  DatabaseParts& parts = database.parts();
  if (auto s = parts.writer->write_columns(write_options(options), columns); !s.ok()) return s;
  std::vector<std::size_t> at;
  std::vector<Slice> keys;
  std::vector<RequestId> limits;
  for (std::size_t i = 0; i < batch.keys.count; ++i) {
    found.statuses[i] = KeyStatus::ok;
    if (batch.kinds[i] != OpKind::get) continue;
    at.push_back(i);
    keys.push_back(element(batch.keys, i));
    limits.push_back(columns.first + i - 1);
  }
  Sight sight;
  sight.view = columns.seen;
  sight.options.snapshot = columns.seen->base_snapshot();
  parts.workers->for_chunks(keys.size(), 256, [&](std::size_t begin, std::size_t end) {
    std::size_t const n = end - begin;
    std::vector<PinnableSlice> values(n);
    std::vector<rocksdb::Status> statuses(n);
    parts.reader->multi_get(sight, family, std::span(keys).subspan(begin, n),
                            {std::span(limits).subspan(begin, n)}, values.data(), statuses.data(),
                            false);
    for (std::size_t i = 0; i < n; ++i) found.set(at[begin + i], statuses[i], values[i]);
  });
  return rocksdb::Status::OK();
}

}  // namespace

rocksdb::Status apply(rocksdb::DB& db, ColumnFamilyHandle* family, MixedBatch const& batch,
                      VariableValues& found, std::span<KeyStatus> statuses,
                      ArrayOptions const& options) {
  Database* database = nullptr;
  std::size_t const n = batch.keys.count;
  if (auto s = check_call(db, family, batch.keys, database); !s.ok()) return s;
  if (auto s = check_host(batch.values, "values"); !s.ok()) return s;
  if (auto s = check_statuses(n, statuses); !s.ok()) return s;
  bool const writes_values = std::any_of(batch.kinds.begin(), batch.kinds.end(), [](OpKind kind) {
    return kind == OpKind::put || kind == OpKind::update;
  });
  if (batch.kinds.size() != n || (writes_values && batch.values.count != n))
    return rocksdb::Status::InvalidArgument("as many kinds and values as keys");
  if (options.snapshot != nullptr)
    return rocksdb::Status::InvalidArgument("a batch that writes reads no snapshot");
  std::fill(statuses.begin(), statuses.end(), KeyStatus::not_tried);
  Found answers{std::vector<std::string>(n), statuses};
  bool const merges =
      std::find(batch.kinds.begin(), batch.kinds.end(), OpKind::update) != batch.kinds.end();
  bool const writes = std::any_of(batch.kinds.begin(), batch.kinds.end(),
                                  [](OpKind kind) { return kind != OpKind::get; });
  rocksdb::Status s;
  if (!writes) return get(db, family, batch.keys, found, statuses, options);
  if (is_for_tables(*database, family, merges, n))
    s = apply_together(*database, family, batch, options, answers);
  else
    s = apply_in_order(db, family, batch, options, answers);
  collect(answers.values, found);
  return s;
}

}  // namespace perdure::rocks
