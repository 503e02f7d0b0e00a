// Mutants: small faults that the explorer (src/explore) plants to show that it would find them.
// Each is one line of production code that reads `if (mutated("name")) ...`. Invariant: this file
// is part of builds with PERDURE_EXPLORE alone; in every other build mutated() is constantly false
// (base/hooks.hpp), so no binary that users run holds a mutant.
#pragma once

#include <cstdint>
#include <string_view>

namespace perdure {

inline constexpr char const* kMutantNames[] = {
    "none",
    // Ordering points.
    "no_order_after_plan",
    "no_order_after_publish",
    "no_order_before_root",
    "no_order_between_roots",
    "order_before_fingerprint_skipped",
    "order_after_insert_state_skipped",
    // Publication.
    "word_published_with_record",
    "fingerprint_before_key",
    "record_overwritten_in_place",
    "record_without_checksum",
    // Slots and claims.
    "claims_ignored",
    "claims_never_let_go",
    "conflict_ignored",
    "insert_by_store",
    "insert_without_reservation",
    "erase_forgets_slot",
    "key_not_compared",
    "group_split_over_warps",
    // Displacement.
    "displaced_copy_skipped",
    "displaced_slot_cleared_early",
    "displaced_slot_unclaimed",
    // Resize.
    "level_not_zeroed",
    "retiring_flag_missing",
    "resize_finished_early",
    "rehash_empties_as_it_goes",
    "rehash_skips_last_slot",
    "rehash_ignores_full",
    // Growth, unit by unit.
    "unmoved_key_in_new_levels",
    "unit_emptied_before_order",
    "moved_unit_not_emptied",
    "unit_not_noted",
    "rehash_keeps_claims",
    "wider_level_without_entries",
    "stuck_unit_keeps_copies",
    // Scans page by page.
    "scan_ignores_moved_units",
    "scan_ignores_displacement",
    // Root.
    "root_in_one_copy",
    "root_in_same_place",
    "root_checksum_ignored",
    "root_checksum_without_entries",
    // Recovery and heap.
    "recovery_skips_resize",
    "recovery_skips_last_level",
    "recovery_keeps_half_inserts",
    "recovery_keeps_duplicates",
    "recovery_clears_both_duplicates",
    "recovery_forgets_superblocks",
    "superblock_header_missing",
    "record_handed_out_twice",
    "clean_flag_stays",
    // Bucket cache.
    "bucket_copy_keeps_place",
    "bucket_copy_keeps_state",
    "bucket_copy_emptied_by_store",
    "evicted_bucket_not_invalidated",
    // Transactions.
    "undo_entry_skipped",
    "undo_check_ignored",
    "undo_oldest_first",
    "no_order_after_undo",
    "no_order_after_epoch",
    "epoch_ends_before_publish",
    "epoch_survives_undo",
    "recovery_skips_undo",
    "unlinked_released_before_commit",
    "undo_entries_outlive_growth",
    "abort_keeps_entries",
    "abort_releases_replaced",
    "abort_releases_nothing",
    "abort_keeps_count",
    // Steps of dense buffers.
    "step_word_not_logged",
    "step_word_not_undone",
    "no_order_before_step_word",
    "no_order_after_step_word",
    "dense_written_after_step_word",
    "dense_overwrites_what_counts",
    "step_word_keeps_copy",
    "dense_room_named_before_header",
    // Mirror and record map.
    "mirror_not_stored",
    "mirror_not_refreshed",
    "mirror_not_refreshed_after_undo",
    "identity_outlives_record",
    "kept_record_handed_out_twice",
    "lane_per_key_keeps_first_writer",
    "long_run_keeps_first_writer",
    "lane_per_key_publishes_with_record",
    "lane_per_key_overwrites_record",
    "rehash_forgets_left",
    // Device sessions.
    "device_lock_ignored",
    "device_claim_not_checked",
    "device_claim_let_go_early",
    "device_no_order_before_session",
    "device_no_order_before_word",
    "device_no_order_after_word",
    "device_mirror_before_order",
    // libGPM's logs and checkpoints.
    "gpm_entry_not_ordered",
    "gpm_check_without_words",
    "gpm_check_without_transaction",
    "gpm_size_not_ordered",
    "gpm_size_known_before_order",
    "gpm_removal_not_ordered",
    "gpm_removal_keeps_check",
    "gpm_part_not_ordered",
    "gpm_part_not_named",
    "gpm_overflow_forgets_check",
    "gpm_torn_entry_kept",
    "gpm_torn_entries_at_once",
    "gpm_residue_kept",
    "gpm_lock_ignored",
    "gpm_unlocked_before_order",
    "gpm_clear_not_ordered",
    "gpm_clear_keeps_tails",
    "gpm_copy_not_ordered",
    "gpm_header_not_ordered",
    "gpm_header_check_ignored",
    "gpm_header_check_without_sizes",
    "gpm_torn_header_kept",
    "gpm_older_header_wins",
    "gpm_same_copy",
    "gpm_same_header",
    // Of libGPM's paths: planted by tests/gpm, where crashes keep what was flushed or synced alone.
    "gpm_commit_not_flushed",
    "gpm_commit_not_ordered",
    "gpm_copy_not_flushed",
    "gpm_file_not_synced",
    "gpm_header_not_flushed",
    "gpm_clear_not_synced",
    // Dash.
    "dash_lock_ignored",
    "dash_next_not_locked",
    "dash_search_not_checked",
    "dash_slot_not_ordered",
    "dash_key_before_value",
    "dash_slot_not_freed",
    "dash_room_not_freed",
    "dash_update_not_ordered",
    "dash_removal_not_ordered",
    "lock_beside_readers",
    "dash_displaced_before_copy",
    "dash_stash_not_told",
    "dash_recovery_keeps_duplicates",
    "dash_recovery_frees_nothing",
    "dash_recovery_skipped",
    "dash_recovery_keeps_leftovers",
    "dash_segment_not_checked",
    "dash_split_before_copy",
    "dash_split_not_ordered",
    "dash_split_keeps_moved",
    "dash_directory_not_ordered",
    "dash_merge_before_copy",
    "dash_merge_keeps_leftovers",
    "dash_merge_directory_last",
    "dash_link_before_bucket",
    "dash_chain_end_missed",
    "dash_halving_trusts_entries",
    "dash_halving_not_flushed",
    "dash_halving_beside_split",
    "dash_split_twice",
    "dash_locks_out_of_order",
    "dash_merge_locks_out_of_order",
    "dash_write_not_touched",
    "dash_split_not_touched",
    "dash_touched_kept",
    // Dash: sweeps beside operations, and the epochs.
    "owners_forgotten",
    "dash_sweep_without_wait",
    "sweep_frees_new_records",
    "sweep_forgets_released",
    "unswept_handed_out",
    "epochs_free_at_once",
    "epochs_free_one_early",
    "epochs_wait_once",
    "epochs_wait_for_older",
    // Values by logs.
    "log_generation_again",
    "log_records_not_ordered",
    "log_published_before_order",
    "log_segment_reused_at_once",
    "log_tombstones_dropped_at_once",
    // The B+-tree.
    "btree_permutation_before_entry",
    "btree_erase_not_raised",
    "btree_split_not_raised",
    "btree_merge_not_raised",
    "btree_merged_freed_at_once",
    "btree_lock_ignored",
    "btree_root_not_checked",
    "btree_parent_not_checked",
    "btree_leaf_not_checked",
    "btree_scan_not_checked",
    "btree_scan_goes_on",
    // The G-WAL.
    "gwal_record_without_checksum",
    "gwal_last_chunk_not_summed",
    "gwal_not_ordered",
    "gwal_header_not_ordered",
    "gwal_stale_record",
    "gwal_number_again",
    "gwal_stale_intent",
    "gwal_naive_intent",
    "gwal_intent_not_ordered",
    "gwal_intents_at_once",
    "gwal_intent_not_mended",
    "gwal_retired_before_ingest",
    "gwal_replay_twice",
    "gwal_power_sync_not_implied",
    "gwal_power_intent_not_written",
    "gwal_power_retire_not_written",
    "gwal_power_retired_before_ingest",
    "gwal_power_ring_reused",
    "gwal_power_replay_twice",
    "gwal_power_note_not_kept",
    // Of durability power and its disk: planted by tests/log, over a disk that forgets what was not
    // synced.
    "gwal_power_acknowledged_early",
    "disk_not_synced",
    "disk_sync_error_dropped",
    "plain_write_not_synced",
    "plain_sync_error_dropped",
    "ring_write_without_dsync",
    "short_write_taken_for_whole",
    "file_name_not_synced",
    "log_dir_not_synced",
    "opened_log_not_synced",
    "opened_names_not_synced",
    "log_write_not_durable",
    "log_write_error_dropped",
    "log_durable_when_begun",
    "log_failure_wakes_nobody",
    "log_truncated_to_newest",
    "torn_group_replayed",
    "epoch_not_begun",
    "log_next_epoch_ignored",
    "log_damaged_epoch_begun",
    "log_behind_not_known",
    "log_behind_too_little",
    "loss_noted_late",
    "change_not_begun",
    "change_word_comes_back",
    "checkpoint_without_its_log",
    "image_not_synced",
    "image_overwrites_what_counts",
    "snapshot_name_not_synced",
    "snapshot_without_its_log",
    "batch_acknowledged_early",
    "transaction_acknowledged_early",
    "reads_do_not_wait",
    // Not to be told from the original: see explore/mutant_runs.cpp.
    "order_after_fingerprint_skipped",
    "order_after_erase_skipped",
    "order_after_second_root_skipped",
    "older_root_wins",
};

/// One of them. Code that names one which is not in the list does not compile.
class Mutant {
 public:
  consteval Mutant(char const* name) : number_(number_of(name)) {}

  [[nodiscard]] constexpr char const* name() const { return kMutantNames[number_]; }
  friend constexpr bool operator==(Mutant, Mutant) = default;

 private:
  static consteval std::uint16_t number_of(std::string_view name) {
    std::uint16_t at = 0;
    while (kMutantNames[at] != name) ++at;
    return at;
  }

  std::uint16_t number_;
};

inline Mutant planted = "none";
inline bool mutated(Mutant m) { return planted == m; }

}  // namespace perdure
