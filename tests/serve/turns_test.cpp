// Turns of the server, whatever they are made of, against a plain model that runs one command after
// the other.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "support/folders.hpp"
#include "support/store_driver.hpp"
#include "turn_checks.hpp"

namespace perdure::serve::test {
namespace {

void expect(Wrong const& wrong) { EXPECT_FALSE(wrong) << *wrong; }

TEST(Turns, OfAnyCommandsAnswerAsTheCommandsOneByOne) {
  EXPECT_TRUE(rc::check([](Numbers const& numbers) {
    Generated how;
    auto const wrong = turns_answer_as_one_by_one(numbers, how);
    if (wrong) RC_FAIL(*wrong);
  }));
}

TEST(Turns, ThatAreLongAnswerAsTheCommandsOneByOne) {
  Generated how;
  for (std::uint32_t seed = 1; seed <= 8; ++seed)
    expect(turns_answer_as_one_by_one(random_numbers(seed, 1000), how));
  EXPECT_GT(how.turns, 500u);
}

TEST(Turns, OverAFullPoolRefuseSingleCommandsAndChangeNothingByThem) {
  expect(full_pools_refuse_single_commands());
}

TEST(Turns, RefuseACommandThatDoesNotFitAlone) { expect(one_that_does_not_fit_is_refused_alone()); }

TEST(Turns, DoATransactionThatDoesNotFitNotAtAll) {
  expect(a_transaction_that_does_not_fit_changes_nothing());
}

TEST(Turns, BringNothingBackThatHasExpired) { expect(what_has_expired_stays_away()); }

TEST(Turns, PassOverWhatAClientThatHasLeftHadAsked) {
  Store store = small_store();
  Turns turns(store, 2);
  turns.ask(0, {"WATCH", "key"});
  turns.ask(0, {"SET", "key", "of one that left"});
  turns.ask(1, {"GET", "key"});
  turns.session(0).state.closing = true;
  auto const replies = turns.run(1);
  EXPECT_EQ(replies[0], "");
  EXPECT_EQ(replies[2], "$-1\r\n");
  EXPECT_TRUE(turns.state().watchers.empty()) << "somebody who is gone would be told";
}

TEST(Turns, MakeNoMoreRepliesThanAClientMayLeaveUnread) {
  Store store = small_store();
  constexpr std::size_t kMost = 1u << 20, kValue = 100'000;
  Turns turns(store, 1, {.most_unread_bytes = kMost});
  Session& client = turns.session(0);
  Words many = {"MGET"};
  many.insert(many.end(), 500, "key");
  auto const run = [&](std::vector<Words> const& all) {
    client.out.clear();
    std::vector<Request> requests;
    for (Words const& words : all)
      requests.push_back({&client, find_command(words.front()), {words.begin(), words.end()}});
    turns.executor().run(requests, 1);
    turns.executor().end_turn();
    return client.out.size();
  };
  run({{"SET", "key", std::string(kValue, 'x')}});
  for (auto const& all :
       {std::vector<Words>(500, {"GET", "key"}), {many}, {{"MULTI"}, many, {"EXEC"}}}) {
    std::size_t const bytes = run(all);
    EXPECT_GT(bytes, kMost) << "which is what the connection drops it by";
    EXPECT_LT(bytes, kMost + 2 * kValue);
  }
}

TEST(Turns, AreThereWholeAfterAKill) {
  perdure::test::ScratchDir const scratch;
  std::string const pool = scratch.file("pool"), killed = scratch.file("killed");
  Store store = small_store(pool);
  Turns turns(store, 1);
  for (int turn = 1; turn <= 20; ++turn) {
    std::string const number = std::to_string(turn);
    for (int key = 0; key < 50; ++key)
      turns.ask(0, key % 7 == turn % 7 ? Words{"DEL", "key:" + std::to_string(key)}
                                       : Words{"SET", "key:" + std::to_string(key), number});
    turns.run(1);
    perdure::test::copy_as_if_killed(pool, killed);
    OpenOptions open;
    open.threads = 1;
    auto copy = Store::open(killed, open);
    ASSERT_TRUE(copy.ok()) << copy.status().message();
    Turns after(*copy, 1);
    for (int key = 0; key < 50; ++key)
      EXPECT_EQ(after.run_one(0, {"GET", "key:" + std::to_string(key)}, 1),
                key % 7 == turn % 7
                    ? "$-1\r\n"
                    : "$" + std::to_string(number.size()) + "\r\n" + number + "\r\n");
  }
}

/// A value that does not fit makes the turn be done again, request by request.
TEST(Turns, AClientThatAsksForNoRepliesGetsNoneOfRefusalsEither) {
  Store store = small_store();
  Turns turns(store, 1, {.most_value_bytes = 4u << 20});
  std::string const too_long(2u << 20, 'x');
  turns.ask(0, {"CLIENT", "REPLY", "SKIP"});
  turns.ask(0, {"SET", "long", too_long});
  turns.ask(0, {"ECHO", "one"});
  EXPECT_EQ(turns.run(1), (std::vector<std::string>{"$3\r\none\r\n", "", ""}));
  turns.ask(0, {"CLIENT", "REPLY", "OFF"});
  turns.ask(0, {"SET", "long", too_long});
  turns.ask(0, {"CLIENT", "REPLY", "ON"});
  EXPECT_EQ(turns.run(1), (std::vector<std::string>{"+OK\r\n", "", ""}));
}

TEST(Turns, WhatIsDoneAgainIsCountedOnce) {
  Store store = small_store();
  ServeOptions options;
  options.most_value_bytes = 4u << 20;
  options.password = "right";
  Turns turns(store, 2, options);
  turns.run_one(0, {"SET", "a", "1"}, 1);
  for (int n = 0; n < 5; ++n) turns.ask(0, {"GET", "a"});
  for (int n = 0; n < 3; ++n) turns.ask(0, {"GET", "none"});
  turns.ask(1, {"AUTH", "wrong"});
  turns.ask(0, {"SET", "long", std::string(2u << 20, 'x')});
  turns.run(2);
  EXPECT_EQ(turns.state().hits, 5u);
  EXPECT_EQ(turns.state().misses, 3u);
  EXPECT_EQ(turns.state().wrong_passwords, 1u);
  EXPECT_EQ(turns.state().refused_writes, 1u);
}

}  // namespace
}  // namespace perdure::serve::test
