/* Sequentiality contexts: memory regions, each with the last write in it (3.6.2.2). A write next to
 * a context's last write, in the direction that it goes, extends it; any other begins a new one.
 *
 * Invariants: an open context stands in the table under the line of its last write. A newer context
 * with the same entry closes it, so that as many are open as the table has entries.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "dirtbuster.h"

enum { kEntries = 4096, kSharers = 4, kPageShift = 12 };

typedef enum { kUnknown, kUp, kDown } Direction;

/* Writes that several lines of code made in one context. */
typedef struct Share {
  Group* group;
  ULong writes;
} Share;

typedef struct Context {
  Function* function; /* NULL: the entry is free */
  Addr low, high; /* the region */
  Addr last, last_end;
  Direction direction;
  ULong piece;
  Share shares[kSharers];
} Context;

static Context table[kEntries];
static ULong pieces;

static Context* entry_of(Addr line) { return &table[line % kEntries]; }

static void close(Context* context) {
  Addr size = context->high - context->low;
  ULong lines = ((context->high - 1) >> kLineShift) - (context->low >> kLineShift) + 1;
  ULong blocks = ((context->high - 1) >> kInternalShift) - (context->low >> kInternalShift) + 1;
  Group* owner = context->shares[0].group;
  owner->contexts[bucket_of(size)]++;
  owner->context_bytes[bucket_of(size)] += size;
  owner->context_lines += lines;
  owner->context_blocks += blocks;
  for (UInt i = 0; i < kSharers; i++)
    if (context->shares[i].group != NULL && size > kLineBytes)
      context->shares[i].group->sequential_writes += context->shares[i].writes;
  context->function = NULL;
}

static void credit(Context* context, Group* group) {
  UInt i = 0;
  while (i < kSharers - 1 && context->shares[i].group != group && context->shares[i].group != NULL)
    i++;
  if (context->shares[i].group == NULL) context->shares[i].group = group;
  context->shares[i].writes++;
}

/* A gap of up to a line is no break: fields that are left out, padding. */
static Bool extends(const Context* context, const Group* group, Addr address, Addr end) {
  if (context->function != group->function) return False;
  Bool up = address > context->last && address <= context->last_end + kLineBytes;
  Bool down = end < context->last_end && end + kLineBytes >= context->last;
  if (context->direction == kUnknown) return up || down;
  return context->direction == kUp ? up : down;
}

static Streak begin(Group* group, Addr address, Addr end) {
  Context* context = entry_of((end - 1) >> kLineShift);
  if (context->function != NULL) close(context);
  *context = (Context){.function = group->function,
                       .low = address,
                       .high = end,
                       .last = address,
                       .last_end = end,
                       .direction = kUnknown,
                       .piece = ++pieces};
  group->pieces++;
  credit(context, group);
  return (Streak){.piece = context->piece, .continues = False};
}

static Streak extend(Context* context, Group* group, Addr address, Addr end) {
  if (context->direction == kUnknown) context->direction = address > context->last ? kUp : kDown;
  if (address < context->low) context->low = address;
  if (end > context->high) context->high = end;
  if ((end - 1) >> kPageShift != (context->last_end - 1) >> kPageShift) {
    context->piece = ++pieces;
    group->pieces++;
  }
  context->last = address;
  context->last_end = end;
  credit(context, group);
  Streak streak = {.piece = context->piece, .continues = True};
  Context* entry = entry_of((end - 1) >> kLineShift);
  if (entry == context) return streak;
  if (entry->function != NULL) close(entry);
  *entry = *context;
  context->function = NULL;
  return streak;
}

Streak contexts_write(Group* group, Addr address, SizeT size) {
  Addr end = address + size;
  Addr line = address >> kLineShift;
  for (Int away = 0; away < 3; away++) { /* its own line, the one below, the one above */
    Context* context = entry_of(line + (Addr)(away == 1 ? -1 : away / 2));
    if (!extends(context, group, address, end)) continue;
    return extend(context, group, address, end);
  }
  return begin(group, address, end);
}

void contexts_close_all(void) {
  for (UInt i = 0; i < kEntries; i++)
    if (table[i].function != NULL) close(&table[i]);
}
