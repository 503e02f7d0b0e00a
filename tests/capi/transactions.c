// Transactions: all of their batches or none.
#include "check.h"
#include "tests.h"

static uint64_t const keys[] = {1, 2, 3};

static perdure_call_options inside(perdure_transaction* transaction) {
  perdure_call_options options;
  CHECK(perdure_call_options_init(&options, sizeof(options)) == PERDURE_OK);
  options.transaction = transaction;
  return options;
}

/// Two batches, the first of which the second changes in part.
static perdure_transaction* two_batches(perdure_store* store) {
  perdure_transaction* transaction = NULL;
  perdure_transaction_options options;
  CHECK(perdure_transaction_options_init(&options, sizeof(options)) == PERDURE_OK);
  options.max_operations = 100;
  SUCCEEDS(perdure_begin(store, &options, &transaction, &said));
  perdure_call_options const call = inside(transaction);
  perdure_column const all = integers(keys, 3), first = integers(keys, 1);
  SUCCEEDS(perdure_put(store, &all, &all, NULL, &call, &said));
  SUCCEEDS(perdure_erase(store, &first, NULL, &call, &said));
  uint8_t statuses[3] = {9, 9, 9};
  look_up(store, &all, statuses, &call);
  CHECK(statuses[0] == PERDURE_KEY_NOT_FOUND && statuses[2] == PERDURE_KEY_OK);
  return transaction;
}

static uint64_t records_of(perdure_store* store) {
  perdure_stats stats = {.struct_bytes = sizeof(stats)};
  SUCCEEDS(perdure_get_stats(store, &stats, &said));
  return stats.records;
}

void a_transaction_that_commits_stays(void) {
  perdure_create_options const create = create_options(8, 8);
  perdure_store* store = made(scratch("pool"), &create);
  perdure_transaction* transaction = two_batches(store);
  SUCCEEDS(perdure_commit(transaction, &said));
  SAYS(PERDURE_CLOSED, "ended", perdure_commit(transaction, &said));
  SAYS(PERDURE_CLOSED, "ended", perdure_abort(transaction, &said));
  perdure_column const all = integers(keys, 3);
  perdure_call_options const late = inside(transaction);
  SAYS(PERDURE_BUSY, "has ended", perdure_put(store, &all, &all, NULL, &late, &said));
  perdure_transaction_destroy(transaction);
  CHECK(records_of(store) == 2);
  ended(store);
  store = opened(scratch("pool"));
  CHECK(records_of(store) == 2);
  ended(store);
}

void a_transaction_that_aborts_leaves_nothing(void) {
  perdure_create_options const create = create_options(8, 8);
  perdure_store* store = made(scratch("pool"), &create);
  perdure_transaction* transaction = two_batches(store);
  perdure_column const all = integers(keys, 3);
  ANSWERS(PERDURE_BUSY, perdure_put(store, &all, &all, NULL, NULL, &said));  // names none
  SUCCEEDS(perdure_abort(transaction, &said));
  perdure_transaction_destroy(transaction);
  CHECK(records_of(store) == 0);
  SUCCEEDS(perdure_begin(store, NULL, &transaction, &said));
  SUCCEEDS(perdure_abort(transaction, &said));
  perdure_transaction_destroy(transaction);
  ended(store);
}

void a_transaction_that_is_destroyed_aborts(void) {
  perdure_create_options const create = create_options(8, 8);
  perdure_store* store = made(scratch("pool"), &create);
  perdure_transaction_destroy(two_batches(store));
  CHECK(records_of(store) == 0);
  ended(store);
}

void a_commit_is_taken_back_after_reopening(void) {
  perdure_create_options const create = create_options(8, 8);
  perdure_store* store = made(scratch("pool"), &create);
  perdure_transaction* transaction = NULL;
  perdure_transaction_options options;
  CHECK(perdure_transaction_options_init(&options, sizeof(options)) == PERDURE_OK);
  CHECK(options.revertible == 0);
  options.revertible = 2;
  SAYS(PERDURE_INVALID_ARGUMENT, "revertible is 2",
       perdure_begin(store, &options, &transaction, &said));
  options.revertible = 1;
  SUCCEEDS(perdure_begin(store, &options, &transaction, &said));
  perdure_call_options const call = inside(transaction);
  perdure_column const all = integers(keys, 3);
  SUCCEEDS(perdure_put(store, &all, &all, NULL, &call, &said));
  SUCCEEDS(perdure_commit(transaction, &said));
  perdure_transaction_destroy(transaction);
  ended(store);
  store = opened(scratch("pool"));
  CHECK(records_of(store) == 3);
  uint32_t can = 9;
  SUCCEEDS(perdure_can_revert(store, &can, &said));
  CHECK(can == 1);
  SUCCEEDS(perdure_revert(store, &said));
  CHECK(records_of(store) == 0);
  SUCCEEDS(perdure_can_revert(store, &can, &said));
  CHECK(can == 0);
  SAYS(PERDURE_INVALID_ARGUMENT, "no commit to take back", perdure_revert(store, &said));
  ended(store);
}

void a_transaction_outlives_its_store(void) {
  perdure_create_options create = create_options(8, 8);
  perdure_store* store = made(scratch("pool"), &create);
  perdure_transaction* transaction = two_batches(store);
  perdure_destroy(store);
  CHECK(perdure_commit(transaction, NULL) != PERDURE_OK);
  perdure_transaction_destroy(transaction);
  store = opened(scratch("pool"));
  CHECK(records_of(store) == 0);

  perdure_store* other = NULL;  // a transaction is of one store
  create.index = PERDURE_INDEX_BTREE;
  other = made(scratch("tree"), &create);
  ANSWERS(PERDURE_UNSUPPORTED, perdure_begin(other, NULL, &transaction, &said));
  CHECK(transaction == NULL);
  transaction = two_batches(store);
  perdure_call_options const call = inside(transaction);
  perdure_column const all = integers(keys, 3);
  CHECK(perdure_put(other, &all, &all, NULL, &call, NULL) != PERDURE_OK);
  CHECK(records_of(other) == 0);
  perdure_transaction_destroy(transaction);
  ended(other);
  ended(store);
}
