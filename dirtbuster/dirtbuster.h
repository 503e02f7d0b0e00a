/* What the parts of the Valgrind tool share: functions under test, groups of writes, lines,
 * contexts.
 *
 * Invariant: Valgrind runs one thread of the program at a time, so nothing here is locked.
 * Section numbers are those of the thesis that DirtBuster comes from (docs/dirtbuster.md names it).
 *
 * SPDX-License-Identifier: Apache-2.0 (the linked tool is under GPL terms: see README.md)
 */
#ifndef PERDURE_DIRTBUSTER_H
#define PERDURE_DIRTBUSTER_H

#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"

enum {
  kLineShift = 6,  /* a cache line: 64 bytes */
  kLineBytes = 1 << kLineShift,
  kInternalShift = 8,  /* an internal line of the memory behind the cache: 256 bytes (3.4.1) */
  kBuckets = 48,       /* of powers of two */
  kThreads = 512,
  kFilterLines = 1 << 20
};

/* Pages that were written for a while, and the lines of them that were. */
typedef struct PageCounts {
  ULong pages, lines;
} PageCounts;

/* A function whose writes are watched: what its name fits or its range of addresses has. */
typedef struct Function {
  const HChar* object;   /* the end of the object's path; empty: any */
  const HChar* pattern;  /* of the symbol, with *, ? and |; may be empty */
  Addr first, end;       /* as in the object's file; may be 0 */
  Bool seen;             /* some of it has run */
  PageCounts by_page;
  struct Group* current[kThreads]; /* in a library: the group of the call that each thread is in */
} Function;

/* All writes of one function at one line of code, by one line that called it, to one kind of
 * memory. Distances are in instructions. Bucket i counts numbers from 2^i on. */
typedef struct Group {
  struct Group* next;
  Function* function;
  const HChar* symbol;
  const HChar* object;
  const HChar* file; /* of the write, or of the call where the function is a library's */
  UInt line;
  Bool is_call; /* file and line are the caller's */
  Bool on_stack;
  Addr address; /* one write's, or the call's, as in the object's file */
  const HChar* caller_symbol; /* where is_call */

  ULong writes, bytes;
  ULong sequential_writes; /* in contexts of more than one line */
  ULong context_lines, context_blocks; /* lines and internal lines that the contexts covered */
  ULong contexts[kBuckets], context_bytes[kBuckets]; /* by size */
  PageCounts* by_page; /* its own, or the function's: lines of code share their objects */
  PageCounts own_pages;
  ULong pieces, reread_pieces; /* of contexts, a page each; those of which a line was read soon */

  ULong passes; /* a pass: a line is being filled, until it is written again */
  ULong reread, reread_sum, reread_far;
  ULong rewritten, rewritten_sum, rewritten_far;
  ULong reread_at[kBuckets], rewritten_at[kBuckets];

  ULong fenced, fenced_min; /* lines with a fence or atomic soon after their last write */
  ULong fenced_at[kBuckets];
} Group;

/* One store instruction, as it was translated. */
typedef struct Store {
  Addr address;
  SizeT size;
  UInt offset; /* instructions since those that `instructions` has */
  Function* function;
  Group* heap;
  Group* stack; /* heap, stack: NULL in a library, where the call says */
} Store;

/* --- counters (main.c) */
extern ULong instructions; /* executed by all threads, up to the last that was added */
extern ULong thread_before[]; /* by thread: add `instructions` to have its own count */
extern ThreadId running; /* the thread */
extern Addr stack_low, stack_high; /* its stack */
extern ULong option_cache_lines;
extern ULong option_fence_window;

static inline UInt bucket_of(ULong number) {
  return number == 0 ? 0 : 63 - (UInt)__builtin_clzll(number);
}

/* --- functions.c */
void functions_load(const HChar* path);
void functions_load_start(const HChar* path);
Function* functions_find(Addr address, Bool* is_entry);
Bool functions_start_in(Addr address); /* of a function to start at */
Bool functions_may_start_in(Addr address); /* whether the object there may have one: quick */
Bool functions_in_library(Addr address);
Group* groups_of_line(Function* function, Addr address, Bool on_stack);
/* NULL: the code was not called, but jumped to from within. */
Group* groups_of_call(Function* function, ThreadId thread, Addr return_address);
void groups_each(void (*visit)(const Group*));
void functions_each(void (*visit)(const Function*));
void functions_each_start(void (*visit)(const Function*));

/* --- start.c */
Bool start_begins(const IRSB* block); /* now, or has already: the block is to be counted */
Bool start_has_begun(void);

/* --- contexts.c */
/* What a write is part of. */
typedef struct Streak {
  ULong piece; /* the serial number of the context's piece: its part of one page */
  Bool continues; /* the write extended a context */
} Streak;

Streak contexts_write(Group* group, Addr address, SizeT size);
void contexts_close_all(void);

/* --- pages.c */
void pages_write(PageCounts* counts, Addr address);
void pages_close_all(void);

/* --- lines.c */
extern UChar line_filter[kFilterLines];
void lines_hot_write(const Store* store, Group* group, Addr address, SizeT size, Streak streak);
VG_REGPARM(3) void lines_read(Addr address, SizeT size, UWord offset);
VG_REGPARM(3) void lines_other_write(Addr address, SizeT size, UWord offset);
void lines_forget(Addr address, SizeT size);
void lines_fence(UWord offset);
void lines_finish(void);

/* --- report.c */
void report_write(const HChar* path);

#endif
