// Whole stores over a disk that forgets: the power fails, or a request ends with an error, at every
// one of them. That the same checks find what is planted is disk_mutants_test.cpp's matter.
#include <gtest/gtest.h>

#include "disk_checks.hpp"
#include "log_word_checks.hpp"

namespace perdure::wal::test {
namespace {

/// The mishap at every `step`-th request of a life, with seeds that differ.
void live_through(Script const& script, Mishap mishap, std::uint64_t step, std::uint64_t seed,
                  bool reader = false, int error = EIO) {
  Life life(script, seed);
  Wrong const without = life.run({});
  ASSERT_FALSE(without) << *without;
  std::uint64_t const requests = life.requests();
  for (std::uint64_t at = 1 + seed % step; at <= requests; at += step) {
    Wrong const wrong = Life(script, seed).run({mishap, at, error, reader});
    ASSERT_FALSE(wrong) << *wrong << " of " << requests;
  }
}

TEST(StoreOnDisk, OutlivesAPowerCutAtEveryRequest) {
  live_through(short_script(1), Mishap::power, 1, 1);
}

// What an opening finds after a kill it shows, so that from then on no power cut may take it.
TEST(StoreOnDisk, OutlivesAKillAtEveryRequestAndAPowerCutLater) {
  live_through(short_script(19), Mishap::kill, 1, 19);
}

TEST(StoreOnDisk, OutlivesKillsInCheckpointsAndPowerCutsLater) {
  live_through(long_script(21), Mishap::kill, 7, 21);
}

TEST(StoreOnDisk, OutlivesKillsInCreationsAndRestoresAndPowerCutsLater) {
  live_through(renewing_script(23), Mishap::kill, 3, 23);
}

TEST(StoreOnDisk, OutlivesAnErrorAtEveryRequest) {
  live_through(short_script(3), Mishap::error, 1, 3);
}

// Disks with even seeds write in short pieces, so that there are more requests.
TEST(StoreOnDisk, OutlivesPowerCutsAmongShortWrites) {
  live_through(short_script(2), Mishap::power, 17, 2);
}

TEST(StoreOnDisk, OutlivesErrorsAmongShortWrites) {
  live_through(short_script(4), Mishap::error, 23, 4);
}

TEST(StoreOnDisk, OutlivesAFullDisk) {
  live_through(short_script(5), Mishap::full, 5, 5, false, ENOSPC);
}

TEST(StoreOnDisk, OutlivesReadsThatFail) {
  live_through(short_script(7), Mishap::read_error, 7, 7);
}

TEST(StoreOnDisk, OutlivesAPowerCutWhileAnotherThreadReads) {
  live_through(short_script(9), Mishap::power, 5, 9, true);
}

TEST(StoreOnDisk, OutlivesPowerCutsInCheckpoints) {
  live_through(long_script(11), Mishap::power, 7, 11);
}

TEST(StoreOnDisk, OutlivesErrorsInCheckpoints) {
  live_through(long_script(13), Mishap::error, 11, 13, false, ENOSPC);
}

TEST(StoreOnDisk, OutlivesPowerCutsWhileCheckpointsGoOnBesideBatches) {
  live_through(checkpoints_script(25), Mishap::power, 13, 25);
}

TEST(StoreOnDisk, OutlivesErrorsWhileCheckpointsGoOnBesideBatches) {
  live_through(checkpoints_script(27), Mishap::error, 17, 27);
}

TEST(StoreOnDisk, OutlivesPowerCutsInCreationsAndRestores) {
  live_through(renewing_script(15), Mishap::power, 5, 15);
}

TEST(StoreOnDisk, OutlivesErrorsInCreationsAndRestores) {
  live_through(renewing_script(17), Mishap::error, 7, 17);
}

// Each request of many lives.
TEST(StoreOnDiskWhole, OutlivesEveryMishapInManyLives) {
  for (std::uint64_t seed = 100; seed < 106; ++seed) {
    for (Mishap const mishap :
         {Mishap::power, Mishap::kill, Mishap::error, Mishap::full, Mishap::read_error}) {
      for (Script const& script : {short_script(seed), long_script(seed), renewing_script(seed)})
        live_through(script, mishap, 1, seed, seed % 3 == 0, seed % 2 == 0 ? EIO : ENOSPC);
      if (HasFatalFailure()) return;
    }
  }
}

// ------------------------------------------------------------------------------------------------

struct Check {
  char const* name;
  Wrong (*run)();
};

class DiskChecks : public testing::TestWithParam<Check> {};

TEST_P(DiskChecks, FindNothing) {
  Wrong const wrong = GetParam().run();
  EXPECT_FALSE(wrong) << *wrong;
}

INSTANTIATE_TEST_SUITE_P(
    All, DiskChecks,
    testing::Values(
        Check{"ABatchAndItsReadersWait", a_batch_and_its_readers_wait},
        Check{"ACommitWaits", a_commit_waits},
        Check{"ASnapshotWaitsForTheLog", a_snapshot_waits_for_the_log},
        Check{"ACheckpointWaitsForItsLog", a_checkpoint_waits_for_its_log},
        Check{"AFailedWriteWakesAllThatWait", a_failed_write_wakes_all_that_wait},
        Check{"RequestsAskForDurability", requests_ask_for_durability},
        Check{"EitherImageServes", either_image_serves},
        Check{"ABatchThatAnOpeningShowsLasts", a_batch_that_an_opening_shows_lasts},
        Check{"ABatchThatOnlyAnImageHasLasts", a_batch_that_only_an_image_has_lasts},
        Check{"ThePoolSaysWhatIsDurable", the_pool_says_what_is_durable},
        Check{"AKillWithinABatchIsNoLoss", a_kill_within_a_batch_is_no_loss},
        Check{"ALossThatThePoolTellsOfIsToldAgain", a_loss_that_the_pool_tells_of_is_told_again},
        Check{"WhatLiesBeyondALostGroupNeverCounts", what_lies_beyond_a_lost_group_never_counts},
        Check{"DamageIsToldByWhatWasSealedLater", damage_is_told_by_what_was_sealed_later},
        Check{"WhatWasUnderWayIsNoLoss", what_was_under_way_is_no_loss},
        Check{"TheNewestEpochNeedsNoHeader", the_newest_epoch_needs_no_header},
        Check{"ALossIsToldWheneverARepairEnds", a_loss_is_told_whenever_a_repair_ends},
        Check{"IoUringWritesAskForDurability", io_uring_writes_ask_for_durability},
        Check{"PlainWritesAreSyncedAndSaySo", plain_writes_are_synced_and_say_so},
        Check{"DirectoriesAreSynced", directories_are_synced}),
    [](auto const& which) { return std::string(which.param.name); });

}  // namespace
}  // namespace perdure::wal::test
