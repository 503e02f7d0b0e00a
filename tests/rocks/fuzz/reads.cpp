// Actions that read keys, and those of snapshots.
#include <rocksdb/utilities/write_batch_with_index.h>
#include <rocksdb/wide_columns.h>

#include <algorithm>

#include "lsm/rocks/rocksdb_version.hpp"
#include "rocks/fuzz/actions.hpp"

namespace perdure::test {
namespace {

constexpr std::size_t kMostSnapshots = 6;
// Batches with an index take a snapshot for RocksDB's own from then on (docs/rocks.md).
constexpr bool kBatchesKnowSnapshots = PERDURE_ROCKSDB < 809;

rocksdb::ReadOptions draw_options(Side const& side, Draws& draws) {
  rocksdb::ReadOptions options;
  options.snapshot = draw_snapshot(side, draws);
  options.verify_checksums = draws.once_in(2);
  options.fill_cache = draws.once_in(2);
  return options;
}

std::string draw_any_key(Side const& side, Draws& draws) {
  return draws.once_in(40) ? single_key(draws) : side.draw_key(draws);
}

std::vector<std::string> draw_keys(Side const& side, Draws& draws) {
  std::vector<std::string> keys(1 + draws.below(draws.once_in(4) ? 150 : 20));
  for (std::string& key : keys) key = draw_any_key(side, draws);
  return keys;
}

}  // namespace

rocksdb::Snapshot const* draw_snapshot(Side const& side, Draws& draws) {
  std::size_t const drawn = draws.below(2 * kMostSnapshots);
  return drawn < side.snapshots.size() ? side.snapshots[drawn] : nullptr;
}

void get(Side& side, Draws& draws, Transcript& said) {
  auto* const family = side.family(side.draw_family(draws));
  std::string const key = draw_any_key(side, draws);
  auto const options = draw_options(side, draws);
  if (draws.once_in(2)) {
    std::string value = "of before";
    auto const s = side.db()->Get(options, family, key, &value);
    said.status(s).bytes(value);
  } else {
    rocksdb::PinnableSlice value;
    auto const s = side.db()->Get(options, family, key, &value);
    said.answer(s, value);
  }
}

/// Of merged values, RocksDB 7.8 says that they are there and have no column, if all of it lies in
/// its memtable.
void get_entity(Side& side, Draws& draws, Transcript& said) {
  auto* const family = side.family(kPlainFamily);
  rocksdb::PinnableWideColumns columns;
  std::string const key = draw_any_key(side, draws);
  auto const s = side.db()->GetEntity(draw_options(side, draws), family, key, &columns);
  said.status(s).number(columns.columns().size());
  for (auto const& column : columns.columns()) said.entry(column.name(), column.value());
}

void multi_get_strings(Side& side, Draws& draws, Transcript& said) {
  std::vector<std::string> const keys = draw_keys(side, draws);
  std::vector<rocksdb::Slice> const slices(keys.begin(), keys.end());
  Handles families(keys.size());
  for (auto*& family : families) family = side.family(side.draw_family(draws));
  std::vector<std::string> values;
  auto const all = side.db()->MultiGet(draw_options(side, draws), families, slices, &values);
  said.number(all.size()).number(values.size());
  for (std::size_t i = 0; i < all.size(); ++i) said.answer(all[i], values[i]);
}

void multi_get_family(Side& side, Draws& draws, Transcript& said) {
  std::vector<std::string> keys = draw_keys(side, draws);
  bool const sorted = draws.once_in(2);
  if (sorted) std::sort(keys.begin(), keys.end());
  std::vector<rocksdb::Slice> const slices(keys.begin(), keys.end());
  std::vector<rocksdb::PinnableSlice> values(keys.size());
  std::vector<rocksdb::Status> all(keys.size());
  auto* const family = side.family(side.draw_family(draws));
  side.db()->MultiGet(draw_options(side, draws), family, keys.size(), slices.data(), values.data(),
                      all.data(), sorted);
  for (std::size_t i = 0; i < all.size(); ++i) said.answer(all[i], values[i]);
}

void multi_get_families(Side& side, Draws& draws, Transcript& said) {
  std::vector<std::string> const keys = draw_keys(side, draws);
  std::vector<rocksdb::Slice> const slices(keys.begin(), keys.end());
  Handles families(keys.size());
  for (auto*& family : families) family = side.family(side.draw_family(draws));
  std::vector<rocksdb::PinnableSlice> values(keys.size());
  std::vector<rocksdb::Status> all(keys.size());
  side.db()->MultiGet(draw_options(side, draws), keys.size(), families.data(), slices.data(),
                      values.data(), all.data(), false);
  for (std::size_t i = 0; i < all.size(); ++i) said.answer(all[i], values[i]);
}

/// It may say yes to what is not there, and it need not have the value.
void key_may_exist(Side& side, Draws& draws, Transcript& said) {
  auto* const family = side.family(side.draw_family(draws));
  std::string const key = draw_any_key(side, draws);
  auto const options = draw_options(side, draws);
  std::string value, seen;
  auto const s = side.db()->Get(options, family, key, &value);
  bool has_value = false;
  bool const may = side.db()->KeyMayExist(options, family, key, &seen, &has_value);
  said.answer(s, value);
  if (s.ok() && !may) said.word("a key that is there may not exist");
  if (may && has_value && (!s.ok() || seen != value)) said.word("another value than Get's");
}

void batch_with_index(Side& side, Draws& draws, Transcript& said) {
  std::size_t const family = side.draw_family(draws);
  auto* const handle = side.family(family);
  rocksdb::WriteBatchWithIndex batch(rocksdb::BytewiseComparator(), 0, true);
  for (std::size_t i = draws.below(20); i > 0; --i) {
    std::string const key = side.draw_key(draws);
    std::uint64_t const what = draws.below(4);
    if (what == 0)
      static_cast<void>(batch.Delete(handle, key));
    else if (what == 1 && family != kPlainFamily)
      static_cast<void>(batch.Merge(handle, key, draw_operand(draws, family)));
    else
      static_cast<void>(batch.Put(handle, key, draw_value(draws, family)));
  }
  rocksdb::ReadOptions options;
  options.snapshot = draw_snapshot(side, draws);
  rocksdb::ReadOptions const present;
  for (int i = 0; i < 5; ++i) {
    std::string value;
    auto const s = batch.GetFromBatchAndDB(side.db(), kBatchesKnowSnapshots ? options : present,
                                           handle, side.draw_key(draws), &value);
    said.answer(s, value);
  }
  std::unique_ptr<rocksdb::Iterator> const it(
      batch.NewIteratorWithBase(handle, side.db()->NewIterator(options, handle)));
  it->Seek(side.draw_key(draws));
  for (int i = 0; i < 10 && it->Valid(); ++i, it->Next()) said.bytes(it->key());
  said.status(it->status());
  if (draws.once_in(2)) said.status(side.db()->Write({}, batch.GetWriteBatch()));
}

void take_snapshot(Side& side, Draws&, Transcript& said) {
  if (side.snapshots.size() < kMostSnapshots) side.snapshots.push_back(side.db()->GetSnapshot());
  said.number(side.snapshots.size());
}

/// And its iterators: RocksDB's ask their snapshot whenever they come to the next file.
void release_snapshot(Side& side, Draws& draws, Transcript& said) {
  if (side.snapshots.empty()) return;
  auto const at =
      side.snapshots.begin() + static_cast<std::ptrdiff_t>(draws.below(side.snapshots.size()));
  std::erase_if(side.iterators, [&](auto const& open) { return open->snapshot == *at; });
  side.db()->ReleaseSnapshot(*at);
  side.snapshots.erase(at);
  said.number(side.snapshots.size());
}

}  // namespace perdure::test
