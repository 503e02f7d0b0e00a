#include "base/line_instructions.hpp"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace perdure {
namespace {

/// Whole lines: `to` begins one.
void stream_lines(std::byte* to, std::byte const* from, std::size_t bytes);

#if defined(__x86_64__)

__attribute__((target("clwb"))) void clwb(std::uintptr_t begin, std::uintptr_t end) {
  for (; begin < end; begin += kFlushedLine) _mm_clwb(reinterpret_cast<void*>(begin));
}
__attribute__((target("clflushopt"))) void clflushopt(std::uintptr_t begin, std::uintptr_t end) {
  for (; begin < end; begin += kFlushedLine) _mm_clflushopt(reinterpret_cast<void*>(begin));
}
void clflush(std::uintptr_t begin, std::uintptr_t end) {
  for (; begin < end; begin += kFlushedLine) _mm_clflush(reinterpret_cast<void const*>(begin));
}
__attribute__((target("cldemote"))) void cldemote(std::uintptr_t begin, std::uintptr_t end) {
  for (; begin < end; begin += kFlushedLine) _cldemote(reinterpret_cast<void*>(begin));
}

void nothing(std::uintptr_t, std::uintptr_t) {}

struct Choice {
  LineInstruction clean{"none: this processor has no clwb, and clflushopt would drop the line",
                        nothing};
  LineInstruction demote{"none: this processor has no cldemote", nothing};
  LineInstruction flush{"clflush", clflush};
  Flushing flushing = Flushing::clflush;
};

Choice choose() {
  constexpr unsigned kCldemote = 1u << 25;  // of leaf 7's ecx
  unsigned a = 0, b = 0, c = 0, d = 0;
  Choice choice;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return choice;
  if ((b & bit_CLFLUSHOPT) != 0) {
    choice.flush = {"clflushopt", clflushopt};
    choice.flushing = Flushing::clflushopt;
  }
  if ((b & bit_CLWB) != 0) {
    choice.flush = choice.clean = {"clwb", clwb};
    choice.flushing = Flushing::clwb;
  }
  if ((c & kCldemote) != 0) choice.demote = {"cldemote", cldemote};
  return choice;
}

void stream_lines(std::byte* to, std::byte const* from, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kFlushedLine) {
    __m128i piece[4];
    for (int i = 0; i < 4; ++i)
      piece[i] = _mm_loadu_si128(reinterpret_cast<__m128i const*>(from + at) + i);
    for (int i = 0; i < 4; ++i) _mm_stream_si128(reinterpret_cast<__m128i*>(to + at) + i, piece[i]);
  }
}

#elif defined(__aarch64__)

/// Of the smallest data cache line; Linux lets programs read it and run dc cvac and dc cvau.
std::size_t smallest_line() {
  std::uint64_t type = 0;
  asm("mrs %0, ctr_el0" : "=r"(type));
  return std::size_t{4} << (type >> 16 & 15);
}

void cvac(std::uintptr_t begin, std::uintptr_t end) {
  for (; begin < end; begin += line_bytes()) asm volatile("dc cvac, %0" : : "r"(begin) : "memory");
}
void cvau(std::uintptr_t begin, std::uintptr_t end) {
  for (; begin < end; begin += line_bytes()) asm volatile("dc cvau, %0" : : "r"(begin) : "memory");
}

struct Choice {
  LineInstruction clean{"dc cvac", cvac};
  LineInstruction demote{"dc cvau", cvau};
  LineInstruction flush{"dc cvac", cvac};
};

Choice choose() { return {}; }

void stream_lines(std::byte* to, std::byte const* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

#else
#error "Perdure knows the cache instructions of x86-64 and AArch64 alone"
#endif

Choice const& chosen() {
  static Choice const choice = choose();
  return choice;
}

}  // namespace

LineInstruction const& cleaning_instruction() { return chosen().clean; }
LineInstruction const& demoting_instruction() { return chosen().demote; }
LineInstruction const& flushing_instruction() { return chosen().flush; }

#if defined(__x86_64__)
char const* skipping_instruction() { return "movntdq"; }
std::size_t line_bytes() { return kFlushedLine; }
Flushing const chosen_flushing = chosen().flushing;
#else
char const* skipping_instruction() {
  return "none: AArch64 has no non-temporal store that skips caches for certain";
}
std::size_t line_bytes() {
  static std::size_t const bytes = smallest_line();
  return bytes;
}
#endif

void run_on_lines(LineInstruction const& instruction, void const* at, std::size_t bytes) {
  if (bytes == 0) return;
  auto const begin = reinterpret_cast<std::uintptr_t>(at);
  instruction.run(begin - begin % line_bytes(), begin + bytes);
}

void copy_past_caches(void* to, void const* from, std::size_t bytes) {
  auto* out = static_cast<std::byte*>(to);
  auto const* in = static_cast<std::byte const*>(from);
  std::size_t const line = line_bytes();
  std::size_t const into_line = reinterpret_cast<std::uintptr_t>(to) % line;
  std::size_t const head = std::min(bytes, into_line == 0 ? 0 : line - into_line);
  std::size_t const whole = (bytes - head) / line * line;
  if (head != 0) std::memcpy(out, in, head);
  stream_lines(out + head, in + head, whole);
  if (std::size_t const done = head + whole; done < bytes)
    std::memcpy(out + done, in + done, bytes - done);
}

}  // namespace perdure
