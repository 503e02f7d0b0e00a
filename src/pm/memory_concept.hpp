// What an algorithm over warps may ask of durable memory. The operations of the index are written
// over it (index/gphash/ops.hpp), so pm::Memory is checked against it for each machine's warp.
// memory.hpp says what each verb does.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "base/offset.hpp"

namespace perdure::pm {

template <class M, class W>
concept DurableMemory =
    requires(M& memory, M const& constant, W& warp, Offset at, std::uint32_t n, std::uint64_t word,
             std::size_t bytes, Offset (*of)(std::uint32_t), std::uint64_t (*value)(std::uint32_t),
             std::uint64_t const* (*near)(std::uint32_t)) {
      { memory.rows(warp, n, n, of) } -> std::same_as<typename W::Lanes>;
      { memory.rows_or_copies(warp, n, n, of, near) } -> std::same_as<typename W::Lanes>;
      { memory.load(warp, at) } -> std::same_as<std::uint64_t>;
      { memory.cas(warp, at, word, word) } -> std::same_as<std::uint64_t>;
      { memory.read(at) } -> std::same_as<std::byte const*>;
      { constant.peek(at) } -> std::same_as<std::byte const*>;
      { memory.write(at) } -> std::same_as<std::byte*>;
      { constant.address(at) } -> std::same_as<std::byte*>;
      memory.store(warp, at, word);
      memory.store_each(warp, n, of, value);
      memory.store_cell(warp, at, n, word);
      memory.read_each(n);
      memory.write_each(n);
      memory.order(warp);
      constant.prefetch(warp, at, bytes);
      constant.prefetch_to_write(warp, at, bytes);
      constant.tally();
    };

}  // namespace perdure::pm
