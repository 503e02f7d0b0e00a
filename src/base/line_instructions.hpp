// The processor's instructions for cache lines: what writes one back, what moves one down, what
// stores past the caches. One source for pre-stores, which are hints, and for pm's flushes, on
// which durability stands. Invariants: which instruction it is is asked once a process; none of
// them waits.
#pragma once

#include <cstddef>
#include <cstdint>

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

/// As memcpy(); whole lines of `to` go past the caches. In no order with other stores until
/// order_line_instructions().
void copy_past_caches(void* to, void const* from, std::size_t bytes);
/// Lines that this thread flushed, cleaned and skipped are where they were sent.
void order_line_instructions();

}  // namespace perdure
