// Listings 2, 3 and 4 of X. Wu's thesis on this machine's own memory, timed. Invariant: each loop
// checks that every byte it wrote is there; pre-stores must not change one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace perdure::bench {

enum class Prestored : std::uint8_t { plain, clean, demote, skip };

struct Timed {
  double ns = 0;               // an element, a round, a write
  std::uint64_t checked = 0;   // answers that were compared
  std::uint64_t faults = 0;    // of them, wrong ones
};

struct ElementLoop {
  std::uint32_t element_bytes = 4096;
  std::uint32_t threads = 1;
  Prestored prestored = Prestored::plain;
  bool read_again = true;
  std::uint64_t array_bytes = std::uint64_t{256} << 20;
  std::uint64_t written_bytes = std::uint64_t{256} << 20;  // by all threads together
};

/// An array of this machine's memory, whose pages are there.
class LoopArray {
 public:
  explicit LoopArray(std::uint64_t bytes);
  ~LoopArray();
  LoopArray(LoopArray const&) = delete;
  LoopArray& operator=(LoopArray const&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  std::byte* data_;
  std::uint64_t bytes_;
};

[[nodiscard]] Timed timed_elements(LoopArray const& array, ElementLoop const& loop);
[[nodiscard]] Timed timed_fences(LoopArray const& array, Prestored prestored, std::uint32_t reads);
[[nodiscard]] Timed timed_rewrites(LoopArray const& array, Prestored prestored);

}  // namespace perdure::bench
