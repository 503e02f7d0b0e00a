// Sets of cache lines that are asked for at every access and emptied at every operation. Invariant:
// exact, whatever lines and however many; emptying takes no time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "pm/flush.hpp"

namespace perdure::pm {

/// The lines of [at, at + bytes), by number.
struct LineRange {
  std::uint64_t first = 0;
  std::uint64_t end = 0;

  static LineRange of(void const* at, std::size_t bytes) {
    auto const address = reinterpret_cast<std::uintptr_t>(at);
    return {address / kCacheLine,
            bytes == 0 ? address / kCacheLine : (address + bytes - 1) / kCacheLine + 1};
  }
};

/// Which addresses are durable memory: algorithms touch volatile words by the same verbs.
class DurableRange {
 public:
  DurableRange() = default;
  explicit DurableRange(std::span<std::byte const> bytes)
      : begin_(reinterpret_cast<std::uintptr_t>(bytes.data())), size_(bytes.size()) {}
  [[nodiscard]] bool has(void const* at) const {
    return reinterpret_cast<std::uintptr_t>(at) - begin_ < size_;
  }
  [[nodiscard]] std::uint64_t first_line() const { return begin_ / kCacheLine; }

 private:
  std::uintptr_t begin_ = 0;
  std::size_t size_ = 0;
};

class LineSet {
 public:
  LineSet() : entries_(kFewest) {}

  /// Whether it was not there.
  bool add(std::uint64_t line) {
    if (2 * (count_ + 1) > entries_.size()) grow();
    Entry& entry = find(line);
    if (entry.round == round_) return false;
    entry = {line, round_};
    ++count_;
    return true;
  }
  void clear() {
    ++round_;
    count_ = 0;
  }

 private:
  struct Entry {
    std::uint64_t line = 0;
    std::uint64_t round = 0;  // in which it was added; of an earlier one = empty
  };
  static constexpr std::size_t kFewest = 64;

  Entry& find(std::uint64_t line) {
    PERDURE_ASSERT(!kCostlyAssertions || count_ < entries_.size());  // a search ends
    std::size_t const mask = entries_.size() - 1;
    std::size_t i = (line * 0x9e3779b97f4a7c15u >> 32) & mask;
    while (entries_[i].round == round_ && entries_[i].line != line) i = (i + 1) & mask;
    return entries_[i];
  }
  void grow() {
    std::vector<Entry> const old = std::exchange(entries_, std::vector<Entry>(2 * entries_.size()));
    for (Entry const& entry : old) {
      if (entry.round == round_) find(entry.line) = entry;
    }
  }

  std::vector<Entry> entries_;
  std::size_t count_ = 0;
  std::uint64_t round_ = 1;
};

}  // namespace perdure::pm
