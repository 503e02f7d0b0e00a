// Batches: what a call did, key by key.
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "tests.h"

void a_batch_is_put_got_updated_and_erased(void) {
  perdure_create_options const create = create_options(8, 8);
  perdure_store* store = made(scratch("pool"), &create);
  uint64_t const keys[] = {1, 2, 3, 2}, values[] = {10, 20, 30, 25}, more[] = {1, 1, 1, 1};
  perdure_column const k = integers(keys, 4), v = integers(values, 4), m = integers(more, 4);
  uint8_t statuses[4] = {9, 9, 9, 9};
  SUCCEEDS(perdure_put(store, &k, &v, statuses, NULL, &said));
  for (int i = 0; i < 4; ++i) CHECK(statuses[i] == PERDURE_KEY_OK);
  SUCCEEDS(
      perdure_update(store, &k, &m, PERDURE_RMW_ADD, PERDURE_ELEMENT_U64, statuses, NULL, &said));

  uint64_t const sought[] = {1, 2, 3, 4};
  uint64_t found[4] = {0, 0, 0, 99};
  perdure_column const s = integers(sought, 4);
  perdure_mutable_column const into = room_for(found, 4);
  SUCCEEDS(perdure_get(store, &s, &into, statuses, NULL, &said));
  CHECK(found[0] == 11 && found[1] == 27 && found[2] == 31 && found[3] == 99);
  CHECK(statuses[2] == PERDURE_KEY_OK && statuses[3] == PERDURE_KEY_NOT_FOUND);

  SUCCEEDS(perdure_erase(store, &s, statuses, NULL, &said));
  CHECK(statuses[0] == PERDURE_KEY_OK && statuses[3] == PERDURE_KEY_NOT_FOUND);
  memset(statuses, 9, sizeof(statuses));
  look_up(store, &s, statuses, NULL);
  for (int i = 0; i < 4; ++i) CHECK(statuses[i] == PERDURE_KEY_NOT_FOUND);
  SUCCEEDS(
      perdure_update(store, &s, &m, PERDURE_RMW_ADD, PERDURE_ELEMENT_U64, statuses, NULL, &said));
  CHECK(statuses[0] == PERDURE_KEY_NOT_FOUND);
  perdure_column const none = integers(NULL, 0);
  SUCCEEDS(perdure_put(store, &none, &none, NULL, NULL, &said));
  ended(store);
}

void values_have_any_length(void) {
  perdure_create_options const create = create_options(0, 0);
  perdure_store* store = made(scratch("pool"), &create);
  int64_t const key_ends[] = {0, 3, 8, 9}, value_ends[] = {0, 0, 6, 11};
  perdure_column const k = strings("onethreex", key_ends, 3);
  perdure_column const v = strings("longerwords", value_ends, 3);
  uint8_t statuses[4] = {9, 9, 9, 9};
  SUCCEEDS(perdure_put(store, &k, &v, statuses, NULL, &said));

  int64_t const sought_ends[] = {0, 5, 8, 10, 11};
  perdure_column const s = strings("threeonenox", sought_ends, 4);
  perdure_strings* found = NULL;
  SUCCEEDS(perdure_get_variable(store, &s, statuses, NULL, &found, &said));
  CHECK(perdure_strings_count(found) == 4);
  CHECK(is_text(found, 0, "longer") && is_text(found, 1, "") && is_text(found, 2, ""));
  CHECK(is_text(found, 3, "words"));
  CHECK(statuses[1] == PERDURE_KEY_OK && statuses[2] == PERDURE_KEY_NOT_FOUND);
  perdure_strings_free(found);

  perdure_column const none = strings(NULL, NULL, 0);
  SUCCEEDS(perdure_get_variable(store, &none, NULL, NULL, &found, &said));
  CHECK(perdure_strings_count(found) == 0 && perdure_strings_offsets(found)[0] == 0);
  CHECK(perdure_strings_data(found) != NULL);
  perdure_strings_free(found);
  ended(store);
}

void a_mixed_batch_takes_effect_in_order(void) {
  perdure_create_options const create = create_options(8, 8);
  perdure_store* store = made(scratch("pool"), &create);
  uint64_t const keys[] = {5, 5, 5, 5, 5, 6}, values[] = {1, 0, 2, 0, 0, 0};
  uint8_t const kinds[] = {PERDURE_OPERATION_PUT, PERDURE_OPERATION_GET,   PERDURE_OPERATION_UPDATE,
                           PERDURE_OPERATION_GET, PERDURE_OPERATION_ERASE, PERDURE_OPERATION_GET};
  uint64_t out[6] = {0};
  uint8_t statuses[6] = {9, 9, 9, 9, 9, 9};
  perdure_mixed_batch batch = {.struct_bytes = sizeof(batch)};
  batch.keys = integers(keys, 6);
  batch.kinds = kinds;
  batch.values = integers(values, 6);
  batch.out = room_for(out, 6);
  batch.rmw = PERDURE_RMW_ADD;
  batch.element = PERDURE_ELEMENT_U64;
  SUCCEEDS(perdure_apply(store, &batch, statuses, NULL, &said));
  CHECK(out[1] == 1 && out[3] == 3);
  CHECK(statuses[4] == PERDURE_KEY_OK && statuses[5] == PERDURE_KEY_NOT_FOUND);
  perdure_column const k = integers(keys, 1);
  look_up(store, &k, statuses, NULL);
  CHECK(statuses[0] == PERDURE_KEY_NOT_FOUND);
  ended(store);
}

void an_atomic_batch_fails_whole(void) {
  perdure_create_options create = create_options(8, 0);
  perdure_store* store = made(scratch("pool"), &create);
  perdure_stats stats = {.struct_bytes = sizeof(stats)};
  SUCCEEDS(perdure_get_stats(store, &stats, &said));
  size_t const large = (size_t)stats.max_value_bytes + 1;
  char* const bytes = calloc(1, large + 1);
  CHECK(bytes != NULL);
  int64_t const ends[] = {0, 1, (int64_t)large + 1};
  uint64_t const keys[] = {1, 2};
  perdure_column const k = integers(keys, 2), v = strings(bytes, ends, 2);
  uint8_t statuses[2] = {9, 9};
  perdure_call_options atomic;
  CHECK(perdure_call_options_init(&atomic, sizeof(atomic)) == PERDURE_OK);
  atomic.atomic = 1;
  CHECK(perdure_put(store, &k, &v, statuses, &atomic, NULL) != PERDURE_OK);
  CHECK(statuses[1] == PERDURE_KEY_TOO_LARGE);
  SUCCEEDS(perdure_get_stats(store, &stats, &said));
  CHECK(stats.records == 0);

  SUCCEEDS(perdure_put(store, &k, &v, statuses, NULL, &said));  // each key for itself
  CHECK(statuses[0] == PERDURE_KEY_OK && statuses[1] == PERDURE_KEY_TOO_LARGE);
  SUCCEEDS(perdure_get_stats(store, &stats, &said));
  CHECK(stats.records == 1);
  free(bytes);
  ended(store);
}

void a_full_pool_tells_key_by_key(void) {
  enum { kMost = 200000 };
  perdure_create_options create = create_options(8, 8);
  create.expected_records = 1;
  perdure_open_options open;
  CHECK(perdure_open_options_init(&open, sizeof(open)) == PERDURE_OK);
  open.grow = 0;
  perdure_store* store = NULL;
  SUCCEEDS(perdure_create(scratch("pool"), &create, &open, &store, &said));
  uint64_t* const keys = malloc(kMost * sizeof(*keys));
  uint8_t* const statuses = malloc(kMost);
  CHECK(keys != NULL && statuses != NULL);
  for (uint64_t i = 0; i < kMost; ++i) keys[i] = i;
  perdure_column const k = integers(keys, kMost);
  ANSWERS(PERDURE_NO_SPACE, perdure_put(store, &k, &k, statuses, NULL, &said));
  uint64_t held = 0, refused = 0;
  for (size_t i = 0; i < kMost; ++i) {
    held += statuses[i] == PERDURE_KEY_OK;
    refused += statuses[i] == PERDURE_KEY_NO_SPACE;
  }
  perdure_stats stats = {.struct_bytes = sizeof(stats)};
  SUCCEEDS(perdure_get_stats(store, &stats, &said));
  CHECK(held > 0 && refused > 0 && held + refused == kMost && stats.records == held);
  free(keys);
  free(statuses);
  ended(store);
}

void a_stopped_batch_tells_what_was_tried(void) {
  perdure_create_options const create = create_options(8, 8);
  perdure_store* store = made(scratch("pool"), &create);
  uint64_t const keys[] = {1, 2};
  perdure_column const k = integers(keys, 2);
  uint8_t statuses[2] = {9, 9};
  perdure_call_options options;
  CHECK(perdure_call_options_init(&options, sizeof(options)) == PERDURE_OK);
  perdure_stop* stop = NULL;
  SUCCEEDS(perdure_stop_create(&stop, &said));
  options.stop = stop;
  perdure_stop_set(stop, 1);
  ANSWERS(PERDURE_STOPPED, perdure_put(store, &k, &k, statuses, &options, &said));
  CHECK(statuses[0] == PERDURE_KEY_NOT_TRIED && statuses[1] == PERDURE_KEY_NOT_TRIED);
  perdure_stop_set(stop, 0);
  SUCCEEDS(perdure_put(store, &k, &k, statuses, &options, &said));
  CHECK(statuses[0] == PERDURE_KEY_OK);
  perdure_stop_destroy(stop);
  ended(store);
}
