// What operations of the fuzz do: each with one side, by numbers drawn from the operation's seed.
#pragma once

#include <span>

#include "rocks/fuzz/side.hpp"
#include "rocks/support/draws.hpp"
#include "rocks/support/transcript.hpp"

namespace perdure::test {

struct Action {
  char const* name;
  unsigned weight;  // of 10,000 or so
  void (*act)(Side&, Draws&, Transcript&);  // nullptr: a reopening, which takes both sides
};

/// All of them.
std::span<Action const> actions();

void put(Side& side, Draws& draws, Transcript& said);
void put_entity(Side& side, Draws& draws, Transcript& said);
void erase(Side& side, Draws& draws, Transcript& said);
void single_delete(Side& side, Draws& draws, Transcript& said);
void merge(Side& side, Draws& draws, Transcript& said);
void delete_range(Side& side, Draws& draws, Transcript& said);
void write_batch(Side& side, Draws& draws, Transcript& said);
void write_large_batch(Side& side, Draws& draws, Transcript& said);
void write_to_no_family(Side& side, Draws& draws, Transcript& said);
void merge_without_operator(Side& side, Draws& draws, Transcript& said);

void get(Side& side, Draws& draws, Transcript& said);
void get_entity(Side& side, Draws& draws, Transcript& said);
void multi_get_strings(Side& side, Draws& draws, Transcript& said);
void multi_get_family(Side& side, Draws& draws, Transcript& said);
void multi_get_families(Side& side, Draws& draws, Transcript& said);
void key_may_exist(Side& side, Draws& draws, Transcript& said);
void batch_with_index(Side& side, Draws& draws, Transcript& said);
void take_snapshot(Side& side, Draws& draws, Transcript& said);
void release_snapshot(Side& side, Draws& draws, Transcript& said);

void scan(Side& side, Draws& draws, Transcript& said);
void scan_families(Side& side, Draws& draws, Transcript& said);
void open_iterator(Side& side, Draws& draws, Transcript& said);
void use_iterator(Side& side, Draws& draws, Transcript& said);
void close_iterator(Side& side, Draws& draws, Transcript& said);

void array_put(Side& side, Draws& draws, Transcript& said);
void array_merge(Side& side, Draws& draws, Transcript& said);
void array_erase(Side& side, Draws& draws, Transcript& said);
void array_get(Side& side, Draws& draws, Transcript& said);
void array_range(Side& side, Draws& draws, Transcript& said);
void array_apply(Side& side, Draws& draws, Transcript& said);

void flush(Side& side, Draws& draws, Transcript& said);
void compact(Side& side, Draws& draws, Transcript& said);
void create_family(Side& side, Draws& draws, Transcript& said);
void drop_family(Side& side, Draws& draws, Transcript& said);
void set_options(Side& side, Draws& draws, Transcript& said);
void ingest(Side& side, Draws& draws, Transcript& said);
void checkpoint(Side& side, Draws& draws, Transcript& said);
void dump_all(Side& side, Draws& draws, Transcript& said);

/// None, or one of those that the side has.
rocksdb::Snapshot const* draw_snapshot(Side const& side, Draws& draws);

}  // namespace perdure::test
