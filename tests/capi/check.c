#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

perdure_error* said = NULL;

void check(int holds, char const* text, char const* file, int line) {
  if (holds) return;
  fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, text);
  exit(1);
}

void check_message(perdure_code got, perdure_code expected, char const* words, char const* text,
                   char const* file, int line) {
  char const* const message = perdure_error_message(said);
  int const as_told = got == expected && (said != NULL) == (got != PERDURE_OK) &&
                      (got == PERDURE_OK || message[0] != '\0') && strstr(message, words) != NULL;
  if (!as_told) {
    fprintf(stderr, "%s:%d: %s\n  answered %s: %s\n  expected %s with '%s'\n", file, line, text,
            perdure_code_name(got), message, perdure_code_name(expected), words);
    exit(1);
  }
  perdure_error_free(said);
  said = NULL;
}

void check_code(perdure_code got, perdure_code expected, char const* text, char const* file,
                int line) {
  check_message(got, expected, "", text, file, line);
}

static char folder[64];
static char disk_folder[64];
static pid_t owner = 0;

static void remove_folders(void) {
  if (getpid() != owner) return;  // a child's end
  char command[160];
  snprintf(command, sizeof(command), "rm -rf '%s' '%s'", folder, disk_folder);
  if (system(command) != 0) fprintf(stderr, "%s failed\n", command);
}

static char const* in_folder(char const* parent, char const* name) {
  static char paths[4][128];
  static unsigned next = 0;
  char* const path = paths[next++ % 4];
  snprintf(path, sizeof(paths[0]), "%s/%s", parent, name);
  return path;
}

static void make_folders(void) {
  if (owner != 0) return;
  owner = getpid();
  strcpy(folder, "/dev/shm/perdure-capi.XXXXXX");
  strcpy(disk_folder, "/var/tmp/perdure-capi.XXXXXX");
  CHECK(mkdtemp(folder) != NULL);
  CHECK(mkdtemp(disk_folder) != NULL);
  CHECK(atexit(remove_folders) == 0);
}

char const* scratch(char const* name) {
  make_folders();
  return in_folder(folder, name);
}

char const* disk_scratch(char const* name) {
  make_folders();
  return in_folder(disk_folder, name);
}

perdure_create_options create_options(uint32_t key_bytes, uint32_t value_bytes) {
  perdure_create_options options;
  CHECK(perdure_create_options_init(&options, sizeof(options)) == PERDURE_OK);
  options.key_bytes = key_bytes;
  options.value_bytes = value_bytes;
  options.expected_records = 1000;
  return options;
}

static perdure_open_options two_workers(void) {
  perdure_open_options options;
  CHECK(perdure_open_options_init(&options, sizeof(options)) == PERDURE_OK);
  options.threads = 2;
  return options;
}

perdure_store* made(char const* path, perdure_create_options const* create) {
  perdure_open_options const open = two_workers();
  perdure_store* store = NULL;
  SUCCEEDS(perdure_create(path, create, &open, &store, &said));
  CHECK(store != NULL);
  return store;
}

perdure_store* opened(char const* path) {
  perdure_open_options const open = two_workers();
  perdure_store* store = NULL;
  SUCCEEDS(perdure_open(path, &open, &store, &said));
  CHECK(store != NULL);
  return store;
}

void ended(perdure_store* store) {
  SUCCEEDS(perdure_close(store, &said));
  perdure_destroy(store);
}

perdure_column integers(uint64_t const* values, size_t count) {
  perdure_column const column = {values, NULL, count, sizeof(*values), PERDURE_MEMORY_HOST};
  return column;
}

perdure_mutable_column room_for(uint64_t* values, size_t count) {
  perdure_mutable_column const column = {values, count, sizeof(*values), PERDURE_MEMORY_HOST};
  return column;
}

void look_up(perdure_store* store, perdure_column const* keys, uint8_t* statuses,
             perdure_call_options const* options) {
  uint64_t values[64];
  CHECK(keys->count <= COUNT_OF(values));
  perdure_mutable_column const into = room_for(values, keys->count);
  SUCCEEDS(perdure_get(store, keys, &into, statuses, options, &said));
}

perdure_column strings(char const* bytes, int64_t const* offsets, size_t count) {
  perdure_column const column = {bytes, offsets, count, 0, PERDURE_MEMORY_HOST};
  return column;
}

int is_text(perdure_strings const* all, size_t i, char const* text) {
  int64_t const* const offsets = perdure_strings_offsets(all);
  char const* const bytes = perdure_strings_data(all);
  size_t const size = (size_t)(offsets[i + 1] - offsets[i]);
  return size == strlen(text) && memcmp(bytes + offsets[i], text, size) == 0;
}
