// Turns that memory lacks for, at each allocation in turn: what was answered has happened, what was
// refused has not, and nothing else has changed. Replaces operator new, so in a program of its own.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>

#include "support/replaced_new.hpp"
#include "support/store_driver.hpp"
#include "turns.hpp"

namespace perdure::test {
namespace {

// Of this program's one thread: so many succeed, then so many fail.
std::uint64_t succeed = 0, fail = 0;
bool counting = false;
std::uint64_t failed = 0;

}  // namespace

bool allocation_fails() noexcept {
  if (!counting || fail == 0) return false;
  if (succeed > 0) return --succeed, false;
  --fail;
  ++failed;
  return true;
}

}  // namespace perdure::test

namespace perdure::serve::test {
namespace {

using perdure::test::counting;

/// One request, what it is answered, and what of it can be asked afterwards: before and after it.
struct Asked {
  std::size_t session;
  Words words;
  std::string reply;
  Words question;
  std::string before, after;
};

std::string const kLong(5000, 'v');

std::string bulk(std::string const& text) {
  return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

std::vector<Asked> requests() {
  std::string const ok = "+OK\r\n", one = ":1\r\n", none = "$-1\r\n", queued = "+QUEUED\r\n";
  return {
      {0, {"SET", "a", kLong}, ok, {"GET", "a"}, bulk("old"), bulk(kLong)},
      {0, {"INCRBY", "n", "5"}, ":12\r\n", {"GET", "n"}, bulk("7"), bulk("12")},
      {1, {"APPEND", "s", kLong}, ":5003\r\n", {"STRLEN", "s"}, ":3\r\n", ":5003\r\n"},
      {1, {"HSET", "h", "g", kLong}, one, {"HLEN", "h"}, one, ":2\r\n"},
      {0, {"DEL", "d"}, one, {"EXISTS", "d"}, one, ":0\r\n"},
      {1, {"MSET", "x", "1", "y", "2"}, ok, {"EXISTS", "x", "y"}, ":0\r\n", ":2\r\n"},
      {2, {"MULTI"}, ok, {}, {}, {}},
      {2, {"SET", "q", kLong}, queued, {}, {}, {}},
      {2, {"INCR", "r"}, queued, {}, {}, {}},
      {2, {"EXEC"}, "*2\r\n+OK\r\n:1\r\n", {"EXISTS", "q", "r"}, ":0\r\n", ":2\r\n"},
      {0, {"EXPIRE", "e", "100"}, one, {"TTL", "e"}, ":-1\r\n", ":100\r\n"},
      {1, {"GETDEL", "g"}, bulk("old"), {"GET", "g"}, bulk("old"), none},
  };
}

class FailingTurn : public testing::TestWithParam<std::uint64_t> {
 protected:
  static void fill(Turns& turns) {
    turns.ask(0, {"MSET", "a", "old", "n", "7", "s", "old", "d", "old", "e", "old", "g", "old"});
    turns.ask(0, {"HSET", "h", "f", "old"});
    turns.run(1000);
  }
  /// Whether any allocation failed.
  bool run(std::uint64_t succeed) {
    std::string const path = scratch_.file("pool");
    std::filesystem::remove(path);
    Store store = small_store(path);
    Turns turns(store, 4);
    fill(turns);
    auto const all = requests();
    for (Asked const& one : all) turns.ask(one.session, one.words);
    perdure::test::succeed = succeed;
    perdure::test::fail = GetParam();
    perdure::test::failed = 0;
    auto const replies = turns.run(2000, [](bool runs) { counting = runs; });
    bool const any = perdure::test::failed != 0;
    bool const ended = store.verify().status().code() == Code::closed;
    ended_ += ended ? 1 : 0;
    turns.run_one(3, {"GET", "a"}, 2000);  // where memory still lacked, it is noticed now
    EXPECT_EQ(turns.state().failure.code(), ended ? Code::closed : Code::ok);
    EXPECT_EQ(turns.state().stop_asked, ended);
    if (ended) {  // a batch that was under way may be there or not
      EXPECT_TRUE(store.close().ok());
      auto again = Store::open(path);
      if (!again) throw std::runtime_error(again.status().message());
      store = std::move(*again);
    }
    EXPECT_EQ(store.verify().value().fault_count, 0u);
    Turns later(store, 1);
    for (std::size_t i = 0; i < all.size(); ++i) {
      Asked const& one = all[i];
      bool const done = replies[i] == one.reply;
      EXPECT_TRUE(done || (any && (replies[i].empty() || replies[i][0] == '-')))
          << one.words[0] << " is answered " << replies[i];
      if (one.question.empty()) continue;
      std::string const found = later.run_one(0, one.question, 2000);
      bool const as_it_must = found == (done ? one.after : one.before);
      EXPECT_TRUE(as_it_must || (ended && !done && found == one.after))
          << one.words[0] << ", answered " << replies[i] << ", left " << found;
    }
    return any;
  }

  perdure::test::ScratchDir scratch_;
  int ended_ = 0;  // turns that left a store which has to be opened anew
};

TEST_P(FailingTurn, DoesWhatItAnswersAndNothingElse) {
  std::uint64_t n = 0;
  while (run(n) && !HasFailure()) ++n;
  EXPECT_GT(n, 30u) << "hardly any allocation was met";
  EXPECT_LT(ended_, n) << "no turn was refused by itself";
}

INSTANTIATE_TEST_SUITE_P(Allocations, FailingTurn, testing::Values(1, 2, 3, 10, 1'000'000'000));

}  // namespace
}  // namespace perdure::serve::test
