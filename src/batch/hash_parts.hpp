// A batch's operations split by the top bits of their keys' hashes, so that workers can take a part
// each. Invariant: within a part operations stand in array order, and all of one key are in one
// part.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/workers.hpp"

namespace perdure {

class HashParts {
 public:
  template <class HashOf>
  HashParts(exec::Workers& workers, std::size_t n, HashOf hash_of) : order_(n) {
    std::size_t const parts = std::bit_ceil(std::size_t{workers.threads()} * kPartsAWorker);
    auto const shift = static_cast<std::uint32_t>(64 - std::countr_zero(parts));
    std::size_t const chunk = (n + workers.threads() - 1) / workers.threads();
    std::size_t const chunks = (n + chunk - 1) / chunk;
    std::vector<std::uint16_t> part(n);
    std::vector<std::size_t> at(chunks * parts,
                                0);  // first how many of each part a chunk has, then where they go
    workers.for_chunks(n, chunk, [&](std::size_t begin, std::size_t end) {
      std::size_t* const counts = at.data() + begin / chunk * parts;
      for (std::size_t i = begin; i < end; ++i) {
        part[i] = static_cast<std::uint16_t>(hash_of(i) >> shift);
        ++counts[part[i]];
      }
    });
    std::size_t sum = 0;
    for (std::size_t p = 0; p < parts; ++p) {
      begin_.push_back(sum);
      for (std::size_t c = 0; c < chunks; ++c) {
        std::size_t const mine = at[c * parts + p];
        at[c * parts + p] = sum;
        sum += mine;
      }
    }
    begin_.push_back(n);
    workers.for_chunks(n, chunk, [&](std::size_t begin, std::size_t end) {
      std::size_t* const next = at.data() + begin / chunk * parts;
      for (std::size_t i = begin; i < end; ++i)
        order_[next[part[i]]++] = static_cast<std::uint32_t>(i);
    });
  }

  [[nodiscard]] std::uint32_t const* order() const { return order_.data(); }
  [[nodiscard]] std::size_t count() const { return begin_.size() - 1; }
  /// Part p is [begin(p), begin(p + 1)) of order().
  [[nodiscard]] std::size_t begin(std::size_t p) const { return begin_[p]; }

 private:
  static constexpr std::size_t kPartsAWorker = 8;
  std::vector<std::uint32_t> order_;
  std::vector<std::size_t> begin_;
};

}  // namespace perdure
