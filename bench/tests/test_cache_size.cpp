// What a share of the cache comes to, against the tables that stores make.
#include <gtest/gtest.h>

#include "common.hpp"

namespace perdure::bench {
namespace {

TEST(CacheSize, OfInPlaceIsAShareOfTheBucketsThatTheTableHas) {
  for (Shape const shape : {Shape{2, 2, 8}, Shape{1, 2, 16}, Shape{4, 2, 4}, Shape{4, 4, 2}}) {
    for (std::uint64_t const records : {1u, 100u, 5'000u, 70'000u}) {
      CreateOptions made;
      made.key_bytes = 32;
      made.value_bytes = 8;
      made.expected_records = records;
      made.layout = Layout::in_place;
      made.shape = shape;
      Store store = require(Store::create("memfd:cache-size", made, {}), "create");
      EXPECT_EQ(buckets_of(made), store.stats().slots / shape.slots)
          << name(shape) << ", " << records;
    }
  }
  CreateOptions made;
  made.key_bytes = 32;
  made.layout = Layout::in_place;
  made.expected_records = 100;
  EXPECT_EQ(cache_bytes(1, 0, made), buckets_of(made) * (384 + 4))
      << "the paper's 384 bytes a bucket, and its word";
}

}  // namespace
}  // namespace perdure::bench
