// The tests of the C interface. CMakeLists.txt makes a ctest of each line that begins with `void`.
#pragma once

void a_pool_is_made_closed_and_opened_again(void);
void a_snapshot_becomes_a_pool(void);
void a_pool_of_durability_power_comes_back_from_its_log(void);
void a_store_that_is_destroyed_was_closed(void);
void a_closed_store_refuses_every_call(void);
void reports_say_what_a_store_is_and_found(void);
void faults_are_lines_and_a_repair_is_acknowledged(void);
void devices_are_described(void);
void codes_and_versions_have_names(void);

void a_batch_is_put_got_updated_and_erased(void);
void values_have_any_length(void);
void a_mixed_batch_takes_effect_in_order(void);
void an_atomic_batch_fails_whole(void);
void a_full_pool_tells_key_by_key(void);
void a_stopped_batch_tells_what_was_tried(void);

void a_transaction_that_commits_stays(void);
void a_transaction_that_aborts_leaves_nothing(void);
void a_transaction_that_is_destroyed_aborts(void);
void a_commit_is_taken_back_after_reopening(void);
void a_transaction_outlives_its_store(void);

void tables_share_a_pool_and_a_batch(void);
void tables_that_cannot_be_are_refused(void);

void a_scan_sees_every_record_once(void);
void a_range_goes_both_ways_in_order(void);
void bounds_say_what_a_range_has(void);
void a_scan_that_is_stopped_goes_on_from_there(void);

void init_fills_no_more_than_the_caller_has(void);
void an_older_structure_has_defaults_for_what_it_lacks(void);
void a_newer_structure_is_taken_unless_it_asks_for_more(void);
void sizes_that_no_structure_has_are_refused(void);
void a_report_fills_what_the_caller_has(void);

void null_is_refused_by_every_call(void);
void numbers_that_name_nothing_are_refused(void);
void columns_that_do_not_fit_are_refused(void);
void a_call_that_fails_makes_nothing(void);
void an_error_is_optional(void);

void what_a_killed_child_acknowledged_is_there(void);
void a_killed_transaction_leaves_nothing(void);
void a_forked_child_has_no_store(void);

void generated_operations_agree_with_a_model(void);
void threads_share_a_store(void);
