#include "lsm/rocks/transaction_calls.hpp"

#include <algorithm>

namespace perdure::lsm {
namespace {

/// The parts as one, in memory of this object.
class Joined {
 public:
  explicit Joined(rocksdb::SliceParts const& parts) : slice_(parts, &bytes_) {}
  operator rocksdb::Slice const&() const { return slice_; }

 private:
  std::string bytes_;
  rocksdb::Slice slice_;
};

}  // namespace

rocksdb::Status TransactionCalls::change(Change change, bool validate, bool assume_tracked) {
  change.family = handle_of(change.family);
  rocksdb::Status status =
      guard(change.family, change.key,
            {.validate = validate && !assume_tracked, .assume_tracked = assume_tracked});
  return status.ok() ? write(change) : status;
}

rocksdb::Status TransactionCalls::Put(Family* family, Key const& key, Key const& value,
                                      bool assume_tracked) {
  return change({ChangeKind::put, family, key, value}, true, assume_tracked);
}
rocksdb::Status TransactionCalls::Put(Key const& key, Key const& value) {
  return Put(nullptr, key, value, false);
}
rocksdb::Status TransactionCalls::Put(Family* family, Parts const& key, Parts const& value,
                                      bool assume_tracked) {
  return Put(family, Joined(key), Joined(value), assume_tracked);
}
rocksdb::Status TransactionCalls::Put(Parts const& key, Parts const& value) {
  return Put(nullptr, key, value, false);
}

rocksdb::Status TransactionCalls::Merge(Family* family, Key const& key, Key const& value,
                                        bool assume_tracked) {
  return change({ChangeKind::merge, family, key, value}, true, assume_tracked);
}
rocksdb::Status TransactionCalls::Merge(Key const& key, Key const& value) {
  return Merge(nullptr, key, value, false);
}

rocksdb::Status TransactionCalls::Delete(Family* family, Key const& key, bool assume_tracked) {
  return change({ChangeKind::erase, family, key, {}}, true, assume_tracked);
}
rocksdb::Status TransactionCalls::Delete(Key const& key) { return Delete(nullptr, key, false); }
rocksdb::Status TransactionCalls::Delete(Family* family, Parts const& key, bool assume_tracked) {
  return Delete(family, Joined(key), assume_tracked);
}
rocksdb::Status TransactionCalls::Delete(Parts const& key) { return Delete(nullptr, key, false); }

rocksdb::Status TransactionCalls::SingleDelete(Family* family, Key const& key,
                                               bool assume_tracked) {
  return change({ChangeKind::erase_single, family, key, {}}, true, assume_tracked);
}
rocksdb::Status TransactionCalls::SingleDelete(Key const& key) {
  return SingleDelete(nullptr, key, false);
}
rocksdb::Status TransactionCalls::SingleDelete(Family* family, Parts const& key,
                                               bool assume_tracked) {
  return SingleDelete(family, Joined(key), assume_tracked);
}
rocksdb::Status TransactionCalls::SingleDelete(Parts const& key) {
  return SingleDelete(nullptr, key, false);
}

rocksdb::Status TransactionCalls::PutUntracked(Family* family, Key const& key, Key const& value) {
  return change({ChangeKind::put, family, key, value}, false, false);
}
rocksdb::Status TransactionCalls::PutUntracked(Key const& key, Key const& value) {
  return PutUntracked(nullptr, key, value);
}
rocksdb::Status TransactionCalls::PutUntracked(Family* family, Parts const& key,
                                               Parts const& value) {
  return PutUntracked(family, Joined(key), Joined(value));
}
rocksdb::Status TransactionCalls::PutUntracked(Parts const& key, Parts const& value) {
  return PutUntracked(nullptr, key, value);
}

rocksdb::Status TransactionCalls::MergeUntracked(Family* family, Key const& key, Key const& value) {
  return change({ChangeKind::merge, family, key, value}, false, false);
}
rocksdb::Status TransactionCalls::MergeUntracked(Key const& key, Key const& value) {
  return MergeUntracked(nullptr, key, value);
}

rocksdb::Status TransactionCalls::DeleteUntracked(Family* family, Key const& key) {
  return change({ChangeKind::erase, family, key, {}}, false, false);
}
rocksdb::Status TransactionCalls::DeleteUntracked(Key const& key) {
  return DeleteUntracked(nullptr, key);
}
rocksdb::Status TransactionCalls::DeleteUntracked(Family* family, Parts const& key) {
  return DeleteUntracked(family, Joined(key));
}
rocksdb::Status TransactionCalls::DeleteUntracked(Parts const& key) {
  return DeleteUntracked(nullptr, key);
}

rocksdb::Status TransactionCalls::SingleDeleteUntracked(Family* family, Key const& key) {
  return change({ChangeKind::erase_single, family, key, {}}, false, false);
}
rocksdb::Status TransactionCalls::SingleDeleteUntracked(Key const& key) {
  return SingleDeleteUntracked(nullptr, key);
}

rocksdb::Status TransactionCalls::Get(Options const& options, Family* family, Key const& key,
                                      rocksdb::PinnableSlice* value) {
  return batch().get(options, handle_of(family), key, value);
}
rocksdb::Status TransactionCalls::Get(Options const& options, Key const& key,
                                      rocksdb::PinnableSlice* value) {
  return Get(options, nullptr, key, value);
}
rocksdb::Status TransactionCalls::Get(Options const& options, Family* family, Key const& key,
                                      std::string* value) {
  return get_string(options, handle_of(family), key, value);
}
rocksdb::Status TransactionCalls::Get(Options const& options, Key const& key, std::string* value) {
  return get_string(options, handle_of(nullptr), key, value);
}

rocksdb::Status TransactionCalls::get_string(Options const& options, Family* family, Key const& key,
                                             std::string* value) {
  rocksdb::PinnableSlice pinned(value);  // where it is not pinned, it lies in `value` already
  rocksdb::Status status = batch().get(options, family, key, &pinned);
  if (status.ok() && pinned.IsPinned()) value->assign(pinned.data(), pinned.size());
  return status;
}

void TransactionCalls::MultiGet(Options const& options, Family* family, std::size_t count,
                                Key const* keys, rocksdb::PinnableSlice* values,
                                rocksdb::Status* statuses, bool sorted) {
  batch().multi_get(options, handle_of(family), count, keys, values, statuses, sorted);
}
std::vector<rocksdb::Status> TransactionCalls::MultiGet(Options const& options,
                                                        std::vector<Family*> const& families,
                                                        std::vector<Key> const& keys,
                                                        std::vector<std::string>* values) {
  auto const other = [&](Family* family) { return family != families.front(); };
  if (std::none_of(families.begin(), families.end(), other))
    return get_strings(options, families.empty() ? nullptr : families.front(), keys, values);
  std::vector<rocksdb::Status> statuses(keys.size());
  values->resize(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i)
    statuses[i] = get_string(options, handle_of(families[i]), keys[i], &(*values)[i]);
  return statuses;
}
std::vector<rocksdb::Status> TransactionCalls::MultiGet(Options const& options,
                                                        std::vector<Key> const& keys,
                                                        std::vector<std::string>* values) {
  return get_strings(options, nullptr, keys, values);
}

std::vector<rocksdb::Status> TransactionCalls::get_strings(Options const& options, Family* family,
                                                           std::vector<Key> const& keys,
                                                           std::vector<std::string>* values) {
  std::vector<rocksdb::Status> statuses(keys.size());
  std::vector<rocksdb::PinnableSlice> pinned(keys.size());
  MultiGet(options, family, keys.size(), keys.data(), pinned.data(), statuses.data(), false);
  values->resize(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (statuses[i].ok()) (*values)[i].assign(pinned[i].data(), pinned[i].size());
  return statuses;
}

rocksdb::Status TransactionCalls::guard_read(Options const& options, Family* family, Key const& key,
                                             bool exclusive, bool validate) {
  if (!validate && options.snapshot != nullptr)
    return rocksdb::Status::InvalidArgument(
        "If do_validate is false then GetForUpdate with snapshot is not defined.");
  return guard(family, key, {.read_only = true, .exclusive = exclusive, .validate = validate});
}

rocksdb::Status TransactionCalls::GetForUpdate(Options const& options, Family* family,
                                               Key const& key, rocksdb::PinnableSlice* value,
                                               bool exclusive, bool validate) {
  Family* const handle = handle_of(family);
  rocksdb::Status status = guard_read(options, handle, key, exclusive, validate);
  return status.ok() && value != nullptr ? batch().get(options, handle, key, value) : status;
}
rocksdb::Status TransactionCalls::GetForUpdate(Options const& options, Family* family,
                                               Key const& key, std::string* value, bool exclusive,
                                               bool validate) {
  Family* const handle = handle_of(family);
  rocksdb::Status status = guard_read(options, handle, key, exclusive, validate);
  return status.ok() && value != nullptr ? get_string(options, handle, key, value) : status;
}
rocksdb::Status TransactionCalls::GetForUpdate(Options const& options, Key const& key,
                                               std::string* value, bool exclusive, bool validate) {
  return GetForUpdate(options, nullptr, key, value, exclusive, validate);
}

std::vector<rocksdb::Status> TransactionCalls::MultiGetForUpdate(
    Options const& options, std::vector<Family*> const& families, std::vector<Key> const& keys,
    std::vector<std::string>* values) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    rocksdb::Status const status = guard_read(options, handle_of(families[i]), keys[i], true, true);
    if (!status.ok()) return std::vector<rocksdb::Status>(keys.size(), status);
  }
  return MultiGet(options, families, keys, values);
}
std::vector<rocksdb::Status> TransactionCalls::MultiGetForUpdate(Options const& options,
                                                                 std::vector<Key> const& keys,
                                                                 std::vector<std::string>* values) {
  return MultiGetForUpdate(options, std::vector<Family*>(keys.size(), nullptr), keys, values);
}

rocksdb::Iterator* TransactionCalls::GetIterator(Options const& options) {
  return GetIterator(options, nullptr);
}
rocksdb::Iterator* TransactionCalls::GetIterator(Options const& options, Family* family) {
  return batch().iterate(options, handle_of(family));
}

}  // namespace perdure::lsm
