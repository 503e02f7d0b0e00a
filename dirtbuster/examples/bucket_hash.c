/* A hash table of one cache line a bucket, which has a lock and three pairs (as CLHT has them).
 *
 * Invariant: a bucket's pairs change while its lock is held; readers take none.
 *
 *   bucket_hash OPERATIONS
 */
#include "workload.h"

#include <stdatomic.h>

enum { kBuckets = 1 << 15, kPairs = 3 };

typedef struct Bucket {
  _Alignas(64) _Atomic uint32_t lock;
  _Atomic uint64_t keys[kPairs]; /* plus one; 0: free */
  _Atomic(uint64_t*) values[kPairs];
  struct Bucket* next;
} Bucket;

struct Store {
  Bucket buckets[kBuckets];
};

Store* make_store(void) {
  Store* store = aligned_alloc(64, sizeof(Store));
  if (store == NULL) abort();
  *store = (Store){0};
  return store;
}

static Bucket* bucket_of(Store* store, uint64_t key) {
  return &store->buckets[(key * 0x9e3779b97f4a7c15ull) >> 49];
}

static void lock(Bucket* bucket) {
  uint32_t open = 0;
  while (!atomic_compare_exchange_weak(&bucket->lock, &open, 1)) open = 0;
}

static Bucket* append(Bucket* bucket) {
  Bucket* more = aligned_alloc(64, sizeof(Bucket));
  if (more == NULL) abort();
  *more = (Bucket){0};
  return bucket->next = more;
}

void put(Store* store, uint64_t key, uint64_t* value) {
  Bucket* first = bucket_of(store, key);
  lock(first);
  for (Bucket* bucket = first;; bucket = bucket->next != NULL ? bucket->next : append(bucket))
    for (int i = 0; i < kPairs; i++)
      if (bucket->keys[i] == key + 1 || bucket->keys[i] == 0) {
        atomic_store_explicit(&bucket->values[i], value, memory_order_release);
        atomic_store_explicit(&bucket->keys[i], key + 1, memory_order_release);
        atomic_store_explicit(&first->lock, 0, memory_order_release);
        return;
      }
}

uint64_t* get(Store* store, uint64_t key) {
  for (Bucket* bucket = bucket_of(store, key); bucket != NULL; bucket = bucket->next)
    for (int i = 0; i < kPairs; i++)
      if (bucket->keys[i] == key + 1) return bucket->values[i];
  return NULL;
}
