// The answer of Q1: a line a group, in the order of (l_returnflag, l_linestatus). Invariant: sums
// are exact; averages are divided out once, at the end.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "sums.hpp"

namespace perdure::q1 {

__extension__ using Wide = unsigned __int128;

/// Of a group. Charges need more than a word from 2^25 rows on; the others fit: 2^33 rows of
/// disc_price, less than 2^30.7 each, are less than 2^64.
struct GroupTotal {
  GroupSums sums{};  // but charge
  Wide charge = 0;
};

class Totals {
 public:
  /// `key` as key_of() makes it.
  void add(std::uint32_t key, GroupSums const& sums);
  void add(Totals const& other);
  /// Rows of groups that found no slot: the answer would lack them.
  void add_lost(std::uint64_t rows) { lost_ += rows; }

  [[nodiscard]] std::uint64_t lost() const { return lost_; }
  [[nodiscard]] std::map<std::uint32_t, GroupTotal> const& groups() const { return groups_; }
  friend bool operator==(Totals const& a, Totals const& b) { return a.json() == b.json(); }

  /// A list of objects by the names of Q1's columns; sums are decimals in full, as strings.
  [[nodiscard]] std::string json() const;
  /// The same as a table with a header, fields separated by '|', as TPC-H's answers are printed.
  [[nodiscard]] std::string table() const;

 private:
  std::map<std::uint32_t, GroupTotal> groups_;
  std::uint64_t lost_ = 0;
};

/// A number of 10^-digits, exactly.
[[nodiscard]] std::string decimal(Wide value, unsigned digits);

}  // namespace perdure::q1
