// Mixed batches over a mirrored store: lanes plan the gets that a batch's writes go with, whose
// values are fetched beside phase two; hot keys' operations are answered in pieces. All of it
// against the model, one operation after the other.
#include <random>

#include "mirror/mirrored_store.hpp"

namespace perdure::test {
namespace {

class MixedBatches : public MirroredStore {
 protected:
  /// n operations on keys 0 to 2999, of which 2000 were put; a third of them on two keys.
  std::vector<Op> draw(std::size_t n, unsigned gets_of_ten) {
    std::vector<Op> ops(n);
    for (Op& op : ops) {
      std::uint64_t const kind = random_() % 10;
      op.kind = kind < gets_of_ten       ? OpKind::get
                : kind < gets_of_ten + 1 ? OpKind::erase
                                         : OpKind::put;
      std::uint64_t const key = random_() % 3 == 0 ? random_() % 2 : random_() % 3000;
      op.key = config_.key(key);
      if (op.kind == OpKind::put) op.value = config_.value(key, random_());
    }
    return ops;
  }

  std::mt19937 random_{1};
};

// 512 and 513: the largest batch that a GPU has in one launch, and the next.
TEST_P(MixedBatches, OfAnySizeAnswerAsOneOperationAfterTheOther) {
  for (Gather const gather : {Gather::at_once, Gather::automatic}) {
    config_.gather = gather;
    make(1000);  // so that some batches grow the table
    put(0, 2000);
    for (std::size_t const n : {1u, 31u, 100u, 512u, 513u, 5000u, 16'383u, 20'000u}) {
      for (unsigned const gets_of_ten : {1u, 5u, 8u}) {
        // an operation that computes is what Rmw::add says; there is none
        Rmw const rmw = gets_of_ten == 5 ? Rmw::add : Rmw::replace;
        ASSERT_NO_FATAL_FAILURE(driver_->run_mixed(draw(n, gets_of_ten), rmw, Element::u8))
            << n << " operations, " << gets_of_ten << " of ten gets";
      }
      ASSERT_NO_FATAL_FAILURE(driver_->check_held()) << n << " operations";
    }
    driver_->check_all();
  }
}

TEST_P(MixedBatches, KnowWhatWasReadAfterOpening) {
  make(3000);
  put(0, 2000);
  reopen();  // the mirror knows no key
  for (int batch = 0; batch < 4; ++batch)
    ASSERT_NO_FATAL_FAILURE(driver_->run_mixed(draw(400, 5), Rmw::replace, Element::u8));
  driver_->check_all();
}

TEST_P(MixedBatches, SmallOnesUseRecordsAgain) {
  CreateOptions create = config_.create(2000);
  create.max_bytes = 4u << 20;
  create.file.overwrite = true;
  auto store = Store::create(path(), create, config_.open());
  ASSERT_TRUE(store.ok()) << store.status().message();
  driver_ = std::make_unique<Driver>(config_, std::move(*store));
  put(0, 2000);
  for (std::uint64_t version = 1; version < 300; ++version) {
    std::uint64_t const first = version * 37 % 1800;
    put(first, first + 200, version);
    ASSERT_NO_FATAL_FAILURE(driver_->run_erase(keys(first, first + 20)));
    put(first, first + 20, version);
    if (version % 50 == 0) put(0, 2000, version);  // which takes its records otherwise
  }
  driver_->check_all();
  EXPECT_LE(driver_->store().stats().space.pool_bytes, 4u << 20);
}

// In one launch, and in several, of which those that fetch values run beside phase two and after
// the statuses were copied.
TEST_P(MixedBatches, ADamagedValueIsCorruptForGetsBeforeItsWriteAndReplacedByIt) {
  config_.count_accesses = false;
  for (std::uint64_t const others : {0u, 10'000u}) {
    make(100 + others);
    put(0, 100 + others);
    get(keys(0, 100 + others));
    ASSERT_NO_FATAL_FAILURE(damage(config_.value(42)));
    std::vector<Op> ops{{OpKind::get, config_.key(41), {}},
                        {OpKind::get, config_.key(42), {}},
                        {OpKind::put, config_.key(42), config_.value(42, 1)},
                        {OpKind::get, config_.key(42), {}}};
    for (std::uint64_t n = 100; n < 100 + others; ++n)
      ops.push_back({OpKind::get, config_.key(n), {}});
    std::vector<Answer> answers;
    Status const s = driver_->mixed(ops, Rmw::replace, Element::u8, answers);
    ASSERT_TRUE(s.ok()) << s.message();
    for (std::size_t i = 0; i < ops.size(); ++i)
      EXPECT_EQ(answers[i].status, i == 1 ? KeyStatus::corrupt : KeyStatus::ok) << i;
    EXPECT_TRUE(answers[3].value == config_.value(42, 1));
    for (std::size_t i = 4; i < ops.size(); ++i)
      EXPECT_TRUE(answers[i].value == config_.value(96 + i)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Machines, MixedBatches, testing::ValuesIn(kMachines), machine_name);

}  // namespace
}  // namespace perdure::test
