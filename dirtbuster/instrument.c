/* Adds to each block of the program the counting of instructions, a call for each fence, a call for
 * each store of a watched function, and, for every other access, a look at the filter of watched
 * lines, with a call where the line may be one.
 *
 * Invariant: at any call, `instructions` plus the offset that is passed is the number of
 * instructions that ran before. `instructions` is brought up to date before each exit of the block.
 * Atomics are fences, and their own words no candidates for pre-stores: they are not counted as
 * writes. Known loss: an access that straddles two lines is looked up by its first one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "instrument.h"

#include "dirtbuster.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"

typedef struct Block {
  IRSB* out;
  const VexGuestLayout* layout;
  UInt pending; /* instructions that `instructions` does not have yet */
  Addr address; /* of the instruction */
  Function* function; /* that it belongs to; NULL: not watched */
} Block;

/* --- what translated code calls */

static VG_REGPARM(2) void hot_store(Addr address, Store* store) {
  Group* group = store->heap;
  if (group == NULL) {
    group = store->function->current[running];
    if (group == NULL) { /* the thread came in by a way that is no call: until it is called */
      group = groups_of_line(store->function, store->address, False);
      store->function->current[running] = group;
    }
  } else if (address >= stack_low && address <= stack_high) {
    group = store->stack;
  }
  group->writes++;
  group->bytes += store->size;
  pages_write(group->by_page, address);
  Streak streak = contexts_write(group, address, store->size);
  lines_hot_write(store, group, address, store->size, streak);
}

static VG_REGPARM(2) void enter_library(Function* function, Addr stack_pointer) {
  Group* group = groups_of_call(function, running, *(Addr*)stack_pointer);
  if (group != NULL) function->current[running] = group;
}

static VG_REGPARM(1) void pass_fence(UWord offset) { lines_fence(offset); }

/* --- pieces of code */

static IRExpr* word(const void* pointer) { return mkIRExpr_HWord((HWord)pointer); }

static IRExpr* assign(Block* block, IRType type, IRExpr* value) {
  IRTemp temporary = newIRTemp(block->out->tyenv, type);
  addStmtToIRSB(block->out, IRStmt_WrTmp(temporary, value));
  return IRExpr_RdTmp(temporary);
}

static IRExpr* binary(Block* block, IRType type, IROp operation, IRExpr* left, IRExpr* right) {
  return assign(block, type, IRExpr_Binop(operation, left, right));
}

static void add_pending(Block* block) {
  if (block->pending == 0) return;
  IRExpr* counter = word(&instructions);
  IRExpr* before = assign(block, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, counter));
  IRExpr* after = binary(block, Ity_I64, Iop_Add64, before, mkIRExpr_HWord(block->pending));
  addStmtToIRSB(block->out, IRStmt_Store(Iend_LE, counter, after));
  block->pending = 0;
}

/* Both of two conditions; `second` may be NULL. */
static IRExpr* both(Block* block, IRExpr* first, IRExpr* second) {
  if (second == NULL) return first;
  IRExpr* left = assign(block, Ity_I32, IRExpr_Unop(Iop_1Uto32, first));
  IRExpr* right = assign(block, Ity_I32, IRExpr_Unop(Iop_1Uto32, second));
  IRExpr* all = binary(block, Ity_I32, Iop_And32, left, right);
  return assign(block, Ity_I1, IRExpr_Unop(Iop_32to1, all));
}

static IRExpr* is_perhaps_watched(Block* block, IRExpr* address) {
  IRExpr* line = binary(block, Ity_I64, Iop_Shr64, address, IRExpr_Const(IRConst_U8(kLineShift)));
  IRExpr* index = binary(block, Ity_I64, Iop_And64, line, mkIRExpr_HWord(kFilterLines - 1));
  IRExpr* at = binary(block, Ity_I64, Iop_Add64, index, word(line_filter));
  IRExpr* byte = assign(block, Ity_I8, IRExpr_Load(Iend_LE, Ity_I8, at));
  return binary(block, Ity_I1, Iop_CmpNE8, byte, IRExpr_Const(IRConst_U8(0)));
}

typedef VG_REGPARM(3) void (*Access)(Addr address, SizeT size, UWord offset);

static void look_up(Block* block, Access access, const HChar* name, IRExpr* address, SizeT size,
                    IRExpr* guard) {
  IRExpr** arguments = mkIRExprVec_3(address, mkIRExpr_HWord(size), mkIRExpr_HWord(block->pending));
  IRDirty* call = unsafeIRDirty_0_N(3, name, VG_(fnptr_to_fnentry)((void*)access), arguments);
  call->guard = both(block, is_perhaps_watched(block, address), guard);
  addStmtToIRSB(block->out, IRStmt_Dirty(call));
}

static Store* make_store(Block* block, SizeT size) {
  Store* store = VG_(calloc)("dirtbuster.store", 1, sizeof(Store));
  store->address = block->address;
  store->size = size;
  store->offset = block->pending;
  store->function = block->function;
  if (!functions_in_library(block->address)) {
    store->heap = groups_of_line(block->function, block->address, False);
    store->stack = groups_of_line(block->function, block->address, True);
  }
  return store;
}

static void add_read(Block* block, IRExpr* address, SizeT size, IRExpr* guard) {
  look_up(block, lines_read, "lines_read", address, size, guard);
}

static void add_write(Block* block, IRExpr* address, SizeT size, IRExpr* guard) {
  if (block->function == NULL) {
    look_up(block, lines_other_write, "lines_other_write", address, size, guard);
    return;
  }
  IRExpr** arguments = mkIRExprVec_2(address, word(make_store(block, size)));
  IRDirty* call =
      unsafeIRDirty_0_N(2, "hot_store", VG_(fnptr_to_fnentry)((void*)hot_store), arguments);
  if (guard != NULL) call->guard = guard;
  addStmtToIRSB(block->out, IRStmt_Dirty(call));
}

static void add_fence(Block* block) {
  IRExpr** arguments = mkIRExprVec_1(mkIRExpr_HWord(block->pending));
  IRDirty* call =
      unsafeIRDirty_0_N(1, "pass_fence", VG_(fnptr_to_fnentry)((void*)pass_fence), arguments);
  addStmtToIRSB(block->out, IRStmt_Dirty(call));
}

/* The caller is what the return address says, which is on top of the stack now. */
static void add_entry(Block* block) {
  const VexGuestLayout* layout = block->layout;
  addStmtToIRSB(block->out, IRStmt_Put(layout->offset_IP, mkIRExpr_HWord(block->address)));
  IRExpr* stack = assign(block, Ity_I64, IRExpr_Get(layout->offset_SP, Ity_I64));
  IRExpr** arguments = mkIRExprVec_2(word(block->function), stack);
  IRDirty* call =
      unsafeIRDirty_0_N(2, "enter_library", VG_(fnptr_to_fnentry)((void*)enter_library), arguments);
  const Int offsets[] = {layout->offset_IP, layout->offset_SP, layout->offset_FP};
  call->nFxState = 3;
  for (Int i = 0; i < 3; i++) {
    call->fxState[i].fx = Ifx_Read;
    call->fxState[i].offset = (UShort)offsets[i];
    call->fxState[i].size = sizeof(Addr);
    call->fxState[i].nRepeats = 0;
    call->fxState[i].repeatLen = 0;
  }
  addStmtToIRSB(block->out, IRStmt_Dirty(call));
}

/* --- statements */

static void begin_instruction(Block* block, const IRStmt* mark) {
  Bool is_entry = False;
  block->address = mark->Ist.IMark.addr;
  block->function = functions_find(block->address, &is_entry);
  addStmtToIRSB(block->out, (IRStmt*)mark);
  if (is_entry && functions_in_library(block->address)) add_entry(block);
  block->pending++;
}

static void add_dirty(Block* block, const IRDirty* dirty) {
  if (dirty->mFx == Ifx_None) return;
  if (dirty->mFx != Ifx_Write) add_read(block, dirty->mAddr, (SizeT)dirty->mSize, dirty->guard);
  if (dirty->mFx != Ifx_Read) add_write(block, dirty->mAddr, (SizeT)dirty->mSize, dirty->guard);
}

static SizeT size_of(const Block* block, IRExpr* value) {
  return (SizeT)sizeofIRType(typeOfIRExpr(block->out->tyenv, value));
}

static void guarded_load(Block* block, const IRLoadG* load) {
  IRType result, loaded;
  typeOfIRLoadGOp(load->cvt, &result, &loaded);
  add_read(block, load->addr, (SizeT)sizeofIRType(loaded), load->guard);
}

/* What is added before a statement. */
static void add_before(Block* block, IRStmt* statement) {
  switch (statement->tag) {
    case Ist_WrTmp: {
      IRExpr* value = statement->Ist.WrTmp.data;
      if (value->tag == Iex_Load)
        add_read(block, value->Iex.Load.addr, (SizeT)sizeofIRType(value->Iex.Load.ty), NULL);
      break;
    }
    case Ist_LoadG: guarded_load(block, statement->Ist.LoadG.details); break;
    case Ist_Store:
      add_write(block, statement->Ist.Store.addr, size_of(block, statement->Ist.Store.data), NULL);
      break;
    case Ist_StoreG: {
      const IRStoreG* store = statement->Ist.StoreG.details;
      add_write(block, store->addr, size_of(block, store->data), store->guard);
      break;
    }
    case Ist_Dirty: add_dirty(block, statement->Ist.Dirty.details); break;
    case Ist_CAS:
    case Ist_LLSC:
    case Ist_MBE: add_fence(block); break;
    case Ist_Exit: add_pending(block); break;
    default: break;
  }
}

IRSB* instrument_block(VgCallbackClosure* closure, IRSB* in, const VexGuestLayout* layout,
                       const VexGuestExtents* extents, const VexArchInfo* host, IRType guest_word,
                       IRType host_word) {
  (void)closure;
  (void)extents;
  (void)host;
  tl_assert(guest_word == host_word);
  if (!start_begins(in)) return in;
  Block block = {.out = deepCopyIRSBExceptStmts(in), .layout = layout};
  Int at = 0;
  for (; at < in->stmts_used && in->stmts[at]->tag != Ist_IMark; at++)
    addStmtToIRSB(block.out, in->stmts[at]);
  for (; at < in->stmts_used; at++) {
    IRStmt* statement = in->stmts[at];
    if (statement == NULL || statement->tag == Ist_NoOp) continue;
    if (statement->tag == Ist_IMark) {
      begin_instruction(&block, statement);
      continue;
    }
    add_before(&block, statement);
    addStmtToIRSB(block.out, statement);
  }
  add_pending(&block);
  return block.out;
}
