// Calls over named tables whose memory is not to be had: each answers a Status, and what is there
// afterwards is whole.
#include <gtest/gtest.h>

#include "failures/counted_calls.hpp"
#include "perdure/store.h"

namespace perdure::test {
namespace {

/// At the n-th allocation of making a table, writing and reading its row, for each n.
TEST(TablesWithoutMemory, EachCallAnswersAndLeavesTheCatalogueWhole) {
  std::vector<std::int64_t> const ids = {1, 2};
  std::vector<std::byte> const rows(16, std::byte{7});
  for (std::uint64_t n = 1;; ++n) {
    CreateOptions create;
    create.key_bytes = sizeof(TableKey);
    create.value_bytes = 64;
    create.expected_records = 1;
    OpenOptions alone;
    alone.threads = 1;
    auto store = Store::create("memfd:tables", create, alone);
    ASSERT_TRUE(store.ok()) << store.status().message();
    planned = n;
    struck = false;
    auto made = counted([&] { return store->table("a name that a string does not hold", 8); });
    Table const none{"none", 1, 8};
    TableBatch const batch{{made ? &*made : &none, 1}, ids};
    Code const put = code_of([&] { return store->put_tables(batch, rows); });
    std::vector<std::byte> found(16);
    std::vector<KeyStatus> statuses(2);
    Code const got = code_of([&] { return store->get_tables(batch, found, statuses); });
    planned = 0;
    EXPECT_TRUE(made.ok() || made.status().code() == Code::no_space) << made.status().message();
    EXPECT_TRUE(!made.ok() || put == Code::ok || put == Code::no_space) << name(put);
    EXPECT_TRUE(put != Code::ok || got != Code::ok || found == rows);
    auto const again = store->table("a name that a string does not hold", 8);
    EXPECT_TRUE(again.ok() || again.status().code() == Code::closed) << again.status().message();
    EXPECT_TRUE(!again.ok() || again.value().number == 1);
    auto const tables = store->tables();
    if (tables.ok()) {
      EXPECT_LE(tables.value().size(), 1u);
    } else {
      EXPECT_EQ(tables.status().code(), Code::closed) << "a change was cut in two";
    }
    ASSERT_FALSE(HasFailure()) << "allocation " << n;
    if (!struck) {
      EXPECT_GT(n, 5u);
      break;
    }
  }
}

}  // namespace
}  // namespace perdure::test
