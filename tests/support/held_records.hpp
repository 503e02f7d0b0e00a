// Whether a store's scan shows these records and no others. For tables of a hundred thousand
// records that are scanned again and again: a map of what was scanned takes most of such a test's
// time.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <unordered_map>

#include "perdure/store.h"
#include "support/store_driver.hpp"

namespace perdure::test {

class HeldRecords {
 public:
  /// They stay where they are for as long as this is asked.
  explicit HeldRecords(std::map<Bytes, Bytes> const& held) {
    held_.reserve(held.size());
    for (auto const& [key, value] : held) held_.emplace(key, Held{value, 0});
  }

  ::testing::AssertionResult are_those_of(Store& store) {
    ++scan_;
    std::size_t found = 0;
    ScanCursor cursor;
    while (!cursor.done) {
      auto const got = store.scan(cursor, kPage);
      if (!got) return ::testing::AssertionFailure() << got.status().message();
      auto const keys = unpack(got.value().keys), values = unpack(got.value().values);
      if (keys.size() != values.size() || keys.size() > kPage)
        return ::testing::AssertionFailure() << "a page of the wrong size";
      for (std::size_t i = 0; i < keys.size(); ++i) {
        auto const one = held_.find(keys[i]);
        if (one == held_.end() || one->second.value != values[i])
          return ::testing::AssertionFailure()
                 << "key " << to_hex(keys[i]) << " has " << to_hex(values[i]) << " instead of "
                 << (one == held_.end() ? "being absent" : to_hex(one->second.value));
        if (one->second.scan == scan_)
          return ::testing::AssertionFailure() << "key " << to_hex(keys[i]) << " comes twice";
        one->second.scan = scan_;
      }
      found += keys.size();
      cursor = got.value().next;
    }
    if (found == held_.size()) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure()
           << found << " records were scanned, of " << held_.size() << " that were put";
  }

 private:
  static constexpr std::size_t kPage = 1000;
  struct Held {
    std::string_view value;
    std::uint64_t scan;  // that showed it last
  };

  std::unordered_map<std::string_view, Held> held_;
  std::uint64_t scan_ = 0;
};

}  // namespace perdure::test
