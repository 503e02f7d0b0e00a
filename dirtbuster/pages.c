/* Pages as contexts: which lines of a page a function writes while the page is in use. It is what
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
  PageCounts* counts; /* NULL: the entry is free */
  Addr number;
  ULong lines; /* a bit each */
} Page;

static Page table[kEntries];

static void close(Page* page) {
  page->counts->pages++;
  page->counts->lines += (ULong)__builtin_popcountll(page->lines);
  page->counts = NULL;
}

void pages_write(PageCounts* counts, Addr address) {
  Addr number = address >> kPageShift;
  Page* page = &table[number % kEntries];
  if (page->counts != counts || page->number != number) {
    if (page->counts != NULL) close(page);
    *page = (Page){.counts = counts, .number = number};
  }
  page->lines |= 1ULL << ((address >> kLineShift) % kPageLines);
}

void pages_close_all(void) {
  for (UInt i = 0; i < kEntries; i++)
    if (table[i].counts != NULL) close(&table[i]);
}
