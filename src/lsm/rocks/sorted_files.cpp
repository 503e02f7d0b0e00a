#include "lsm/rocks/sorted_files.hpp"

#include <algorithm>
#include <utility>

#include "lsm/cache/cache_view.hpp"
#include "lsm/rocks/entry_groups.hpp"
#include "lsm/rocks/merging.hpp"
#include "lsm/rocks/rocksdb_version.hpp"
#include "lsm/rocks/status.hpp"
#include "lsm/rocks/value_prefetch.hpp"

namespace perdure::lsm {

namespace {

using rocksdb::Slice;

constexpr std::uint32_t kBlockEntries = 1u << 15;

rocksdb::Status add(rocksdb::SstFileWriter& writer, Slice const& key, Version const& version) {
  switch (version.kind) {
    case Kind::put: return writer.Put(key, slice_of(version.value));
    case Kind::erase: return writer.Delete(key);
    case Kind::merge: return writer.Merge(key, slice_of(version.value));
  }
  return rocksdb::Status::Corruption("an entry of no known kind");
}

}  // namespace

SortedFiles::SortedFiles(rocksdb::DB& base, FamilyPtr family, rocksdb::Snapshot const* snapshot,
                         std::string prefix, bool hashes)
    : base_(base),
      family_(std::move(family)),
      snapshot_(snapshot),
      prefix_(std::move(prefix)),
      keeps_hashes_(hashes),
      options_(base.GetOptions(family_->base)) {}

SortedFiles::~SortedFiles() {
  for (std::string const& file : files_) options_.env->DeleteFile(file).PermitUncheckedError();
}

rocksdb::Status SortedFiles::open(std::unique_ptr<rocksdb::SstFileWriter>& writer) {
  writer = std::make_unique<rocksdb::SstFileWriter>(rocksdb::EnvOptions(), options_, family_->base);
  files_.push_back(prefix_ + "-" + std::to_string(files_.size()) + ".sst");
  return writer->Open(files_.back());
}

namespace {

/// The first entry from `at` on that begins a key.
Result<std::uint32_t> begin_of_key(Engine& engine, Run const& run, std::uint32_t at) {
  std::uint32_t const first = at - 1;
  EntryBlock block;
  for (std::uint32_t window = 16;; window *= 2) {
    std::uint32_t const count = std::min(window, run.count() - first);
    if (Status s = engine.fetch(run, first, count, block); !s.ok()) return s;
    auto const end = static_cast<std::uint32_t>(end_of_key(block, 0));
    if (end < count || first + count == run.count()) return first + end;
  }
}

}  // namespace

Result<std::vector<std::uint32_t>> SortedFiles::parts_of(Engine& engine, Run const& run,
                                                         std::uint32_t least, std::size_t most) {
  std::vector<std::uint32_t> borders{0};
  std::size_t const parts = std::clamp<std::size_t>(run.count() / least, 1, most);
  for (std::size_t i = 1; i < parts; ++i) {
    auto const at = static_cast<std::uint32_t>(std::uint64_t{run.count()} * i / parts);
    auto border = begin_of_key(engine, run, at);
    if (!border) return border.status();
    if (*border > borders.back() && *border < run.count()) borders.push_back(*border);
  }
  borders.push_back(run.count());
  return borders;
}

rocksdb::Status SortedFiles::write(Engine& engine, Run const& run, std::uint32_t begin,
                                   std::uint32_t end) {
  EntryBlock block;
  if (keeps_hashes_) hashes_.reserve(end - begin);
  std::uint32_t window = kBlockEntries;
  for (std::uint32_t at = begin; at < end;) {
    std::uint32_t const count = std::min(window, end - at);
    if (Status s = engine.fetch(run, at, count, block); !s.ok()) return to_rocks(s);
    bool const is_end = at + count == end;
    std::vector<Group> groups;
    for (std::size_t i = 0; i < block.size();) {
      Group const group{i, end_of_key(block, i)};
      if (group.end == block.size() && !is_end) break;  // it may go on
      groups.push_back(group);
      i = group.end;
    }
    if (groups.empty()) {
      window *= 2;  // a key with more versions than that
      continue;
    }
    if (auto s = write_groups(block, groups); !s.ok()) return s;
    at += static_cast<std::uint32_t>(groups.back().end);
  }
  if (writer_ != nullptr) {
    if (auto s = writer_->Finish(); !s.ok()) return s;
  }
  if (auto s = write_erased(); !s.ok()) return s;
  return write_raw();
}

rocksdb::Status SortedFiles::write_erased() {
  if (erased_.empty()) return rocksdb::Status::OK();
  std::unique_ptr<rocksdb::SstFileWriter> writer;
  if (auto s = open(writer); !s.ok()) return s;
  for (std::string const& key : erased_)
    if (auto s = writer->Delete(key); !s.ok()) return s;
  std::rotate(files_.begin(), files_.end() - 1, files_.end());
  entries_ += erased_.size();
  return writer->Finish();
}

/// What open chains stand on is read together.
rocksdb::Status SortedFiles::write_groups(EntryBlock const& block,
                                          std::vector<Group> const& groups) {
  std::vector<Slice> keys;
  for (Group const& group : groups)
    if (is_open(chain_of(block, group.first, group.end)))
      keys.push_back(as_slice(block.key(group.first)));
  std::vector<rocksdb::PinnableSlice> below(keys.size());
  std::vector<rocksdb::Status> statuses(keys.size());
  rocksdb::ReadOptions options;
  options.snapshot = snapshot_;
  options.fill_cache = false;
  std::vector<bool> are_several;
  if (!keys.empty()) {
    base_.MultiGet(options, family_->base, keys.size(), keys.data(), below.data(), statuses.data(),
                   true);
    are_several = are_entities(base_, options, family_->base, keys);
  }
  std::size_t next = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    Group const& group = groups[i];
    if (i + kValuesAhead < groups.size())
      prefetch_value(block.versions[groups[i + kValuesAhead].first].value);
    if (keeps_hashes_) {
      auto const key = block.key(group.first);
      hashes_.push_back(cache_hash(family_->id, key.data(), key.size()));
    }
    bool const open = is_open(chain_of(block, group.first, group.end));
    Slice const* base = nullptr;
    if (open) {
      rocksdb::Status const& found = statuses[next];
      // Raw operands are there already, or RocksDB has to merge them with several columns.
      if (is_failed_merge(found) || are_several[next]) {
        keep_raw(keys[next++], chain_of(block, group.first, group.end));
        continue;
      }
      if (!found.ok() && !found.IsNotFound()) return found;
      base = found.ok() ? &below[next] : nullptr;
      ++next;
    }
    if (auto s = write_group(block, group, base); !s.ok()) return s;
  }
  return rocksdb::Status::OK();
}

rocksdb::Status SortedFiles::write_group(EntryBlock const& block, Group const& group,
                                         Slice const* below) {
  Slice const key = as_slice(block.key(group.first));
  std::span<Version const> const chain = chain_of(block, group.first, group.end);
  Merged merged;
  if (chain.front().kind == Kind::merge) {
    auto const s =
        merged.resolve(family_->merge_operator.get(), options_.info_log.get(), key, chain, below);
    if (is_failed_merge(s)) {
      keep_raw(key, chain);
      return rocksdb::Status::OK();
    }
    if (!s.ok()) return s;
  }
  if (writer_ == nullptr) {
    if (auto s = open(writer_); !s.ok()) return s;
  }
  ++entries_;
  bool const is_erased =
      std::any_of(block.versions.begin() + static_cast<std::ptrdiff_t>(group.first + 1),
                  block.versions.begin() + static_cast<std::ptrdiff_t>(group.end),
                  [](Version const& version) { return version.kind == Kind::erase; });
  if (is_erased && chain.front().kind != Kind::erase) erased_.push_back(key.ToString());
  return chain.front().kind == Kind::merge ? writer_->Put(key, merged.value())
                                           : add(*writer_, key, chain.front());
}

void SortedFiles::keep_raw(Slice const& key, std::span<Version const> chain) {
  if (raw_.size() < chain.size()) raw_.resize(chain.size());
  for (std::size_t i = 0; i < chain.size(); ++i)
    raw_[i].push_back({key.ToString(), chain[chain.size() - 1 - i]});
}

rocksdb::Status SortedFiles::write_raw() {
  for (std::vector<RawVersion> const& versions : raw_) {
    std::unique_ptr<rocksdb::SstFileWriter> writer;
    if (auto s = open(writer); !s.ok()) return s;
    for (RawVersion const& raw : versions)
      if (auto s = add(*writer, raw.key, raw.version); !s.ok()) return s;
    if (auto s = writer->Finish(); !s.ok()) return s;
    entries_ += versions.size();
  }
  return rocksdb::Status::OK();
}

}  // namespace perdure::lsm
