// Machine memory that is not to be had: the n-th allocation fails, for every n that a step
// allocates; once, or from there on for good. Each time the step goes on with less and Stats says
// so, or fails with a status that names what there was no memory for and the way out. Slow, up to
// ten seconds: each n takes a store of its own. Either way nothing that was there is lost, and the
// store goes on.
#include "failures/failing_store.hpp"

namespace perdure::test {
namespace {

constexpr std::uint64_t kMost = 1000;  // allocations of a step, by far

class Allocation : public FailingStore {
 protected:
  /// Runs the step with its n-th allocation failing; false if it has none so late.
  bool strike(std::uint64_t n, bool for_good, std::function<Status()> const& step,
              Status& came_to) {
    fault::failing_allocation.plant(n, for_good);
    came_to = step();
    bool const struck = fault::failing_allocation.struck();
    no_faults();
    return struck;
  }

  void expect_named(Status const& s) const {
    bool const gpu = config().device == Device::cuda;
    EXPECT_EQ(s.code(), Code::no_space) << s.message();
    EXPECT_NE(s.message().find("pool "), std::string::npos) << s.message();
    EXPECT_NE(s.message().find(gpu ? "GPU: allocating " : "out of memory for "), std::string::npos)
        << s.message();
    EXPECT_NE(s.message().find("out of memory"), std::string::npos) << s.message();
  }

  /// What a store without a part of its mirror says of it.
  void expect_noted() {
    Stats const stats = store().stats();
    bool const lacks =
        config().residency == Residency::mirrored && stats.memory.residency != Residency::mirrored;
    EXPECT_TRUE(!lacks || stats.memory.note.find("out of memory") != std::string::npos)
        << stats.memory.note;
  }

  void check_all() {
    driver_->check_all();
    Status const closed = store().close();
    ASSERT_TRUE(closed.ok()) << closed.message();
    reopen(options());
    driver_->check_all();
  }
};

TEST_P(Allocation, ThatFailsWhileAPoolIsMadeLeavesNoFileOrAStoreWithLess) {
  for (bool const for_good : {false, true}) {
    for (std::uint64_t n = 1;; n = next_fault(n)) {
      ASSERT_LT(n, kMost);
      std::unique_ptr<Store> made;
      Status came_to;
      bool const struck = strike(
          n, for_good,
          [&] {
            auto store = create();
            if (store) made = std::make_unique<Store>(std::move(*store));
            return store.status();
          },
          came_to);
      if (came_to.ok()) {
        driver_ = std::make_unique<Driver>(config(), std::move(*made));
        expect_noted();
        driver_->run_put(keys(0, kHeld), values(0, kHeld));
        check_all();
        driver_.reset();
      } else {
        expect_named(came_to);
        EXPECT_FALSE(std::filesystem::exists(path()));
      }
      std::filesystem::remove(path());
      if (!struck) break;
    }
  }
}

TEST_P(Allocation, ThatFailsWhileAPoolIsOpenedLeavesItAsItIs) {
  for (bool const clean : {true, false}) {
    for (bool const for_good : {false, true}) {
      for (std::uint64_t n = 1;; n = next_fault(n)) {
        ASSERT_LT(n, kMost);
        make();
        std::string const copy = path() + "-killed";
        copy_as_if_killed(path(), copy);
        ASSERT_TRUE(store().close().ok());
        std::string const& which = clean ? path() : copy;
        std::unique_ptr<Store> opened;
        Status came_to;
        bool const struck = strike(
            n, for_good,
            [&] {
              auto store = Store::open(which, options());
              if (store) opened = std::make_unique<Store>(std::move(*store));
              return store.status();
            },
            came_to);
        if (!came_to.ok()) {
          expect_named(came_to);
          auto store = Store::open(which, options());
          ASSERT_TRUE(store.ok()) << store.status().message();
          opened = std::make_unique<Store>(std::move(*store));
        }
        driver_->replace(std::move(*opened));
        expect_noted();
        driver_->check_all();
        if (!struck) break;
      }
    }
  }
}

TEST_P(Allocation, ThatFailsInAStepIsNamedAndLosesNothing) {
  for (bool const for_good : {false, true}) {
    for (std::size_t which = 0;; ++which) {
      make();
      auto const all = steps();
      if (which == all.size()) break;
      SCOPED_TRACE(all[which].name);
      std::uint64_t failed = 0;
      for (std::uint64_t n = 1;; n = next_fault(n)) {
        ASSERT_LT(n, kMost);
        SCOPED_TRACE((for_good ? "from allocation " : "allocation ") + std::to_string(n) + " on");
        make();
        Status came_to;
        bool const struck = strike(n, for_good, all[which].run, came_to);
        if (!came_to.ok()) {
          ++failed;
          expect_named(came_to);
        }
        expect_noted();
        driver_->check_all();
        if (config().layout == Layout::word || came_to.code() != Code::no_space) {
          Status const again = all[which].run();
          EXPECT_TRUE(again.ok()) << again.message();
        }
        check_all();
        if (!struck) {
          EXPECT_TRUE(came_to.ok());
          break;
        }
      }
      // What gets need, and batches with records of the heap, an opening of layout `log` had for
      // its own batches. Values of any length have all their records from the heap.
      std::string const name = all[which].name;
      bool const of_heap = config().value_bytes == 0;
      bool const small =
          name == "put" || name == "erase" || name == "mixed batch" || name == "atomic batch";
      bool const has_all = config().layout == Layout::log &&
                           (name == "get" || name == "training step" || (of_heap && small));
      EXPECT_TRUE(has_all || failed > 0) << "a step that needs no memory is no test of its lack";
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Failures, Allocation, testing::ValuesIn(kinds()),
                         [](testing::TestParamInfo<Kind> const& kind) {
                           return kind.param.config.name;
                         });

}  // namespace
}  // namespace perdure::test
