// Actions that write.
#include <rocksdb/wide_columns.h>
#include <rocksdb/write_batch.h>

#include "rocks/fuzz/actions.hpp"

namespace perdure::test {
namespace {

rocksdb::WriteOptions draw_options(Side& side, Draws& draws) {
  rocksdb::WriteOptions options;
  options.sync = draws.once_in(50);
  options.disableWAL = side.may_skip_log && !options.sync && draws.once_in(20);
  side.unlogged = side.unlogged || options.disableWAL;
  options.memtable_insert_hint_per_batch = draws.once_in(10);
  return options;
}

/// One write of a batch.
void add(Side& side, Draws& draws, rocksdb::WriteBatch& batch) {
  std::size_t const family = side.draw_family(draws);
  auto* const handle = side.family(family);
  std::uint64_t const what = draws.below(200);
  if (what == 0) {
    batch.PutLogData(draws.bytes(5));
  } else if (what < 4 && side.may_single_delete) {
    std::string const key = single_key(draws);
    auto& put_keys = side.singles[family];
    if (put_keys.erase(key) != 0) {
      batch.SingleDelete(handle, key);
    } else {
      batch.Put(handle, key, draw_value(draws, family));
      put_keys.insert(key);
    }
  } else if (what < 40) {
    batch.Delete(handle, side.draw_key(draws));
  } else if (what < 90 && family != kPlainFamily) {
    std::string const key = side.draw_key(draws);
    batch.Merge(handle, key, draw_operand(draws, family));
  } else {
    std::string const key = side.draw_key(draws);
    batch.Put(handle, key, draw_value(draws, family));
  }
}

void write(Side& side, Draws& draws, Transcript& said, std::size_t entries) {
  rocksdb::WriteBatch batch;
  for (std::size_t i = 0; i < entries; ++i) add(side, draws, batch);
  if (draws.once_in(100)) {
    auto const [begin, end] = side.keys().range(draws);
    batch.DeleteRange(side.family(side.draw_family(draws)), begin, end);
    for (std::size_t i = 0; i < entries / 8; ++i) add(side, draws, batch);
  }
  said.number(batch.Count()).status(side.db()->Write(draw_options(side, draws), &batch));
}

/// A family that no database has.
class NoFamily final : public rocksdb::ColumnFamilyHandle {
 public:
  [[nodiscard]] std::string const& GetName() const override { return name_; }
  [[nodiscard]] std::uint32_t GetID() const override { return 4711; }
  rocksdb::Status GetDescriptor(rocksdb::ColumnFamilyDescriptor*) override {
    return rocksdb::Status::NotSupported();
  }
  [[nodiscard]] rocksdb::Comparator const* GetComparator() const override {
    return rocksdb::BytewiseComparator();
  }

 private:
  std::string name_ = "no family";
};

}  // namespace

void put(Side& side, Draws& draws, Transcript& said) {
  std::size_t const family = side.draw_family(draws);
  std::string const key = side.draw_key(draws), value = draw_value(draws, family);
  said.status(side.db()->Put(draw_options(side, draws), side.family(family), key, value));
}

void put_entity(Side& side, Draws& draws, Transcript& said) {
  std::string const key = side.draw_key(draws), value = draw_value(draws, kPlainFamily);
  rocksdb::WideColumns columns{{"name", value}, {"other", "1"}};
  if (draws.once_in(2)) columns.insert(columns.begin(), {rocksdb::kDefaultWideColumnName, value});
  said.status(
      side.db()->PutEntity(draw_options(side, draws), side.family(kPlainFamily), key, columns));
}

void erase(Side& side, Draws& draws, Transcript& said) {
  auto* const family = side.family(side.draw_family(draws));
  std::string const key = side.draw_key(draws);
  said.status(side.db()->Delete(draw_options(side, draws), family, key));
}

void single_delete(Side& side, Draws& draws, Transcript& said) {
  if (!side.may_single_delete) return erase(side, draws, said);
  std::size_t const family = side.draw_family(draws);
  std::string const key = single_key(draws), value = draw_value(draws, family);
  auto* const handle = side.family(family);
  auto& put_keys = side.singles[family];
  if (put_keys.erase(key) != 0) {
    said.status(side.db()->SingleDelete(draw_options(side, draws), handle, key));
  } else {
    said.status(side.db()->Put(draw_options(side, draws), handle, key, value));
    put_keys.insert(key);
  }
  std::string found;
  said.status(side.db()->Get({}, handle, key, &found)).bytes(found);
}

void merge(Side& side, Draws& draws, Transcript& said) {
  std::size_t const drawn = side.draw_family(draws);
  std::size_t const family = drawn == kPlainFamily ? kCounts : drawn;
  std::string const key = side.draw_key(draws), operand = draw_operand(draws, family);
  said.status(side.db()->Merge(draw_options(side, draws), side.family(family), key, operand));
}

void delete_range(Side& side, Draws& draws, Transcript& said) {
  auto const [begin, end] = side.keys().range(draws);
  auto* const family = side.family(side.draw_family(draws));
  said.status(side.db()->DeleteRange(draw_options(side, draws), family, begin, end));
}

void write_batch(Side& side, Draws& draws, Transcript& said) {
  write(side, draws, said, draws.below(61));
}

void write_large_batch(Side& side, Draws& draws, Transcript& said) {
  write(side, draws, said, draws.between(500, 5000));
}

void write_to_no_family(Side& side, Draws& draws, Transcript& said) {
  NoFamily nothing;
  rocksdb::WriteOptions options;
  options.ignore_missing_column_families = true;  // without it RocksDB refuses all further writes
  rocksdb::WriteBatch batch;
  batch.Put(side.family(kCounts), side.draw_key(draws), draw_value(draws, kCounts));
  batch.Put(&nothing, side.draw_key(draws), "nobody's");
  batch.Put(side.family(kAppends), side.draw_key(draws), draw_value(draws, kAppends));
  said.status(side.db()->Write(options, &batch));
}

void merge_without_operator(Side& side, Draws& draws, Transcript& said) {
  said.status(side.db()->Merge({}, side.family(kPlainFamily), side.draw_key(draws), "operand"));
}

}  // namespace perdure::test
