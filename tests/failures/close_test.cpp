// A close in which the device is lost while it ends a transaction or a device session: the caller
// hears of it, the pool does not say that it was closed in order, and a CPU finds in it what was
// acknowledged. A growth that a close cannot complete: tests/growth.
#include "failures/failing_store.hpp"
#include "store/gphash/device_access.hpp"

namespace perdure::test {
namespace {

class Closing : public FailingStore {
 protected:
  struct Open {
    char const* name;
    std::function<bool()> begin;  // false: this kind of store has none
  };

  std::vector<Open> all() {
    return {{"transaction", [this] { return begin_transaction(); }},
            {"session", [this] { return begin_session(); }}};
  }

  bool begin_transaction() {
    if (config().layout != Layout::word) return false;
    auto begun = store().begin({2 * kHeld});
    EXPECT_TRUE(begun.ok()) << begun.status().message();
    transaction_.emplace(std::move(*begun));
    Model const before = driver_->model;
    driver_->how.transaction = &*transaction_;
    EXPECT_TRUE(put(kHeld / 2, kHeld * 5 / 4, 1).ok());
    EXPECT_TRUE(erase(0, kHeld / 4).ok());
    driver_->how = {};
    driver_->model = before;  // it will be undone
    return true;
  }
  bool begin_session() {
    if (config().layout == Layout::in_place || config().value_bytes == 0) return false;
    auto begun = DeviceAccess::open(store(), {kHeld});
    if (begun.status().code() == Code::unsupported) return false;
    EXPECT_TRUE(begun.ok()) << begun.status().message();
    session_.emplace(std::move(*begun));
    return true;
  }

  std::optional<Transaction> transaction_;
  std::optional<DeviceSession> session_;
};

TEST_P(Closing, SaysWhatFailedInIt) {
  for (std::size_t which = 0; which < all().size(); ++which) {
    SCOPED_TRACE(all()[which].name);
    std::uint64_t failed = 0;
    for (std::uint64_t n = 1;; n = next_fault(n)) {
      SCOPED_TRACE("launch " + std::to_string(n));
      ASSERT_LT(n, 1000u);
      make();
      if (!all()[which].begin()) break;
      fault::lost_device.plant(n, true);
      Status const closed = store().close();
      bool const struck = fault::lost_device.struck();
      no_faults();
      transaction_.reset();
      session_.reset();
      EXPECT_EQ(closed.ok(), !struck);
      if (struck) {
        ++failed;
        EXPECT_EQ(closed.code(), Code::device_error) << closed.message();
        EXPECT_NE(closed.message().find("pool " + path() + " was not closed in order"),
                  std::string::npos)
            << closed.message();
      }
      EXPECT_TRUE(store().close().ok()) << "it is closed";
      OpenOptions cpu;
      if (config().layout != Layout::log) cpu.memory.residency = Residency::pm;
      reopen(cpu);
      EXPECT_EQ(store().recovery().clean, !struck);
      driver_->check_all();
      EXPECT_TRUE(put(0, kHeld, 9).ok());
      ASSERT_FALSE(HasFailure());
      if (!struck) {
        bool const needs_the_device = config().residency == Residency::mirrored;
        EXPECT_TRUE(failed > 0 || !needs_the_device);
        break;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Failures, Closing, testing::ValuesIn(kinds()),
                         [](testing::TestParamInfo<Kind> const& kind) {
                           return kind.param.config.name;
                         });

}  // namespace
}  // namespace perdure::test
