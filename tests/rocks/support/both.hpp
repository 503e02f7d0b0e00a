// Two databases for tests that make the same calls on both and compare what comes back: one of
// perdure::rocks, whose memtables hold what a large batch wrote, and a plain one.
#pragma once

#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <functional>
#include <string>

#include "rocks/support/openers.hpp"
#include "rocks/support/transcript.hpp"

namespace perdure::test {

/// One of the two, with all that a test needs of it.
struct One {
  Opener opener;
  std::string path;
  rocksdb::DB* db = nullptr;
  Handles handles;  // default, counts (uint64add), appends (stringappend), and a test's own

  [[nodiscard]] rocksdb::ColumnFamilyHandle* plain() const { return handles[0]; }
  [[nodiscard]] rocksdb::ColumnFamilyHandle* counts() const { return handles[1]; }
  [[nodiscard]] rocksdb::ColumnFamilyHandle* appends() const { return handles[2]; }
  [[nodiscard]] bool is_ours() const { return opener.name == "perdure"; }
  [[nodiscard]] bool has_memtables() const {  // of ours
    std::uint64_t number = 0;
    return db->GetIntProperty("perdure.memtables", &number) && number != 0;
  }
};
using Calls = std::function<void(One&, Transcript&)>;

/// Keys of the populated databases: number i, of which there are so many.
inline constexpr int kBothKeys = 4000;
std::string both_key(int i);
std::string number_text(std::uint64_t number);

class BothDatabases : public ::testing::Test {
 protected:
  BothDatabases();
  ~BothDatabases() override;

  /// 20,000 operations in one batch: of all three families, some erased, some merged.
  void populate();
  void open();
  /// Handles, then databases.
  void close();
  void reopen();

  /// The calls, on both; what they say has to be equal.
  void alike(char const* what, Calls const& calls);
  /// The same, and the memtables are still there after the last call.
  void alike_on_memtables(char const* what, Calls const& calls);
  /// All there is, as iterators show it.
  void contents_alike(char const* when);

  One& ours() { return ours_; }
  One& plain() { return plain_; }

  rocksdb::DBOptions db_options = small_db_options();
  Families families;  // before open()

 private:
  void open_one(One& one);
  void close_one(One& one);

  One ours_;
  One plain_;
};

/// The same, opened and populated.
class PopulatedDatabases : public BothDatabases {
 protected:
  void SetUp() override {
    open();
    populate();
  }
};

void tell_contents(One& one, Transcript& said);
/// What plain RocksDB finds in a directory.
void tell_directory(std::string const& path, Families const& families, Transcript& said);

}  // namespace perdure::test
