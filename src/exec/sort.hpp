// Sorting a batch on the CPU (Highway's VQSort, on all workers).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "exec/counts.hpp"
#include "exec/workers.hpp"

namespace perdure::exec {

/// Sorts `items` by (hash, index); `spare` is as long and is overwritten.
void sort_batch(Workers& workers, std::span<Sorted> items, std::span<Sorted> spare);

/// Sorts words ascending.
void sort_words(std::span<std::uint64_t> words);
/// The same, on all workers, of words below 2^bits; `spare` is as long and is overwritten.
void sort_words(Workers& workers, std::span<std::uint64_t> words, std::span<std::uint64_t> spare,
                std::uint32_t bits);

}  // namespace perdure::exec
