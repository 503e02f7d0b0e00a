/* When counting begins: once a block is translated that has code of a function to start at. Those
 * are the watched functions, or others that `--start-at` names. Blocks before it stay as they are,
 * so that what a program does first (PyTorch's import: 635,000 blocks, most of them run a few
 * times) costs what Valgrind alone does.
 *
 * Invariant: nothing is lost by beginning late. Only a watched function's write makes a line
 * watched, and no such function has run before, or `--start-at` leaves out what it did.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "dirtbuster.h"

/* Valgrind's core has it, and its tools' headers only a variant that client requests may call. Here
 * no code of the program runs either: its thread waits in the scheduler for the block that is being
 * translated, which enters the table after this. The core does not link a block that has been
 * discarded to its successor (tt_tc_do_chaining). */
extern void vgPlain_discard_translations(Addr start, ULong range, const HChar* who);

static Bool begun;

static Bool has_start(const IRSB* block) {
  Bool may_be_here = False;
  Addr next = 0; /* where the object was looked up for: code that follows lies in the same one */
  for (Int i = 0; i < block->stmts_used; i++) {
    const IRStmt* mark = block->stmts[i];
    if (mark == NULL || mark->tag != Ist_IMark) continue;
    Addr address = mark->Ist.IMark.addr;
    if (address != next) may_be_here = functions_may_start_in(address);
    next = address + mark->Ist.IMark.len;
    if (may_be_here && functions_start_in(address)) return True;
  }
  return False;
}

Bool start_begins(const IRSB* block) {
  if (begun) return True;
  if (!has_start(block)) return False;
  begun = True;
  vgPlain_discard_translations(0x1000, ~(ULong)0xfff, "dirtbuster");
  return True;
}

Bool start_has_begun(void) { return begun; }
