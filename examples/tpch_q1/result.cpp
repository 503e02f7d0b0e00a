#include "result.hpp"

#include <array>
#include <cstdio>
#include <utility>
#include <vector>

namespace perdure::q1 {
namespace {

constexpr std::array<char const*, 10> kNames = {
    "l_returnflag", "l_linestatus", "sum_qty",   "sum_base_price", "sum_disc_price",
    "sum_charge",   "avg_qty",      "avg_price", "avg_disc",       "count_order"};

/// sum / count of a sum in hundredths, as a double in full.
std::string average(std::uint64_t sum, std::uint64_t count) {
  std::array<char, 32> text{};
  double const mean = static_cast<double>(sum) / static_cast<double>(count) / 100;
  std::snprintf(text.data(), text.size(), "%.17g", mean);
  return text.data();
}

std::array<std::string, kNames.size()> fields(std::uint32_t key, GroupTotal const& group) {
  GroupSums const& s = group.sums;
  return {std::string(1, static_cast<char>(key >> 8 & 255)),
          std::string(1, static_cast<char>(key & 255)),
          decimal(s.quantity, 2),
          decimal(s.price, 2),
          decimal(s.disc_price, 4),
          decimal(group.charge, 6),
          average(s.quantity, s.count),
          average(s.price, s.count),
          average(s.discount, s.count),
          std::to_string(s.count)};
}

}  // namespace

std::string decimal(Wide value, unsigned digits) {
  std::string reversed;
  for (unsigned i = 0; i <= digits || value != 0; ++i) {
    if (i == digits && digits > 0) reversed += '.';
    reversed += static_cast<char>('0' + static_cast<int>(value % 10));
    value /= 10;
  }
  return {reversed.rbegin(), reversed.rend()};
}

void Totals::add(std::uint32_t key, GroupSums const& sums) {
  if (sums.count == 0) return;
  GroupTotal& to = groups_[key];
  to.sums.count += sums.count;
  to.sums.quantity += sums.quantity;
  to.sums.discount += sums.discount;
  to.sums.price += sums.price;
  to.sums.disc_price += sums.disc_price;
  to.charge += sums.charge;
}

void Totals::add(Totals const& other) {
  for (auto const& [key, group] : other.groups_) {
    add(key, group.sums);
    groups_[key].charge += group.charge;
  }
  lost_ += other.lost_;
}

std::string Totals::json() const {
  std::string all;
  for (auto const& [key, group] : groups_) {
    all += all.empty() ? "[" : ", ";
    auto const values = fields(key, group);
    for (std::size_t i = 0; i < values.size(); ++i)
      all += (i == 0 ? "{\"" : ", \"") + std::string(kNames[i]) + "\": \"" + values[i] + "\"";
    all += "}";
  }
  return all.empty() ? "[]" : all + "]";
}

std::string Totals::table() const {
  std::string all;
  for (std::size_t i = 0; i < kNames.size(); ++i)
    all += (i == 0 ? "" : "|") + std::string(kNames[i]);
  for (auto const& [key, group] : groups_) {
    auto const values = fields(key, group);
    for (std::size_t i = 0; i < values.size(); ++i) all += (i == 0 ? "\n" : "|") + values[i];
  }
  return all + "\n";
}

}  // namespace perdure::q1
