// A Host that counts what an operation does to durable memory, exactly; one a thread. Invariants: a
// line that an operation loads is one line read, however often and whether read() announced it or
// not; a line that it stores to is one line written; each line of each flush() is one line flushed.
// Volatile words count as nothing. Whose caches hold what does not matter, so counts are the same
// on every machine.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pm/host.hpp"
#include "pm/lines.hpp"

namespace perdure::pm {

struct LineCounts {
  std::uint64_t operations = 0;
  std::uint64_t lines_read = 0;
  std::uint64_t lines_written = 0;
  std::uint64_t lines_flushed = 0;
  std::uint64_t fences = 0;

  LineCounts& operator+=(LineCounts const& more) {
    operations += more.operations;
    lines_read += more.lines_read;
    lines_written += more.lines_written;
    lines_flushed += more.lines_flushed;
    fences += more.fences;
    return *this;
  }
};

class CountedHost : public OrderedHost {
 public:
  static constexpr bool kFlushes = true;
  static constexpr bool kNear = false;

  explicit CountedHost(DurableRange durable) : durable_(durable) {}

  void begin() {
    ++counts_.operations;
    read_.clear();
    written_.clear();
  }
  std::uint64_t load(std::uint64_t const* at) {
    read(at, sizeof *at);
    return OrderedHost::load(at);
  }
  void store(std::uint64_t* at, std::uint64_t value) {
    wrote(at, sizeof *at);
    OrderedHost::store(at, value);
  }
  bool cas(std::uint64_t* at, std::uint64_t expected, std::uint64_t value) {
    read(at, sizeof *at);
    bool const swapped = OrderedHost::cas(at, expected, value);
    if (swapped) wrote(at, sizeof *at);
    return swapped;
  }
  void read(void const* at, std::size_t bytes) {
    if (!durable_.has(at)) return;
    LineRange const lines = LineRange::of(at, bytes);
    for (std::uint64_t line = lines.first; line < lines.end; ++line)
      counts_.lines_read += read_.add(line);
  }
  void write(std::byte* to, void const* from, std::size_t bytes) {
    wrote(to, bytes);
    OrderedHost::write(to, from, bytes);
  }
  /// Each of its lines is written and flushed.
  void stream(std::byte* to, std::byte const* from, std::size_t bytes) {
    LineRange const lines = LineRange::of(to, bytes);
    counts_.lines_written += lines.end - lines.first;
    counts_.lines_flushed += lines.end - lines.first;
    OrderedHost::stream(to, from, bytes);
  }
  void flush(void const* at, std::size_t bytes) {
    LineRange const lines = LineRange::of(at, bytes);
    counts_.lines_flushed += lines.end - lines.first;
  }
  void fence() {
    ++counts_.fences;
    OrderedHost::fence();
  }
  void persist(void const* at, std::size_t bytes) {
    flush(at, bytes);
    fence();
  }

  [[nodiscard]] LineCounts const& counts() const { return counts_; }
  void reset_counts() { counts_ = {}; }

 private:
  void wrote(void const* at, std::size_t bytes) {
    if (!durable_.has(at)) return;
    LineRange const lines = LineRange::of(at, bytes);
    for (std::uint64_t line = lines.first; line < lines.end; ++line)
      counts_.lines_written += written_.add(line);
  }

  DurableRange durable_;
  LineSet read_, written_;  // by the operation under way
  LineCounts counts_;
};

static_assert(Host<CountedHost>);

}  // namespace perdure::pm
