/* Writes what was found as JSON: the functions that were watched, and each group that wrote.
 *
 * Invariant: numbers are as they were counted; what they mean for advice is Python's part.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "dirtbuster.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_options.h"
#include "pub_tool_vki.h"

static VgFile* out;
static Bool first;

static void text(const HChar* name, const HChar* value) {
  VG_(fprintf)(out, "\"%s\": \"", name);
  for (const HChar* at = value == NULL ? "" : value; *at != '\0'; at++) {
    if (*at == '"' || *at == '\\')
      VG_(fprintf)(out, "\\%c", *at);
    else if ((UChar)*at < 0x20)
      VG_(fprintf)(out, "?");
    else
      VG_(fprintf)(out, "%c", *at);
  }
  VG_(fprintf)(out, "\", ");
}

static void number(const HChar* name, ULong value) {
  VG_(fprintf)(out, "\"%s\": %llu, ", name, value);
}

static void buckets(const HChar* name, const ULong* values) {
  UInt count = kBuckets;
  while (count > 0 && values[count - 1] == 0) count--;
  VG_(fprintf)(out, "\"%s\": [", name);
  for (UInt i = 0; i < count; i++) VG_(fprintf)(out, "%s%llu", i == 0 ? "" : ", ", values[i]);
  VG_(fprintf)(out, "], ");
}

static void separate(void) {
  VG_(fprintf)(out, first ? "\n" : ",\n");
  first = False;
}

static void write_function(const Function* function) {
  separate();
  VG_(fprintf)(out, "  {");
  text("object", function->object);
  text("pattern", function->pattern);
  number("first", function->first);
  number("end", function->end);
  VG_(fprintf)(out, "\"seen\": %s}", function->seen ? "true" : "false");
}

static void write_group(const Group* group) {
  if (group->writes == 0) return;
  separate();
  VG_(fprintf)(out, "  {");
  text("symbol", group->symbol);
  text("object", group->object);
  text("file", group->file);
  number("line", group->line);
  number("address", group->address);
  text("caller", group->caller_symbol);
  number("writes", group->writes);
  number("bytes", group->bytes);
  number("sequential_writes", group->sequential_writes);
  number("context_lines", group->context_lines);
  number("context_blocks", group->context_blocks);
  buckets("contexts", group->contexts);
  buckets("context_bytes", group->context_bytes);
  number("pages", group->by_page->pages);
  number("page_lines", group->by_page->lines);
  number("pieces", group->pieces);
  number("reread_pieces", group->reread_pieces);
  number("passes", group->passes);
  number("reread", group->reread);
  number("reread_sum", group->reread_sum);
  number("reread_far", group->reread_far);
  buckets("reread_at", group->reread_at);
  number("rewritten", group->rewritten);
  number("rewritten_sum", group->rewritten_sum);
  number("rewritten_far", group->rewritten_far);
  buckets("rewritten_at", group->rewritten_at);
  number("fenced", group->fenced);
  number("fenced_min", group->fenced == 0 ? 0 : group->fenced_min);
  buckets("fenced_at", group->fenced_at);
  VG_(fprintf)(out, "\"is_call\": %s, \"on_stack\": %s}", group->is_call ? "true" : "false",
               group->on_stack ? "true" : "false");
}

void report_write(const HChar* path) {
  HChar* name = VG_(expand_file_name)("--out", path);
  out = VG_(fopen)(name, VKI_O_CREAT | VKI_O_TRUNC | VKI_O_WRONLY, VKI_S_IRUSR | VKI_S_IWUSR);
  if (out == NULL) {
    VG_(umsg)("dirtbuster: cannot write %s\n", name);
    return;
  }
  VG_(fprintf)(out, "{\"instructions\": %llu, \"begun\": %s,\n \"functions\": [", instructions,
               start_has_begun() ? "true" : "false");
  first = True;
  functions_each(write_function);
  VG_(fprintf)(out, "],\n \"starts\": [");
  first = True;
  functions_each_start(write_function);
  VG_(fprintf)(out, "],\n \"groups\": [");
  first = True;
  groups_each(write_group);
  VG_(fprintf)(out, "]}\n");
  VG_(fclose)(out);
}
