#include "rocks/kills/victim.hpp"

#include <fcntl.h>
#include <rocksdb/utilities/stackable_db.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "perdure/rocks.h"

namespace perdure::test {
namespace {

constexpr std::uint64_t kBetweenFlushes = 40;  // calls
/// The largest threshold of an opener: fewer operations in an array are no atomic batch.
constexpr std::uint32_t kFewestOfArrays = 500;

[[noreturn]] void give_up(char const* doing, rocksdb::Status const& status) {
  std::fprintf(stderr, "rocks kills: the victim, %s: %s\n", doing, status.ToString().c_str());
  ::_exit(1);
}

/// A batch's writes by the calls for single ones.
class OneByOne final : public rocksdb::WriteBatch::Handler {
 public:
  OneByOne(rocksdb::DB* db, Handles const& handles) : db_(db), handles_(handles) {}
  rocksdb::Status PutCF(std::uint32_t family, rocksdb::Slice const& key,
                        rocksdb::Slice const& value) override {
    return db_->Put({}, handles_[family], key, value);
  }
  rocksdb::Status DeleteCF(std::uint32_t family, rocksdb::Slice const& key) override {
    return db_->Delete({}, handles_[family], key);
  }
  rocksdb::Status MergeCF(std::uint32_t family, rocksdb::Slice const& key,
                          rocksdb::Slice const& operand) override {
    return db_->Merge({}, handles_[family], key, operand);
  }

 private:
  rocksdb::DB* db_;
  Handles const& handles_;
};

/// A batch's writes as columns, as long as all are of one family.
class AsColumns final : public rocksdb::WriteBatch::Handler {
 public:
  rocksdb::Status PutCF(std::uint32_t family, rocksdb::Slice const& key,
                        rocksdb::Slice const& value) override {
    return add(family, OpKind::put, key, value);
  }
  rocksdb::Status DeleteCF(std::uint32_t family, rocksdb::Slice const& key) override {
    return add(family, OpKind::erase, key, {});
  }
  rocksdb::Status MergeCF(std::uint32_t family, rocksdb::Slice const& key,
                          rocksdb::Slice const& operand) override {
    return add(family, OpKind::update, key, operand);
  }
  rocksdb::Status apply(rocksdb::DB& db, Handles const& handles, bool sync) {
    MixedBatch const batch{column(keys_, key_offsets_), kinds_, column(values_, value_offsets_)};
    std::vector<KeyStatus> statuses(kinds_.size());
    VariableValues none;
    rocks::ArrayOptions options;
    options.sync = sync;
    return rocks::apply(db, handles[family_], batch, none, statuses, options);
  }

 private:
  static Column column(std::string const& bytes, std::vector<std::int64_t> const& offsets) {
    return {reinterpret_cast<std::byte const*>(bytes.data()), offsets.data(), 0, offsets.size() - 1,
            MemorySpace::host};
  }
  rocksdb::Status add(std::uint32_t family, OpKind kind, rocksdb::Slice const& key,
                      rocksdb::Slice const& value) {
    if (!kinds_.empty() && family != family_) return rocksdb::Status::NotSupported("two families");
    family_ = family;
    kinds_.push_back(kind);
    keys_.append(key.data(), key.size());
    key_offsets_.push_back(static_cast<std::int64_t>(keys_.size()));
    values_.append(value.data(), value.size());
    value_offsets_.push_back(static_cast<std::int64_t>(values_.size()));
    return {};
  }

  std::uint32_t family_ = 0;
  std::vector<OpKind> kinds_;
  std::string keys_, values_;
  std::vector<std::int64_t> key_offsets_ = {0}, value_offsets_ = {0};
};

class Victim {
 public:
  explicit Victim(Assignment const& assignment)
      : a_(assignment), plant_(plant_named(a_.plant)), page_(map_page(a_.page)) {}

  int live() {
    auto const s = opener_named(a_.open, a_.seed)
                       .open(small_db_options(), a_.path, kill_families(), &handles_, &db_);
    if (!s.ok()) give_up("opening", s);
    ++page_.opened;
    if (a_.only_opens) return close();
    if (plant_ == Plant::twice && page_.threads[0].acknowledged > 0)
      make(0, page_.threads[0].acknowledged - 1);
    std::thread second([this] { load(1); });
    load(0);
  }

 private:
  int close() {
    for (auto* handle : handles_) static_cast<void>(db_->DestroyColumnFamilyHandle(handle));
    if (auto const s = db_->Close(); !s.ok()) give_up("closing", s);
    delete db_;
    return 0;
  }

  [[noreturn]] void load(std::size_t thread) {
    auto& acknowledged = page_.threads[thread].acknowledged;
    for (std::uint64_t number = acknowledged;; ++number) {
      if (plant_ == Plant::early) acknowledged = number + 1;
      make(thread, number);
      acknowledged = number + 1;
      if (thread == 1 && number % kBetweenFlushes == 0) flush();
    }
  }

  void make(std::size_t thread, std::uint64_t number) {
    rocksdb::WriteBatch batch = make_call(a_.seed, thread, number, handles_);
    rocksdb::WriteOptions options;
    options.sync = number % 16 == 0;
    OneByOne one(db_, handles_);
    AsColumns columns;
    bool const by_itself = batch.Count() == 1 || plant_ == Plant::parts;
    bool const as_arrays = dynamic_cast<rocksdb::StackableDB*>(db_) != nullptr &&
                           batch.Count() >= kFewestOfArrays && batch.Iterate(&columns).ok();
    auto const s = by_itself   ? batch.Iterate(&one)
                   : as_arrays ? columns.apply(*db_, handles_, options.sync)
                               : db_->Write(options, &batch);
    if (!s.ok()) give_up("writing", s);
  }

  void flush() {
    if (auto const s = db_->Flush({}, handles_); !s.ok()) give_up("flushing", s);
  }

  Assignment const& a_;
  Plant plant_;
  Page& page_;
  rocksdb::DB* db_ = nullptr;
  Handles handles_;
};

}  // namespace

Plant plant_named(std::string const& name) {
  if (name == "early") return Plant::early;
  if (name == "twice") return Plant::twice;
  return name == "parts" ? Plant::parts : Plant::none;
}

int be_victim(Assignment const& assignment) { return Victim(assignment).live(); }

Page& map_page(std::string const& path) {
  int const fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  bool const sized = fd >= 0 && ::ftruncate(fd, sizeof(Page)) == 0;
  void* const at =
      sized ? ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  if (at == MAP_FAILED) {
    std::perror(path.c_str());
    std::exit(2);
  }
  ::close(fd);
  return *static_cast<Page*>(at);  // all zero at first, which is a Page of no calls
}

}  // namespace perdure::test
