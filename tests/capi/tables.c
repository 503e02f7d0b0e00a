// Named tables: made, listed, and batches over several of them.
#include <string.h>

#include "check.h"
#include "tests.h"

enum { WIDE = 16, NARROW = 4, ROWS_BYTES = 2 * WIDE + NARROW };
static int64_t const ids[] = {7, -1, 7};
static int64_t const offsets[] = {0, 2, 3};  // two of the wide table, one of the narrow one

static perdure_table* found(perdure_store* store, char const* name, uint32_t row_bytes) {
  perdure_table* table = NULL;
  SUCCEEDS(perdure_find_table(store, name, row_bytes, &table, &said));
  CHECK(strcmp(perdure_table_name(table), name) == 0);
  return table;
}

static perdure_table_batch batch_of(perdure_table const* const* tables) {
  return (perdure_table_batch){.struct_bytes = sizeof(perdure_table_batch),
                               .tables = tables,
                               .table_count = 2,
                               .ids = ids,
                               .count = 3,
                               .offsets = offsets};
}

/// In a pool whose values have this many bytes; 0: any.
static void in_a_pool_of(char const* file, uint32_t value_bytes) {
  perdure_create_options const create = create_options(16, value_bytes);
  perdure_store* store = made(scratch(file), &create);
  perdure_table* const wide = found(store, "wide", WIDE);
  perdure_table* const narrow = found(store, "narrow", NARROW);
  perdure_table const* const both[] = {wide, narrow};
  perdure_table_batch const batch = batch_of(both);
  int32_t rows[ROWS_BYTES / 4], got[ROWS_BYTES / 4] = {0};
  for (int i = 0; i < ROWS_BYTES / 4; ++i) rows[i] = 100 + i;
  uint8_t statuses[3] = {9, 9, 9};
  SUCCEEDS(perdure_put_tables(store, &batch, rows, sizeof(rows), statuses, NULL, &said));
  CHECK(statuses[0] == PERDURE_KEY_OK && statuses[2] == PERDURE_KEY_OK);
  SUCCEEDS(perdure_update_tables(store, &batch, rows, sizeof(rows), PERDURE_RMW_ADD,
                                 PERDURE_ELEMENT_I32, NULL, NULL, &said));
  perdure_table_batch narrow_alone = batch;
  narrow_alone.tables = &both[1];
  narrow_alone.table_count = 1;
  narrow_alone.count = 1;
  narrow_alone.offsets = NULL;
  SUCCEEDS(perdure_erase_tables(store, &narrow_alone, statuses, NULL, &said));
  CHECK(statuses[0] == PERDURE_KEY_OK);
  SUCCEEDS(perdure_get_tables(store, &batch, got, sizeof(got), statuses, NULL, &said));
  CHECK(statuses[0] == PERDURE_KEY_OK && statuses[2] == PERDURE_KEY_NOT_FOUND);
  for (int i = 0; i < ROWS_BYTES / 4 - 1; ++i) CHECK(got[i] == 2 * rows[i]);
  CHECK(got[ROWS_BYTES / 4 - 1] == 0);
  perdure_table_free(wide);
  perdure_table_free(narrow);
  ended(store);
  store = opened(scratch(file));
  perdure_lines* names = NULL;
  SUCCEEDS(perdure_list_tables(store, &names, &said));
  CHECK(perdure_lines_count(names) == 2 && strcmp(perdure_lines_at(names, 1), "narrow") == 0);
  perdure_lines_free(names);
  perdure_table* const again = found(store, "narrow", 0);
  CHECK(perdure_table_number(again) == 2 && perdure_table_row_bytes(again) == NARROW);
  perdure_table_free(again);
  ended(store);
}

void tables_share_a_pool_and_a_batch(void) {
  in_a_pool_of("one size", 32);
  in_a_pool_of("any", 0);
}

void tables_that_cannot_be_are_refused(void) {
  perdure_create_options const create = create_options(16, 32);
  perdure_store* store = made(scratch("pool"), &create);
  perdure_table* const wide = found(store, "wide", WIDE);
  perdure_table* none = (perdure_table*)store;  // which a call that fails sets to NULL
  SAYS(PERDURE_NOT_FOUND, "no table 'none'", perdure_find_table(store, "none", 0, &none, &said));
  CHECK(none == NULL);
  SAYS(PERDURE_INVALID_ARGUMENT, "16 bytes, not 8",
       perdure_find_table(store, "wide", 8, &none, &said));
  perdure_table const* const twice[] = {wide, wide};
  perdure_table_batch batch = batch_of(twice);
  uint8_t rows[3 * WIDE] = {0};
  SAYS(PERDURE_INVALID_ARGUMENT, "have 48",
       perdure_put_tables(store, &batch, rows, sizeof(rows) - 1, NULL, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "rmw is",
       perdure_update_tables(store, &batch, rows, sizeof(rows), 4, 0, NULL, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "rows is NULL",
       perdure_get_tables(store, &batch, NULL, sizeof(rows), NULL, NULL, &said));
  batch.offsets = NULL;
  SAYS(PERDURE_INVALID_ARGUMENT, "rise from 0 to 3",
       perdure_erase_tables(store, &batch, NULL, NULL, &said));
  batch.ids = NULL;
  SAYS(PERDURE_INVALID_ARGUMENT, "ids is NULL",
       perdure_erase_tables(store, &batch, NULL, NULL, &said));
  perdure_table const* const hole[] = {wide, NULL};
  batch = batch_of(hole);
  SAYS(PERDURE_INVALID_ARGUMENT, "a table is NULL",
       perdure_erase_tables(store, &batch, NULL, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "batch is NULL",
       perdure_erase_tables(store, NULL, NULL, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "name is NULL", perdure_find_table(store, NULL, 0, &none, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "table is NULL",
       perdure_find_table(store, "wide", 0, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "names is NULL", perdure_list_tables(store, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "store is NULL", perdure_list_tables(NULL, NULL, &said));
  CHECK(perdure_table_name(NULL)[0] == 0 && perdure_table_number(NULL) == 0);
  CHECK(perdure_table_row_bytes(NULL) == 0);
  perdure_table_free(NULL);
  perdure_table_free(wide);
  ended(store);
}
