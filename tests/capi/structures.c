// Structures that grow: of callers that were compiled with an older header, and with a newer one.
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "tests.h"

/// create options as a newer header may have them
struct newer_create_options {
  perdure_create_options known;
  uint64_t added;
};

/// stats as the first header might have had them
struct older_stats {
  size_t struct_bytes;
  uint64_t records;
};

void init_fills_no_more_than_the_caller_has(void) {
  perdure_create_options options;
  memset(&options, 0xaa, sizeof(options));
  size_t const known = offsetof(perdure_create_options, key_bytes);
  CHECK(perdure_create_options_init(&options, known) == PERDURE_OK);
  CHECK(options.struct_bytes == known && options.max_bytes == 0);
  CHECK(options.key_bytes == 0xaaaaaaaau && options.log_bytes == 0xaaaaaaaaaaaaaaaau);

  struct newer_create_options newer;
  memset(&newer, 0xaa, sizeof(newer));
  CHECK(perdure_create_options_init(&newer.known, sizeof(newer)) == PERDURE_OK);
  CHECK(newer.known.struct_bytes == sizeof(newer) && newer.added == 0);
  CHECK(newer.known.key_bytes == 8 && newer.known.log_bytes == 256u << 20);
}

void an_older_structure_has_defaults_for_what_it_lacks(void) {
  perdure_create_options create;
  memset(&create, 0xaa, sizeof(create));  // what lies behind is not looked at
  create.struct_bytes = offsetof(perdure_create_options, index);
  create.expected_records = 1000;
  create.max_bytes = 0;
  create.key_bytes = 4;
  create.value_bytes = 16;
  perdure_store* store = made(scratch("pool"), &create);
  CHECK(perdure_key_bytes(store) == 4 && perdure_value_bytes(store) == 16);
  CHECK(perdure_index_kind(store) == PERDURE_INDEX_GPHASH);
  perdure_call_options call;
  memset(&call, 0xaa, sizeof(call));
  call.struct_bytes = offsetof(perdure_call_options, transaction);
  uint32_t const key = 1;
  char const value[16] = {0};
  perdure_column const k = {&key, NULL, 1, sizeof(key), PERDURE_MEMORY_HOST};
  perdure_column const v = {value, NULL, 1, sizeof(value), PERDURE_MEMORY_HOST};
  SUCCEEDS(perdure_put(store, &k, &v, NULL, &call, &said));
  ended(store);
}

void a_newer_structure_is_taken_unless_it_asks_for_more(void) {
  struct newer_create_options newer;
  CHECK(perdure_create_options_init(&newer.known, sizeof(newer)) == PERDURE_OK);
  ended(made(scratch("pool"), &newer.known));
  newer.known.overwrite = 1;
  newer.added = 1;
  perdure_store* store = NULL;
  SAYS(PERDURE_UNSUPPORTED, "does not know",
       perdure_create(scratch("pool"), &newer.known, NULL, &store, &said));
  newer.added = 0;
  newer.known.reserved = 1;
  SAYS(PERDURE_UNSUPPORTED, "reserved",
       perdure_create(scratch("pool"), &newer.known, NULL, &store, &said));
  CHECK(store == NULL);
}

void sizes_that_no_structure_has_are_refused(void) {
  perdure_create_options create = create_options(8, 8);
  perdure_store* store = NULL;
  size_t const none[] = {0, 1, 7, 12, 4097, 8192, SIZE_MAX - 7, SIZE_MAX};
  for (size_t i = 0; i < COUNT_OF(none); ++i) {
    create.struct_bytes = none[i];
    SAYS(PERDURE_INVALID_ARGUMENT, "struct_bytes",
         perdure_create(scratch("pool"), &create, NULL, &store, &said));
    CHECK(perdure_create_options_init(&create, none[i]) == PERDURE_INVALID_ARGUMENT);
    perdure_open_options open = {.struct_bytes = none[i]};
    CHECK(perdure_open_options_init(&open, none[i]) == PERDURE_INVALID_ARGUMENT);
    SAYS(PERDURE_INVALID_ARGUMENT, "open options: struct_bytes",
         perdure_open(scratch("pool"), &open, &store, &said));
    perdure_restore_options restore = {.struct_bytes = none[i]};
    CHECK(perdure_restore_options_init(&restore, none[i]) == PERDURE_INVALID_ARGUMENT);
    SAYS(PERDURE_INVALID_ARGUMENT, "restore options: struct_bytes",
         perdure_restore("s", "p", &restore, NULL, &store, &said));
    perdure_range_query range = {.struct_bytes = none[i]};
    perdure_cursor* cursor = NULL;
    SAYS(PERDURE_INVALID_ARGUMENT, "struct_bytes", perdure_range(&range, &cursor, &said));
  }
  create = create_options(8, 8);
  store = made(scratch("pool"), &create);
  uint64_t const key = 1;
  perdure_column const k = integers(&key, 1);
  for (size_t i = 0; i < COUNT_OF(none); ++i) {
    perdure_stats stats = {.struct_bytes = none[i]};
    SAYS(PERDURE_INVALID_ARGUMENT, "stats", perdure_get_stats(store, &stats, &said));
    perdure_survival survival = {.struct_bytes = none[i]};
    SAYS(PERDURE_INVALID_ARGUMENT, "survival", perdure_survives(store, &survival, &said));
    perdure_recovery recovery = {.struct_bytes = none[i]};
    SAYS(PERDURE_INVALID_ARGUMENT, "recovery", perdure_get_recovery(store, &recovery, NULL, &said));
    perdure_verification found = {.struct_bytes = none[i]};
    SAYS(PERDURE_INVALID_ARGUMENT, "verification",
         perdure_verify(store, NULL, &found, NULL, &said));
    perdure_call_options call = {.struct_bytes = none[i]};
    CHECK(perdure_call_options_init(&call, none[i]) == PERDURE_INVALID_ARGUMENT);
    SAYS(PERDURE_INVALID_ARGUMENT, "call options", perdure_put(store, &k, &k, NULL, &call, &said));
    perdure_mixed_batch batch = {.struct_bytes = none[i]};
    SAYS(PERDURE_INVALID_ARGUMENT, "batch", perdure_apply(store, &batch, NULL, NULL, &said));
    perdure_file_options file = {.struct_bytes = none[i]};
    CHECK(perdure_file_options_init(&file, none[i]) == PERDURE_INVALID_ARGUMENT);
    SAYS(PERDURE_INVALID_ARGUMENT, "file options",
         perdure_snapshot(store, scratch("snapshot"), &file, &said));
    perdure_transaction_options begin = {.struct_bytes = none[i]};
    CHECK(perdure_transaction_options_init(&begin, none[i]) == PERDURE_INVALID_ARGUMENT);
    perdure_transaction* transaction = NULL;
    SAYS(PERDURE_INVALID_ARGUMENT, "transaction options",
         perdure_begin(store, &begin, &transaction, &said));
  }
  perdure_stats stats = {.struct_bytes = sizeof(stats)};
  SUCCEEDS(perdure_get_stats(store, &stats, &said));
  CHECK(stats.records == 0 && stats.batches == 0);
  ended(store);
}

void a_report_fills_what_the_caller_has(void) {
  perdure_create_options const create = create_options(8, 8);
  perdure_store* store = made(scratch("pool"), &create);
  uint64_t const key = 1;
  perdure_column const k = integers(&key, 1);
  SUCCEEDS(perdure_put(store, &k, &k, NULL, NULL, &said));
  // Just as large as it says: a sanitizer sees a write beyond.
  struct older_stats* const older = malloc(sizeof(*older));
  CHECK(older != NULL);
  older->struct_bytes = sizeof(*older);
  SUCCEEDS(perdure_get_stats(store, (perdure_stats*)(void*)older, &said));
  CHECK(older->records == 1 && older->struct_bytes == sizeof(*older));
  free(older);

  struct {
    perdure_stats known;
    uint64_t added;
  } newer;
  memset(&newer, 0xaa, sizeof(newer));
  newer.known.struct_bytes = sizeof(newer);
  SUCCEEDS(perdure_get_stats(store, &newer.known, &said));
  CHECK(newer.known.records == 1 && newer.added == 0 && newer.known.reserved == 0);
  ended(store);
}
