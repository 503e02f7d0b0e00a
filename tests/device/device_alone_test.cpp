// Device sessions beside all else: who may call a store while one is open, what a forked child may
// ask, and on which stores one can be opened at all. Invariant: what cannot be had is refused with
// a Status, and a refusal leaves the session and the store as they were.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "device_store.hpp"
#include "fault/planted_faults.hpp"
#include "support/folders.hpp"

namespace perdure::test {
namespace {

TEST_P(DeviceStore, OnlyTheSessionUsesTheStoreWhileItIsOpen) {
  make(8, 8);
  auto session = std::make_unique<DeviceSession>(begin(100));
  Bytes const key = config_.key(1), value = config_.value(1);
  std::vector<KeyStatus> statuses;
  std::vector<Answer> answers;
  EXPECT_EQ(driver_->put({key}, {value}, statuses).code(), Code::busy);
  EXPECT_EQ(driver_->get({key}, answers).code(), Code::busy);
  EXPECT_EQ(store().scan({}, 10).status().code(), Code::busy);
  EXPECT_EQ(store().verify().status().code(), Code::busy);
  EXPECT_EQ(store().snapshot(scratch_.file("snapshot")).code(), Code::busy);
  EXPECT_EQ(store().begin().status().code(), Code::busy);
  EXPECT_EQ(DeviceAccess::open(store(), {1}).status().code(), Code::busy);
  EXPECT_EQ(store().stats().records, 0u);
  Packed const keys({key}, 8), values({value}, 8);
  auto other =
      std::async(std::launch::async, [&] { return store().put(keys.column(), values.column()); });
  EXPECT_EQ(other.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  auto end_elsewhere = std::async(std::launch::async, [&] { return session->end(); });
  EXPECT_TRUE(end_elsewhere.get().ok());  // whoever has it
  Status const put_after = other.get();
  EXPECT_TRUE(put_after.ok()) << put_after.message();
  EXPECT_EQ(session->end().code(), Code::closed);
  driver_->model.held[key] = value;
  driver_->check_all();
  session = std::make_unique<DeviceSession>(begin(1));
  session.reset();  // ends it
  driver_->check_all();
  DeviceSession last = begin(1);
  ASSERT_TRUE(store().close().ok());  // ends it too
  EXPECT_EQ(last.end().code(), Code::closed);
}

/// What a machine holds does not survive a fork: in the child nothing asks it for anything,
/// whatever is called, and the parent goes on. Every allocation of machine memory and every launch
/// of the child would strike.
TEST_P(DeviceStore, AForkedChildAsksTheMachineForNothing) {
  make(8, 8);
  Bytes const key = config_.key(1), value = config_.value(1);
  driver_->run_put({key}, {value});
  auto ended = std::make_unique<DeviceSession>(begin(10));  // with memory of the machine still
  ASSERT_TRUE(ended->end().ok());
  for (bool const in_session : {false, true}) {
    auto session = in_session ? std::make_unique<DeviceSession>(begin(10)) : nullptr;
    ::pid_t const child = ::fork();
    if (child == 0) {
      ::alarm(30);
      fault::failing_allocation.plant(1, true);
      fault::lost_device.plant(1, true);
      std::vector<KeyStatus> statuses;
      std::vector<Answer> answers;
      bool refused = driver_->get({key}, answers).code() == Code::closed &&
                     driver_->put({key}, {value}, statuses).code() == Code::closed &&
                     store().scan({}, 10).status().code() == Code::closed &&
                     store().verify().status().code() == Code::closed &&
                     store().load_cache().status().code() == Code::closed &&
                     store().device_session({10}).status().code() == Code::closed &&
                     store().close().code() == Code::closed;
      for (DeviceSession* const one : {ended.get(), session.get()}) {
        if (one == nullptr) continue;
        refused = refused && one->end().code() == Code::closed;
        refused = refused && DeviceAccess::run(*one, {}).code() == Code::closed;
      }
      session.reset();
      ended.reset();
      driver_.reset();
      bool const asked = fault::failing_allocation.struck() || fault::lost_device.struck();
      fault::failing_allocation.plant(0);
      fault::lost_device.plant(0);
      bool right = true;
      if (GetParam().device == Device::cuda) {
        auto const own = Store::create(scratch_.file("own"), config_.create(10), options());
        right = own.status().message().find("forked") != std::string::npos;
      }
      ::_exit(!refused ? 1 : asked ? 2 : right ? 0 : 3);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
    if (session) {
      EXPECT_EQ(run(*session, {put(config_.key(2), value)}, 1).statuses[0], KeyStatus::ok);
      driver_->model.held[config_.key(2)] = value;
      EXPECT_TRUE(session->end().ok());
    }
    driver_->check_all();
  }
}

TEST_P(DeviceStore, OnlyWhereItCan) {
  make(8, 8);
  {
    auto const transaction = store().begin();
    ASSERT_TRUE(transaction.ok());
    EXPECT_EQ(DeviceAccess::open(store(), {1}).status().code(), Code::busy);
  }
  Status const here = store().device_session({1}).status();
  EXPECT_EQ(here.code(), GetParam().device == Device::cpu ? Code::unsupported : Code::ok)
      << here.message();
  ASSERT_TRUE(store().close().ok());
  OpenOptions on_pm = options();
  if (!logged()) on_pm.memory.residency = Residency::pm;  // which layout log has no other of
  auto again = Store::open(path(), on_pm);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(DeviceAccess::open(*again, {1}).status().code(),
            logged() ? Code::ok : Code::unsupported);
  ASSERT_TRUE(again->close().ok());
  on_pm.read_only = true;
  if (GetParam().device == Device::cpu) {
    auto reader = Store::open(path(), on_pm);
    ASSERT_TRUE(reader.ok()) << reader.status().message();
    EXPECT_EQ(DeviceAccess::open(*reader, {1}).status().code(), Code::invalid_argument);
  }
  for (bool const variable : {false, true}) {
    CreateOptions create;
    create.value_bytes = variable ? 0 : 8;
    create.file.overwrite = true;
    create.layout = variable ? Layout::word : Layout::in_place;
    OpenOptions open;
    open.device = GetParam().device;
    auto other = Store::create(scratch_.file("other"), create, open);
    ASSERT_TRUE(other.ok()) << other.status().message();
    EXPECT_EQ(DeviceAccess::open(*other, {1}).status().code(), Code::unsupported);
  }
  CreateOptions on_disk;
  on_disk.layout = config_.layout;
  on_disk.value_bytes = 8;
  on_disk.durability = Durability::power;
  DiskDir const disk("device-log");
  on_disk.log.dir = disk.path;
  on_disk.log.bytes = 1 << 20;
  auto power = Store::create(scratch_.file("power"), on_disk, options());
  ASSERT_TRUE(power.ok()) << power.status().message();
  EXPECT_EQ(DeviceAccess::open(*power, {1}).status().code(), Code::unsupported);
}

}  // namespace
}  // namespace perdure::test
