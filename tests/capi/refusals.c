// Arguments that are none: each is answered by name, and nothing happens.
#include <string.h>

#include "check.h"
#include "tests.h"

static uint64_t const keys[] = {1, 2};

static perdure_store* small_store(void) {
  perdure_create_options const create = create_options(8, 8);
  return made(scratch("pool"), &create);
}

static void null_of_stores(void) {
  perdure_store* store = NULL;
  SAYS(PERDURE_INVALID_ARGUMENT, "path", perdure_create(NULL, NULL, NULL, &store, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "store", perdure_create(scratch("p"), NULL, NULL, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "path", perdure_open(NULL, NULL, &store, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "store", perdure_open(scratch("p"), NULL, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "snapshot", perdure_restore(NULL, "p", NULL, NULL, &store, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "path", perdure_restore("s", NULL, NULL, NULL, &store, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "store", perdure_restore("s", "p", NULL, NULL, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "store", perdure_close(NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "store", perdure_snapshot(NULL, "p", NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "store", perdure_acknowledge_repair(NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "stop", perdure_stop_create(NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "devices", perdure_find_devices(NULL, &said));
  perdure_stop_set(NULL, 1);
  CHECK(strcmp(perdure_path(NULL), "") == 0 && perdure_key_bytes(NULL) == 0);
  CHECK(perdure_value_bytes(NULL) == 0 && perdure_index_kind(NULL) == 0);
  CHECK(perdure_create_options_init(NULL, 8) == PERDURE_INVALID_ARGUMENT);
  CHECK(perdure_open_options_init(NULL, 8) == PERDURE_INVALID_ARGUMENT);
  CHECK(perdure_restore_options_init(NULL, 8) == PERDURE_INVALID_ARGUMENT);
  CHECK(perdure_file_options_init(NULL, 8) == PERDURE_INVALID_ARGUMENT);
  CHECK(perdure_call_options_init(NULL, 8) == PERDURE_INVALID_ARGUMENT);
  CHECK(perdure_transaction_options_init(NULL, 8) == PERDURE_INVALID_ARGUMENT);
}

static void null_of_batches(perdure_store* store) {
  perdure_column const k = integers(keys, 2);
  perdure_strings* found = NULL;
  SAYS(PERDURE_INVALID_ARGUMENT, "store", perdure_get(NULL, &k, NULL, NULL, NULL, &said));
  uint64_t room[2];
  perdure_mutable_column const into = room_for(room, 2);
  SAYS(PERDURE_INVALID_ARGUMENT, "keys", perdure_get(store, NULL, &into, NULL, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "values", perdure_get(store, &k, NULL, NULL, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "store",
       perdure_get_variable(NULL, &k, NULL, NULL, &found, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "keys",
       perdure_get_variable(store, NULL, NULL, NULL, &found, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "values",
       perdure_get_variable(store, &k, NULL, NULL, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "store", perdure_put(NULL, &k, &k, NULL, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "keys", perdure_put(store, NULL, &k, NULL, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "values", perdure_put(store, &k, NULL, NULL, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "store", perdure_update(NULL, &k, &k, 0, 0, NULL, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "keys", perdure_update(store, NULL, &k, 0, 0, NULL, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "operands",
       perdure_update(store, &k, NULL, 0, 0, NULL, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "store", perdure_erase(NULL, &k, NULL, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "keys", perdure_erase(store, NULL, NULL, NULL, &said));
  perdure_mixed_batch batch = {.struct_bytes = sizeof(batch), .keys = k};
  SAYS(PERDURE_INVALID_ARGUMENT, "store", perdure_apply(NULL, &batch, NULL, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "batch", perdure_apply(store, NULL, NULL, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "kinds", perdure_apply(store, &batch, NULL, NULL, &said));
}

static void null_of_transactions(perdure_store* store) {
  perdure_transaction* transaction = NULL;
  SAYS(PERDURE_INVALID_ARGUMENT, "store", perdure_begin(NULL, NULL, &transaction, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "transaction", perdure_begin(store, NULL, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "transaction", perdure_commit(NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "transaction", perdure_abort(NULL, &said));
  uint32_t can = 0;
  SAYS(PERDURE_INVALID_ARGUMENT, "store", perdure_revert(NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "store", perdure_can_revert(NULL, &can, &said));
}

static void null_of_scans(perdure_store* store) {
  perdure_cursor* cursor = NULL;
  perdure_page* page = NULL;
  uint64_t count = 0;
  SAYS(PERDURE_INVALID_ARGUMENT, "cursor", perdure_scan(NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "cursor", perdure_range(NULL, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "cursor", perdure_next_page(store, NULL, 1, NULL, &page, &said));
  SUCCEEDS(perdure_scan(&cursor, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "store", perdure_next_page(NULL, cursor, 1, NULL, &page, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "page", perdure_next_page(store, cursor, 1, NULL, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "limit", perdure_next_page(store, cursor, 0, NULL, &page, &said));
  CHECK(perdure_cursor_done(NULL) == 1 && perdure_cursor_done(cursor) == 0);
  perdure_cursor_free(cursor);
  SAYS(PERDURE_INVALID_ARGUMENT, "store", perdure_count_range(NULL, NULL, &count, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "count", perdure_count_range(store, NULL, NULL, &said));
  perdure_range_query query = {.struct_bytes = sizeof(query), .start_bytes = 8};
  SAYS(PERDURE_INVALID_ARGUMENT, "start", perdure_range(&query, &cursor, &said));
  CHECK(perdure_page_keys(NULL) == NULL && perdure_page_values(NULL) == NULL);
  CHECK(perdure_strings_count(NULL) == 0 && perdure_strings_offsets(NULL)[0] == 0);
  CHECK(perdure_strings_data(NULL) != NULL);
}

static void null_of_reports(perdure_store* store) {
  perdure_stats stats = {.struct_bytes = sizeof(stats)};
  perdure_survival survival = {.struct_bytes = sizeof(survival)};
  perdure_recovery recovery = {.struct_bytes = sizeof(recovery)};
  perdure_verification found = {.struct_bytes = sizeof(found)};
  SAYS(PERDURE_INVALID_ARGUMENT, "store", perdure_get_stats(NULL, &stats, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "stats", perdure_get_stats(store, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "store", perdure_survives(NULL, &survival, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "survival", perdure_survives(store, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "store", perdure_get_recovery(NULL, &recovery, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "recovery", perdure_get_recovery(store, NULL, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "store", perdure_verify(NULL, NULL, &found, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "verification", perdure_verify(store, NULL, NULL, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "path", perdure_snapshot(store, NULL, NULL, &said));
  CHECK(perdure_lines_count(NULL) == 0 && strcmp(perdure_lines_at(NULL, 0), "") == 0);
  CHECK(perdure_devices_count(NULL) == 0 && perdure_devices_available(NULL, 0) == 0);
  CHECK(perdure_devices_kind(NULL, 0) == 0);
  CHECK(strcmp(perdure_devices_description(NULL, 0), "") == 0);
  CHECK(strcmp(perdure_error_message(NULL), "") == 0);
}

static void null_is_freed(void) {
  perdure_destroy(NULL);
  perdure_transaction_destroy(NULL);
  perdure_stop_destroy(NULL);
  perdure_strings_free(NULL);
  perdure_cursor_free(NULL);
  perdure_page_free(NULL);
  perdure_lines_free(NULL);
  perdure_devices_free(NULL);
  perdure_error_free(NULL);
}

void null_is_refused_by_every_call(void) {
  null_of_stores();
  perdure_store* store = small_store();
  null_of_batches(store);
  null_of_transactions(store);
  null_of_scans(store);
  null_of_reports(store);
  null_is_freed();
  perdure_stats stats = {.struct_bytes = sizeof(stats)};
  SUCCEEDS(perdure_get_stats(store, &stats, &said));
  CHECK(stats.records == 0 && stats.batches == 0);
  ended(store);
}

/// A field that has one number too many for its enumeration, or for a flag.
static void refused_create(uint32_t* field, perdure_create_options const* options, uint32_t first,
                           char const* name) {
  uint32_t const before = *field;
  uint32_t const none[] = {first, 255, 256, UINT32_MAX};
  for (size_t i = 0; i < COUNT_OF(none); ++i) {
    perdure_store* store = NULL;
    *field = none[i];
    SAYS(PERDURE_INVALID_ARGUMENT, name,
         perdure_create(scratch("refused"), options, NULL, &store, &said));
  }
  *field = before;
}

static void refused_open(uint32_t* field, perdure_open_options const* options, uint32_t first,
                         char const* name) {
  uint32_t const before = *field;
  uint32_t const none[] = {first, 255, 256, UINT32_MAX};
  for (size_t i = 0; i < COUNT_OF(none); ++i) {
    perdure_store* store = NULL;
    *field = none[i];
    SAYS(PERDURE_INVALID_ARGUMENT, name, perdure_open(scratch("refused"), options, &store, &said));
  }
  *field = before;
}

static void numbers_of_options(void) {
  perdure_create_options create = create_options(8, 8);
  refused_create(&create.index, &create, 4, "index is");
  refused_create(&create.key_order, &create, 3, "key_order is");
  refused_create(&create.values_in, &create, 2, "values_in is");
  refused_create(&create.persist, &create, 3, "persist is");
  refused_create(&create.layout, &create, 3, "layout is");
  refused_create(&create.durability, &create, 3, "durability is");
  refused_create(&create.overwrite, &create, 2, "overwrite is");
  refused_create(&create.force, &create, 2, "force is");
  perdure_open_options open;
  CHECK(perdure_open_options_init(&open, sizeof(open)) == PERDURE_OK);
  refused_open(&open.read_only, &open, 2, "read_only is");
  refused_open(&open.live, &open, 2, "live is");
  refused_open(&open.repair, &open, 2, "repair is");
  refused_open(&open.device, &open, 2, "device is");
  refused_open(&open.verify_reads, &open, 2, "verify_reads is");
  refused_open(&open.count_accesses, &open, 2, "count_accesses is");
  refused_open(&open.lock_memory, &open, 2, "lock_memory is");
  refused_open(&open.grow, &open, 2, "grow is");
  refused_open(&open.residency, &open, 3, "residency is");
  refused_open(&open.gets_by, &open, 5, "gets_by is");
  perdure_range_query query = {.struct_bytes = sizeof(query), .reverse = 2};
  perdure_cursor* cursor = NULL;
  SAYS(PERDURE_INVALID_ARGUMENT, "reverse is", perdure_range(&query, &cursor, &said));
  query.reverse = 0;
  query.after_start = 7;
  SAYS(PERDURE_INVALID_ARGUMENT, "after_start is", perdure_range(&query, &cursor, &said));
}

void numbers_that_name_nothing_are_refused(void) {
  numbers_of_options();
  perdure_store* store = small_store();
  perdure_column k = integers(keys, 2);
  uint32_t const none[] = {7, 255, 256, UINT32_MAX};
  for (size_t i = 0; i < COUNT_OF(none); ++i) {
    SAYS(PERDURE_INVALID_ARGUMENT, "rmw is",
         perdure_update(store, &k, &k, none[i], 0, NULL, NULL, &said));
    SAYS(PERDURE_INVALID_ARGUMENT, "element is",
         perdure_update(store, &k, &k, 0, none[i], NULL, NULL, &said));
    perdure_column elsewhere = k;
    elsewhere.space = none[i];
    SAYS(PERDURE_INVALID_ARGUMENT, "keys: space",
         perdure_put(store, &elsewhere, &k, NULL, NULL, &said));
    SAYS(PERDURE_INVALID_ARGUMENT, "values: space",
         perdure_put(store, &k, &elsewhere, NULL, NULL, &said));
    uint64_t found[2];
    perdure_mutable_column into = room_for(found, 2);
    into.space = none[i];
    SAYS(PERDURE_INVALID_ARGUMENT, "values: space",
         perdure_get(store, &k, &into, NULL, NULL, &said));
    perdure_call_options call;
    CHECK(perdure_call_options_init(&call, sizeof(call)) == PERDURE_OK);
    call.atomic = none[i];
    SAYS(PERDURE_INVALID_ARGUMENT, "atomic is", perdure_put(store, &k, &k, NULL, &call, &said));
    uint8_t const kinds[] = {PERDURE_OPERATION_PUT, 4};
    perdure_mixed_batch batch = {.struct_bytes = sizeof(batch), .keys = k, .values = k};
    batch.kinds = kinds;
    SAYS(PERDURE_INVALID_ARGUMENT, "kinds holds 4",
         perdure_apply(store, &batch, NULL, NULL, &said));
    batch.rmw = none[i];
    SAYS(PERDURE_INVALID_ARGUMENT, "rmw is", perdure_apply(store, &batch, NULL, NULL, &said));
  }
  perdure_stats stats = {.struct_bytes = sizeof(stats)};
  SUCCEEDS(perdure_get_stats(store, &stats, &said));
  CHECK(stats.records == 0);
  ended(store);
}

void columns_that_do_not_fit_are_refused(void) {
  perdure_store* store = small_store();
  perdure_column const k = integers(keys, 2), one = integers(keys, 1), none = integers(NULL, 2);
  SAYS(PERDURE_INVALID_ARGUMENT, "1 values for 2 keys",
       perdure_put(store, &k, &one, NULL, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "keys is null", perdure_put(store, &none, &k, NULL, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "values is null",
       perdure_put(store, &k, &none, NULL, NULL, &said));
  perdure_column narrow = k;
  narrow.width = 4;
  SAYS(PERDURE_INVALID_ARGUMENT, "keys are 4 bytes wide",
       perdure_put(store, &narrow, &k, NULL, NULL, &said));
  narrow.width = 0;
  SAYS(PERDURE_INVALID_ARGUMENT, "keys", perdure_put(store, &narrow, &k, NULL, NULL, &said));
  perdure_column elsewhere = k;
  elsewhere.space = PERDURE_MEMORY_DEVICE;
  SAYS(PERDURE_INVALID_ARGUMENT, "device", perdure_put(store, &elsewhere, &k, NULL, NULL, &said));
  perdure_column endless = k;
  endless.count = SIZE_MAX / 8;
  SAYS(PERDURE_INVALID_ARGUMENT, "split it", perdure_erase(store, &endless, NULL, NULL, &said));
  uint64_t found[2];
  perdure_mutable_column const small = room_for(found, 1);
  SAYS(PERDURE_INVALID_ARGUMENT, "output", perdure_get(store, &k, &small, NULL, NULL, &said));
  ended(store);

  perdure_create_options create = create_options(0, 0);
  create.overwrite = 1;
  store = made(scratch("pool"), &create);
  int64_t const backwards[] = {0, 3, 1}, before[] = {-1, 0, 1}, good[] = {0, 1, 2};
  perdure_column const words = strings("abc", good, 2), wrong = strings("abc", backwards, 2);
  perdure_column const early = strings("abc", before, 2);
  SAYS(PERDURE_INVALID_ARGUMENT, "decrease", perdure_put(store, &wrong, &words, NULL, NULL, &said));
  SAYS(PERDURE_INVALID_ARGUMENT, "before the data",
       perdure_put(store, &words, &early, NULL, NULL, &said));
  ended(store);
}

void a_call_that_fails_makes_nothing(void) {
  perdure_store* const rubbish = (perdure_store*)(void*)&said;
  perdure_store* store = rubbish;
  ANSWERS(PERDURE_NOT_FOUND, perdure_open(scratch("missing"), NULL, &store, &said));
  CHECK(store == NULL);
  perdure_transaction* transaction = (perdure_transaction*)(void*)rubbish;
  ANSWERS(PERDURE_INVALID_ARGUMENT, perdure_begin(NULL, NULL, &transaction, &said));
  CHECK(transaction == NULL);
  perdure_strings* found = (perdure_strings*)(void*)rubbish;
  ANSWERS(PERDURE_INVALID_ARGUMENT, perdure_get_variable(NULL, NULL, NULL, NULL, &found, &said));
  CHECK(found == NULL);
  perdure_page* page = (perdure_page*)(void*)rubbish;
  ANSWERS(PERDURE_INVALID_ARGUMENT, perdure_next_page(NULL, NULL, 1, NULL, &page, &said));
  CHECK(page == NULL);
  perdure_lines* lines = (perdure_lines*)(void*)rubbish;
  ANSWERS(PERDURE_INVALID_ARGUMENT, perdure_get_recovery(NULL, NULL, &lines, &said));
  CHECK(lines == NULL);
  lines = (perdure_lines*)(void*)rubbish;
  ANSWERS(PERDURE_INVALID_ARGUMENT, perdure_verify(NULL, NULL, NULL, &lines, &said));
  CHECK(lines == NULL);
  perdure_range_query const query = {.struct_bytes = 3};
  perdure_cursor* cursor = (perdure_cursor*)(void*)rubbish;
  ANSWERS(PERDURE_INVALID_ARGUMENT, perdure_range(&query, &cursor, &said));
  CHECK(cursor == NULL);
}

void an_error_is_optional(void) {
  perdure_store* store = NULL;
  CHECK(perdure_open(scratch("missing"), NULL, &store, NULL) == PERDURE_NOT_FOUND);
  perdure_error* error = NULL;
  CHECK(perdure_open(scratch("missing"), NULL, &store, &error) == PERDURE_NOT_FOUND);
  CHECK(strstr(perdure_error_message(error), "missing") != NULL);
  perdure_error_free(error);
  store = small_store();
  perdure_stats stats = {.struct_bytes = sizeof(stats)};
  CHECK(perdure_get_stats(store, &stats, &error) == PERDURE_OK);
  CHECK(error == NULL);  // what was there before is gone
  ended(store);
}
