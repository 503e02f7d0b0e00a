/* Writes whose right advice is known, one function each: listings 2, 3 and 4 of the thesis's
 * chapter 3 and what its rules tell apart. Each has some thousands of writes, enough for shares
 * that do not hang on chance.
 *
 * Invariant: every function that is watched is kept out of line, under its own name.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALONE __attribute__((noinline, noclone))
enum { kElement = 1024, kElements = 16384, kTimes = 4000, kMessage = 256, kSlots = 64 };

static uint64_t state = 88172645463325252ull;
static volatile uint64_t sink;

static uint64_t next(void) {
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

ALONE static void write_element(char* to, uint64_t value) {
  for (int i = 0; i < kElement; i += 8) *(volatile uint64_t*)(to + i) = value;
}

/* Listing 2: elements of a large array, each read again. */
ALONE static void fill_then_read(char* array) {
  for (int i = 0; i < kTimes; i++) {
    uint64_t* to = (uint64_t*)(array + next() % kElements * kElement);
    for (int word = 0; word < kElement / 8; word++) to[word] = (uint64_t)i;
    __asm__ volatile("" ::: "memory");
    sink += to[5];
  }
}

/* Listing 2 without its last line. */
ALONE static void fill_only(char* array) {
  for (int i = 0; i < kTimes; i++) {
    uint64_t* to = (uint64_t*)(array + next() % kElements * kElement);
    for (int word = 0; word < kElement / 8; word++) to[word] = (uint64_t)i;
    __asm__ volatile("" ::: "memory");
  }
}

/* Listing 3: two lines, some reads, a fence; the array fits the cache. */
ALONE static void write_before_fence(char* array) {
  static volatile uint64_t near[8];
  for (int i = 0; i < 4 * kTimes; i++) {
    memset(array + next() % 512 * 128, i, 128);
    for (int k = 0; k < 16; k++) sink += near[k % 8];
    __sync_synchronize();
  }
}

/* Listing 4: one line, again and again. */
ALONE static void rewrite_line(char* line) {
  for (int i = 0; i < 8 * kTimes; i++) {
    memset(line, i, 64);
    __asm__ volatile("" ::: "memory");
  }
}

/* The same with a kilobyte, as fftz2 of NAS's FT has it (3.7.4.2). */
ALONE static void rewrite_buffer(uint64_t* buffer) {
  for (int i = 0; i < kTimes; i++) {
    for (int word = 0; word < 128; word++) buffer[word] = (uint64_t)i;
    __asm__ volatile("" ::: "memory");
    sink += buffer[i % 128];
  }
}

/* As rank of NAS's IS: single words anywhere. */
ALONE static void scatter(uint64_t* table, uint64_t count) {
  for (int i = 0; i < 16 * kTimes; i++) table[next() % count] = (uint64_t)i;
}

/* Messages in a ring, each handed over by compare-and-swap, as X9 does (3.7.3.2). */
ALONE static void fill_message(uint64_t* message, uint64_t value) {
  for (int word = 0; word < kMessage / 8; word++) message[word] = value;
}

ALONE static void send_messages(char* ring, int* slots) {
  for (int i = 0; i < 2 * kTimes; i++) {
    int slot = i % kSlots;
    fill_message((uint64_t*)(ring + slot * kMessage), (uint64_t)i);
    __sync_bool_compare_and_swap(&slots[slot], i, i + 1);
  }
}

/* Values for a store, that nobody reads soon; a lock is taken next (3.7.2.3). */
ALONE static void craft_value(uint64_t* value, uint64_t key) {
  for (int word = 0; word < kElement / 8; word++) value[word] = key + (uint64_t)word;
}

ALONE static void put_values(char* heap, int* lock) {
  for (int i = 0; i < kTimes; i++) {
    craft_value((uint64_t*)(heap + (size_t)i * kElement), next());
    while (__sync_lock_test_and_set(lock, 1)) {
    }
    *(volatile int*)(lock + 32) = i;
    __sync_lock_release(lock);
  }
}

/* Two arrays by turns, and a variable between: two contexts at a time. */
ALONE static void interleave(uint64_t* first, uint64_t* second, volatile uint64_t* between) {
  for (int i = 0; i < 64 * kTimes; i++) {
    first[i] = (uint64_t)i;
    if (i % 8 == 0) *between = (uint64_t)i;
    second[i] = (uint64_t)i;
    __asm__ volatile("" ::: "memory");
  }
}

ALONE static void downwards(uint64_t* array) {
  for (int i = 64 * kTimes; i-- > 0;) {
    array[i] = (uint64_t)i;
    __asm__ volatile("" ::: "memory");
  }
}

/* Each word read before it is written: no re-read, for what it reads is older. */
ALONE static void add_to_all(uint64_t* array) {
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < 128 * kTimes; i++) {
      array[i] += 3;
      __asm__ volatile("" ::: "memory");
    }
}

/* The C library's memcpy, from two callers: a small buffer, and a log that is not read. */
ALONE static void copy_to_buffer(char* buffer, const char* from, size_t size) {
  for (int i = 0; i < kTimes; i++) {
    memcpy(buffer, from + i % 7, size);
    __asm__ volatile("" ::: "memory");
  }
}

ALONE static void copy_to_log(char* log, const char* from, size_t size) {
  for (int i = 0; i < kTimes; i++) {
    memcpy(log + (size_t)i * (size + 512), from + i % 7, size);
    __asm__ volatile("" ::: "memory");
  }
}

/* What the system reads is read. */
ALONE static void fill_page(uint64_t* page, uint64_t value) {
  for (int word = 0; word < 512; word++) page[word] = value;
}

ALONE static void write_file(char* pages) {
  int file = open("/dev/null", O_WRONLY);
  for (int i = 0; i < kTimes / 4; i++) {
    char* page = pages + (size_t)i * 4096;
    fill_page((uint64_t*)page, (uint64_t)i);
    if (write(file, page, 4096) != 4096) abort();
  }
  close(file);
}

static void* memory(size_t bytes) {
  char* start = aligned_alloc(4096, bytes);
  if (start == NULL) abort();
  for (size_t at = 0; at < bytes; at += 4096) start[at] = 1; /* its pages are there */
  return start;
}

ALONE static void compute(uint64_t steps) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < steps; i++) sum = sum * 31 + (i ^ (sum >> 7));
  sink = sum;
}

ALONE static void write_much(char* array, int times) {
  for (int i = 0; i < times; i++) write_element(array + next() % kElements * kElement, next());
}

static int all(void) {
  static char from[8192];
  size_t large = (size_t)kElements * kElement;
  fill_then_read(memory(large));
  fill_only(memory(large));
  write_before_fence(memory(65536));
  rewrite_line(memory(4096));
  rewrite_buffer(memory(4096));
  scatter(memory(large), large / 8);
  send_messages(memory(kSlots * kMessage), calloc(kSlots, sizeof(int)));
  put_values(memory((size_t)kTimes * kElement), calloc(64, sizeof(int)));
  interleave(memory(64 * kTimes * 8), memory(64 * kTimes * 8), memory(4096));
  downwards(memory(64 * kTimes * 8));
  add_to_all(memory(128 * kTimes * 8));
  copy_to_buffer(memory(4096), from, (size_t)atoi("1024"));
  copy_to_log(memory((size_t)kTimes * 2048), from, (size_t)atoi("1024"));
  write_file(memory((size_t)kTimes * 1024));
  return 0;
}

int main(int count, char** arguments) {
  const char* what = count > 1 ? arguments[1] : "all";
  if (strcmp(what, "all") == 0) return all();
  if (strcmp(what, "compute") == 0) compute((uint64_t)atol(arguments[2]));
  if (strcmp(what, "write") == 0) write_much(memory(16u << 20), atoi(arguments[2]));
  if (strcmp(what, "fail") == 0) return 7;
  if (strcmp(what, "forever") == 0) {
    char* array = memory(16u << 20);
    for (;;) write_much(array, 1000);
  }
  return 0;
}
