// The catalogue of named tables, as records of table 0 (docs/format.md): at id 0 how many tables
// there are, at id n the entry of table n. Invariant: what is parsed has been checked against its
// length, whoever wrote it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace perdure::tables {

inline constexpr std::uint64_t kCatalogue = 0;  // its number as a table
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::array<char, 4> kCountMagic = {'P', 'R', 'T', 'C'};
inline constexpr std::array<char, 4> kEntryMagic = {'P', 'R', 'T', 'T'};

struct CountRecord {
  std::array<char, 4> magic;  // 0
  std::uint32_t version;      // 4
  std::uint64_t tables;       // 8
};
static_assert(sizeof(CountRecord) == 16 && std::has_unique_object_representations_v<CountRecord>);

struct EntryRecord {          // then the name
  std::array<char, 4> magic;  // 0
  std::uint32_t row_bytes;    // 4
  std::uint32_t name_bytes;   // 8
  std::uint32_t reserved;     // 12: zero
};
static_assert(sizeof(EntryRecord) == 16 && std::has_unique_object_representations_v<EntryRecord>);

/// Of values of one size: so that there is room for names.
inline constexpr std::uint32_t kLeastValue = sizeof(EntryRecord) + 16;

inline std::vector<std::byte> count_content(std::uint64_t tables) {
  CountRecord const record{kCountMagic, kVersion, tables};
  std::vector<std::byte> content(sizeof record);
  std::memcpy(content.data(), &record, sizeof record);
  return content;
}

inline std::vector<std::byte> entry_content(std::string_view name, std::uint32_t row_bytes) {
  EntryRecord const record{kEntryMagic, row_bytes, static_cast<std::uint32_t>(name.size()), 0};
  std::vector<std::byte> content(sizeof record + name.size());
  std::memcpy(content.data(), &record, sizeof record);
  std::memcpy(content.data() + sizeof record, name.data(), name.size());
  return content;
}

/// None: it is no count of this version.
inline std::optional<std::uint64_t> count_in(std::vector<std::byte> const& content) {
  CountRecord record{};
  if (content.size() < sizeof record) return std::nullopt;
  std::memcpy(&record, content.data(), sizeof record);
  if (record.magic != kCountMagic || record.version != kVersion) return std::nullopt;
  return record.tables;
}

struct Entry {
  std::string name;
  std::uint32_t row_bytes;
};

/// None: it is no entry.
inline std::optional<Entry> entry_in(std::vector<std::byte> const& content) {
  EntryRecord record{};
  if (content.size() < sizeof record) return std::nullopt;
  std::memcpy(&record, content.data(), sizeof record);
  bool const fits = record.name_bytes != 0 && record.name_bytes <= content.size() - sizeof record;
  if (record.magic != kEntryMagic || !fits || record.row_bytes == 0) return std::nullopt;
  auto const* const name = reinterpret_cast<char const*>(content.data() + sizeof record);
  return Entry{std::string(name, record.name_bytes), record.row_bytes};
}

}  // namespace perdure::tables
