#include "prestore_loops.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include "perdure/prestore.h"

namespace perdure::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kPage = 4096;

double ns_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
}

/// Xorshift: rand() would take a lock.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  std::uint64_t below(std::uint64_t n) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ % n;
  }

 private:
  std::uint64_t state_;
};

void after_write(void* at, std::size_t bytes, Prestored prestored) {
  if (prestored == Prestored::clean) prestore(at, bytes, PrestoreOp::clean);
  if (prestored == Prestored::demote) prestore(at, bytes, PrestoreOp::demote);
}

/// The compiler keeps what was written before it, and reads again what is read after it.
void compiler_fence() { std::atomic_signal_fence(std::memory_order_seq_cst); }

/// Of each written element all bytes are the source's; the others are zero.
Timed check(LoopArray const& array, std::uint32_t element_bytes,
            std::vector<std::byte> const& source) {
  std::vector<std::byte> const zeros(element_bytes);
  Timed found;
  for (std::uint64_t at = 0; at + element_bytes <= array.bytes(); at += element_bytes) {
    std::byte const* const element = array.data() + at;
    bool const right = std::memcmp(element, source.data(), element_bytes) == 0 ||
                       std::memcmp(element, zeros.data(), element_bytes) == 0;
    ++found.checked;
    found.faults += right ? 0 : 1;
  }
  return found;
}

/// Listing 2 of one thread; answers the sum of the words that it read again.
std::uint64_t write_elements(LoopArray const& array, ElementLoop const& loop,
                             std::vector<std::byte> const& source, std::uint64_t elements,
                             std::uint32_t number) {
  Random random(number + 1);
  std::uint64_t const n = array.bytes() / loop.element_bytes;
  std::uint64_t total = 0;
  for (std::uint64_t i = 0; i < elements; ++i) {
    std::byte* const element = array.data() + random.below(n) * loop.element_bytes;
    if (loop.prestored == Prestored::skip) {
      store_skipping(element, source.data(), loop.element_bytes);
    } else {
      std::memcpy(element, source.data(), loop.element_bytes);
    }
    after_write(element, loop.element_bytes, loop.prestored);
    if (!loop.read_again) continue;
    compiler_fence();
    std::uint64_t word = 0;
    std::memcpy(&word, element, sizeof word);
    total += word;
  }
  order_skipped();
  return total;
}

}  // namespace

LoopArray::LoopArray(std::uint64_t bytes)
    : data_(static_cast<std::byte*>(::operator new(bytes, std::align_val_t{kPage}))),
      bytes_(bytes) {
  std::memset(data_, 0, bytes);
}

LoopArray::~LoopArray() { ::operator delete(data_, std::align_val_t{kPage}); }

Timed timed_elements(LoopArray const& array, ElementLoop const& loop) {
  std::vector<std::byte> source(loop.element_bytes, std::byte{0x5a});
  std::uint64_t const word = 3;
  std::memcpy(source.data(), &word, sizeof word);
  std::memset(array.data(), 0, array.bytes());
  std::uint64_t const each = loop.written_bytes / loop.element_bytes / loop.threads;
  std::vector<std::uint64_t> totals(loop.threads);
  auto const begin = Clock::now();
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t t = 0; t < loop.threads; ++t)
      threads.emplace_back([&, t] { totals[t] = write_elements(array, loop, source, each, t); });
  }
  double const ns = ns_since(begin);
  Timed found = check(array, loop.element_bytes, source);
  for (std::uint64_t const total : totals) {
    ++found.checked;
    found.faults += total == (loop.read_again ? word * each : 0) ? 0 : 1;
  }
  found.ns = ns / static_cast<double>(each * loop.threads);
  return found;
}

Timed timed_fences(LoopArray const& array, Prestored prestored, std::uint32_t reads) {
  constexpr std::uint32_t kBytes = 128;  // a line of the thesis's Machine B
  std::uint64_t const rounds = 400000 / (1 + reads / 100);
  std::vector<std::byte> const source(kBytes, std::byte{0x5b});
  alignas(64) std::array<std::uint64_t, 512> near{};
  std::memset(array.data(), 0, array.bytes());
  Random random(1);
  std::uint64_t sum = 0;
  auto const begin = Clock::now();
  for (std::uint64_t i = 0; i < rounds; ++i) {
    std::byte* const line = array.data() + random.below(array.bytes() / kBytes) * kBytes;
    std::memcpy(line, source.data(), kBytes);
    after_write(line, kBytes, prestored);
    for (std::uint32_t r = 0; r < reads; ++r) {
      sum += near[r % near.size()];
      compiler_fence();
    }
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  double const ns = ns_since(begin);
  Timed found = check(array, kBytes, source);
  ++found.checked;
  found.faults += sum == 0 ? 0 : 1;
  found.ns = ns / static_cast<double>(rounds);
  return found;
}

Timed timed_rewrites(LoopArray const& array, Prestored prestored) {
  constexpr std::uint32_t kLine = 64;
  constexpr std::uint64_t kWrites = 2000000;
  std::vector<std::byte> const source(kLine, std::byte{0x5c});
  std::memset(array.data(), 0, kLine);
  auto const begin = Clock::now();
  for (std::uint64_t i = 0; i < kWrites; ++i) {
    if (prestored == Prestored::skip) {
      store_skipping(array.data(), source.data(), kLine);
    } else {
      std::memset(array.data(), 0x5c, kLine);
    }
    compiler_fence();
    after_write(array.data(), kLine, prestored);
  }
  order_skipped();
  double const ns = ns_since(begin);
  bool const right = std::memcmp(array.data(), source.data(), kLine) == 0;
  return {ns / kWrites, 1, right ? 0u : 1u};
}

}  // namespace perdure::bench
