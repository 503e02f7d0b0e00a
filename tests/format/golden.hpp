// The golden pools: what is in each, by rule, and the sparse form in which they are committed:
// pairs of (page number as u64, the 4096 bytes of that page), pages of zeros left out, then the
// file's size. Invariant: neither the rules nor the files change while the format version stays as
// it is.
#pragma once

#include "../crash/pool_file.hpp"

namespace perdure::test {

struct Golden {
  char const* name;
  Layout layout;
  bool variable;
  Index index = Index::gphash;
  std::uint32_t value_bytes = 16;  // unless variable
  std::uint64_t expected_records = 100;
};

inline constexpr Golden kGolden[] = {
    {"word_fixed", Layout::word, false},
    {"word_variable", Layout::word, true},
    {"in_place_fixed", Layout::in_place, false},
    {"in_place_variable", Layout::in_place, true},
};

/// Two segments each.
inline constexpr Golden kGoldenDash[] = {
    {"dash_eh_slots", Layout::word, false, Index::dash_eh, 8, 1000},
    {"dash_eh_variable", Layout::word, true, Index::dash_eh, 0, 1000},
    {"dash_lh_slots", Layout::word, false, Index::dash_lh, 8, 1000},
    {"dash_lh_variable", Layout::word, true, Index::dash_lh, 0, 1000},
};

inline constexpr std::uint64_t kGoldenRecords = 100;

inline Contents golden_contents(Golden const& golden) {
  Contents contents;
  for (std::uint64_t i = 0; i < kGoldenRecords; ++i) {
    if (golden.variable)
      contents["key-" + std::to_string(i * i)] =
          std::string(i % 37, static_cast<char>('a' + i % 26));
    else
      contents[u64_text(i * 0x9e3779b97f4a7c15u)] =
          (u64_text(i) + u64_text(~i)).substr(0, golden.value_bytes);
  }
  return contents;
}

inline constexpr std::size_t kPage = 4096;

inline Bytes to_sparse(Bytes const& bytes) {
  Bytes sparse;
  auto const append = [&](void const* from, std::size_t n) {
    auto const* const begin = static_cast<std::byte const*>(from);
    sparse.insert(sparse.end(), begin, begin + n);
  };
  for (std::uint64_t page = 0; page * kPage < bytes.size(); ++page) {
    auto const one = std::span(bytes).subspan(page * kPage, kPage);
    if (std::all_of(one.begin(), one.end(), [](std::byte b) { return b == std::byte{0}; }))
      continue;
    append(&page, sizeof page);
    append(one.data(), kPage);
  }
  std::uint64_t const size = bytes.size();
  append(&size, sizeof size);
  return sparse;
}

inline Bytes from_sparse(Bytes const& sparse) {
  auto const number = [&](std::size_t at) {
    std::uint64_t n = 0;
    std::memcpy(&n, sparse.data() + at, sizeof n);
    return n;
  };
  Bytes bytes(number(sparse.size() - sizeof(std::uint64_t)));
  for (std::size_t at = 0; at + sizeof(std::uint64_t) < sparse.size();
       at += sizeof(std::uint64_t) + kPage)
    std::memcpy(bytes.data() + number(at) * kPage, sparse.data() + at + sizeof(std::uint64_t),
                kPage);
  return bytes;
}

}  // namespace perdure::test
