// Faults planted in what makes a store's batches outlast the power, and in what live looks go by:
// each must be found by a check that `make test` runs on the code without it (disk_store_test.cpp).
// The engine's sources, compiled with the hooks of fault/mutants.hpp alive, run over simulated
// warps (src/exec/sim/), a pool in a file, and the disk that forgets.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "disk_checks.hpp"
#include "fault/mutants.hpp"
#include "lifetime/live_checks.hpp"
#include "log_word_checks.hpp"
#include "rocks/gwal_power_checks.hpp"

namespace perdure::wal::test {
namespace {

using MakeScript = Script (*)(std::uint64_t seed);

/// Of every `by`-th seed from `first` on: a life without a mishap, and then one for each `every`-th
/// of its requests, the last first, until one shows something.
template <class Every>
Wrong lives(MakeScript script, std::uint64_t first, std::uint64_t end, std::uint64_t by,
            Mishap mishap, Every every) {
  for (std::uint64_t seed = first; seed < end; seed += by) {
    Life life(script(seed), seed);
    if (auto wrong = life.run({})) return wrong;
    std::uint64_t const step = every(life.requests());
    for (std::uint64_t at = life.requests(); at > step; at -= step)
      if (auto wrong = Life(script(seed), seed).run({mishap, at})) return wrong;
  }
  return std::nullopt;
}

/// In lives like those of disk_store_test.cpp.
Wrong power_cuts() {
  return lives(short_script, 1, 9, 2, Mishap::power, [](std::uint64_t) { return 2; });
}

/// Kills while pools and logs take the place of others, and a power cut later. What that takes is
/// drawn anew for each, so several lives are killed at some of their requests.
Wrong kills_in_creations() {
  return lives(renewing_script, 23, 39, 2, Mishap::kill, [](std::uint64_t) { return 8; });
}

/// What a checkpoint copied beside batches, and what was logged beside their execution, at the end
/// of a life and after power cuts in it.
Wrong checkpoints_beside_batches() {
  auto const script = [](std::uint64_t seed) { return checkpoints_script(seed); };
  return lives(script, 1, 5, 1, Mishap::power, [](std::uint64_t requests) { return requests / 8; });
}

Wrong short_writes() { return Life(short_script(2), 2).run({}); }

struct Planted {
  Mutant mutant;
  char const* name;
  Wrong (*check)();
};

class DiskMutants : public testing::TestWithParam<Planted> {};

/// In a process of its own, for it may hang or crash; that, too, is being found out.
TEST_P(DiskMutants, IsFound) {
  ::pid_t const child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(300);  // the longest take ten seconds by themselves
    soon = std::chrono::seconds(10);
    planted = GetParam().mutant;
    Wrong const wrong = GetParam().check();
    if (wrong) std::fprintf(stderr, "found: %s\n", wrong->c_str());
    ::_exit(wrong ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status)) {
    EXPECT_NE(WTERMSIG(status), SIGALRM) << "nothing was wrong with it for a long time";
  } else {
    EXPECT_NE(WEXITSTATUS(status), 0) << "nothing is wrong with it";
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, DiskMutants,
    testing::Values(
        Planted{"disk_not_synced", "disk_not_synced", plain_writes_are_synced_and_say_so},
        Planted{"disk_sync_error_dropped", "disk_sync_error_dropped",
                plain_writes_are_synced_and_say_so},
        Planted{"plain_write_not_synced", "plain_write_not_synced",
                plain_writes_are_synced_and_say_so},
        Planted{"plain_sync_error_dropped", "plain_sync_error_dropped",
                plain_writes_are_synced_and_say_so},
        Planted{"ring_write_without_dsync", "ring_write_without_dsync",
                io_uring_writes_ask_for_durability},
        Planted{"short_write_taken_for_whole", "short_write_taken_for_whole", short_writes},
        Planted{"file_name_not_synced", "file_name_not_synced", power_cuts},
        Planted{"log_dir_not_synced", "log_dir_not_synced", power_cuts},
        Planted{"opened_log_not_synced", "opened_log_not_synced",
                a_batch_that_an_opening_shows_lasts},
        Planted{"opened_images_not_synced", "opened_images_not_synced",
                a_batch_that_only_an_image_has_lasts},
        Planted{"log_word_not_stored", "log_word_not_stored", the_pool_says_what_is_durable},
        Planted{"log_word_before_its_log", "log_word_before_its_log",
                a_kill_within_a_batch_is_no_loss},
        Planted{"log_word_inside_a_batch", "log_word_inside_a_batch",
                a_kill_within_a_batch_is_no_loss},
        Planted{"opened_names_not_synced", "opened_names_not_synced", kills_in_creations},
        Planted{"log_write_not_durable", "log_write_not_durable", power_cuts},
        Planted{"log_write_error_dropped", "log_write_error_dropped",
                a_failed_write_wakes_all_that_wait},
        Planted{"log_durable_when_begun", "log_durable_when_begun", power_cuts},
        Planted{"log_failure_wakes_nobody", "log_failure_wakes_nobody",
                a_failed_write_wakes_all_that_wait},
        Planted{"log_truncated_to_newest", "log_truncated_to_newest", either_image_serves},
        Planted{"torn_group_replayed", "torn_group_replayed", power_cuts},
        Planted{"epoch_not_begun", "epoch_not_begun", what_lies_beyond_a_lost_group_never_counts},
        Planted{"log_next_epoch_ignored", "log_next_epoch_ignored",
                the_newest_epoch_needs_no_header},
        Planted{"log_damaged_epoch_begun", "log_damaged_epoch_begun",
                the_newest_epoch_needs_no_header},
        Planted{"log_behind_not_known", "log_behind_not_known",
                damage_is_told_by_what_was_sealed_later},
        Planted{"log_behind_too_little", "log_behind_too_little", what_was_under_way_is_no_loss},
        Planted{"loss_noted_late", "loss_noted_late", a_loss_is_told_whenever_a_repair_ends},
        Planted{"loss_noted_behind_the_pool", "loss_noted_behind_the_pool",
                a_loss_that_the_pool_tells_of_is_told_again},
        Planted{"change_not_begun", "change_not_begun", perdure::test::a_transaction_is_one_change},
        Planted{"change_word_comes_back", "change_word_comes_back",
                perdure::test::the_word_moves_on},
        Planted{"checkpoint_without_its_log", "checkpoint_without_its_log",
                a_checkpoint_waits_for_its_log},
        Planted{"image_not_synced", "image_not_synced", power_cuts},
        Planted{"image_overwrites_what_counts", "image_overwrites_what_counts", power_cuts},
        Planted{"released_while_copied", "released_while_copied", checkpoints_beside_batches},
        Planted{"words_not_frozen", "words_not_frozen", checkpoints_beside_batches},
        Planted{"effects_before_they_are_known", "effects_before_they_are_known",
                checkpoints_beside_batches},
        Planted{"snapshot_name_not_synced", "snapshot_name_not_synced", power_cuts},
        Planted{"snapshot_without_its_log", "snapshot_without_its_log",
                a_snapshot_waits_for_the_log},
        Planted{"batch_acknowledged_early", "batch_acknowledged_early",
                a_batch_and_its_readers_wait},
        Planted{"transaction_acknowledged_early", "transaction_acknowledged_early", a_commit_waits},
        Planted{"gwal_power_acknowledged_early", "gwal_power_acknowledged_early",
                perdure::test::a_record_waits_for_the_disk},
        Planted{"reads_do_not_wait", "reads_do_not_wait", a_batch_and_its_readers_wait}),
    [](auto const& which) { return std::string(which.param.name); });

TEST(DiskMutants, NoneIsFoundWhereNoneIsPlanted) {
  for (auto const check : {a_batch_and_its_readers_wait,
                           a_commit_waits,
                           a_snapshot_waits_for_the_log,
                           a_checkpoint_waits_for_its_log,
                           a_failed_write_wakes_all_that_wait,
                           either_image_serves,
                           a_batch_that_an_opening_shows_lasts,
                           what_lies_beyond_a_lost_group_never_counts,
                           damage_is_told_by_what_was_sealed_later,
                           what_was_under_way_is_no_loss,
                           the_newest_epoch_needs_no_header,
                           a_loss_is_told_whenever_a_repair_ends,
                           the_pool_says_what_is_durable,
                           a_kill_within_a_batch_is_no_loss,
                           a_loss_that_the_pool_tells_of_is_told_again,
                           a_batch_that_only_an_image_has_lasts,
                           requests_ask_for_durability,
                           plain_writes_are_synced_and_say_so,
                           perdure::test::a_record_waits_for_the_disk,
                           checkpoints_beside_batches}) {
    Wrong const wrong = check();
    EXPECT_FALSE(wrong) << *wrong;
  }
  Wrong const wrong = Life(short_script(1), 1).run({});
  EXPECT_FALSE(wrong) << *wrong;
}

}  // namespace
}  // namespace perdure::wal::test
