// Runs the test that its argument names.
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "tests.h"

struct named_test {
  char const* name;
  void (*run)(void);
};

#define TEST(name) {#name, name}
static struct named_test const all_tests[] = {
    TEST(a_pool_is_made_closed_and_opened_again),
    TEST(a_snapshot_becomes_a_pool),
    TEST(a_pool_of_durability_power_comes_back_from_its_log),
    TEST(a_store_that_is_destroyed_was_closed),
    TEST(a_closed_store_refuses_every_call),
    TEST(reports_say_what_a_store_is_and_found),
    TEST(faults_are_lines_and_a_repair_is_acknowledged),
    TEST(devices_are_described),
    TEST(codes_and_versions_have_names),
    TEST(a_batch_is_put_got_updated_and_erased),
    TEST(values_have_any_length),
    TEST(a_mixed_batch_takes_effect_in_order),
    TEST(an_atomic_batch_fails_whole),
    TEST(a_full_pool_tells_key_by_key),
    TEST(a_stopped_batch_tells_what_was_tried),
    TEST(a_transaction_that_commits_stays),
    TEST(a_transaction_that_aborts_leaves_nothing),
    TEST(a_transaction_that_is_destroyed_aborts),
    TEST(a_commit_is_taken_back_after_reopening),
    TEST(a_transaction_outlives_its_store),
    TEST(tables_share_a_pool_and_a_batch),
    TEST(tables_that_cannot_be_are_refused),
    TEST(a_scan_sees_every_record_once),
    TEST(a_range_goes_both_ways_in_order),
    TEST(bounds_say_what_a_range_has),
    TEST(a_scan_that_is_stopped_goes_on_from_there),
    TEST(init_fills_no_more_than_the_caller_has),
    TEST(an_older_structure_has_defaults_for_what_it_lacks),
    TEST(a_newer_structure_is_taken_unless_it_asks_for_more),
    TEST(sizes_that_no_structure_has_are_refused),
    TEST(a_report_fills_what_the_caller_has),
    TEST(null_is_refused_by_every_call),
    TEST(numbers_that_name_nothing_are_refused),
    TEST(columns_that_do_not_fit_are_refused),
    TEST(a_call_that_fails_makes_nothing),
    TEST(an_error_is_optional),
    TEST(what_a_killed_child_acknowledged_is_there),
    TEST(a_killed_transaction_leaves_nothing),
    TEST(a_forked_child_has_no_store),
    TEST(generated_operations_agree_with_a_model),
    TEST(threads_share_a_store),
};

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s TEST\n", argv[0]);
    return 2;
  }
  for (size_t i = 0; i < COUNT_OF(all_tests); ++i) {
    if (strcmp(all_tests[i].name, argv[1]) != 0) continue;
    all_tests[i].run();
    return 0;
  }
  fprintf(stderr, "no test is called %s\n", argv[1]);
  return 2;
}
