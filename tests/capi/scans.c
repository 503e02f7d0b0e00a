// Scans of all records, and ranges in the order of keys.
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "tests.h"

enum { kRecords = 1000 };

static perdure_store* pool_of(uint32_t index) {
  perdure_create_options create = create_options(8, 8);
  create.index = index;
  create.key_order =
      index == PERDURE_INDEX_BTREE ? PERDURE_KEY_ORDER_UNSIGNED_INTEGER : PERDURE_KEY_ORDER_BYTES;
  perdure_store* store = made(scratch("pool"), &create);
  uint64_t keys[kRecords], values[kRecords];
  for (uint64_t i = 0; i < kRecords; ++i) {
    keys[i] = i * 7 % kRecords;
    values[i] = keys[i] * 10;
  }
  perdure_column const k = integers(keys, kRecords), v = integers(values, kRecords);
  SUCCEEDS(perdure_put(store, &k, &v, NULL, NULL, &said));
  return store;
}

static uint64_t integer_at(perdure_strings const* all, size_t i) {
  uint64_t value = 0;
  int64_t const at = perdure_strings_offsets(all)[i];
  CHECK(perdure_strings_offsets(all)[i + 1] - at == sizeof(value));
  memcpy(&value, (char const*)perdure_strings_data(all) + at, sizeof(value));
  return value;
}

/// Counts each key of the pages that are left, and how many pages those are.
static int count_keys(perdure_store* store, perdure_cursor* cursor, size_t limit, int* times) {
  int pages = 0;
  while (!perdure_cursor_done(cursor)) {
    perdure_page* page = NULL;
    SUCCEEDS(perdure_next_page(store, cursor, limit, NULL, &page, &said));
    perdure_strings const* const keys = perdure_page_keys(page);
    CHECK(perdure_strings_count(keys) <= limit);
    CHECK(perdure_strings_count(keys) == perdure_strings_count(perdure_page_values(page)));
    for (size_t i = 0; i < perdure_strings_count(keys); ++i) {
      uint64_t const key = integer_at(keys, i);
      CHECK(key < kRecords && integer_at(perdure_page_values(page), i) == key * 10);
      ++times[key];
    }
    perdure_page_free(page);
    ++pages;
  }
  return pages;
}

void a_scan_sees_every_record_once(void) {
  uint32_t const indexes[] = {PERDURE_INDEX_GPHASH, PERDURE_INDEX_DASH_EH, PERDURE_INDEX_DASH_LH,
                              PERDURE_INDEX_BTREE};
  for (size_t i = 0; i < COUNT_OF(indexes); ++i) {
    perdure_store* store = pool_of(indexes[i]);
    CHECK(perdure_index_kind(store) == indexes[i]);
    perdure_cursor* cursor = NULL;
    SUCCEEDS(perdure_scan(&cursor, &said));
    int times[kRecords] = {0};
    CHECK(count_keys(store, cursor, 300, times) >= 4);
    for (int key = 0; key < kRecords; ++key) CHECK(times[key] == 1);
    perdure_page* page = NULL;  // behind the last
    SUCCEEDS(perdure_next_page(store, cursor, 300, NULL, &page, &said));
    CHECK(perdure_strings_count(perdure_page_keys(page)) == 0);
    CHECK(perdure_strings_offsets(perdure_page_keys(page))[0] == 0);
    perdure_page_free(page);
    perdure_cursor_free(cursor);
    ended(store);
    perdure_create_options again = create_options(8, 8);
    again.overwrite = 1;
    ended(made(scratch("pool"), &again));
    CHECK(remove(scratch("pool")) == 0);
  }
}

void a_range_goes_both_ways_in_order(void) {
  perdure_store* store = pool_of(PERDURE_INDEX_BTREE);
  for (uint32_t reverse = 0; reverse < 2; ++reverse) {
    perdure_range_query const query = {.struct_bytes = sizeof(query), .reverse = reverse};
    perdure_cursor* cursor = NULL;
    SUCCEEDS(perdure_range(&query, &cursor, &said));
    uint64_t next = reverse ? kRecords - 1 : 0;
    while (!perdure_cursor_done(cursor)) {
      perdure_page* page = NULL;
      SUCCEEDS(perdure_next_page(store, cursor, 64, NULL, &page, &said));
      perdure_strings const* const keys = perdure_page_keys(page);
      for (size_t i = 0; i < perdure_strings_count(keys); ++i) {
        CHECK(integer_at(keys, i) == next);
        next += reverse ? UINT64_MAX : 1;
      }
      perdure_page_free(page);
    }
    CHECK(next == (reverse ? UINT64_MAX : kRecords));
    perdure_cursor_free(cursor);
  }
  ended(store);
}

void bounds_say_what_a_range_has(void) {
  perdure_store* store = pool_of(PERDURE_INDEX_BTREE);
  uint64_t count = 0;
  SUCCEEDS(perdure_count_range(store, NULL, &count, &said));
  CHECK(count == kRecords);
  uint64_t start = 100, end = 110;
  perdure_range_query query = {.struct_bytes = sizeof(query)};
  query.start = &start;
  query.start_bytes = sizeof(start);
  query.end = &end;
  query.end_bytes = sizeof(end);
  SUCCEEDS(perdure_count_range(store, &query, &count, &said));
  CHECK(count == 10);
  query.after_start = 1;
  SUCCEEDS(perdure_count_range(store, &query, &count, &said));
  CHECK(count == 9);
  perdure_cursor* cursor = NULL;
  SUCCEEDS(perdure_range(&query, &cursor, &said));
  start = end = 0;  // the bounds were copied
  int times[kRecords] = {0};
  CHECK(count_keys(store, cursor, 5, times) >= 2);
  for (int key = 0; key < kRecords; ++key) CHECK(times[key] == (key > 100 && key < 110));
  perdure_cursor_free(cursor);
  ended(store);
}

void a_scan_that_is_stopped_goes_on_from_there(void) {
  perdure_store* store = pool_of(PERDURE_INDEX_BTREE);
  perdure_stop* stop = NULL;
  SUCCEEDS(perdure_stop_create(&stop, &said));
  perdure_stop_set(stop, 1);
  for (int scan = 0; scan < 2; ++scan) {
    perdure_cursor* cursor = NULL;
    SUCCEEDS(scan ? perdure_scan(&cursor, &said) : perdure_range(NULL, &cursor, &said));
    perdure_page* page = NULL;
    SUCCEEDS(perdure_next_page(store, cursor, 100, NULL, &page, &said));
    int times[kRecords] = {0};
    for (size_t i = 0; i < perdure_strings_count(perdure_page_keys(page)); ++i)
      ++times[integer_at(perdure_page_keys(page), i)];
    perdure_page_free(page);
    ANSWERS(PERDURE_STOPPED, perdure_next_page(store, cursor, 100, stop, &page, &said));
    CHECK(page == NULL && !perdure_cursor_done(cursor));
    count_keys(store, cursor, 100, times);
    for (int key = 0; key < kRecords; ++key) CHECK(times[key] == 1);
    perdure_cursor_free(cursor);
  }
  perdure_stop_destroy(stop);
  ended(store);
}
