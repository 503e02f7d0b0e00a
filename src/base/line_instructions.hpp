// The processor's instructions for cache lines: what writes one back, what moves one down, what
// stores past the caches. One source for pre-stores, which are hints, and for pm's flushes, on
// which durability stands. Invariants: which instruction it is is asked once a process; none of
// them waits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/annotate.hpp"

namespace perdure {

struct LineInstruction {
  char const* name;  // "none: " and why not, where there is none
  /// Runs it on the lines that begin in [begin, end); `begin` is the first byte of a line.
  void (*run)(std::uintptr_t begin, std::uintptr_t end);
};

/// The line stays in the cache. May be none.
[[nodiscard]] LineInstruction const& cleaning_instruction();
/// May be none.
[[nodiscard]] LineInstruction const& demoting_instruction();
/// What is as good as cleaning for durability, or drops the line as well; never none.
[[nodiscard]] LineInstruction const& flushing_instruction();
[[nodiscard]] char const* skipping_instruction();

/// Bytes of a line, as the instructions see it.
[[nodiscard]] std::size_t line_bytes();
/// Runs it on each line of [at, at + bytes).
void run_on_lines(LineInstruction const& instruction, void const* at, std::size_t bytes);

#if defined(__x86_64__)
inline constexpr std::size_t kFlushedLine = 64;
/// Which instruction flushing_instruction() is. Until the process has run its constructors it
/// reads as the first, which every processor has.
enum class Flushing : std::uint8_t { clflush, clflushopt, clwb };
extern Flushing const chosen_flushing;

[[nodiscard]] PERDURE_HOT bool lies_in_one_line(void const* at, std::size_t bytes) {
  auto const begin = reinterpret_cast<std::uintptr_t>(at);
  return bytes != 0 && (begin ^ (begin + bytes - 1)) < kFlushedLine;
}
/// The line that has this byte, without a call.
PERDURE_HOT void flush_line(void const* at) {
  switch (chosen_flushing) {
    case Flushing::clwb: asm volatile("clwb (%0)" : : "r"(at) : "memory"); return;
    case Flushing::clflushopt: asm volatile("clflushopt (%0)" : : "r"(at) : "memory"); return;
    case Flushing::clflush: asm volatile("clflush (%0)" : : "r"(at) : "memory"); return;
  }
}
#endif

/// Flushes each line of [at, at + bytes). A host's tables flush one line at a time, in the midst of
/// an operation: a call for that took 42 instructions.
PERDURE_HOT void flush_lines(void const* at, std::size_t bytes) {
#if defined(__x86_64__)
  if (lies_in_one_line(at, bytes)) return flush_line(at);
#endif
  run_on_lines(flushing_instruction(), at, bytes);
}

/// As memcpy(); whole lines of `to` go past the caches. In no order with other stores until
/// order_line_instructions().
void copy_past_caches(void* to, void const* from, std::size_t bytes);
/// Lines that this thread flushed, cleaned and skipped are where they were sent.
inline void order_line_instructions() {
#if defined(__x86_64__)
  asm volatile("sfence" : : : "memory");
#else
  asm volatile("dsb sy" : : : "memory");
#endif
}

}  // namespace perdure
