// A device that is lost in the middle of a batch: from its n-th launch on, of which it does half,
// every launch fails. The store refuses writes with a status that says why and what to do; gets
// fail, or answer what is there; and the pool opens on a CPU with everything that was acknowledged,
// and of the batch in flight old or new.
#include <algorithm>

#include "failures/failing_store.hpp"

namespace perdure::test {
namespace {

class LostDevice : public FailingStore {
 protected:
  /// Every key has its value of before the step, or of after it: of one that failed, either.
  void check_old_or_new(Model const& before, Model const& after) {
    auto const held = scan_all(store(), 1000);
    for (auto const* const side : {&before.held, &after.held}) {
      for (auto const& [key, value] : *side) {
        auto const found = held.find(key);
        auto const has = [&](Model const& model) {
          auto const at = model.held.find(key);
          return found == held.end() ? at == model.held.end()
                                     : at != model.held.end() && at->second == found->second;
        };
        ASSERT_TRUE(has(before) || has(after)) << "key " << to_hex(key);
      }
    }
    for (auto const& [key, value] : held)
      ASSERT_TRUE(before.held.contains(key) || after.held.contains(key));
    auto report = store().verify();
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(report->fault_count, 0u);
    EXPECT_EQ(report->records, held.size());
  }

  [[nodiscard]] OpenOptions on_cpu() const {
    OpenOptions o;
    if (config().layout != Layout::log) o.memory.residency = Residency::pm;
    return o;
  }
};

TEST_P(LostDevice, InAnyLaunchOfAStepLeavesAPoolThatACpuOpens) {
  for (bool const for_good : {true, false}) {
    for (std::size_t which = 0;; ++which) {
      make();
      auto const all = steps();
      if (which == all.size()) break;
      SCOPED_TRACE(all[which].name);
      Model const before = driver_->model;
      ASSERT_TRUE(all[which].run().ok());
      Model const after = driver_->model;
      for (std::uint64_t n = 1; n < 1000; n = next_fault(n)) {
        SCOPED_TRACE((for_good ? "from launch " : "launch ") + std::to_string(n) + " on");
        make();
        fault::lost_device.plant(n, for_good);
        Status const came_to = all[which].run();
        bool const struck = fault::lost_device.struck();
        if (came_to.ok()) {
          EXPECT_FALSE(struck);
          no_faults();
          break;
        }
        EXPECT_EQ(came_to.code(), Code::device_error) << came_to.message();
        EXPECT_NE(came_to.message().find("pool "), std::string::npos) << came_to.message();
        EXPECT_NE(came_to.message().find("device cpu"), std::string::npos) << came_to.message();
        std::vector<Answer> answers;
        if (for_good) {
          std::vector<KeyStatus> statuses;
          EXPECT_FALSE(driver_->put(keys(0, 3), values(0, 3), statuses).ok());
          EXPECT_FALSE(driver_->get(keys(0, kHeld), answers).ok());
        } else if (driver_->get(keys(0, kHeld), answers).ok()) {
          for (std::size_t i = 0; i < answers.size(); ++i) {
            auto const says = [&](Model const& model) {
              auto const at = model.held.find(config().key(i));
              return answers[i].status == KeyStatus::ok
                         ? at != model.held.end() && at->second == answers[i].value
                         : at == model.held.end();
            };
            EXPECT_TRUE(says(before) || says(after))
                << "key " << i << " answers neither old nor new";
          }
        }
        static_cast<void>(store().close());
        no_faults();
        reopen(on_cpu());
        check_old_or_new(before, after);
        Status const s = put(0, kHeld, 9);
        EXPECT_TRUE(s.ok()) << s.message();
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(LostDevice, InABatchMakesTheStoreRefuseWritesUntilItIsReopened) {
  std::uint64_t refusing = 0;
  for (std::uint64_t n = 1;; ++n) {
    make();
    fault::lost_device.plant(n);
    Status const came_to = put(0, kHeld, 1);
    if (came_to.ok()) break;
    no_faults();
    std::vector<KeyStatus> statuses;
    Status const next = driver_->put(keys(0, 3), values(0, 3, 1), statuses);
    if (!next.ok()) {
      ++refusing;
      EXPECT_EQ(next.code(), Code::closed);
      EXPECT_NE(next.message().find("refuses writes since an earlier failure"), std::string::npos)
          << next.message();
      EXPECT_NE(next.message().find("close and reopen it"), std::string::npos) << next.message();
      EXPECT_EQ(store().snapshot(path() + "-snapshot").code(), Code::closed);
    }
    ASSERT_TRUE(store().close().ok());
    reopen(options());
    EXPECT_EQ(store().recovery().clean, next.ok())
        << "nothing had begun, and the close was an orderly one";
  }
  EXPECT_GE(refusing, 2u) << "one launch a phase at least";
}

INSTANTIATE_TEST_SUITE_P(Failures, LostDevice, testing::ValuesIn(kinds()),
                         [](testing::TestParamInfo<Kind> const& kind) {
                           return kind.param.config.name;
                         });

}  // namespace
}  // namespace perdure::test
