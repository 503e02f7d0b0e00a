// What litmus tests were seen to break is refused on the machine that it was seen on.
#include "exec/recorded_litmus.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "exec/cpu/processor.hpp"
#include "perdure/store.h"

namespace perdure::exec {
namespace {

class RecordedLitmus : public testing::Test {
 protected:
  RecordedLitmus() { ::setenv("PERDURE_LITMUS", path_.c_str(), 1); }
  ~RecordedLitmus() override {
    std::filesystem::remove(path_);
    ::unsetenv("PERDURE_LITMUS");
  }
  std::string const here_ = processor_name();
  std::string const path_ = "/dev/shm/perdure-litmus-" + std::to_string(::getpid());
};

TEST_F(RecordedLitmus, RefusesWhoReliesOnWhatFailed) {
  ASSERT_TRUE(record_litmus(here_, "a GPU", {{"device sessions", "MP gpu -> gpu fenced"}}).ok());
  Status const refused = check_recorded(Reliance::sessions, "a GPU");
  EXPECT_EQ(refused.code(), Code::unsupported);
  EXPECT_NE(refused.message().find("MP gpu -> gpu fenced"), std::string::npos) << refused.message();
  EXPECT_NE(refused.message().find(path_), std::string::npos) << refused.message();
  EXPECT_TRUE(check_recorded(Reliance::batches, "a GPU").ok());
  EXPECT_TRUE(check_recorded(Reliance::host_threads, "").ok());
}

TEST_F(RecordedLitmus, OfAnotherMachineRefusesNothing) {
  ASSERT_TRUE(record_litmus(here_, "a GPU", {{"device sessions", "MP"}}).ok());
  EXPECT_TRUE(check_recorded(Reliance::sessions, "another GPU").ok());
  ASSERT_TRUE(record_litmus("another processor", "a GPU", {{"device sessions", "MP"}}).ok());
  EXPECT_TRUE(check_recorded(Reliance::sessions, "a GPU").ok());
}

TEST_F(RecordedLitmus, ThatIsSoundTakesBackWhatWasRefused) {
  ASSERT_TRUE(record_litmus(here_, "", {{"indexes of host threads", "cas"}}).ok());
  EXPECT_FALSE(check_recorded(Reliance::host_threads, "").ok());
  ASSERT_TRUE(record_litmus(here_, "", {}).ok());
  EXPECT_TRUE(check_recorded(Reliance::host_threads, "").ok());
}

TEST_F(RecordedLitmus, ByANameThatNobodyHasCountsForAll) {
  ASSERT_TRUE(record_litmus(here_, "a GPU", {{"an older version's tables", "cas"}}).ok());
  for (Reliance const who : {Reliance::host_threads, Reliance::batches, Reliance::sessions})
    EXPECT_FALSE(check_recorded(who, "a GPU").ok());
}

TEST_F(RecordedLitmus, KeepsADashPoolFromBeingMade) {
  ASSERT_TRUE(record_litmus(here_, "", {{"indexes of host threads", "cas cpu+cpu"}}).ok());
  std::string const pool = path_ + "-pool";
  CreateOptions options;
  options.index = Index::dash_eh;
  options.key_bytes = options.value_bytes = 8;
  auto const store = Store::create(pool, options);
  EXPECT_EQ(store.status().code(), Code::unsupported);
  EXPECT_NE(store.status().message().find("cas cpu+cpu"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(pool));
}

TEST_F(RecordedLitmus, SaysWhatToDoWhereItCannotBeWritten) {
  ::setenv("PERDURE_LITMUS", "/proc/none/litmus", 1);
  Status const s = record_litmus(here_, "", {});
  EXPECT_EQ(s.code(), Code::io_error);
  EXPECT_NE(s.message().find("PERDURE_LITMUS"), std::string::npos) << s.message();
}

}  // namespace
}  // namespace perdure::exec
