// Filter and hash aggregation of Q1: the one source that the host's threads and CUDA's threads
// run. A *machine* has, for its threads, a small hash table of groups and sums beside its slots:
//
//   std::uint32_t held(slot)           the key that has the slot, or kFree
//   std::uint32_t claim(slot, key)     takes a free slot; answers the key that has it then
//   void add(slot, lane, RowSums)      adds one row; lane 0 to 3 tells rows side by side apart
//
// Invariant: between two folds of its sums (unpack) at most kBlockRows rows go to one RowSums.
// All integers: results are exact, whichever order rows come in.
#pragma once

#include <cstdint>

#include "host_device.hpp"
#include "lineitem.hpp"

namespace perdure::q1 {

struct Query {
  std::uint16_t last_day = 0;  // rows shipped later do not count
};

// Q1 has four groups; its two columns have six pairs of values.
inline constexpr std::uint32_t kSlots = 8;
inline constexpr std::uint32_t kNoSlot = kSlots;  // sums of rows that found no slot
inline constexpr std::uint32_t kFree = 0;

/// What is added for each row, so that a row costs four additions instead of six. Over kBlockRows
/// = 2^14 rows count needs 15 bits, quantity (less than 2^13) 27, discount (less than 2^7) 21: 63
/// together, each with bits of its own. disc_price is less than 2^24 * 100 < 2^30.7 a row, charge
/// less than 2^24 * 100 * 200 < 2^38.3, which leaves room for 2^25 rows in a word.
struct alignas(32) RowSums {
  std::uint64_t packed;
  std::uint64_t price;       // hundredths
  std::uint64_t disc_price;  // ten thousandths
  std::uint64_t charge;      // millionths
};
static_assert(kMostPrice < (1u << 24) && kMostQuantity < (1u << 13) && kMostPercent < (1u << 7));
static_assert(kBlockRows == 1u << 14);

inline constexpr unsigned kQuantityBit = 15, kDiscountBit = 42;
/// Rows whose charges fit in one word of 64 bits.
inline constexpr std::uint64_t kMostRowsOfAWord = std::uint64_t{1} << 25;

/// The sums of a group as whole words, good for kMostRowsOfAWord rows.
struct GroupSums {
  std::uint64_t count, quantity, discount, price, disc_price, charge;
};
inline constexpr std::uint32_t kSums = sizeof(GroupSums) / sizeof(std::uint64_t);

Q1_FN GroupSums unpack(RowSums const& s) {
  constexpr std::uint64_t kCountMask = (std::uint64_t{1} << kQuantityBit) - 1;
  constexpr std::uint64_t kQuantityMask = (std::uint64_t{1} << (kDiscountBit - kQuantityBit)) - 1;
  return {s.packed & kCountMask,
          s.packed >> kQuantityBit & kQuantityMask,
          s.packed >> kDiscountBit,
          s.price,
          s.disc_price,
          s.charge};
}

Q1_FN std::uint32_t key_of(std::uint32_t flag, std::uint32_t status) {
  return 1u << 16 | flag << 8 | status;  // never kFree
}

/// Open addressing. kNoSlot: other keys have all slots.
template <class Machine>
Q1_FN std::uint32_t slot_of(Machine& machine, std::uint32_t key) {
  std::uint32_t const home = (key >> 8) + 2 * key;
  for (std::uint32_t probe = 0; probe < kSlots; ++probe) {
    std::uint32_t const slot = (home + probe) % kSlots;
    std::uint32_t holder = machine.held(slot);
    if (holder == kFree) holder = machine.claim(slot, key);
    if (holder == key) return slot;
  }
  return kNoSlot;
}

/// Four rows of a block: those that were shipped in time go to their group's sums.
template <class Machine, class Rows>
Q1_FN void add_quad(Machine& machine, Rows const& rows, std::uint32_t i, Query query) {
  Quad const four = rows.quad(i);
  for (unsigned lane = 0; lane < 4; ++lane) {
    if (four.shipdate[lane] > query.last_day) continue;
    std::uint64_t const discount = four.discount[lane];
    std::uint64_t const disc_price = std::uint64_t{four.price[lane]} * (100 - discount);
    RowSums const row{
        1 + (std::uint64_t{four.quantity[lane]} << kQuantityBit) + (discount << kDiscountBit),
        four.price[lane], disc_price, disc_price * (100u + four.tax[lane])};
    machine.add(slot_of(machine, key_of(four.flag[lane], four.status[lane])), lane, row);
  }
}

/// The filter alone: how many of four rows count.
template <class Rows>
Q1_FN std::uint32_t count_quad(Rows const& rows, std::uint32_t i, Query query) {
  std::uint16_t days[4];
  rows.dates(i, days);
  std::uint32_t count = 0;
  for (std::uint16_t const day : days) count += day <= query.last_day ? 1 : 0;
  return count;
}

}  // namespace perdure::q1
