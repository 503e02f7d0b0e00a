#include "rocks_database.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "perdure/store.h"

namespace perdure::python {

using rocksdb::ColumnFamilyDescriptor;
using rocksdb::ColumnFamilyHandle;
using rocksdb::ColumnFamilyOptions;

namespace {

Status add_family(std::string const& name, ColumnFamilyOptions const& base,
                  OptionTexts const& texts, std::vector<ColumnFamilyDescriptor>& families) {
  ColumnFamilyOptions options = base;
  if (Status s = set_family_options(texts, options); !s.ok())
    return {s.code(), "column family " + name + ": " + s.message()};
  families.emplace_back(name, options);
  return {};
}

/// RocksDB opens a database with all of its families or not at all.
std::vector<std::string> all_families(std::string const& path, rocksdb::DBOptions const& options,
                                      RocksOpening const& opening) {
  std::vector<std::string> names;
  auto const s = rocksdb::DB::ListColumnFamilies(options, path, &names);
  if (!s.ok()) names = {rocksdb::kDefaultColumnFamilyName};  // opening says what is wrong
  for (auto const& one : opening.families)
    if (std::find(names.begin(), names.end(), one.first) == names.end()) names.push_back(one.first);
  return names;
}

std::atomic<pid_t> process_of_rocksdb = 0;  // whose threads RocksDB's static objects have

/// RocksDB's static objects keep threads, which a forked child has not: their destructors would
/// wait for them for ever at its exit, and its background work would never begin.
Status claim_process() {
  pid_t none = 0;
  if (process_of_rocksdb.compare_exchange_strong(none, ::getpid())) {
    ::pthread_atfork(nullptr, nullptr, [] {
      ::on_exit(
          [](int status, void*) {
            std::fflush(nullptr);
            ::_exit(status);
          },
          nullptr);
    });
    return {};
  }
  if (process_of_rocksdb == ::getpid()) return {};
  return {Code::unsupported,
          "this process was forked from one that had opened a database, and RocksDB's threads are "
          "there alone; begin it anew (multiprocessing's spawn), or fork before the first opening"};
}

/// Before RocksDB makes a directory for nothing.
Status check_device(rocks::Device device) {
  if (device != rocks::Device::cuda) return {};
  for (DeviceInfo const& one : devices())
    if (one.device == Device::cuda && !one.available)
      return {Code::unsupported, "device cuda: " + one.why_not + "; use device cpu"};
  return {};
}

}  // namespace

RocksDatabase::RocksDatabase(std::string path, std::string merge_operator)
    : path_(std::move(path)), merge_operator_(std::move(merge_operator)), process_(::getpid()) {}

Result<std::shared_ptr<RocksDatabase>> RocksDatabase::open(std::string path,
                                                           RocksOpening const& opening) {
  std::shared_ptr<RocksDatabase> made(new RocksDatabase(std::move(path), opening.merge_operator));
  if (Status s = made->open_families(opening); !s.ok()) return s;
  return made;
}

Status RocksDatabase::open_families(RocksOpening const& opening) {
  if (Status s = claim_process(); !s.ok()) return s;
  if (Status s = check_device(opening.gpu.device); !s.ok()) return s;
  rocksdb::DBOptions options;
  ColumnFamilyOptions family;
  options.create_if_missing = opening.create && !opening.read_only;
  options.create_missing_column_families = options.create_if_missing;
  if (Status s = set_merge_operator(opening.merge_operator, family); !s.ok()) return s;
  if (Status s = set_options(opening.options, options, family); !s.ok()) return s;
  // RocksDB itself makes the directory, with a log and a lock in it, before it looks.
  if (!options.create_if_missing && options.env->FileExists(path_ + "/CURRENT").IsNotFound())
    return {Code::not_found,
            named() + " is not there; make it with `perdure rocks create`, or with create=True"};
  std::vector<ColumnFamilyDescriptor> families;
  for (std::string const& name : all_families(path_, options, opening)) {
    auto const own = opening.families.find(name);
    OptionTexts const texts = own == opening.families.end() ? OptionTexts() : own->second;
    if (Status s = add_family(name, family, texts, families); !s.ok()) return s;
  }
  std::vector<ColumnFamilyHandle*> handles;
  rocksdb::DB* db = nullptr;
  auto const open = [&](auto how) {
    return how(options, opening.gpu, path_, families, &handles, &db);
  };
  auto const s = opening.read_only
                     ? open([](auto&&... all) { return rocks::open_for_read_only(all...); })
                     : open([](auto&&... all) { return rocks::open(all...); });
  if (!s.ok()) return status_of(s, named());
  std::unique_lock const lock(mutex_);
  db_.reset(db);
  for (std::size_t i = 0; i < handles.size(); ++i) families_[families[i].name] = handles[i];
  return {};
}

RocksDatabase::~RocksDatabase() {
  if (::getpid() != process_) {
    static_cast<void>(db_.release());  // its threads are in the process that opened it
    return;
  }
  static_cast<void>(shut());
}

Status RocksDatabase::is_here() const {
  if (::getpid() == process_) return {};
  return {Code::closed,
          named() + " was opened by another process (" + std::to_string(process_) +
              "), which this one was forked from; open databases where they are used"};
}

Status RocksDatabase::usable() const {
  if (db_ != nullptr) return {};
  return {Code::closed, named() + " is closed; open it again with perdure.rocks.open"};
}

Status RocksDatabase::find(std::string const& family, ColumnFamilyHandle*& handle) const {
  auto const found = families_.find(family);
  if (found != families_.end()) {
    handle = found->second;
    return {};
  }
  std::string listed;
  for (auto const& one : families_) listed += (listed.empty() ? "" : ", ") + one.first;
  return {Code::not_found, named() + " has no column family " + family + "; it has " + listed +
                               " (create_family makes one)"};
}

Status RocksDatabase::create_family(std::string const& name, OptionTexts const& options) {
  if (Status s = is_here(); !s.ok()) return s;
  std::unique_lock const lock(mutex_);
  if (Status s = usable(); !s.ok()) return s;
  if (families_.contains(name))
    return {Code::already_exists, named() + " has a column family " + name + " already"};
  ColumnFamilyOptions family;
  if (Status s = set_merge_operator(merge_operator_, family); !s.ok()) return s;
  if (Status s = set_family_options(options, family); !s.ok())
    return {s.code(), "column family " + name + ": " + s.message()};
  ColumnFamilyHandle* handle = nullptr;
  auto const s = db_->CreateColumnFamily(family, name, &handle);
  if (s.ok()) families_[name] = handle;
  return status_of(s, named());
}

Status RocksDatabase::drop_family(std::string const& name) {
  if (Status s = is_here(); !s.ok()) return s;
  std::unique_lock const lock(mutex_);
  if (Status s = usable(); !s.ok()) return s;
  ColumnFamilyHandle* handle = nullptr;
  if (Status s = find(name, handle); !s.ok()) return s;
  if (auto s = db_->DropColumnFamily(handle); !s.ok()) return status_of(s, named());
  families_.erase(name);
  return status_of(db_->DestroyColumnFamilyHandle(handle), named());
}

Result<std::vector<std::string>> RocksDatabase::families() {
  if (Status s = is_here(); !s.ok()) return s;
  std::shared_lock const lock(mutex_);
  if (Status s = usable(); !s.ok()) return s;
  std::vector<std::string> names;
  for (auto const& one : families_) names.push_back(one.first);
  return names;
}

Status RocksDatabase::close() {
  if (Status s = is_here(); !s.ok()) return s;
  return shut();
}

Status RocksDatabase::shut() {
  std::unique_lock const lock(mutex_);
  if (db_ == nullptr) return {};
  {
    std::lock_guard const held(dependents_mutex_);
    for (RocksDependent* const one : dependents_) one->release(*db_);
    dependents_.clear();
  }
  for (auto const& one : families_) db_->DestroyColumnFamilyHandle(one.second);
  families_.clear();
  auto const s = db_->Close();
  db_ = nullptr;
  return status_of(s, named());
}

void RocksDatabase::add(RocksDependent& one) {
  std::lock_guard const held(dependents_mutex_);
  dependents_.insert(&one);
}

void RocksDatabase::remove(RocksDependent& one) {
  if (::getpid() != process_) return;
  std::unique_lock const lock(mutex_);  // nobody works with it
  std::lock_guard const held(dependents_mutex_);
  if (dependents_.erase(&one) != 0) one.release(*db_);
}

// --- snapshots and cursors
// ------------------------------------------------------------------------

Result<std::shared_ptr<RocksSnapshot>> RocksSnapshot::take(
    std::shared_ptr<RocksDatabase> database) {
  auto taken = std::make_shared<RocksSnapshot>(database);
  Status const s = database->run([&](rocksdb::DB& db) {
    taken->snapshot_ = db.GetSnapshot();
    database->add(*taken);
    return rocksdb::Status::OK();
  });
  if (!s.ok()) return s;
  return taken;
}

void RocksSnapshot::release(rocksdb::DB& db) {
  db.ReleaseSnapshot(std::exchange(snapshot_, nullptr));
}

namespace {

constexpr std::size_t kPageBytes = 16u << 20;

/// The first key behind all that start with `prefix`; none where it is all 0xff.
std::optional<std::string> behind(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (prefix.empty()) return std::nullopt;
  ++prefix.back();
  return prefix;
}

void add_bytes(rocksdb::Slice const& bytes, VariableValues& to) {
  auto const* const data = reinterpret_cast<std::byte const*>(bytes.data());
  to.data.insert(to.data.end(), data, data + bytes.size());
  to.offsets.push_back(static_cast<std::int64_t>(to.data.size()));
}

/// A prefix as part of the bounds, which needs that keys are in the order of their bytes.
rocksdb::Status fold_prefix(RocksBounds& bounds, rocksdb::Comparator const* order) {
  if (!bounds.prefix) return rocksdb::Status::OK();
  if (order != rocksdb::BytewiseComparator())
    return rocksdb::Status::NotSupported(
        "prefix: keys of this column family are not in the order of their bytes; give begin and "
        "end");
  if (!bounds.begin || *bounds.begin < *bounds.prefix) bounds.begin = bounds.prefix;
  auto const last = behind(*bounds.prefix);
  if (last && (!bounds.end || *bounds.end > *last)) bounds.end = last;
  return rocksdb::Status::OK();
}

}  // namespace

Result<std::shared_ptr<RocksCursor>> RocksCursor::make(std::shared_ptr<RocksDatabase> database,
                                                       std::string const& family,
                                                       RocksSnapshot const* snapshot,
                                                       RocksBounds bounds) {
  auto made = std::make_shared<RocksCursor>(database);
  made->bounds_ = std::move(bounds);
  Status const s = database->run(
      family, snapshot,
      [&](rocksdb::DB& db, ColumnFamilyHandle* handle, rocksdb::Snapshot const* state) {
        made->order_ = handle->GetComparator();
        if (auto refused = fold_prefix(made->bounds_, made->order_); !refused.ok()) return refused;
        rocksdb::ReadOptions options;
        options.snapshot = state;
        options.total_order_seek = true;
        made->iterator_.reset(db.NewIterator(options, handle));
        database->add(*made);
        made->seek();
        return made->iterator_->status();
      });
  if (!s.ok()) return s;
  return made;
}

void RocksCursor::release(rocksdb::DB&) { iterator_ = nullptr; }

void RocksCursor::seek() {
  if (!bounds_.reverse) {
    if (bounds_.begin)
      iterator_->Seek(*bounds_.begin);
    else
      iterator_->SeekToFirst();
    return;
  }
  if (!bounds_.end) {
    iterator_->SeekToLast();
    return;
  }
  iterator_->SeekForPrev(*bounds_.end);
  if (iterator_->Valid() && order_->Compare(iterator_->key(), *bounds_.end) == 0) iterator_->Prev();
}

bool RocksCursor::within() const {
  if (!iterator_->Valid()) return false;
  rocksdb::Slice const key = iterator_->key();
  if (bounds_.reverse) return !bounds_.begin || order_->Compare(key, *bounds_.begin) >= 0;
  return !bounds_.end || order_->Compare(key, *bounds_.end) < 0;
}

Result<RocksCursor::Page> RocksCursor::next(std::size_t limit) {
  Page page;
  page.keys.offsets.push_back(0);
  page.values.offsets.push_back(0);
  Status const s = database_->run([&](rocksdb::DB&) {
    std::lock_guard const lock(mutex_);
    if (iterator_ == nullptr) return rocksdb::Status::Aborted("this scan's database was closed");
    while (page.keys.offsets.size() <= limit && within() &&
           page.keys.data.size() + page.values.data.size() < kPageBytes) {
      add_bytes(iterator_->key(), page.keys);
      add_bytes(iterator_->value(), page.values);
      if (bounds_.reverse)
        iterator_->Prev();
      else
        iterator_->Next();
    }
    return iterator_->status();
  });
  if (!s.ok()) return s;
  return page;
}

}  // namespace perdure::python
