// Actions on files and families: flushes, compactions, ingests, checkpoints, options.
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/utilities/checkpoint.h>

#include <filesystem>
#include <map>

#include "rocks/fuzz/actions.hpp"

namespace perdure::test {
namespace {

Handles all_families(Side const& side) {
  Handles families;
  for (auto* handle : side.handles())
    if (handle != nullptr) families.push_back(handle);
  return families;
}

/// A sorted file of drawn entries; how writing it went.
rocksdb::Status write_file(Side const& side, Draws& draws, std::size_t family,
                           std::string const& path) {
  std::map<std::string, std::string> entries;
  for (std::size_t i = draws.between(1, 200); i > 0; --i)
    entries.insert_or_assign(side.keys().draw(draws), draw_value(draws, family));
  rocksdb::SstFileWriter writer({}, rocksdb::Options({}, small_family_options()));
  auto s = writer.Open(path);
  for (auto const& [key, value] : entries) {
    if (!s.ok()) return s;
    std::uint64_t const what = draws.below(8);
    s = what == 0                             ? writer.Delete(key)
        : what == 1 && family != kPlainFamily ? writer.Merge(key, draw_operand(draws, family))
                                              : writer.Put(key, value);
  }
  return s.ok() ? writer.Finish() : s;
}

}  // namespace

void flush(Side& side, Draws& draws, Transcript& said) {
  if (draws.once_in(2)) {
    said.status(side.db()->Flush({}, all_families(side)));
    side.unlogged = false;
  } else {
    said.status(side.db()->Flush({}, side.family(side.draw_family(draws))));
  }
}

void compact(Side& side, Draws& draws, Transcript& said) {
  rocksdb::CompactRangeOptions options;
  if (draws.once_in(3))
    options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  options.change_level = draws.once_in(6);
  options.exclusive_manual_compaction = draws.once_in(2);
  auto const [begin, end] = side.keys().range(draws);
  rocksdb::Slice const from(begin), to(end);
  bool const whole = draws.once_in(2);
  auto* const family = side.family(side.draw_family(draws));
  said.status(
      side.db()->CompactRange(options, family, whole ? nullptr : &from, whole ? nullptr : &to));
}

void create_family(Side& side, Draws&, Transcript& said) {
  rocksdb::ColumnFamilyHandle* handle = nullptr;
  auto const options = fuzz_families(true)[kExtra].options;
  auto const s = side.db()->CreateColumnFamily(options, "extra", &handle);
  said.status(s);  // refused while there is one
  if (s.ok()) side.set_extra(handle);
}

void drop_family(Side& side, Draws& draws, Transcript& said) {
  if (!side.has_extra()) return;
  auto* const handle = side.family(kExtra);
  said.status(side.db()->DropColumnFamily(handle));
  std::string value;  // its handle still reads
  said.status(side.db()->Get({}, handle, side.draw_key(draws), &value)).bytes(value);
  for (auto const& open : side.iterators)  // they still have it as it was
    open->can_refresh = open->can_refresh && open->family != kExtra;
  said.status(side.db()->DestroyColumnFamilyHandle(handle));
  side.set_extra(nullptr);
  side.singles[kExtra].clear();
}

void set_options(Side& side, Draws& draws, Transcript& said) {
  auto* const family = side.family(side.draw_family(draws));
  std::string const size = std::to_string(draws.between(64, 512) << 10);
  switch (draws.below(4)) {
    case 0: said.status(side.db()->SetOptions(family, {{"write_buffer_size", size}})); break;
    case 1: said.status(side.db()->SetDBOptions({{"bytes_per_sync", size}})); break;
    case 2: said.status(side.db()->SetOptions(family, {{"no_such_option", "1"}})); break;
    default:
      said.status(side.db()->SetOptions(
          family, {{"disable_auto_compactions", draws.once_in(2) ? "true" : "false"}}));
  }
}

void ingest(Side& side, Draws& draws, Transcript& said) {
  std::string const path = side.path() + ".sst";
  std::size_t const family = side.draw_family(draws);
  said.status(write_file(side, draws, family, path));
  rocksdb::IngestExternalFileOptions options;
  options.move_files = draws.once_in(2);
  options.verify_checksums_before_ingest = draws.once_in(2);
  if (draws.once_in(2)) {
    said.status(side.db()->IngestExternalFile(side.family(family), {path}, options));
  } else {
    rocksdb::IngestExternalFileArg arg;
    arg.column_family = side.family(family);
    arg.external_files = {path};
    arg.options = options;
    said.status(side.db()->IngestExternalFiles({arg}));
  }
  std::filesystem::remove(path);
}

/// What plain RocksDB finds in it.
void checkpoint(Side& side, Draws& draws, Transcript& said) {
  std::string const path = side.path() + ".checkpoint";
  rocksdb::Checkpoint* made = nullptr;
  said.status(rocksdb::Checkpoint::Create(side.db(), &made));
  std::unique_ptr<rocksdb::Checkpoint> const owned(made);
  bool const with_logs = draws.once_in(2) && !side.unlogged;  // rather than flush
  said.status(owned->CreateCheckpoint(path, with_logs ? 100u << 20 : 0));
  said.status(dump_closed(plain_rocksdb(), path, side.has_extra(), said));
  remove_database(path);
}

void dump_all(Side& side, Draws&, Transcript& said) { side.dump(said); }

}  // namespace perdure::test
