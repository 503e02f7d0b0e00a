// What records hold: there and back, and whatever of it a damage leaves.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "serve/value.hpp"

namespace perdure::serve {
namespace {

TEST(Values, ComeBackAsTheyWereWritten) {
  EXPECT_TRUE(rc::check([](std::string const& bytes, std::int64_t expires, bool hash) {
    std::string record;
    write_value({hash ? Type::hash : Type::string, expires, bytes}, record);
    auto const value = read_value(record);
    RC_ASSERT(value.has_value());
    RC_ASSERT(value->type == (hash ? Type::hash : Type::string));
    RC_ASSERT(value->expires_ms == expires);
    RC_ASSERT(value->bytes == bytes);
    RC_ASSERT(record.size() <= bytes.size() + kMostHeadBytes);
  }));
}

TEST(Values, OfNoneOfOursAreRefused) {
  EXPECT_FALSE(read_value(""));
  for (int head = 0; head < 256; ++head) {
    std::string const record(20, static_cast<char>(head));
    int const type = head & 0x7f;
    EXPECT_EQ(read_value(record).has_value(), type == 1 || type == 2) << head;
  }
}

TEST(Values, CutOffAreRefusedOrShorter) {
  std::string record;
  write_value({Type::string, 1'700'000'000'000, "bytes"}, record);
  for (std::size_t size = 0; size < record.size(); ++size) {
    auto const value = read_value(std::string_view(record).substr(0, size));
    EXPECT_EQ(value.has_value(), size >= kMostHeadBytes);
    if (value) {
      EXPECT_EQ(value->bytes.size(), size - kMostHeadBytes);
    }
  }
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

std::string hash_of(Pairs const& pairs) {
  std::string bytes;
  for (auto const& [name, value] : pairs) append_field(bytes, {name, value});
  return bytes;
}

TEST(Hashes, ComeBackAsTheyWereWritten) {
  EXPECT_TRUE(rc::check([](Pairs const& pairs) {
    std::string const bytes = hash_of(pairs);
    RC_ASSERT(count_fields(bytes) == pairs.size());
    Fields fields(bytes);
    for (auto const& [name, value] : pairs) {
      auto const field = fields.next();
      RC_ASSERT(field.has_value() && field->name == name && field->value == value);
      RC_ASSERT(find_field(bytes, name).has_value());
    }
    RC_ASSERT(!fields.next());
  }));
  std::string const long_one = hash_of({{"name", std::string(70'000, 'v')}, {"b", ""}});
  EXPECT_EQ(find_field(long_one, "name")->size(), 70'000u);
  EXPECT_EQ(find_field(long_one, "b"), "");
}

TEST(Hashes, CutOffOrDamagedEndWhereTheyMakeNoSense) {
  std::string const bytes = hash_of({{"one", "1"}, {std::string(200, 'n'), "2"}, {"three", "3"}});
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    std::string const cut(bytes.data(), size);  // of its own, so that a sanitizer sees beyond it
    EXPECT_LE(count_fields(cut), 3u);
    EXPECT_EQ(count_fields(cut) == 3, size == bytes.size());
  }
  for (std::size_t at = 0; at < bytes.size(); ++at)
    for (unsigned bit = 0; bit < 8; ++bit) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ (1u << bit));
      Fields fields(damaged);
      std::size_t seen = 0;
      while (auto const field = fields.next()) seen += field->name.size() + field->value.size();
      EXPECT_LE(seen, damaged.size());
    }
}

}  // namespace
}  // namespace perdure::serve
