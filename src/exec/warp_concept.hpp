// What an algorithm may ask of a warp, whatever the machine: CpuWarp, CudaWarp and SimWarp are
// checked against it where they are defined. cpu_warp.hpp says what each verb does. Invariant: the
// concept names every verb that index and store code uses on every machine, and no other.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace perdure::exec {

/// Words that warps share: loads acquire, stores release, and what changes them answers what was
/// there before.
template <class W>
concept SharesWords = requires(std::uint8_t* byte, std::uint32_t* half, std::uint64_t* word,
                               std::uint64_t const* in) {
  { W::load(in) } -> std::same_as<std::uint64_t>;
  { W::load(const_cast<std::uint32_t const*>(half)) } -> std::same_as<std::uint32_t>;
  { W::load(const_cast<std::uint8_t const*>(byte)) } -> std::same_as<std::uint8_t>;
  W::store(byte, std::uint8_t{});
  W::store(half, std::uint32_t{});
  W::store(word, std::uint64_t{});
  W::store_cell(half, std::uint32_t{});
  W::store_pair(word, std::uint64_t{}, std::uint64_t{});
  { W::cas(word, std::uint64_t{}, std::uint64_t{}) } -> std::same_as<std::uint64_t>;
  { W::fetch_or(half, std::uint32_t{}) } -> std::same_as<std::uint32_t>;
  { W::fetch_and(half, std::uint32_t{}) } -> std::same_as<std::uint32_t>;
  { W::fetch_add(half, std::uint32_t{}) } -> std::same_as<std::uint32_t>;
  { W::fetch_add(word, std::uint64_t{}) } -> std::same_as<std::uint64_t>;
  W::pause();
};

/// One thread by itself, or one lane of a warp that acts for all: no lane looks at another's.
template <class W>
concept Solo = SharesWords<W> && requires(W const& warp, std::byte* to, std::byte const* from,
                                          std::size_t n, std::uint64_t (*once)()) {
  { warp.elect(once) } -> std::same_as<std::uint64_t>;
  { warp.equal(from, from, n) } -> std::same_as<bool>;
  warp.copy(to, from, n);
  warp.prefetch(from, n);
  warp.prefetch_to_write(from, n);
  warp.fence();
};

/// 32 lanes. `Lanes` has a word of each, `Each<T>` a T of each.
template <class W>
concept Warp =
    Solo<W> && W::kLanes == 32 &&
    requires(W const& warp, typename W::Lanes const& lanes, std::uint32_t n, std::uint64_t word,
             std::uint32_t const* map, std::byte const* from, std::size_t bytes,
             std::uint64_t const* (*row_of)(std::uint32_t),
             std::uint64_t (*first_of)(std::uint32_t), void (*of_item)(std::size_t),
             void (*in_lane)(std::uint32_t), bool (*says)(std::uint32_t),
             std::byte* (*to_of)(std::uint32_t), std::byte const* (*from_of)(std::uint32_t),
             typename W::template Each<std::uint32_t> each) {
      { W::kReadsBackCheaply } -> std::convertible_to<bool>;
      { W::kPrefetches } -> std::convertible_to<bool>;
      { W::kJoinsEach } -> std::convertible_to<bool>;
      { warp.rows(n, n, row_of) } -> std::same_as<typename W::Lanes>;
      { warp.match(lanes, word, word) } -> std::same_as<std::uint32_t>;
      { warp.bits(n, n, map, first_of) } -> std::same_as<std::uint32_t>;
      { warp.broadcast(lanes, n) } -> std::same_as<std::uint64_t>;
      { warp.broadcast(each, n) } -> std::same_as<std::uint32_t>;
      { warp.ballot(says) } -> std::same_as<std::uint32_t>;
      { warp.shuffle(each, each) } -> std::same_as<typename W::template Each<std::uint32_t>>;
      { warp.crc32c(n, from, bytes) } -> std::same_as<std::uint32_t>;
      warp.each(in_lane);
      warp.strided(bytes, of_item);
      warp.copy_each(n, bytes, to_of, from_of, &each);
      warp.local_fence();
    };

}  // namespace perdure::exec
