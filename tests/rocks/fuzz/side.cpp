#include "rocks/fuzz/side.hpp"

#include <rocksdb/convenience.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/slice_transform.h>

namespace perdure::test {
namespace {

rocksdb::ColumnFamilyOptions with_merge(char const* name) {
  rocksdb::ColumnFamilyOptions options = small_family_options();
  auto const made = rocksdb::MergeOperator::CreateFromString(rocksdb::ConfigOptions(), name,
                                                             &options.merge_operator);
  if (!made.ok()) std::abort();
  return options;
}

}  // namespace

Families fuzz_families(bool extra) {
  Families families{{rocksdb::kDefaultColumnFamilyName, small_family_options()},
                    {"counts", with_merge("uint64add")},
                    {"appends", with_merge("stringappend")}};
  families[kAppends].options.prefix_extractor.reset(rocksdb::NewCappedPrefixTransform(2));
  if (extra) families.emplace_back("extra", with_merge("stringappend"));
  return families;
}

Side::~Side() {
  if (db_ != nullptr) static_cast<void>(close(false));
}

rocksdb::Status Side::open() {
  Handles handles;
  auto const s =
      opener_.open(small_db_options(), path_, fuzz_families(extra_at_close_), &handles, &db_);
  if (!s.ok()) return s;
  handles.resize(kFamilies, nullptr);
  handles_ = std::move(handles);
  return s;
}

rocksdb::Status Side::close(bool explicitly) {
  iterators.clear();
  for (auto const* snapshot : snapshots) db_->ReleaseSnapshot(snapshot);
  snapshots.clear();
  extra_at_close_ = has_extra();
  for (auto*& handle : handles_) {
    if (handle != nullptr) static_cast<void>(db_->DestroyColumnFamilyHandle(handle));
    handle = nullptr;
  }
  auto const s = explicitly ? db_->Close() : rocksdb::Status::OK();
  delete db_;
  db_ = nullptr;
  unlogged = false;
  return s;
}

std::size_t Side::draw_family(Draws& draws) const {
  std::size_t const place = draws.below(kFamilies + 2) % kFamilies;
  return handles_[place] != nullptr ? place : kPlainFamily;
}

std::string Side::draw_key(Draws& draws) const {
  return draws.once_in(60) ? fresh_key(draws) : keys_->draw(draws);
}

void Side::dump(Transcript& said) const {
  dump_families(db_, handles_, nullptr, said);
  if (!snapshots.empty()) dump_families(db_, handles_, snapshots.front(), said);
  std::vector<rocksdb::Slice> const keys(keys_->sorted().begin(), keys_->sorted().end());
  std::vector<rocksdb::PinnableSlice> values(keys.size());
  std::vector<rocksdb::Status> statuses(keys.size());
  for (auto* handle : handles_) {
    if (handle == nullptr) continue;
    for (auto& value : values) value.Reset();
    db_->MultiGet({}, handle, keys.size(), keys.data(), values.data(), statuses.data(), true);
    for (std::size_t i = 0; i < keys.size(); ++i) said.answer(statuses[i], values[i]);
  }
}

void dump_families(rocksdb::DB* db, Handles const& handles, rocksdb::Snapshot const* snapshot,
                   Transcript& said) {
  rocksdb::ReadOptions options;
  options.snapshot = snapshot;
  options.total_order_seek = true;
  for (auto* handle : handles) {
    if (handle == nullptr) continue;
    std::unique_ptr<rocksdb::Iterator> const it(db->NewIterator(options, handle));
    said.word(handle->GetName()).line();
    for (it->SeekToFirst(); it->Valid(); it->Next()) said.entry(it->key(), it->value());
    said.status(it->status()).line();
  }
}

rocksdb::Status dump_closed(Opener const& opener, std::string const& path, bool extra,
                            Transcript& said) {
  Handles handles;
  rocksdb::DB* db = nullptr;
  auto s = opener.open(small_db_options(), path, fuzz_families(extra), &handles, &db);
  if (!s.ok()) return s;
  dump_families(db, handles, nullptr, said);
  for (auto* handle : handles) static_cast<void>(db->DestroyColumnFamilyHandle(handle));
  delete db;
  return s;
}

}  // namespace perdure::test
