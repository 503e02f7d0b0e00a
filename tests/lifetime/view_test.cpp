// Views of values: they show what gets answer, nothing changes under them, and the pool's memory
// stays as long as they do, whatever becomes of the store.
#include <array>
#include <atomic>
#include <optional>
#include <thread>

#include "lifetime/lifetime_store.hpp"

namespace perdure::test {
namespace {

std::uint64_t word_of(std::span<std::byte const> value) {
  std::uint64_t word = 0;
  EXPECT_EQ(value.size(), sizeof word);
  if (value.size() == sizeof word) std::memcpy(&word, value.data(), sizeof word);
  return word;
}

Result<ValuesView> view(Store& store, std::uint64_t first, std::uint64_t n) {
  return store.view(column(words(first, n)));
}

class View : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    auto made = home_.create();
    ASSERT_TRUE(made.ok()) << made.status().message();
    store_.emplace(std::move(*made));
    ASSERT_TRUE(put(*store_, 0, 50, 7).ok());
  }
  PoolHome home_{GetParam()};
  std::optional<Store> store_;
};
INSTANTIATE_TEST_SUITE_P(Kinds, View, testing::Values(kinds()[0], kinds()[1], kinds().back()),
                         [](auto const& one) { return one.param.name; });

TEST_P(View, ShowsWhatGetsAnswerAndNothingWhereThereIsNoKey) {
  Words const keys = words(40, 20);
  std::vector<KeyStatus> statuses(keys.size());
  auto shown = store_->view(column(keys), statuses);
  ASSERT_TRUE(shown.ok()) << shown.status().message();
  ASSERT_EQ(shown->size(), keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(statuses[i], i < 10 ? KeyStatus::ok : KeyStatus::not_found);
    if (i >= 10) {
      EXPECT_EQ((*shown)[i].data(), nullptr);
      continue;
    }
    EXPECT_EQ(word_of((*shown)[i]), keys[i] + 7);
    EXPECT_GE((*shown)[i].data(), shown->memory().data());
    EXPECT_LE((*shown)[i].data() + 8, shown->memory().data() + shown->memory().size());
  }
}

TEST_P(View, KeepsWritersOutUntilItIsGone) {
  auto first = view(*store_, 0, 50), second = view(*store_, 0, 1);
  ASSERT_TRUE(first.ok() && second.ok());
  Status const refused = put(*store_, 0, 50, 100);
  EXPECT_EQ(refused.code(), Code::busy);
  EXPECT_NE(refused.message().find("views of its values: 2"), std::string::npos)
      << refused.message();
  EXPECT_EQ(store_->erase(column(words(0, 1))).code(), Code::busy);
  Words values;
  EXPECT_TRUE(get(*store_, 0, 50, values).ok()) << "readers go on";
  for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(word_of((*first)[i]), i + 7);
  ValuesView moved = std::move(*first);
  *second = std::move(moved);  // one of the two is gone
  EXPECT_EQ(put(*store_, 0, 50, 100).code(), Code::busy);
  {
    ValuesView const last = std::move(*second);
  }
  ASSERT_TRUE(put(*store_, 0, 50, 100).ok());
  EXPECT_EQ(word_of((*view(*store_, 3, 1))[0]), 103u);
}

TEST_P(View, OutlivesItsStoreAndKeepsTheFileInUse) {
  auto shown = view(*store_, 0, 50);
  ASSERT_TRUE(shown.ok());
  ASSERT_TRUE(store_->close().ok());
  EXPECT_EQ(word_of((*shown)[49]), 56u);
  store_.reset();
  EXPECT_EQ(word_of((*shown)[0]), 7u);
  EXPECT_EQ(home_.open().status().code(), Code::busy) << "nobody else writes to what is shown";
  {
    ValuesView const last = std::move(*shown);
  }
  auto again = home_.open();
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(word_of((*view(*again, 0, 1))[0]), 7u);
}

TEST_P(View, OfAStoreThatIsClosedIsRefused) {
  ASSERT_TRUE(store_->close().ok());
  EXPECT_EQ(view(*store_, 0, 1).status().code(), Code::closed);
}

TEST(Views, OfAReadOnlyPoolTakeNothingFromOthers) {
  PoolHome const home{Kind{"shared"}};
  Store store = std::move(*home.create());
  ASSERT_TRUE(put(store, 0, 50, 7).ok() && store.close().ok());
  auto one = Store::open(home.path(), {.read_only = true});
  auto other = Store::open(home.path(), {.read_only = true});
  ASSERT_TRUE(one.ok() && other.ok());
  auto shown = view(*one, 0, 50);
  ASSERT_TRUE(shown.ok());
  Words values;
  EXPECT_TRUE(get(*other, 0, 50, values).ok());
  EXPECT_EQ(word_of((*shown)[1]), values[1]);
}

TEST(Views, LeaveAParentsPoolAloneInAChild) {
  PoolHome const home{Kind{"child"}};
  Store store = std::move(*home.create());
  ASSERT_TRUE(put(store, 0, 50).ok());
  std::optional<ValuesView> shown(std::move(*view(store, 0, 50)));
  EXPECT_EQ(in_child([&] {
              shown.reset();
              return view(store, 0, 1).status().code() == Code::closed ? 0 : 1;
            }),
            0);
  EXPECT_EQ(word_of((*shown)[9]), 9u);
  EXPECT_EQ(put(store, 0, 1).code(), Code::busy) << "the child's end was none of the parent's";
}

TEST(Views, WaitForNoTransactionOfTheirOwnThread) {
  PoolHome const home{Kind{"transaction"}};
  Store store = std::move(*home.create());
  ASSERT_TRUE(put(store, 0, 10).ok());
  {
    auto transaction = store.begin({100});
    ASSERT_TRUE(transaction.ok());
    EXPECT_EQ(view(store, 0, 1).status().code(), Code::busy);
  }
  auto shown = view(store, 0, 1);
  ASSERT_TRUE(shown.ok());
  EXPECT_EQ(store.begin({100}).status().code(), Code::busy);
}

TEST(Views, OfAnyLengthsHaveTheirOwn) {
  ScratchDir const scratch;
  CreateOptions o;
  o.key_bytes = 0;
  o.value_bytes = 0;
  Store store = std::move(*Store::create(scratch.file("pool"), o));
  std::string const keys = "abbccc", values = "12345";
  std::array<std::int64_t, 4> const key_ends{0, 1, 3, 6}, value_ends{0, 0, 2, 5};
  auto const column_of = [](std::string const& bytes, std::int64_t const* ends) {
    return Column{reinterpret_cast<std::byte const*>(bytes.data()), ends, 0, 3};
  };
  Column const three = column_of(keys, key_ends.data());
  ASSERT_TRUE(store.put(three, column_of(values, value_ends.data())).ok());
  auto shown = store.view(three);
  ASSERT_TRUE(shown.ok()) << shown.status().message();
  auto const text = [&](std::size_t i) {
    return std::string(reinterpret_cast<char const*>((*shown)[i].data()), (*shown)[i].size());
  };
  EXPECT_NE((*shown)[0].data(), nullptr) << "empty, and there";
  EXPECT_EQ(text(0) + "|" + text(1) + "|" + text(2), "|12|345");
}

TEST(Views, OtherIndexesHaveNone) {
  for (Kind const& kind : {Kind{"dash_eh", Index::dash_eh}, Kind{"btree", Index::btree}}) {
    PoolHome const home{kind};
    Store store = std::move(*home.create());
    Status const refused = view(store, 0, 1).status();
    EXPECT_EQ(refused.code(), Code::unsupported);
    EXPECT_NE(refused.message().find("use get"), std::string::npos) << refused.message();
  }
}

/// What a reader sees through a view, a writer has not begun to change.
TEST(Views, ReadersAndWritersOfSeveralThreadsNeverMeet) {
  PoolHome const home{Kind{"threads"}};
  Store store = std::move(*home.create());
  ASSERT_TRUE(put(store, 0, 30).ok());
  std::atomic<bool> ended{false};
  std::atomic<int> written{0};
  std::thread writer([&] {
    for (std::uint64_t round = 1; written < 20; ++round) {
      written += put(store, 0, 30, round).ok();
      std::this_thread::yield();  // to who looks, and keeps it out meanwhile
    }
    ended = true;
  });
  std::vector<std::thread> readers;
  std::atomic<int> torn{0};
  for (int i = 0; i < 2; ++i)
    readers.emplace_back([&] {
      while (!ended) {
        {
          auto shown = view(store, 0, 30);
          if (!shown) continue;
          std::uint64_t const round = word_of((*shown)[0]);
          for (std::uint64_t key = 0; key < 30; ++key)
            torn += word_of((*shown)[key]) != key + round;
        }
        std::this_thread::yield();
      }
    });
  writer.join();
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(written, 20);
}

}  // namespace
}  // namespace perdure::test
