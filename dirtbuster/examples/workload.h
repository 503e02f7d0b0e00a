/* YCSB A in small, for the two stores beside: half gets, half puts of values that are made anew
 * (3.7.2.3 of the thesis).
 *
 * Invariant: a value is written once, into the next room of a large heap, before its key gets it.
 *
 * Compiled with -DFOLLOW=CLEAN, =DEMOTE or =SKIP, and with Perdure's headers and library, it does
 * so with each value: what following an advice gains, and what another one costs.
 */
#ifndef PERDURE_DIRTBUSTER_WORKLOAD_H
#define PERDURE_DIRTBUSTER_WORKLOAD_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "follow.h"

enum { kKeys = 1 << 16, kValueBytes = 1024, kRooms = 1 << 17 };

typedef struct Store Store;
Store* make_store(void);
void put(Store* store, uint64_t key, uint64_t* value);
uint64_t* get(Store* store, uint64_t key);

static uint64_t next_random(uint64_t* state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  return *state ^= *state << 17;
}

static __attribute__((noinline)) void craft_value(uint64_t* value, uint64_t seed) {
  for (int word = 0; word < kValueBytes / 8; word++) value[word] = seed * (uint64_t)(word + 1);
}

static uint64_t run_workload(uint64_t operations) {
  uint64_t* heap = aligned_alloc(4096, (size_t)kRooms * kValueBytes);
  if (heap == NULL) abort();
  Store* store = make_store();
  uint64_t state = 88172645463325252ull, sum = 0, room = 0;
  for (uint64_t i = 0; i < operations; i++) {
    uint64_t key = next_random(&state) % kKeys;
    if (i < kKeys / 4 || next_random(&state) % 2 == 0) {
      uint64_t* value = heap + room++ % kRooms * (kValueBytes / 8);
#if defined(FOLLOW)
      uint64_t crafted[kValueBytes / 8];
      craft_value(followed_at(crafted, value), key);
      follow(value, crafted, kValueBytes);
#else
      craft_value(value, key);
#endif
      put(store, key, value);
    } else {
      const uint64_t* value = get(store, key);
      if (value != NULL) sum += value[key % (kValueBytes / 8)];
    }
  }
  return sum;
}

int main(int arguments, char** values) {
  uint64_t operations = arguments > 1 ? strtoull(values[1], NULL, 10) : 1000000;
  printf("%llu\n", (unsigned long long)run_workload(operations));
  return 0;
}

#endif
