/* Which functions are watched, and the groups that their writes are counted in.
 *
 * Invariants: the lists are read once, before the program runs. A group is made once for each
 * function, line of code and kind of memory, and never freed; so a translated instruction may hold
 * it. Names that groups point to are copies of their own, since Valgrind's may vanish.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "dirtbuster.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_seqmatch.h"
#include "pub_tool_stacktrace.h"
#include "pub_tool_vki.h"

enum { kMostFunctions = 256, kHeads = 4096, kFrames = 12, kMostBytes = 1 << 20, kMostName = 4096 };

typedef struct List {
  Function functions[kMostFunctions];
  UInt count;
} List;
static List watched, starting;

/* --- a list: one function a line, with tabs between its fields:
 *     OBJECT  PATTERN  FIRST  END     the last two hexadecimal, and 0 where the pattern is all */

static HChar* next_field(HChar** at) {
  HChar* field = *at;
  while (**at != '\0' && **at != '\t') ++*at;
  if (**at != '\0') *(*at)++ = '\0';
  return field;
}

static void add_function(List* list, HChar* line) {
  tl_assert(list->count < kMostFunctions);
  Function* function = &list->functions[list->count++];
  function->object = next_field(&line);
  function->pattern = next_field(&line);
  function->first = VG_(strtoull16)(next_field(&line), NULL);
  function->end = VG_(strtoull16)(next_field(&line), NULL);
}

static void load(List* list, const HChar* path) {
  HChar* text = VG_(calloc)("dirtbuster.list", 1, kMostBytes);
  SysRes file = VG_(open)(path, VKI_O_RDONLY, 0);
  if (sr_isError(file) || VG_(read)((Int)sr_Res(file), text, kMostBytes - 1) < 0) {
    VG_(umsg)("dirtbuster: cannot read the list of functions %s\n", path);
    VG_(exit)(1);
  }
  VG_(close)((Int)sr_Res(file));
  for (HChar* line = text; *line != '\0';) {
    HChar* end = line;
    while (*end != '\0' && *end != '\n') end++;
    Bool last = *end == '\0';
    *end = '\0';
    if (*line != '\0') add_function(list, line);
    line = last ? end : end + 1;
  }
}

void functions_load(const HChar* path) { load(&watched, path); }
void functions_load_start(const HChar* path) { load(&starting, path); }

static Bool ends_with(const HChar* text, const HChar* end) {
  SizeT text_length = VG_(strlen)(text);
  SizeT end_length = VG_(strlen)(end);
  return end_length <= text_length && VG_(strcmp)(text + text_length - end_length, end) == 0;
}

/* Whether one of the patterns, which have | between them, fits. */
static Bool matches(const HChar* patterns, const HChar* symbol) {
  HChar pattern[kMostName];
  while (*patterns != '\0') {
    UInt length = 0;
    for (; *patterns != '\0' && *patterns != '|'; patterns++)
      if (length < kMostName - 1) pattern[length++] = *patterns;
    pattern[length] = '\0';
    if (VG_(string_match)(pattern, symbol)) return True;
    if (*patterns == '|') patterns++;
  }
  return False;
}

static Addr in_file(Addr address) {
  DebugInfo* info = VG_(find_DebugInfo)(VG_(current_DiEpoch)(), address);
  return info == NULL ? address : address - (Addr)VG_(DebugInfo_get_text_bias)(info);
}

static const HChar* object_of(Addr address) {
  const HChar* object;
  return VG_(get_objname)(VG_(current_DiEpoch)(), address, &object) ? object : "";
}

static Bool is_in(const Function* function, const HChar* object, const HChar* symbol,
                  Addr address) {
  if (!ends_with(object, function->object)) return False;
  if (symbol != NULL && matches(function->pattern, symbol)) return True;
  Addr at = in_file(address);
  return at >= function->first && at < function->end;
}

static Function* find_in(List* list, Addr address) {
  const HChar* symbol;
  if (!VG_(get_fnname)(VG_(current_DiEpoch)(), address, &symbol)) symbol = NULL;
  const HChar* object = object_of(address);
  for (UInt i = 0; i < list->count; i++)
    if (is_in(&list->functions[i], object, symbol, address)) return &list->functions[i];
  return NULL;
}

Function* functions_find(Addr address, Bool* is_entry) {
  Function* function = find_in(&watched, address);
  if (function == NULL) return NULL;
  const HChar* symbol;
  function->seen = True;
  *is_entry = VG_(get_fnname_if_entry)(VG_(current_DiEpoch)(), address, &symbol);
  return function;
}

Bool functions_start_in(Addr address) {
  List* list = starting.count > 0 ? &starting : &watched;
  Function* function = find_in(list, address);
  if (function != NULL) function->seen = True;
  return function != NULL;
}

Bool functions_may_start_in(Addr address) {
  const List* list = starting.count > 0 ? &starting : &watched;
  const HChar* object = object_of(address);
  for (UInt i = 0; i < list->count; i++)
    if (ends_with(object, list->functions[i].object)) return True;
  return False;
}

static Bool look_up_library(Addr address) {
  static const HChar* const patterns[] = {"*/libc.so*", "*/libc-*", "*/libstdc++.so*",
                                          "*/ld-linux*", "*/libc++.so*"};
  for (UInt i = 0; i < sizeof patterns / sizeof patterns[0]; i++)
    if (VG_(string_match)(patterns[i], object_of(address))) return True;
  const HChar* symbol; /* a static program has the library in itself */
  return VG_(get_fnname)(VG_(current_DiEpoch)(), address, &symbol) &&
         VG_(string_match)("__mem*_*", symbol);
}

/* Of what these write, the caller's line says more than their own. Answers are remembered: a
 * library that is unloaded leaves some that may be wrong of another at its addresses. */
Bool functions_in_library(Addr address) {
  static struct {
    Addr address;
    Bool answer;
  } known[kHeads];
  UInt entry = address % kHeads;
  if (known[entry].address != address) {
    known[entry].answer = look_up_library(address);
    known[entry].address = address;
  }
  return known[entry].answer;
}

void functions_each(void (*visit)(const Function*)) {
  for (UInt i = 0; i < watched.count; i++) visit(&watched.functions[i]);
}

void functions_each_start(void (*visit)(const Function*)) {
  for (UInt i = 0; i < starting.count; i++) visit(&starting.functions[i]);
}

/* --- groups */

static Group* groups[kHeads];

typedef struct Name {
  struct Name* next;
  HChar text[];
} Name;

static const HChar* keep(const HChar* text) {
  static Name* names[kHeads];
  UInt hash = 5381;
  for (const HChar* at = text; *at != '\0'; at++) hash = hash * 33 + (UChar)*at;
  Name** head = &names[hash % kHeads];
  for (Name* name = *head; name != NULL; name = name->next)
    if (VG_(strcmp)(name->text, text) == 0) return name->text;
  Name* name = VG_(malloc)("dirtbuster.name", sizeof(Name) + VG_(strlen)(text) + 1);
  VG_(strcpy)(name->text, text);
  name->next = *head;
  *head = name;
  return name->text;
}

static const HChar* symbol_of(Addr address) {
  const HChar* symbol;
  return VG_(get_fnname)(VG_(current_DiEpoch)(), address, &symbol) ? keep(symbol) : "";
}

static const HChar* path_of(const HChar* directory, const HChar* file) {
  if (file[0] == '/' || directory[0] == '\0') return keep(file);
  HChar* path = VG_(malloc)("dirtbuster.path", VG_(strlen)(directory) + VG_(strlen)(file) + 2);
  VG_(sprintf)(path, "%s/%s", directory, file);
  const HChar* kept = keep(path);
  VG_(free)(path);
  return kept;
}

static Group* find_group(const Group* like) {
  UWord hash = (UWord)like->function / 64 + (UWord)like->file / 16 + like->line * 31 +
               (UWord)like->caller_symbol / 16 + (UWord)like->symbol / 16;
  Group** head = &groups[hash % kHeads];
  for (Group* group = *head; group != NULL; group = group->next)
    if (group->function == like->function && group->file == like->file &&
        group->line == like->line && group->on_stack == like->on_stack &&
        group->symbol == like->symbol && group->caller_symbol == like->caller_symbol)
      return group;
  Group* group = VG_(malloc)("dirtbuster.group", sizeof(Group));
  *group = *like;
  group->fenced_min = ~0ULL;
  Bool alone = group->is_call || group->on_stack;
  group->by_page = alone ? &group->own_pages : &group->function->by_page;
  group->next = *head;
  *head = group;
  return group;
}

/* The last "(FILE:LINE)" of a frame as Valgrind describes it, taken apart in place; False: none. */
static Bool take_line(HChar* frame, const HChar** file, UInt* line) {
  HChar* open = VG_(strrchr)(frame, '(');
  HChar* colon = open == NULL ? NULL : VG_(strrchr)(open, ':');
  if (colon == NULL) return False;
  *colon = '\0';
  *file = open + 1;
  *line = (UInt)VG_(strtoull10)(colon + 1, NULL);
  return True;
}

static Bool is_systems(const HChar* file) {
  return VG_(string_match)("/usr/include/*", file) || VG_(string_match)("/usr/lib/*", file);
}

/* Where the system's headers are inlined, the line that did so: the innermost of the program's own.
 */
static void leave_headers(Group* group, Addr address) {
  InlIPCursor* frames = VG_(new_IIPC)(VG_(current_DiEpoch)(), address);
  do {
    HChar* frame =
        VG_(strdup)("dirtbuster.frame", VG_(describe_IP)(VG_(current_DiEpoch)(), address, frames));
    const HChar* file;
    UInt line;
    Bool found = take_line(frame, &file, &line) && !is_systems(file);
    if (found) {
      group->file = keep(file);
      group->line = line;
    }
    VG_(free)(frame);
    if (found) break;
  } while (VG_(next_IIPC)(frames));
  VG_(delete_IIPC)(frames);
}

/* Fills in file and line, and nothing where the program has no debug information of lines. */
static void set_line(Group* group, Addr address) {
  const HChar *file, *directory;
  UInt line;
  group->address = in_file(address);
  if (!VG_(get_filename_linenum)(VG_(current_DiEpoch)(), address, &file, &directory, &line)) return;
  group->file = path_of(directory, file);
  group->line = line;
  if (is_systems(group->file)) leave_headers(group, address);
}

Group* groups_of_line(Function* function, Addr address, Bool on_stack) {
  Group group = {.function = function,
                 .symbol = symbol_of(address),
                 .object = keep(object_of(address)),
                 .on_stack = on_stack};
  set_line(&group, address);
  return find_group(&group);
}

/* The first caller outside of the libraries. */
static Addr caller_of(ThreadId thread, Addr return_address) {
  if (!functions_in_library(return_address)) return return_address - 1;
  Addr frames[kFrames];
  UInt count = VG_(get_StackTrace)(thread, frames, kFrames, NULL, NULL, 0);
  for (UInt i = 1; i < count; i++)
    if (!functions_in_library(frames[i])) return frames[i];
  return return_address - 1;
}

static Group* group_of_caller(Function* function, Addr caller) {
  Group group = {.function = function,
                 .symbol = keep(function->pattern),
                 .object = keep(object_of(caller)),
                 .is_call = True,
                 .caller_symbol = symbol_of(caller)};
  set_line(&group, caller);
  return find_group(&group);
}

Group* groups_of_call(Function* function, ThreadId thread, Addr return_address) {
  static struct {
    Function* function;
    Addr caller;
    Group* group;
  } known[kHeads];
  Addr caller = caller_of(thread, return_address);
  UInt entry = (caller ^ (UWord)function / 64) % kHeads;
  if (known[entry].function == function && known[entry].caller == caller) return known[entry].group;
  if (object_of(caller)[0] == '\0') return NULL;
  known[entry].function = function;
  known[entry].caller = caller;
  return known[entry].group = group_of_caller(function, caller);
}

void groups_each(void (*visit)(const Group*)) {
  for (UInt i = 0; i < kHeads; i++)
    for (Group* group = groups[i]; group != NULL; group = group->next) visit(group);
}
