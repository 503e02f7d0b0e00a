#include "rocks/kills/workload.hpp"

#include <rocksdb/convenience.h>
#include <rocksdb/merge_operator.h>

#include <cstring>

#include "rocks/support/draws.hpp"

namespace perdure::test {
namespace {

constexpr std::uint64_t kKeys = 400;  // of a thread and a family
constexpr std::uint64_t kOfCounts = 8;  // kinds of calls from here on are of that family alone

std::string text_of(std::uint64_t number) {
  std::string text(sizeof number, '\0');
  std::memcpy(text.data(), &number, sizeof number);
  return text;
}

/// RocksDB's writes alone, without the database.
class Replayed final : public rocksdb::WriteBatch::Handler {
 public:
  explicit Replayed(Expected::Content& content) : content_(content) {}
  rocksdb::Status PutCF(std::uint32_t family, rocksdb::Slice const& key,
                        rocksdb::Slice const& value) override {
    content_[family][key.ToString()] = value.ToString();
    return {};
  }
  rocksdb::Status DeleteCF(std::uint32_t family, rocksdb::Slice const& key) override {
    content_[family].erase(key.ToString());
    return {};
  }
  rocksdb::Status MergeCF(std::uint32_t family, rocksdb::Slice const& key,
                          rocksdb::Slice const& operand) override {
    if (key == kTotal) return {};
    auto const [at, is_new] = content_[family].try_emplace(key.ToString(), operand.ToString());
    if (is_new) return {};
    if (family == 1)
      at->second = text_of(number_of(at->second) + number_of(operand.ToString()));
    else
      at->second += "," + operand.ToString();
    return {};
  }

 private:
  Expected::Content& content_;
};

/// Of a family by its number alone, for batches that no database is to have.
class Numbered final : public rocksdb::ColumnFamilyHandle {
 public:
  explicit Numbered(std::uint32_t id) : id_(id) {}
  [[nodiscard]] std::string const& GetName() const override { return name_; }
  [[nodiscard]] std::uint32_t GetID() const override { return id_; }
  rocksdb::Status GetDescriptor(rocksdb::ColumnFamilyDescriptor*) override { return {}; }
  [[nodiscard]] rocksdb::Comparator const* GetComparator() const override {
    return rocksdb::BytewiseComparator();
  }

 private:
  std::uint32_t id_;
  std::string name_ = "by its number";
};

std::string draw_key(Draws& draws, std::size_t thread) {
  std::string const number = std::to_string(draws.below(kKeys));
  return std::to_string(thread) + std::string(4 - number.size(), '0') + number;
}

/// Values say which call wrote them.
void add(Draws& draws, std::size_t thread, std::uint64_t number, Handles const& handles,
         rocksdb::WriteBatch& batch) {
  std::string const key = draw_key(draws, thread);
  std::string const mark = std::to_string(number);
  switch (draws.below(10)) {
    case 0: batch.Delete(handles[draws.below(kKillFamilies)], key); break;
    case 1:
    case 2: batch.Merge(handles[1], key, text_of(draws.between(1, 5))); break;
    case 3: batch.Merge(handles[2], key, mark); break;
    case 4: batch.Put(handles[1], key, text_of(number)); break;
    case 5: batch.Put(handles[2], key, mark); break;
    default: batch.Put(handles[0], key, mark + draws.bytes(draws.below(200)));
  }
}

/// The same, of the counts alone.
void add_count(Draws& draws, std::size_t thread, std::uint64_t number, Handles const& handles,
               rocksdb::WriteBatch& batch) {
  std::string const key = draw_key(draws, thread);
  switch (draws.below(4)) {
    case 0: batch.Delete(handles[1], key); break;
    case 1: batch.Put(handles[1], key, text_of(number)); break;
    default: batch.Merge(handles[1], key, text_of(draws.between(1, 5)));
  }
}

}  // namespace

std::uint64_t number_of(std::string const& value) {
  std::uint64_t number = 0;
  std::memcpy(&number, value.data(), std::min(value.size(), sizeof number));
  return number;
}

rocksdb::WriteBatch make_call(std::uint64_t seed, std::size_t thread, std::uint64_t number,
                              Handles const& handles) {
  Draws draws((seed * kThreads + thread) * 1'000'003 + number);
  rocksdb::WriteBatch batch;
  std::uint64_t const kind = draws.below(10);
  std::uint64_t const writes = kind < 4   ? 1
                               : kind < 7 ? draws.between(2, 40)
                                          : draws.between(200, 3000);
  auto const add_one = kind >= kOfCounts ? add_count : add;
  for (std::uint64_t i = 0; i < writes; ++i) add_one(draws, thread, number, handles, batch);
  if (writes > 1) batch.Merge(handles[1], kTotal, text_of(1));
  return batch;
}

void Expected::advance() {
  Numbered plain(0), counts(1), appends(2);
  Replayed replayed(content_);
  auto const batch = make_call(seed_, thread_, calls_, {&plain, &counts, &appends});
  static_cast<void>(batch.Iterate(&replayed));
  ++calls_;
  if (batch.Count() > 1) ++batches_;
}

rocksdb::Status read_content(rocksdb::DB* db, Handles const& handles, std::size_t thread,
                             Expected::Content& content) {
  std::string const first = std::to_string(thread);
  for (std::size_t family = 0; family < kKillFamilies; ++family) {
    std::unique_ptr<rocksdb::Iterator> const it(db->NewIterator({}, handles[family]));
    for (it->Seek(first); it->Valid() && it->key().starts_with(first); it->Next())
      content[family].emplace(it->key().ToString(), it->value().ToString());
    if (!it->status().ok()) return it->status();
  }
  return {};
}

Families kill_families() {
  Families families{{rocksdb::kDefaultColumnFamilyName, small_family_options()},
                    {"counts", small_family_options()},
                    {"appends", small_family_options()}};
  for (auto const& [family, name] : {std::pair{1, "uint64add"}, {2, "stringappend"}}) {
    auto& options = families[static_cast<std::size_t>(family)].options;
    if (!rocksdb::MergeOperator::CreateFromString({}, name, &options.merge_operator).ok())
      std::abort();
  }
  return families;
}

}  // namespace perdure::test
