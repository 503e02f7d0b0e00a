/* Pages as contexts: which lines of a page a group writes while the page is in use. It is what
 * remains where objects are too small, or written in too mixed an order, for sequentiality contexts
 * (3.7.4.3).
 *
 * Invariant: a page is in use until another one takes its entry, so for some thousand pages.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "dirtbuster.h"

enum { kEntries = 1024, kPageShift = 12, kPageLines = 1 << (kPageShift - kLineShift) };

typedef struct Page {
  Group* group; /* NULL: the entry is free */
  Addr number;
  ULong lines; /* a bit each */
} Page;

static Page table[kEntries];

static void close(Page* page) {
  page->group->pages++;
  page->group->page_lines += (ULong)__builtin_popcountll(page->lines);
  page->group = NULL;
}

void pages_write(Group* group, Addr address) {
  Addr number = address >> kPageShift;
  Page* page = &table[number % kEntries];
  if (page->group != group || page->number != number) {
    if (page->group != NULL) close(page);
    *page = (Page){.group = group, .number = number};
  }
  page->lines |= 1ULL << ((address >> kLineShift) % kPageLines);
}

void pages_close_all(void) {
  for (UInt i = 0; i < kEntries; i++)
    if (table[i].group != NULL) close(&table[i]);
}
