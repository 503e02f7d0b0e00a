#include "pm/flush.hpp"

#include <cpuid.h>
#include <immintrin.h>

#include <algorithm>

#include "pm/host_verbs.hpp"

namespace perdure::pm {
namespace {

enum class Instruction { clflush, clflushopt, clwb };

Instruction best() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return Instruction::clflush;
  if ((b & bit_CLWB) != 0) return Instruction::clwb;
  return (b & bit_CLFLUSHOPT) != 0 ? Instruction::clflushopt : Instruction::clflush;
}

Instruction const instruction = best();

__attribute__((target("clwb"))) void write_back(char* begin, char* end) {
  for (char* line = begin; line < end; line += kCacheLine) _mm_clwb(line);
}
__attribute__((target("clflushopt"))) void flush_opt(char* begin, char* end) {
  for (char* line = begin; line < end; line += kCacheLine) _mm_clflushopt(line);
}
void flush_plain(char* begin, char* end) {
  for (char* line = begin; line < end; line += kCacheLine) _mm_clflush(line);
}

void flush_lines(char* begin, char* end) {
  switch (instruction) {
    case Instruction::clwb: write_back(begin, end); break;
    case Instruction::clflushopt: flush_opt(begin, end); break;
    case Instruction::clflush: flush_plain(begin, end); break;
  }
}

/// The first byte of its line.
char* line_of(void const* at) {
  auto* const first = const_cast<char*>(static_cast<char const*>(at));
  return first - reinterpret_cast<std::uintptr_t>(first) % kCacheLine;
}

}  // namespace

void start_flush(void const* at, std::size_t bytes) {
  flush_lines(line_of(at), const_cast<char*>(static_cast<char const*>(at)) + bytes);
  writes_back(at, bytes);
}

void finish_flushes() { _mm_sfence(); }

void flush(exec::Workers& workers, void const* at, std::size_t bytes) {
  constexpr std::size_t kChunk = std::size_t{1} << 20;
  char* const begin = line_of(at);
  auto const size = static_cast<std::size_t>(static_cast<char const*>(at) - begin) + bytes;
  workers.for_chunks(size, kChunk, [&](std::size_t from, std::size_t to) {
    flush_lines(begin + from, begin + to);
    finish_flushes();
  });
  writes_back(at, bytes);
  ordered();
}

}  // namespace perdure::pm
