// Generated operations against a plain array, for each index; and threads side by side.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "tests.h"

enum { kKeys = 61, kMost = 40, kCalls = 400, kThreads = 4 };

struct model {
  int there[kKeys];
  uint64_t value[kKeys];
};

static uint64_t next_random(uint64_t* state) {  // splitmix64
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// One operation on the model: its status, and of a get the value.
static uint8_t in_model(struct model* model, uint8_t kind, uint64_t key, uint64_t value,
                        uint64_t* out) {
  if (kind == PERDURE_OPERATION_PUT) {
    model->there[key] = 1;
    model->value[key] = value;
    return PERDURE_KEY_OK;
  }
  if (!model->there[key]) return PERDURE_KEY_NOT_FOUND;
  if (kind == PERDURE_OPERATION_GET) *out = model->value[key];
  if (kind == PERDURE_OPERATION_UPDATE) model->value[key] += value;
  if (kind == PERDURE_OPERATION_ERASE) model->there[key] = 0;
  return PERDURE_KEY_OK;
}

/// A batch of operations, mixed or all of one kind, in the store and in the model.
static void one_call(perdure_store* store, struct model* model, uint64_t* random) {
  uint64_t keys[kMost], values[kMost], out[kMost], expected[kMost];
  uint8_t kinds[kMost], statuses[kMost];
  size_t const n = next_random(random) % (kMost + 1);
  int const mixed = next_random(random) % 2 == 0;
  uint8_t const kind = (uint8_t)(next_random(random) % 4);
  for (size_t i = 0; i < n; ++i) {
    keys[i] = next_random(random) % kKeys;
    values[i] = next_random(random);
    kinds[i] = mixed ? (uint8_t)(next_random(random) % 4) : kind;
    out[i] = expected[i] = 0;
  }
  perdure_column const k = integers(keys, n), v = integers(values, n);
  perdure_mutable_column const into = room_for(out, n);
  if (mixed) {
    perdure_mixed_batch batch = {.struct_bytes = sizeof(batch), .keys = k, .values = v};
    batch.kinds = kinds;
    batch.out = into;
    batch.rmw = PERDURE_RMW_ADD;
    batch.element = PERDURE_ELEMENT_U64;
    SUCCEEDS(perdure_apply(store, &batch, statuses, NULL, &said));
  } else if (kind == PERDURE_OPERATION_GET) {
    SUCCEEDS(perdure_get(store, &k, &into, statuses, NULL, &said));
  } else if (kind == PERDURE_OPERATION_PUT) {
    SUCCEEDS(perdure_put(store, &k, &v, statuses, NULL, &said));
  } else if (kind == PERDURE_OPERATION_ERASE) {
    SUCCEEDS(perdure_erase(store, &k, statuses, NULL, &said));
  } else {
    SUCCEEDS(
        perdure_update(store, &k, &v, PERDURE_RMW_ADD, PERDURE_ELEMENT_U64, statuses, NULL, &said));
  }
  for (size_t i = 0; i < n; ++i) {
    CHECK(statuses[i] == in_model(model, kinds[i], keys[i], values[i], &expected[i]));
    CHECK(out[i] == expected[i]);
  }
}

static void generated(uint32_t index, uint64_t seed) {
  perdure_create_options create = create_options(8, 8);
  create.index = index;
  create.overwrite = 1;
  perdure_store* store = made(scratch("pool"), &create);
  struct model model;
  memset(&model, 0, sizeof(model));
  uint64_t random = seed;
  for (int call = 0; call < kCalls; ++call) {
    one_call(store, &model, &random);
    if (next_random(&random) % 50 != 0) continue;
    ended(store);
    store = opened(scratch("pool"));
  }
  uint64_t records = 0;
  for (int key = 0; key < kKeys; ++key) records += (uint64_t)model.there[key];
  perdure_stats stats = {.struct_bytes = sizeof(stats)};
  SUCCEEDS(perdure_get_stats(store, &stats, &said));
  CHECK(stats.records == records);
  ended(store);
}

void generated_operations_agree_with_a_model(void) {
  for (uint32_t index = PERDURE_INDEX_GPHASH; index <= PERDURE_INDEX_BTREE; ++index) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      fprintf(stderr, "index %u, seed %u\n", index, (unsigned)seed);  // of a failure
      generated(index, seed);
    }
  }
}

struct worker {
  perdure_store* store;
  uint64_t first;
  perdure_code code;
};

/// Puts keys of its own and reads them back; errors are its own, too.
static void* work(void* argument) {
  struct worker* const self = argument;
  for (uint64_t round = 0; round < 50; ++round) {
    uint64_t keys[kMost], found[kMost];
    for (uint64_t i = 0; i < kMost; ++i) keys[i] = self->first + round * kMost + i;
    perdure_column const k = integers(keys, kMost), none = integers(NULL, 1);
    perdure_mutable_column const into = room_for(found, kMost);
    perdure_error* error = NULL;
    self->code = perdure_put(self->store, &k, &k, NULL, NULL, &error);
    if (self->code != PERDURE_OK) break;
    self->code = perdure_get(self->store, &k, &into, NULL, NULL, &error);
    if (self->code != PERDURE_OK) break;
    if (memcmp(keys, found, sizeof(keys)) != 0) self->code = PERDURE_CORRUPT;
    if (self->code != PERDURE_OK) break;
    if (perdure_put(self->store, &none, &none, NULL, NULL, &error) != PERDURE_INVALID_ARGUMENT ||
        strstr(perdure_error_message(error), "null") == NULL)
      self->code = PERDURE_INTERNAL_ERROR;
    perdure_error_free(error);
    if (self->code != PERDURE_OK) break;
  }
  return NULL;
}

void threads_share_a_store(void) {
  perdure_create_options const create = create_options(8, 8);
  perdure_store* store = made(scratch("pool"), &create);
  pthread_t threads[kThreads];
  struct worker workers[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    workers[i] = (struct worker){store, (uint64_t)i << 32, PERDURE_OK};
    CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
  }
  for (int i = 0; i < kThreads; ++i) {
    CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(workers[i].code == PERDURE_OK);
  }
  perdure_stats stats = {.struct_bytes = sizeof(stats)};
  SUCCEEDS(perdure_get_stats(store, &stats, &said));
  CHECK(stats.records == (uint64_t)kThreads * 50 * kMost);
  ended(store);
}
