// The generator of lineitem's columns. Invariant: an order's rows follow from its number alone, so
// threads can make any part of them.
#include <algorithm>
#include <thread>
#include <vector>

#include "column_files.hpp"

namespace perdure::q1 {
namespace {

// Days since 1970, of TPC-H's specification, 4.2.2.12 and 4.2.3.
constexpr std::uint32_t kFirstOrder = 8035;   // 1992-01-01
constexpr std::uint32_t kLastOrder = 10440;   // 1998-08-02, 151 days before the year's end
constexpr std::uint32_t kCurrentDate = 9298;  // 1995-06-17
constexpr double kOrdersOfScale = 1'500'000, kPartsOfScale = 200'000;
constexpr std::uint32_t kMostLines = 7;

/// SplitMix64, of a stream an order.
class Random {
 public:
  explicit Random(std::uint64_t stream) : state_(stream * 0x9e3779b97f4a7c15u * kMostNumbers) {}

  /// From first to last, both included. Of at most 2^24 values, the bias is below 2^-40.
  std::uint32_t uniform(std::uint32_t first, std::uint32_t last) {
    __extension__ using Wide = unsigned __int128;
    return first + static_cast<std::uint32_t>(Wide{next()} * (last - first + 1) >> 64);
  }

 private:
  static constexpr std::uint64_t kMostNumbers = 64;  // of an order: 2, and 8 a row

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }

  std::uint64_t state_;
};

std::uint32_t lines_of(Random& random) { return random.uniform(1, kMostLines); }

/// P_RETAILPRICE, in hundredths.
std::uint32_t retail_price(std::uint32_t part) {
  return 90000 + part / 10 % 20001 + 100 * (part % 1000);
}

Row make_row(Random& random, std::uint32_t ordered, std::uint32_t parts) {
  std::uint32_t const quantity = random.uniform(1, 50);
  std::uint32_t const price = quantity * retail_price(random.uniform(1, parts));
  auto const discount = static_cast<std::uint8_t>(random.uniform(0, 10));
  auto const tax = static_cast<std::uint8_t>(random.uniform(0, 8));
  std::uint32_t const shipped = ordered + random.uniform(1, 121);
  std::uint32_t const received = shipped + random.uniform(1, 30);
  bool const returned = random.uniform(0, 1) == 0;
  char const flag = received > kCurrentDate ? 'N' : returned ? 'R' : 'A';
  return {price,
          static_cast<std::uint16_t>(quantity * 100),
          static_cast<std::uint16_t>(shipped),
          discount,
          tax,
          static_cast<std::uint8_t>(flag),
          static_cast<std::uint8_t>(shipped > kCurrentDate ? 'O' : 'F')};
}

void put_row(Columns const& to, std::uint64_t i, Row const& row) {
  to.as<std::uint32_t>(Name::price)[i] = row.price;
  to.as<std::uint16_t>(Name::quantity)[i] = row.quantity;
  to.as<std::uint16_t>(Name::shipdate)[i] = row.shipdate;
  to.as<std::uint8_t>(Name::discount)[i] = row.discount;
  to.as<std::uint8_t>(Name::tax)[i] = row.tax;
  to.as<std::uint8_t>(Name::flag)[i] = row.flag;
  to.as<std::uint8_t>(Name::status)[i] = row.status;
}

struct Part {
  std::uint64_t first_order, end_order;
  std::uint64_t rows = 0, first_row = 0;
};

template <class F>
void on_each(std::vector<Part>& parts, F f) {
  std::vector<std::jthread> threads;
  threads.reserve(parts.size());
  for (Part& part : parts) threads.emplace_back([&f, &part] { f(part); });
}

}  // namespace

Columns generate(double scale, unsigned threads) {
  auto const orders = static_cast<std::uint64_t>(kOrdersOfScale * scale);
  auto const items = std::max(1u, static_cast<std::uint32_t>(kPartsOfScale * scale));
  std::vector<Part> parts(std::max(1u, threads));
  for (std::size_t p = 0; p < parts.size(); ++p)
    parts[p] = {orders * p / parts.size(), orders * (p + 1) / parts.size()};
  on_each(parts, [](Part& part) {
    for (std::uint64_t o = part.first_order; o < part.end_order; ++o) {
      Random random(o + 1);
      part.rows += lines_of(random);
    }
  });
  std::uint64_t rows = 0;
  for (Part& part : parts) {
    part.first_row = rows;
    rows += part.rows;
  }
  Columns columns = Columns::of(rows);
  on_each(parts, [&](Part const& part) {
    std::uint64_t at = part.first_row;
    for (std::uint64_t o = part.first_order; o < part.end_order; ++o) {
      Random random(o + 1);
      std::uint32_t const lines = lines_of(random);
      std::uint32_t const ordered = random.uniform(kFirstOrder, kLastOrder);
      for (std::uint32_t l = 0; l < lines; ++l)
        put_row(columns, at++, make_row(random, ordered, items));
    }
  });
  return columns;
}

}  // namespace perdure::q1
