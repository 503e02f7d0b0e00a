// Calls whose memory is not to be had where no batch is at stake: those that only look must let go
// of what they hold, and those of a store or a transaction that was moved from must refuse. Each
// answers a Status, and nobody waits for one that ended in its midst.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "counted_calls.hpp"
#include "support/store_driver.hpp"

namespace perdure::test {
namespace {

/// Calls that only look split off what Dash-LH has put off, and make segments sound: where one of
/// them ends in its midst, nobody waits for its locks.
TEST(DashLinear, NobodyWaitsForACallThatHadNoMemory) {
  ::alarm(120);  // whoever waits for ever
  int ended = 0;
  for (int const what : {0, 1, 2, 3}) {
    for (std::uint64_t n = 1;; ++n) {
      ScratchDir const scratch;
      CreateOptions create;
      create.index = Index::dash_lh;
      create.value_bytes = sizeof(Value);
      create.expected_records = 1;
      OpenOptions alone;
      alone.threads = 1;
      auto store = Store::create(scratch.file("pool"), create, alone);
      ASSERT_TRUE(store.ok()) << store.status().message();
      Keys const keys = keys_from(0, 4000);
      ASSERT_TRUE(store->put(column(keys), column(values_of(keys, 1))).ok());
      std::vector<Value> out(keys.size());
      MutableColumn const into{reinterpret_cast<std::byte*>(out.data()), sizeof(Value), out.size(),
                               MemorySpace::host};
      std::vector<KeyStatus> statuses(keys.size());
      std::string const snapshot = scratch.file("snapshot");
      planned = n;
      struck = false;
      Status const s = counted([&]() -> Status {
        switch (what) {
          case 0: return store->get(column(keys), into, statuses);
          case 1: return store->scan({}, keys.size()).status();
          case 2: return store->verify().status();
          default: return store->snapshot(snapshot);
        }
      });
      planned = 0;
      if (!struck) break;
      ended += s.ok() ? 0 : 1;
      Status const again = store->get(column(keys), into, statuses);
      if (again.ok()) {
        EXPECT_EQ(std::ranges::count(statuses, KeyStatus::ok), std::ssize(keys));
        EXPECT_TRUE(std::ranges::equal(out, values_of(keys, 1)));
        Keys const more = keys_from(keys.size(), 500);
        ASSERT_TRUE(store->put(column(more), column(values_of(more, 1))).ok());
        ASSERT_TRUE(store->close().ok());
        auto closed = Store::open(scratch.file("pool"), alone);
        ASSERT_TRUE(closed.ok()) << closed.status().message();
        auto verified = closed->verify();
        ASSERT_TRUE(verified.ok()) << verified.status().message();
        EXPECT_EQ(verified->fault_count, 0u) << verified->faults[0];
      } else {
        EXPECT_EQ(again.code(), Code::closed) << again.message();
      }
      ASSERT_FALSE(HasFailure()) << "call " << what << ", allocation " << n;
    }
  }
  EXPECT_GT(ended, 20);
  ::alarm(0);
}

/// A store and a transaction, and what is left of those that they were moved from.
class MovedFrom : public testing::Test {
 protected:
  using Calls = std::vector<std::pair<char const*, std::function<Code()>>>;

  static Result<Store> create(std::string const& path) {
    CreateOptions create;
    create.value_bytes = sizeof(Value);
    return Store::create(path, create);
  }

  /// Whatever it is asked, and whether or not there is memory to say so.
  static void expect_refused(Calls const& calls) {
    for (auto const& [name, call] : calls) {
      SCOPED_TRACE(name);
      for (std::uint64_t n = 0; n < 4; ++n) {
        planned = n;
        struck = false;
        Code const code = call();
        planned = 0;
        EXPECT_EQ(code, struck ? Code::no_space : Code::closed);
      }
    }
  }

  ScratchDir const scratch_;
  Result<Store> made_ = create(scratch_.file("pool"));
  Store store_ = std::move(*made_);
  Store& gone_ = *made_;
  Result<Transaction> begun_ = store_.begin({256});
  Transaction transaction_ = std::move(*begun_);
  Transaction& ended_ = *begun_;
  Keys const keys_ = keys_from(0, 3);
  std::vector<Value> const values_ = values_of(keys_, 1);
};

TEST_F(MovedFrom, StoresRefuseEveryCall) {
  std::vector<Value> out(keys_.size());
  std::vector<KeyStatus> statuses(keys_.size());
  std::vector<OpKind> const kinds(keys_.size(), OpKind::put);
  MutableColumn const into{reinterpret_cast<std::byte*>(out.data()), sizeof(Value), out.size(),
                           MemorySpace::host};
  Column const keys = column(keys_), values = column(values_);
  MixedBatch batch, wrong;
  batch.keys = wrong.keys = keys;
  batch.values = values;
  batch.kinds = kinds;
  std::string const snapshot = scratch_.file("snapshot");
  expect_refused({
      {"get", [&] { return code_of([&] { return gone_.get(keys, into, statuses); }); }},
      {"get_variable", [&] { return code_of([&] { return gone_.get_variable(keys, statuses); }); }},
      {"put", [&] { return code_of([&] { return gone_.put(keys, values); }); }},
      {"update",
       [&] { return code_of([&] { return gone_.update(keys, values, Rmw::add, Element::u8); }); }},
      {"erase", [&] { return code_of([&] { return gone_.erase(keys); }); }},
      {"apply", [&] { return code_of([&] { return gone_.apply(batch); }); }},
      {"apply, wrongly", [&] { return code_of([&] { return gone_.apply(wrong); }); }},
      {"begin", [&] { return code_of([&] { return gone_.begin({256}); }); }},
      {"register_dense", [&] { return code_of([&] { return gone_.register_dense({}); }); }},
      {"restore_step", [&] { return code_of([&] { return gone_.restore_step(); }); }},
      {"device_session", [&] { return code_of([&] { return gone_.device_session(); }); }},
      {"load_cache", [&] { return code_of([&] { return gone_.load_cache(); }); }},
      {"scan", [&] { return code_of([&] { return gone_.scan({}, 10); }); }},
      {"snapshot", [&] { return code_of([&] { return gone_.snapshot(snapshot); }); }},
      {"verify", [&] { return code_of([&] { return gone_.verify(); }); }},
      {"acknowledge_repair", [&] { return code_of([&] { return gone_.acknowledge_repair(); }); }},
      {"belongs_here", [&] { return code_of([&] { return gone_.belongs_here(); }); }},
      {"close", [&] { return code_of([&] { return gone_.close(); }); }},
  });
}

TEST_F(MovedFrom, TransactionsRefuseEveryCall) {
  expect_refused({
      {"write_step", [&] { return code_of([&] { return ended_.write_step(1); }); }},
      {"commit", [&] { return code_of([&] { return ended_.commit(); }); }},
      {"abort", [&] { return code_of([&] { return ended_.abort(); }); }},
  });
}

TEST_F(MovedFrom, StoresAnswerAsIfTheyWereEmpty) {
  gone_.reset_counts();
  EXPECT_EQ(gone_.stats().records, 0u);
  EXPECT_EQ(gone_.recovery().records, 0u);
  EXPECT_FALSE(gone_.survives().process_kill);
  EXPECT_EQ(gone_.path() + std::to_string(gone_.key_bytes() + gone_.value_bytes()), "0");
  EXPECT_EQ(gone_.device(), Device::cpu);
}

TEST_F(MovedFrom, WhatTheyWereMovedToGoesOn) {
  CallOptions how;
  how.transaction = &transaction_;
  static_cast<void>(gone_.close());
  static_cast<void>(ended_.abort());
  ASSERT_TRUE(store_.put(column(keys_), column(values_), {}, how).ok());
  ASSERT_TRUE(transaction_.commit().ok());
  EXPECT_EQ(store_.stats().records, keys_.size());
}

}  // namespace
}  // namespace perdure::test
