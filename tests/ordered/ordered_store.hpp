// A small store of index btree and a plain sorted map beside it, in the order of the pool's keys.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/store_driver.hpp"

namespace perdure::test {

/// What a pool is made with.
struct Kind {
  char const* name;
  std::uint32_t key_bytes;  // 0 = variable
  KeyOrder order = KeyOrder::bytes;
  Persist persist = Persist::minimal;
  Values values = Values::heap;

  [[nodiscard]] CreateOptions create() const {
    CreateOptions o;
    o.key_bytes = key_bytes;
    o.expected_records = 100;
    o.index = Index::btree;
    o.key_order = order;
    o.persist = persist;
    o.values = values;
    return o;
  }
  /// Others come before and after it, and share their first bytes with it.
  [[nodiscard]] Bytes key(std::uint64_t n) const {
    if (order != KeyOrder::bytes) {
      std::uint64_t const spread = n * 0x9e3779b97f4a7c15u;
      return Bytes(reinterpret_cast<char const*>(&spread), key_bytes);
    }
    Bytes const digits = std::to_string(n % 7) + "/" + std::to_string(n);
    if (key_bytes == 0) return "a common prefix/" + digits + Bytes(n % 3, '\0');
    Bytes key = key_bytes > 16 ? "a common prefix/" + digits : digits;
    key.resize(key_bytes, '\0');
    return key;
  }
};

/// Which of two keys comes first, written down once more.
struct Before {
  KeyOrder order = KeyOrder::bytes;
  bool operator()(Bytes const& a, Bytes const& b) const {
    if (order == KeyOrder::bytes) return a < b;
    std::uint64_t x = 0, y = 0;
    std::memcpy(&x, a.data(), a.size());
    std::memcpy(&y, b.data(), b.size());
    if (order == KeyOrder::unsigned_integer) return x < y;
    auto const shift = 64 - 8 * a.size();
    return static_cast<std::int64_t>(x << shift) < static_cast<std::int64_t>(y << shift);
  }
};
using Sorted = std::map<Bytes, Bytes, Before>;

inline std::vector<std::byte> octets(Bytes const& text) {
  auto const* const from = reinterpret_cast<std::byte const*>(text.data());
  return {from, from + text.size()};
}

inline void put(Store& store, std::vector<std::pair<Bytes, Bytes>> const& records) {
  std::vector<Bytes> keys, values;
  for (auto const& [key, value] : records) {
    keys.push_back(key);
    values.push_back(value);
  }
  Packed const k(keys, store.key_bytes()), v(values, store.value_bytes());
  Status const s = store.put(k.column(), v.column());
  ASSERT_TRUE(s.ok()) << s.message();
}
inline void erase(Store& store, std::vector<Bytes> const& keys) {
  Packed const k(keys, store.key_bytes());
  Status const s = store.erase(k.column());
  ASSERT_TRUE(s.ok()) << s.message();
}

/// All pages of a query.
inline std::vector<std::pair<Bytes, Bytes>> all_of(Store& store, RangeQuery query) {
  std::vector<std::pair<Bytes, Bytes>> all;
  for (std::optional<RangeQuery> left = std::move(query); left;) {
    auto page = store.range(*left);
    if (!page) throw std::runtime_error(page.status().message());
    auto const keys = unpack(page->keys), values = unpack(page->values);
    for (std::size_t i = 0; i < keys.size(); ++i) all.emplace_back(keys[i], values[i]);
    left = std::move(page->next);
  }
  return all;
}

inline Store opened(Result<Store> store) {
  if (!store) throw std::runtime_error(store.status().message());
  return std::move(*store);
}

inline void copy_file(std::string const& from, std::string const& to) {
  std::ifstream in(from, std::ios::binary);
  std::ofstream(to, std::ios::binary) << in.rdbuf();
}

}  // namespace perdure::test
