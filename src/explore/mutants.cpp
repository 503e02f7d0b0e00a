#include "explore/mutants.hpp"

namespace perdure::explore {
namespace {

constexpr MutantInfo kMutants[] = {
    {Mutant::no_order_after_plan, "no_order_after_plan", "both", "phase two begins before the records are ordered"},
    {Mutant::no_order_after_publish, "no_order_after_publish", "both",
     "a batch is acknowledged before its words are ordered"},
    {Mutant::no_order_before_root, "no_order_before_root", "both",
     "the root names a level whose zeros may not be there"},
    {Mutant::no_order_between_roots, "no_order_between_roots", "both",
     "both copies of the root may be torn by one crash"},
    {Mutant::order_before_fingerprint_skipped, "order_before_fingerprint_skipped", "in_place",
     "a fingerprint may be there before its key and place"},
    {Mutant::order_after_insert_state_skipped, "order_after_insert_state_skipped", "in_place",
     "a key may be there while the slot still says whose it was before"},
    {Mutant::word_published_with_record, "word_published_with_record", "both",
     "phase one stores the slot word with the record"},
    {Mutant::fingerprint_before_key, "fingerprint_before_key", "in_place",
     "the state goes from EMPTY to the fingerprint, then the key is written"},
    {Mutant::record_overwritten_in_place, "record_overwritten_in_place", "both",
     "a replacement is written over the record it replaces"},
    {Mutant::record_without_checksum, "record_without_checksum", "both",
     "records carry the checksum of their header alone"},
    {Mutant::claims_ignored, "claims_ignored", "word", "every claim of a slot succeeds"},
    {Mutant::claims_never_let_go, "claims_never_let_go", "word", "phase two leaves the claim bits set"},
    {Mutant::conflict_ignored, "conflict_ignored", "word", "a replacement goes ahead though its slot is claimed"},
    {Mutant::insert_by_store, "insert_by_store", "in_place",
     "EMPTY becomes INSERT by a store instead of a compare-and-swap"},
    {Mutant::insert_without_reservation, "insert_without_reservation", "in_place",
     "no INSERT state: key and place are written into an empty slot"},
    {Mutant::erase_forgets_slot, "erase_forgets_slot", "both", "an erased key keeps its slot"},
    {Mutant::key_not_compared, "key_not_compared", "word", "a fingerprint that matches is taken for the key"},
    {Mutant::group_split_over_warps, "group_split_over_warps", "both", "each operation on a key is settled by itself"},
    {Mutant::displaced_copy_skipped, "displaced_copy_skipped", "word", "a displaced word is not copied"},
    {Mutant::displaced_slot_cleared_early, "displaced_slot_cleared_early", "word",
     "the displaced slot is emptied before the copy is ordered"},
    {Mutant::displaced_slot_unclaimed, "displaced_slot_unclaimed", "word",
     "others may claim a slot that a displacement will overwrite"},
    {Mutant::level_not_zeroed, "level_not_zeroed", "both", "a new level holds what its superblock held before"},
    {Mutant::retiring_flag_missing, "retiring_flag_missing", "both",
     "the root does not say that a level is being emptied"},
    {Mutant::resize_finished_early, "resize_finished_early", "both",
     "the root drops the retiring level before it is copied"},
    {Mutant::rehash_empties_as_it_goes, "rehash_empties_as_it_goes", "word",
     "the retiring level is emptied while it is copied"},
    {Mutant::rehash_skips_last_slot, "rehash_skips_last_slot", "both", "one slot of the retiring level is not copied"},
    {Mutant::rehash_ignores_full, "rehash_ignores_full", "both",
     "an entry that finds no room in the new levels is dropped"},
    {Mutant::root_in_one_copy, "root_in_one_copy", "both", "the root is written into one copy only"},
    {Mutant::root_in_same_place, "root_in_same_place", "both", "the root is always written over copy A"},
    {Mutant::root_checksum_ignored, "root_checksum_ignored", "both", "a torn root counts"},
    {Mutant::recovery_skips_resize, "recovery_skips_resize", "both", "an interrupted resize is not resumed"},
    {Mutant::recovery_skips_last_level, "recovery_skips_last_level", "both",
     "recovery marks no records of the lowest level"},
    {Mutant::recovery_keeps_half_inserts, "recovery_keeps_half_inserts", "in_place",
     "states INSERT stay after recovery"},
    {Mutant::recovery_keeps_duplicates, "recovery_keeps_duplicates", "word", "both copies of a displaced word stay"},
    {Mutant::recovery_clears_both_duplicates, "recovery_clears_both_duplicates", "word",
     "recovery clears the valid copy too"},
    {Mutant::recovery_forgets_superblocks, "recovery_forgets_superblocks", "both",
     "heap superblocks count as free after recovery"},
    {Mutant::superblock_header_missing, "superblock_header_missing", "both", "a heap superblock gets no header"},
    {Mutant::record_handed_out_twice, "record_handed_out_twice", "both",
     "the heap does not note which records it hands out"},
    {Mutant::clean_flag_stays, "clean_flag_stays", "both", "an open pool still says that it was closed in order"},
    {Mutant::order_after_fingerprint_skipped, "order_after_fingerprint_skipped", "in_place",
     "no ordering point at the end of an insert", "the batch's own ordering point follows"},
    {Mutant::order_after_erase_skipped, "order_after_erase_skipped", "in_place",
     "no ordering point at the end of an erasure", "the batch's own ordering point follows"},
    {Mutant::order_after_second_root_skipped, "order_after_second_root_skipped", "both",
     "no ordering point after the second copy of the root", "the first copy is there already, and counts"},
    {Mutant::older_root_wins, "older_root_wins", "both", "of two valid roots the older one counts",
     "they say the same but while the second is written, when nothing has followed from the first yet"},
};

}  // namespace

std::span<MutantInfo const> mutants() { return kMutants; }

MutantInfo const* find_mutant(std::string_view name) {
  for (MutantInfo const& m : kMutants)
    if (m.name == name) return &m;
  return nullptr;
}

}  // namespace perdure::explore
