// Processes that end in the midst, and processes that fork.
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "tests.h"

enum { kBatch = 16, kBatches = 200 };

static void fill(uint64_t* keys, uint64_t* values, uint64_t batch) {
  for (uint64_t i = 0; i < kBatch; ++i) {
    keys[i] = batch * kBatch + i;
    values[i] = ~keys[i];
  }
}

/// Puts atomic batches, and says after each that it was acknowledged.
static void put_until_killed(char const* path, int tell) {
  perdure_create_options const create = create_options(8, 8);
  perdure_store* store = made(path, &create);
  perdure_call_options atomic;
  CHECK(perdure_call_options_init(&atomic, sizeof(atomic)) == PERDURE_OK);
  atomic.atomic = 1;
  for (uint64_t batch = 0;; ++batch) {
    uint64_t keys[kBatch], values[kBatch];
    fill(keys, values, batch);
    perdure_column const k = integers(keys, kBatch), v = integers(values, kBatch);
    SUCCEEDS(perdure_put(store, &k, &v, NULL, &atomic, &said));
    if (write(tell, &batch, sizeof(batch)) != sizeof(batch)) _exit(3);
  }
}

/// A child that is killed once it has acknowledged that many batches; the last that it did.
static uint64_t last_of_killed_child(char const* path) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  pid_t const child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    close(ends[0]);
    put_until_killed(path, ends[1]);
  }
  close(ends[1]);
  uint64_t last = 0, told = 0;
  int killed = 0;
  while (read(ends[0], &told, sizeof(told)) == sizeof(told)) {
    last = told;
    if (!killed && told >= kBatches) {
      CHECK(kill(child, SIGKILL) == 0);
      killed = 1;
    }
  }
  close(ends[0]);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  return last;
}

void what_a_killed_child_acknowledged_is_there(void) {
  uint64_t const last = last_of_killed_child(scratch("pool"));
  CHECK(last >= kBatches);
  perdure_store* store = opened(scratch("pool"));
  perdure_recovery recovery = {.struct_bytes = sizeof(recovery)};
  perdure_lines* lines = NULL;
  SUCCEEDS(perdure_get_recovery(store, &recovery, &lines, &said));
  CHECK(recovery.clean == 0 && recovery.repaired == 0);
  perdure_lines_free(lines);
  for (uint64_t batch = 0; batch <= last + 1; ++batch) {
    uint64_t keys[kBatch], values[kBatch], found[kBatch];
    uint8_t statuses[kBatch];
    fill(keys, values, batch);
    perdure_column const k = integers(keys, kBatch);
    perdure_mutable_column const into = room_for(found, kBatch);
    SUCCEEDS(perdure_get(store, &k, &into, statuses, NULL, &said));
    if (batch <= last) CHECK(statuses[0] == PERDURE_KEY_OK);
    for (int i = 0; i < kBatch; ++i) {
      CHECK(statuses[i] == statuses[0]);  // whole, or the one in flight not at all
      CHECK(statuses[i] == PERDURE_KEY_NOT_FOUND || found[i] == values[i]);
    }
  }
  perdure_verification verification = {.struct_bytes = sizeof(verification)};
  SUCCEEDS(perdure_verify(store, NULL, &verification, NULL, &said));
  CHECK(verification.fault_count == 0);
  ended(store);
}

void a_killed_transaction_leaves_nothing(void) {
  char const* const path = scratch("pool");
  pid_t const child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    perdure_create_options const create = create_options(8, 8);
    perdure_store* store = made(path, &create);
    uint64_t const keys[] = {1, 2, 3};
    perdure_column const one = integers(keys, 1), all = integers(keys, 3);
    SUCCEEDS(perdure_put(store, &one, &one, NULL, NULL, &said));
    perdure_transaction* transaction = NULL;
    SUCCEEDS(perdure_begin(store, NULL, &transaction, &said));
    perdure_call_options call;
    CHECK(perdure_call_options_init(&call, sizeof(call)) == PERDURE_OK);
    call.transaction = transaction;
    SUCCEEDS(perdure_erase(store, &one, NULL, &call, &said));
    SUCCEEDS(perdure_put(store, &all, &all, NULL, &call, &said));
    raise(SIGKILL);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  perdure_store* store = opened(path);
  perdure_recovery recovery = {.struct_bytes = sizeof(recovery)};
  SUCCEEDS(perdure_get_recovery(store, &recovery, NULL, &said));
  CHECK(recovery.undone > 0 && recovery.records == 1);
  uint64_t const keys[] = {1, 2};
  perdure_column const k = integers(keys, 2);
  uint8_t statuses[2];
  look_up(store, &k, statuses, NULL);
  CHECK(statuses[0] == PERDURE_KEY_OK && statuses[1] == PERDURE_KEY_NOT_FOUND);
  ended(store);
}

/// Every call of a child on its parent's store says where that is open.
static void use_parents_store(perdure_store* store, perdure_transaction* transaction) {
  uint64_t const key = 1;
  perdure_column const k = integers(&key, 1);
  perdure_stats stats = {.struct_bytes = sizeof(stats)};
  perdure_survival survival = {.struct_bytes = sizeof(survival)};
  perdure_cursor* cursor = NULL;
  perdure_page* page = NULL;
  SAYS(PERDURE_CLOSED, "forked", perdure_put(store, &k, &k, NULL, NULL, &said));
  uint64_t value = 0;
  perdure_mutable_column const into = room_for(&value, 1);
  ANSWERS(PERDURE_CLOSED, perdure_get(store, &k, &into, NULL, NULL, &said));
  ANSWERS(PERDURE_CLOSED, perdure_get_stats(store, &stats, &said));
  ANSWERS(PERDURE_CLOSED, perdure_survives(store, &survival, &said));
  ANSWERS(PERDURE_CLOSED, perdure_commit(transaction, &said));
  SUCCEEDS(perdure_scan(&cursor, &said));
  ANSWERS(PERDURE_CLOSED, perdure_next_page(store, cursor, 1, NULL, &page, &said));
  perdure_cursor_free(cursor);
  ANSWERS(PERDURE_CLOSED, perdure_close(store, &said));
  perdure_transaction_destroy(transaction);
  perdure_destroy(store);
}

void a_forked_child_has_no_store(void) {
  perdure_create_options const create = create_options(8, 8);
  perdure_open_options alone;
  CHECK(perdure_open_options_init(&alone, sizeof(alone)) == PERDURE_OK);
  alone.threads = 1;
  perdure_store* store = NULL;
  SUCCEEDS(perdure_create(scratch("pool"), &create, &alone, &store, &said));
  perdure_transaction* transaction = NULL;
  SUCCEEDS(perdure_begin(store, NULL, &transaction, &said));
  pid_t const child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    use_parents_store(store, transaction);
    _exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  uint64_t const key = 1;
  perdure_column const k = integers(&key, 1);
  perdure_call_options call;
  CHECK(perdure_call_options_init(&call, sizeof(call)) == PERDURE_OK);
  call.transaction = transaction;
  SUCCEEDS(perdure_put(store, &k, &k, NULL, &call, &said));  // as if nobody had been there
  SUCCEEDS(perdure_commit(transaction, &said));
  perdure_transaction_destroy(transaction);
  ended(store);
}
