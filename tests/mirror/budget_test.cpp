// A memory budget that the mirror does not fit: it holds less, says what is missing, and answers
// the same.
#include "mirror/mirrored_store.hpp"

namespace perdure::test {
namespace {

using Budget = MirroredStore;

TEST_P(Budget, WithoutRoomForIdentitiesRecordsAreReadForTheirKeys) {
  OpenOptions small;
  small.memory.budget_bytes = 6144 * 10;
  make(3000, small);
  Stats const stats = driver_->store().stats();
  EXPECT_EQ(stats.memory.residency, Residency::mirrored);
  EXPECT_NE(stats.memory.note.find("keys and checksums"), std::string::npos) << stats.memory.note;
  EXPECT_LE(stats.memory.mirror_bytes, small.memory.budget_bytes);
  put(0, 2500);
  get(keys(0, 2500));
  EXPECT_LE(get(keys(2500, 5000)).pm_reads, 5u) << "misses hardly ever need a record";
  driver_->check_all();
}

TEST_P(Budget, WithoutRoomForWordsProbesGoToTheMedium) {
  OpenOptions none;
  none.memory.budget_bytes = 1000;
  make(3000, none);
  Stats const stats = driver_->store().stats();
  EXPECT_EQ(stats.memory.residency, Residency::pm);
  EXPECT_NE(stats.memory.note.find("1000"), std::string::npos) << stats.memory.note;
  put(0, 2500);
  EXPECT_GE(get(keys(0, 2500)).pm_reads, 2500u * 5);
  driver_->check_all();
}

TEST_P(Budget, ATableThatOutgrowsItGoesOnWithoutAMirror) {
  OpenOptions some;
  some.memory.budget_bytes = 200'000;
  make(1, some);
  EXPECT_EQ(driver_->store().stats().memory.residency, Residency::mirrored);
  for (std::uint64_t at = 0; at < 40'000; at += 1000) put(at, at + 1000);
  EXPECT_EQ(driver_->store().stats().memory.residency, Residency::pm);
  EXPECT_FALSE(driver_->store().stats().memory.note.empty());
  driver_->check_all();
}

INSTANTIATE_TEST_SUITE_P(Machines, Budget, testing::ValuesIn(kMachines), machine_name);

}  // namespace
}  // namespace perdure::test
