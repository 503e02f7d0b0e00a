/* The Valgrind tool `dirtbuster`: its options, its counters of instructions, and what it does when
 * the program maps memory, calls the system, changes threads or ends. Translation is in
 * instrument.c.
 *
 * Invariant: `instructions` counts those of all threads. A thread's own count is
 * thread_before[thread] + instructions while it runs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "dirtbuster.h"
#include "instrument.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_options.h"
#include "pub_tool_tooliface.h"

ULong instructions;
ULong thread_before[kThreads];
ThreadId running;
Addr stack_low, stack_high;
ULong option_cache_lines = (2UL << 20) / kLineBytes;
ULong option_fence_window = 1000;

static const HChar *option_functions, *option_start_at;
static const HChar* option_out = "dirtbuster.%p.json";
static ULong option_milliseconds;

static void write_results(void) {
  contexts_close_all();
  pages_close_all();
  lines_finish();
  report_write(option_out);
}

static Bool process_option(const HChar* argument) {
  Long number;
  if (VG_STR_CLO(argument, "--functions", option_functions)) return True;
  if (VG_STR_CLO(argument, "--start-at", option_start_at)) return True;
  if (VG_STR_CLO(argument, "--out", option_out)) return True;
  if (VG_BINT_CLO(argument, "--cache-bytes", number, kLineBytes, 1LL << 40)) {
    option_cache_lines = (ULong)number / kLineBytes;
    return True;
  }
  if (VG_BINT_CLO(argument, "--fence-window", number, 1, 1LL << 40)) {
    option_fence_window = (ULong)number;
    return True;
  }
  if (VG_BINT_CLO(argument, "--milliseconds", number, 1, 1LL << 31)) {
    option_milliseconds = (ULong)number;
    return True;
  }
  return False;
}

static void print_usage(void) {
  VG_(printf)(
      "    --functions=FILE     the functions to watch, one a line [none]\n"
      "    --start-at=FILE      count once one of these is entered, likewise [those to watch]\n"
      "    --out=FILE           where the numbers go [dirtbuster.%%p.json]\n"
      "    --cache-bytes=N      lines filled before a line counts as evicted [2 MiB]\n"
      "    --fence-window=N     instructions within which a fence follows a write [1000]\n"
      "    --milliseconds=N     end the program after so many [never]\n");
}

static void print_debug_usage(void) { VG_(printf)("    (none)\n"); }

static void post_options(void) {
  if (option_functions != NULL) functions_load(option_functions);
  if (option_start_at != NULL) functions_load_start(option_start_at);
}

/* --- threads */

static ULong stopped_at[kThreads]; /* what `instructions` was when the thread last stopped */

static void start_thread(ThreadId thread, ULong blocks) {
  (void)blocks;
  if (option_milliseconds != 0 && VG_(read_millisecond_timer)() > option_milliseconds) {
    write_results();
    VG_(exit)(0);
  }
  running = thread;
  thread_before[thread] -= instructions - stopped_at[thread];
  stack_high = VG_(thread_get_stack_max)(thread);
  stack_low = stack_high - VG_(thread_get_stack_size)(thread);
}

static void stop_thread(ThreadId thread, ULong blocks) {
  (void)blocks;
  stopped_at[thread] = instructions;
}

/* --- the system */

static void system_reads(CorePart part, ThreadId thread, const HChar* what, Addr address,
                         SizeT size) {
  (void)thread;
  (void)what;
  if (part == Vg_CoreSysCall) lines_read(address, size, 0);
}

static void system_wrote(CorePart part, ThreadId thread, Addr address, SizeT size) {
  (void)thread;
  if (part == Vg_CoreSysCall) lines_other_write(address, size, 0);
}

static void finish(Int status) {
  (void)status;
  write_results();
}

static void set_details(void) {
  VG_(details_name)("dirtbuster");
  VG_(details_version)("1");
  VG_(details_description)("finds writes that pre-stores would help");
  VG_(details_copyright_author)("Copyright 2026 The Perdure authors");
  VG_(details_bug_reports_to)("the Perdure authors");
  VG_(details_avg_translation_sizeB)(400);
}

static void pre_options(void) {
  set_details();
  VG_(basic_tool_funcs)(post_options, instrument_block, finish);
  VG_(needs_command_line_options)(process_option, print_usage, print_debug_usage);
  VG_(track_start_client_code)(start_thread);
  VG_(track_stop_client_code)(stop_thread);
  VG_(track_pre_mem_read)(system_reads);
  VG_(track_post_mem_write)(system_wrote);
  VG_(track_die_mem_munmap)(lines_forget);
}

VG_DETERMINE_INTERFACE_VERSION(pre_options)
