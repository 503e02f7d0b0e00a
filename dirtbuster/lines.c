/* Cache lines that watched functions have written: when, whether they are read or written again,
 * and how soon a fence follows (3.6.2.2, 3.6.2.3).
 *
 * Invariants: a line with a group is being watched, and its filter byte is set. A pass over a line
 * begins with its first write, and ends with a write that does not continue a streak. What has been
 * read once in a pass is not counted again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "dirtbuster.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"

typedef struct Line {
  Group* group;  /* that began the pass; NULL: not watched */
  ULong mask;    /* bytes that the pass has written */
  Addr beginner; /* the store instruction that began it */
  ULong when, thread_when; /* of the last write, in instructions of all and of its thread */
  ULong passes_then;       /* passes of all lines at that time */
  ULong piece;             /* of a context, that the pass is part of */
  UInt epoch;              /* between which two fences of its thread */
  UShort thread;
  Bool read;
  Bool other; /* the last write was not a watched function's */
} Line;

enum {
  kChunkShift = 16,
  kChunkLines = 1 << (kChunkShift - kLineShift),
  kHeads = 1 << 16,
  kPending = 1 << 16,
  kPieces = 1 << 16,
  kBurst = 32 /* instructions within which stores that overlap are one copy's */
};

typedef struct Chunk {
  struct Chunk* next;
  Addr number;
  Line lines[kChunkLines];
} Chunk;

typedef struct Pending {
  UInt epoch, count;
  Line* lines[kPending];
} Pending;

UChar line_filter[kFilterLines];
static Chunk* heads[kHeads];
static Chunk* last_chunk;
static ULong passes;
static Pending* pending[kThreads];

static Chunk* chunk_of(Addr address) {
  Addr number = address >> kChunkShift;
  if (last_chunk != NULL && last_chunk->number == number) return last_chunk;
  for (Chunk* chunk = heads[number % kHeads]; chunk != NULL; chunk = chunk->next)
    if (chunk->number == number) return last_chunk = chunk;
  return NULL;
}

static Line* line_at(Addr address) {
  Chunk* chunk = chunk_of(address);
  return chunk == NULL ? NULL : &chunk->lines[(address >> kLineShift) % kChunkLines];
}

static Line* make_line(Addr address) {
  Chunk* chunk = chunk_of(address);
  if (chunk == NULL) {
    Chunk** head = &heads[(address >> kChunkShift) % kHeads];
    chunk = VG_(calloc)("dirtbuster.chunk", 1, sizeof(Chunk));
    chunk->number = address >> kChunkShift;
    chunk->next = *head;
    last_chunk = *head = chunk;
  }
  line_filter[(address >> kLineShift) % kFilterLines] = 1;
  return &chunk->lines[(address >> kLineShift) % kChunkLines];
}

/* The bytes of the line at `address` that an access covers; moves it on to the next line. */
static ULong take_bytes(Addr* address, SizeT* size) {
  SizeT first = *address % kLineBytes;
  SizeT count = kLineBytes - first < *size ? kLineBytes - first : *size;
  ULong bytes = count == kLineBytes ? ~0ULL : ((1ULL << count) - 1) << first;
  *address += count;
  *size -= count;
  return bytes;
}

/* What is touched again after a cache's worth of other lines has been filled is not in it any more:
 * to the cache, that is never. */
static Bool is_near(const Line* line) { return passes - line->passes_then <= option_cache_lines; }

static void count_rewrite(Line* line, ULong now) {
  Group* group = line->group;
  ULong distance = now - line->when;
  if (!is_near(line)) {
    group->rewritten_far++;
    return;
  }
  group->rewritten++;
  group->rewritten_sum += distance;
  group->rewritten_at[bucket_of(distance)]++;
}

/* --- fences */

static void finish_pending(Pending* mine, ULong thread_now) {
  for (UInt i = 0; i < mine->count; i++) {
    Line* line = mine->lines[i];
    if (line->group == NULL) continue;
    ULong distance = thread_now - line->thread_when;
    Group* group = line->group;
    if (distance > option_fence_window) continue;
    group->fenced++;
    if (distance < group->fenced_min) group->fenced_min = distance;
    group->fenced_at[bucket_of(distance)]++;
  }
  mine->count = 0;
  mine->epoch++;
}

static Pending* my_pending(void) {
  Pending* mine = pending[running];
  if (mine == NULL) {
    mine = pending[running] = VG_(calloc)("dirtbuster.pending", 1, sizeof(Pending));
    mine->epoch = 1;
  }
  return mine;
}

void lines_fence(UWord offset) {
  Pending* mine = pending[running];
  if (mine == NULL || mine->count == 0) return;
  finish_pending(mine, thread_before[running] + instructions + offset);
}

static void await_fence(Line* line) {
  Pending* mine = my_pending();
  if (line->epoch == mine->epoch && line->thread == running) return;
  if (mine->count == kPending) finish_pending(mine, ~0ULL); /* far from any fence */
  line->epoch = mine->epoch;
  line->thread = (UShort)running;
  mine->lines[mine->count++] = line;
}

void lines_finish(void) {
  for (UInt i = 0; i < kThreads; i++)
    if (pending[i] != NULL) finish_pending(pending[i], ~0ULL);
}

/* --- accesses */

static Bool begins_pass(const Line* line, ULong bytes, Addr writer, ULong now, Bool continues) {
  Bool soon = now - line->when <= kBurst;
  if ((line->mask & bytes) != 0) return writer == line->beginner || !soon;
  return !continues && !soon;
}

static void write_line(Line* line, ULong bytes, const Store* store, Group* group, ULong now,
                       Streak streak) {
  Bool fresh = line->group == NULL || line->other;
  Bool begins = fresh || begins_pass(line, bytes, store->address, now, streak.continues);
  if (begins) {
    if (!fresh) count_rewrite(line, now);
    line->group = group;
    line->mask = 0;
    line->beginner = store->address;
    line->read = False;
    line->other = False;
    line->piece = streak.piece;
    group->passes++;
    passes++;
  }
  line->mask |= bytes;
  line->when = now;
  line->thread_when = thread_before[running] + now;
  line->passes_then = passes;
  await_fence(line);
}

void lines_hot_write(const Store* store, Group* group, Addr address, SizeT size, Streak streak) {
  ULong now = instructions + store->offset;
  while (size > 0) {
    Line* line = make_line(address);
    write_line(line, take_bytes(&address, &size), store, group, now, streak);
  }
}

/* Each piece of a context is counted once, unless two that are read by turns share an entry. */
static void count_piece(const Line* line) {
  static ULong read[kPieces];
  if (read[line->piece % kPieces] == line->piece) return;
  read[line->piece % kPieces] = line->piece;
  line->group->reread_pieces++;
}

VG_REGPARM(3) void lines_read(Addr address, SizeT size, UWord offset) {
  while (size > 0) {
    Line* line = line_at(address);
    ULong bytes = take_bytes(&address, &size);
    if (line == NULL || line->group == NULL || line->read || line->other) continue;
    if ((line->mask & bytes) == 0) continue;
    line->read = True;
    Group* group = line->group;
    ULong distance = instructions + offset - line->when;
    if (!is_near(line)) {
      group->reread_far++;
      continue;
    }
    group->reread++;
    count_piece(line);
    group->reread_sum += distance;
    group->reread_at[bucket_of(distance)]++;
  }
}

VG_REGPARM(3) void lines_other_write(Addr address, SizeT size, UWord offset) {
  while (size > 0) {
    Line* line = line_at(address);
    ULong bytes = take_bytes(&address, &size);
    if (line == NULL || line->group == NULL || line->other) continue;
    ULong now = instructions + offset;
    if ((line->mask & bytes) == 0 && now - line->when <= kBurst) continue;
    count_rewrite(line, now);
    line->other = True;
  }
}

void lines_forget(Addr address, SizeT size) {
  Addr end = address + size;
  for (Addr at = address & ~(Addr)(kLineBytes - 1); at < end;) {
    Chunk* chunk = chunk_of(at);
    if (chunk == NULL) {
      at = ((at >> kChunkShift) + 1) << kChunkShift;
      continue;
    }
    chunk->lines[(at >> kLineShift) % kChunkLines].group = NULL;
    at += kLineBytes;
  }
}
