/* Messages between two threads, through a ring of slots that are used again (3.7.3.2 of the thesis:
 * X9).
 *
 * Invariant: a slot belongs to the producer while its turn is even, to the consumer while it is
 * odd.
 *
 *   ring MESSAGES
 *
 * With -DFOLLOW=CLEAN, =DEMOTE or =SKIP as workload.h.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "follow.h"

enum { kSlots = 64, kWords = 128 };

typedef struct Slot {
  _Alignas(64) _Atomic uint64_t turn;
  _Alignas(64) uint64_t message[kWords];
} Slot;

static Slot slots[kSlots];
static uint64_t count;

static __attribute__((noinline)) void fill_message(uint64_t* message, uint64_t number) {
  for (int word = 0; word < kWords; word++) message[word] = number + (uint64_t)word;
}

static __attribute__((noinline)) uint64_t read_message(const uint64_t* message) {
  uint64_t sum = 0;
  for (int word = 0; word < kWords; word++) sum += message[word];
  return sum;
}

static void hand_over(Slot* slot, uint64_t from) {
  uint64_t expected = from;
  atomic_compare_exchange_strong(&slot->turn, &expected, from + 1);
}

static void wait_for(Slot* slot, uint64_t turn) {
  while (atomic_load_explicit(&slot->turn, memory_order_acquire) != turn) sched_yield();
}

static void* produce(void* unused) {
  for (uint64_t number = 0; number < count; number++) {
    Slot* slot = &slots[number % kSlots];
    wait_for(slot, number / kSlots * 2);
#if defined(FOLLOW)
    uint64_t filled[kWords];
    fill_message(followed_at(filled, slot->message), number);
    follow(slot->message, filled, sizeof filled);
#else
    fill_message(slot->message, number);
#endif
    hand_over(slot, number / kSlots * 2);
  }
  return unused;
}

int main(int arguments, char** values) {
  count = arguments > 1 ? strtoull(values[1], NULL, 10) : 1000000;
  pthread_t producer;
  if (pthread_create(&producer, NULL, produce, NULL) != 0) return 1;
  uint64_t sum = 0;
  for (uint64_t number = 0; number < count; number++) {
    Slot* slot = &slots[number % kSlots];
    wait_for(slot, number / kSlots * 2 + 1);
    sum += read_message(slot->message);
    hand_over(slot, number / kSlots * 2 + 1);
  }
  pthread_join(producer, NULL);
  printf("%llu\n", (unsigned long long)sum);
  return 0;
}
