// Readers beside a writer (perdure/pool_reader.h) whose memory is not to be had: an opening or a
// get answers a Status then, or what the pool has, and the next one is right.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "counted_calls.hpp"
#include "perdure/pool_reader.h"
#include "support/store_driver.hpp"

namespace perdure::test {
namespace {

class ReaderWithoutMemory : public testing::TestWithParam<Layout> {
 protected:
  void SetUp() override {
    CreateOptions create;
    create.layout = GetParam();
    create.value_bytes = sizeof(Value);
    create.expected_records = 64;
    auto made = Store::create(path_, create, options_);
    ASSERT_TRUE(made.ok()) << made.status().message();
    store_.emplace(std::move(*made));
    put_more();
  }

  /// So many that an index of them grows.
  void put_more() {
    Keys const keys = keys_from(count_, 300);
    count_ += keys.size();
    ASSERT_TRUE(store_->put(column(keys), column(values_of(keys, 7))).ok());
  }

  Result<PoolReader> open() {
    return counted([&] { return PoolReader::open(path_, {1}); });
  }

  /// Right or refused; all of it right where it is not refused.
  Status get(PoolReader& reader) const {
    Keys const keys = keys_from(0, count_ + 10);
    std::vector<Value> values(keys.size());
    std::vector<PoolReader::Target> targets;
    for (Value& value : values)
      targets.push_back({reinterpret_cast<std::byte*>(&value), sizeof value});
    std::vector<KeyStatus> statuses(keys.size());
    Status const s = counted([&] { return reader.get(column(keys), targets, statuses); });
    for (std::uint64_t key = 0; s.ok() && key < keys.size(); ++key) {
      bool const there = key < count_;
      EXPECT_EQ(statuses[key], there ? KeyStatus::ok : KeyStatus::not_found) << key;
      if (there) {
        EXPECT_TRUE((values[key] == Value{key, 7})) << key;
      }
    }
    return s;
  }

  /// Calls it with each of its allocations failing; how many of these calls were refused.
  template <class Call>
  int with_each_failing(Call call) {
    int refused = 0;
    for (std::uint64_t n = 1;; ++n) {
      SCOPED_TRACE("allocation " + std::to_string(n));
      struck = false;
      planned = n;
      refused += call() ? 0 : 1;
      planned = 0;
      if (!struck || HasFailure()) return refused;
    }
  }

  ScratchDir scratch_;
  std::string path_ = scratch_.file("pool");
  OpenOptions options_ = [] {
    OpenOptions o;
    o.threads = 1;
    return o;
  }();
  std::optional<Store> store_;
  std::uint64_t count_ = 0;  // keys
};

TEST_P(ReaderWithoutMemory, OpensOrSaysWhyNot) {
  EXPECT_GT(with_each_failing([&] {
              auto reader = open();
              planned = 0;
              if (reader.ok()) {
                EXPECT_TRUE(get(*reader).ok());
              } else {
                EXPECT_EQ(reader.status().code(), Code::no_space) << reader.status().message();
              }
              return reader.ok();
            }),
            0);
}

TEST_P(ReaderWithoutMemory, FollowsTheWriterWithTheNextGet) {
  auto reader = open();
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  int const refused = with_each_failing([&] {
    auto const left = std::exchange(planned, 0);
    put_more();
    planned = left;
    Status const s = get(*reader);
    planned = 0;
    EXPECT_TRUE(s.ok() || s.code() == Code::no_space) << s.message();
    EXPECT_TRUE(get(*reader).ok());
    return s.ok();
  });
  if (GetParam() == Layout::log) {
    EXPECT_GT(refused, 0) << "its index needs memory";
  }
}

INSTANTIATE_TEST_SUITE_P(Failures, ReaderWithoutMemory, testing::Values(Layout::word, Layout::log),
                         [](testing::TestParamInfo<Layout> const& layout) {
                           return layout.param == Layout::word ? "word" : "log";
                         });

}  // namespace
}  // namespace perdure::test
