#include "lsm/rocks/conflicts.hpp"

#include <rocksdb/utilities/debug.h>

#include <map>
#include <utility>

#include "lsm/rocks/key_column.hpp"
#include "lsm/rocks/status.hpp"

namespace perdure::lsm {

rocksdb::Status newest_version(rocksdb::DB& base, rocksdb::ColumnFamilyHandle* handle,
                               rocksdb::Slice const& key, rocksdb::SequenceNumber& newest) {
  newest = 0;
  std::vector<rocksdb::KeyVersion> versions;
  rocksdb::Status status = rocksdb::GetAllKeyVersions(&base, handle, key, key, 1, &versions);
  // An empty key bounds nothing: what comes back may be another's version.
  if (status.ok() && !versions.empty() &&
      handle->GetComparator()->Compare(versions[0].user_key, key) == 0)
    newest = versions[0].sequence;
  return status;
}

rocksdb::Status Conflicts::unwritten(std::span<TrackedKey const> keys) const {
  std::uint64_t const latest = tables_.sequence();
  std::map<std::uint32_t, std::vector<TrackedKey>> by_family;
  for (TrackedKey const& key : keys)
    if (key.since < latest) by_family[key.family].push_back(key);
  if (by_family.empty()) return rocksdb::Status::OK();  // nothing at all was written
  Tables::Past const past = tables_.past();
  for (auto& [family, those] : by_family)
    if (auto s = unwritten(past, family, std::move(those)); !s.ok()) return s;
  return rocksdb::Status::OK();
}

rocksdb::Status Conflicts::unwritten(Tables::Past const& past, std::uint32_t family,
                                     std::vector<TrackedKey> keys) const {
  FamilyPtr const known = families_.find(family);
  if (known == nullptr || known->base == nullptr)
    return rocksdb::Status::InvalidArgument("Could not access column family " +
                                            std::to_string(family));
  // What the view has is newer than all else.
  if (auto s = not_in(past.view->runs(family), keys, false); !s.ok()) return s;
  for (TrackedKey const& key : keys)
    if (!past.history.reaches_back_to(key.since))
      return rocksdb::Status::TryAgain(
          "the memtables since this transaction's snapshot are no longer kept: begin it again");
  if (auto s = not_in(past.history.runs(family), keys, true); !s.ok()) return s;
  return not_in_base(past, known->base, keys);
}

rocksdb::Status Conflicts::not_in(RunList runs, std::vector<TrackedKey>& keys,
                                  bool keep_known) const {
  if (runs.empty() || keys.empty()) return rocksdb::Status::OK();
  KeyColumn column;
  for (TrackedKey const& key : keys) column.add(key.key);
  std::vector<Answer> answers(keys.size());
  if (Status s = engine_.find(runs, column.column(), {}, answers, {}); !s.ok()) return to_rocks(s);
  std::vector<TrackedKey> rest;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    bool const known = answers[i].found != Found::absent;
    if (known && answers[i].request > keys[i].since) return rocksdb::Status::Busy();
    if (!known || keep_known) rest.push_back(keys[i]);
  }
  keys = std::move(rest);
  return rocksdb::Status::OK();
}

rocksdb::Status Conflicts::not_in_base(Tables::Past const& past,
                                       rocksdb::ColumnFamilyHandle* handle,
                                       std::span<TrackedKey const> keys) const {
  std::uint64_t const base = base_.GetLatestSequenceNumber();
  for (TrackedKey const& key : keys) {
    if (!past.history.any_direct(key.since, base)) continue;
    rocksdb::SequenceNumber newest = 0;
    if (auto s = newest_version(base_, handle, key.key, newest); !s.ok()) return s;
    if (past.history.is_direct(newest, key.since)) return rocksdb::Status::Busy();
  }
  return rocksdb::Status::OK();
}

}  // namespace perdure::lsm
