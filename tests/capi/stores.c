// Stores from their making to their end, and what they say of themselves.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "tests.h"

static uint64_t const keys[] = {7, 8, 9};
static uint64_t const values[] = {70, 80, 90};

static void put_three(perdure_store* store) {
  perdure_column const k = integers(keys, 3), v = integers(values, 3);
  SUCCEEDS(perdure_put(store, &k, &v, NULL, NULL, &said));
}

static void has_three(perdure_store* store) {
  perdure_column const k = integers(keys, 3);
  uint64_t found[3] = {0};
  uint8_t statuses[3] = {9, 9, 9};
  perdure_mutable_column const into = room_for(found, 3);
  SUCCEEDS(perdure_get(store, &k, &into, statuses, NULL, &said));
  for (int i = 0; i < 3; ++i) CHECK(statuses[i] == PERDURE_KEY_OK && found[i] == values[i]);
}

void a_pool_is_made_closed_and_opened_again(void) {
  perdure_create_options create = create_options(8, 8);
  perdure_store* store = made(scratch("pool"), &create);
  put_three(store);
  SUCCEEDS(perdure_close(store, &said));
  SUCCEEDS(perdure_close(store, &said));  // again
  perdure_column const k = integers(keys, 3);
  SAYS(PERDURE_CLOSED, "closed", perdure_erase(store, &k, NULL, NULL, &said));
  perdure_destroy(store);

  SAYS(PERDURE_ALREADY_EXISTS, "exists already",
       perdure_create(scratch("pool"), &create, NULL, &store, &said));
  CHECK(store == NULL);
  store = opened(scratch("pool"));
  CHECK(strcmp(perdure_path(store), scratch("pool")) == 0);
  CHECK(perdure_key_bytes(store) == 8 && perdure_value_bytes(store) == 8);
  CHECK(perdure_index_kind(store) == PERDURE_INDEX_GPHASH);
  has_three(store);

  perdure_store* second = NULL;
  ANSWERS(PERDURE_BUSY, perdure_open(scratch("pool"), NULL, &second, &said));
  ended(store);
  create.overwrite = 1;
  store = made(scratch("pool"), &create);
  perdure_stats stats = {.struct_bytes = sizeof(stats)};
  SUCCEEDS(perdure_get_stats(store, &stats, &said));
  CHECK(stats.records == 0);
  ended(store);
  ANSWERS(PERDURE_NOT_FOUND, perdure_open(scratch("missing"), NULL, &store, &said));
}

void a_snapshot_becomes_a_pool(void) {
  perdure_create_options const create = create_options(8, 8);
  perdure_store* store = made(scratch("pool"), &create);
  put_three(store);
  SUCCEEDS(perdure_snapshot(store, scratch("snapshot"), NULL, &said));
  ANSWERS(PERDURE_ALREADY_EXISTS, perdure_snapshot(store, scratch("snapshot"), NULL, &said));
  perdure_file_options again;
  CHECK(perdure_file_options_init(&again, sizeof(again)) == PERDURE_OK);
  again.overwrite = 1;
  SUCCEEDS(perdure_snapshot(store, scratch("snapshot"), &again, &said));
  ended(store);

  perdure_restore_options restore;
  CHECK(perdure_restore_options_init(&restore, sizeof(restore)) == PERDURE_OK);
  SUCCEEDS(perdure_restore(scratch("snapshot"), scratch("copy"), &restore, NULL, &store, &said));
  has_three(store);
  perdure_survival survival = {.struct_bytes = sizeof(survival)};
  SUCCEEDS(perdure_survives(store, &survival, &said));
  CHECK(survival.process_kill == 1 && survival.power_loss == 0);  // as the snapshot's pool
  ended(store);

  restore.set_durability = 1;
  restore.durability = PERDURE_DURABILITY_POWER;
  restore.overwrite = 1;
  restore.log_dir = disk_scratch("log");
  restore.log_bytes = 16u << 20;
  SUCCEEDS(perdure_restore(scratch("snapshot"), scratch("copy"), &restore, NULL, &store, &said));
  has_three(store);
  SUCCEEDS(perdure_survives(store, &survival, &said));
  CHECK(survival.power_loss == 1);
  ended(store);
}

void a_pool_of_durability_power_comes_back_from_its_log(void) {
  perdure_create_options create = create_options(8, 8);
  create.durability = PERDURE_DURABILITY_POWER;
  perdure_store* store = NULL;
  SAYS(PERDURE_UNSUPPORTED, "log_dir",
       perdure_create(scratch("pool"), &create, NULL, &store, &said));
  create.log_dir = disk_scratch("log");
  create.log_bytes = 16u << 20;
  store = made(scratch("pool"), &create);
  put_three(store);
  perdure_survival survival = {.struct_bytes = sizeof(survival)};
  SUCCEEDS(perdure_survives(store, &survival, &said));
  CHECK(survival.power_loss == 1 && survival.os_crash == 1);
  ended(store);

  CHECK(unlink(scratch("pool")) == 0);  // as after a power loss
  perdure_open_options open;
  CHECK(perdure_open_options_init(&open, sizeof(open)) == PERDURE_OK);
  open.log_dir = disk_scratch("log");
  SUCCEEDS(perdure_open(scratch("pool"), &open, &store, &said));
  has_three(store);
  ended(store);
}

void a_store_that_is_destroyed_was_closed(void) {
  perdure_create_options const create = create_options(8, 8);
  perdure_store* store = made(scratch("pool"), &create);
  put_three(store);
  perdure_destroy(store);
  store = opened(scratch("pool"));
  perdure_recovery recovery = {.struct_bytes = sizeof(recovery)};
  SUCCEEDS(perdure_get_recovery(store, &recovery, NULL, &said));
  CHECK(recovery.clean == 1 && recovery.records == 3);
  ended(store);
}

void a_closed_store_refuses_every_call(void) {
  perdure_create_options create = create_options(8, 8);
  create.overwrite = 1;
  for (uint32_t index = PERDURE_INDEX_GPHASH; index <= PERDURE_INDEX_BTREE; ++index) {
    create.index = index;
    perdure_store* store = made(scratch("pool"), &create);
    put_three(store);
    SUCCEEDS(perdure_close(store, &said));
    uint64_t found[3], count = 0;
    perdure_column const k = integers(keys, 3);
    perdure_mutable_column const into = room_for(found, 3);
    perdure_mixed_batch batch = {.struct_bytes = sizeof(batch), .keys = k, .values = k};
    uint8_t const kinds[] = {PERDURE_OPERATION_PUT, PERDURE_OPERATION_PUT, PERDURE_OPERATION_PUT};
    batch.kinds = kinds;
    perdure_strings* strings = NULL;
    perdure_cursor* cursor = NULL;
    perdure_page* page = NULL;
    perdure_transaction* transaction = NULL;
    perdure_verification verification = {.struct_bytes = sizeof(verification)};
    ANSWERS(PERDURE_CLOSED, perdure_get(store, &k, &into, NULL, NULL, &said));
    ANSWERS(PERDURE_CLOSED, perdure_get_variable(store, &k, NULL, NULL, &strings, &said));
    ANSWERS(PERDURE_CLOSED, perdure_put(store, &k, &k, NULL, NULL, &said));
    ANSWERS(PERDURE_CLOSED, perdure_update(store, &k, &k, 0, 0, NULL, NULL, &said));
    ANSWERS(PERDURE_CLOSED, perdure_erase(store, &k, NULL, NULL, &said));
    ANSWERS(PERDURE_CLOSED, perdure_apply(store, &batch, NULL, NULL, &said));
    ANSWERS(PERDURE_CLOSED, perdure_snapshot(store, scratch("snapshot"), NULL, &said));
    ANSWERS(PERDURE_CLOSED, perdure_verify(store, NULL, &verification, NULL, &said));
    SUCCEEDS(perdure_scan(&cursor, &said));
    ANSWERS(PERDURE_CLOSED, perdure_next_page(store, cursor, 10, NULL, &page, &said));
    perdure_cursor_free(cursor);
    CHECK(perdure_begin(store, NULL, &transaction, NULL) != PERDURE_OK);
    CHECK(perdure_count_range(store, NULL, &count, NULL) != PERDURE_OK);
    CHECK(perdure_key_bytes(store) == 8 && perdure_index_kind(store) == index);
    perdure_destroy(store);
  }
}

void reports_say_what_a_store_is_and_found(void) {
  perdure_create_options const create = create_options(8, 8);
  perdure_store* store = made(scratch("pool"), &create);
  put_three(store);
  perdure_stats stats = {.struct_bytes = sizeof(stats)};
  SUCCEEDS(perdure_get_stats(store, &stats, &said));
  CHECK(stats.struct_bytes == sizeof(stats));
  CHECK(stats.records == 3 && stats.slots > 3 && stats.batches == 1);
  CHECK(stats.load_factor > 0 && stats.load_factor < 1);
  CHECK(stats.key_bytes == 8 && stats.value_bytes == 8 && stats.damaged == 0);
  CHECK(stats.medium == PERDURE_MEDIUM_TMPFS && stats.device == PERDURE_DEVICE_CPU);
  CHECK(stats.pool_bytes >= stats.used_bytes && stats.used_bytes > 0);

  perdure_survival survival = {.struct_bytes = sizeof(survival)};
  SUCCEEDS(perdure_survives(store, &survival, &said));
  CHECK(survival.process_kill == 1 && survival.power_loss == 0);
  CHECK(survival.basis == PERDURE_BASIS_DECLARED);
  CHECK(strstr(survival.description, "process kill") != NULL);

  perdure_verification verification = {.struct_bytes = sizeof(verification)};
  perdure_lines* faults = NULL;
  SUCCEEDS(perdure_verify(store, NULL, &verification, &faults, &said));
  CHECK(verification.records == 3 && verification.fault_count == 0);
  CHECK(faults != NULL && perdure_lines_count(faults) == 0);
  CHECK(strcmp(perdure_lines_at(faults, 0), "") == 0);
  perdure_lines_free(faults);

  perdure_stop* stop = NULL;
  SUCCEEDS(perdure_stop_create(&stop, &said));
  perdure_stop_set(stop, 1);
  ANSWERS(PERDURE_STOPPED, perdure_verify(store, stop, &verification, &faults, &said));
  CHECK(faults == NULL);
  perdure_stop_destroy(stop);
  ended(store);
}

/// Changes a bit of the first word from byte `from` on that is `value`, or any that is not 0.
static void damage(char const* path, size_t from, uint64_t value) {
  int const file = open(path, O_RDWR);
  CHECK(file >= 0);
  struct stat about;
  CHECK(fstat(file, &about) == 0);
  size_t const size = (size_t)about.st_size;
  uint64_t* const words = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  CHECK(words != MAP_FAILED);
  size_t at = from / sizeof(*words);
  while (at < size / sizeof(*words) && (value != 0 ? words[at] != value : words[at] == 0)) ++at;
  CHECK(at < size / sizeof(*words));
  words[at] ^= 1;
  munmap(words, size);
  close(file);
}

void faults_are_lines_and_a_repair_is_acknowledged(void) {
  uint64_t const key = 7, value = 0x123456789abcdef0u;
  perdure_create_options const create = create_options(8, 8);
  perdure_store* store = made(scratch("pool"), &create);
  perdure_column const k = integers(&key, 1), v = integers(&value, 1);
  SUCCEEDS(perdure_put(store, &k, &v, NULL, NULL, &said));
  ended(store);
  damage(scratch("pool"), 0, value);

  store = opened(scratch("pool"));
  uint64_t found = 0;
  uint8_t status = PERDURE_KEY_OK;
  perdure_mutable_column const into = room_for(&found, 1);
  SUCCEEDS(perdure_get(store, &k, &into, &status, NULL, &said));
  CHECK(status == PERDURE_KEY_CORRUPT);
  perdure_verification verification = {.struct_bytes = sizeof(verification)};
  perdure_lines* faults = NULL;
  SUCCEEDS(perdure_verify(store, NULL, &verification, &faults, &said));
  CHECK(verification.fault_count == 1 && perdure_lines_count(faults) == 1);
  CHECK(strstr(perdure_lines_at(faults, 0), "checksum") != NULL);
  perdure_lines_free(faults);
  ended(store);

  damage(scratch("pool"), 1u << 20, 0);  // the slot: levels begin here (docs/format.md)
  SAYS(PERDURE_CORRUPT, "repair", perdure_open(scratch("pool"), NULL, &store, &said));
  perdure_open_options repair;
  CHECK(perdure_open_options_init(&repair, sizeof(repair)) == PERDURE_OK);
  repair.repair = 1;
  SUCCEEDS(perdure_open(scratch("pool"), &repair, &store, &said));
  perdure_recovery recovery = {.struct_bytes = sizeof(recovery)};
  perdure_lines* lines = NULL;
  SUCCEEDS(perdure_get_recovery(store, &recovery, &lines, &said));
  CHECK(recovery.repaired == 1 && recovery.records == 1);
  CHECK(perdure_lines_count(lines) >= 1);
  perdure_lines_free(lines);
  SUCCEEDS(perdure_verify(store, NULL, &verification, NULL, &said));
  CHECK(verification.fault_count > 1);
  SUCCEEDS(perdure_acknowledge_repair(store, &said));
  SUCCEEDS(perdure_verify(store, NULL, &verification, NULL, &said));
  CHECK(verification.fault_count == 1);  // the value's checksum alone
  ended(store);
}

void devices_are_described(void) {
  perdure_devices* devices = NULL;
  SUCCEEDS(perdure_find_devices(&devices, &said));
  size_t const count = perdure_devices_count(devices);
  int cpus = 0;
  for (size_t i = 0; i < count; ++i) {
    CHECK(perdure_devices_description(devices, i)[0] != '\0');
    if (perdure_devices_kind(devices, i) != PERDURE_DEVICE_CPU) continue;
    CHECK(perdure_devices_available(devices, i) == 1);
    ++cpus;
  }
  CHECK(cpus == 1);
  CHECK(perdure_devices_available(devices, count) == 0);
  CHECK(strcmp(perdure_devices_description(devices, count), "") == 0);
  perdure_devices_free(devices);
}

void codes_and_versions_have_names(void) {
  CHECK(perdure_abi_version() == PERDURE_ABI_VERSION);
  CHECK(strcmp(perdure_version(), PERDURE_TEST_VERSION) == 0);
  CHECK(strcmp(perdure_code_name(PERDURE_OK), "ok") == 0);
  CHECK(strcmp(perdure_code_name(PERDURE_NO_SPACE), "no_space") == 0);
  CHECK(strcmp(perdure_code_name(PERDURE_STOPPED), "stopped") == 0);
  CHECK(strcmp(perdure_code_name(PERDURE_OUT_OF_MEMORY), "out_of_memory") == 0);
  CHECK(strcmp(perdure_code_name(PERDURE_INTERNAL_ERROR), "internal_error") == 0);
  int32_t const none[] = {-1, PERDURE_STOPPED + 1, 255, 256, 999, 1002, INT32_MAX, INT32_MIN};
  for (size_t i = 0; i < COUNT_OF(none); ++i)
    CHECK(strcmp(perdure_code_name(none[i]), "unknown") == 0);
}
