#include "index/gphash/root_levels.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "base/assert.hpp"

namespace perdure::gphash {
namespace {

constexpr std::string_view kPrefix = "gphash.level.";

std::string name_of(std::uint32_t log2_buckets) {
  PERDURE_ASSERT(log2_buckets <= kMaxTop);
  return std::string(kPrefix) + std::to_string(log2_buckets);
}

/// The log2 of a level's buckets; none: no level has this name. Each has one name.
std::optional<std::uint32_t> size_in(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::string_view const digits = name.substr(kPrefix.size());
  std::uint32_t log2_buckets = 0;
  auto const read = std::from_chars(digits.data(), digits.data() + digits.size(), log2_buckets);
  bool const whole = read.ec == std::errc{} && read.ptr == digits.data() + digits.size();
  bool const shortest = digits.size() == 1 || (!digits.empty() && digits[0] != '0');
  if (!whole || !shortest || log2_buckets > kMaxTop) return std::nullopt;
  return log2_buckets;
}

}  // namespace

bool is_level_name(std::string_view name) { return size_in(name).has_value(); }

Result<RootLevels> read_levels(pm::Root const& root, std::uint32_t live) {
  std::vector<std::pair<std::uint32_t, pm::RootEntry const*>> entries;
  for (pm::RootEntry const& entry : root.in_use())
    if (auto const size = size_in(entry.text())) entries.emplace_back(*size, &entry);
  std::ranges::sort(entries, std::ranges::greater{});
  RootLevels found;
  bool sane = true;
  for (auto const& [log2_buckets, entry] : entries) {
    sane &= !found.retires && entry->value <= 1;  // below one that retires there is none
    found.retires = entry->value == 1;
    found.levels.push_back({Offset{entry->offset}, 0, log2_buckets});
  }
  if (sane && found.levels.size() == live + (found.retires ? 1 : 0)) return found;
  return Status{Code::corrupt, "the root names impossible levels; restore it from a copy"};
}

void put_levels(pm::Root& root, std::span<Level const> levels, bool retires) {
  PERDURE_ASSERT(!levels.empty() && levels.size() <= kMaxLevels + 1);
  for (std::uint32_t i = root.entries; i-- > 0;) {  // from the end, which fills what is removed
    std::string const name(root.entry[i].text());
    if (is_level_name(name)) root.remove(name);
  }
  for (std::size_t i = 0; i < levels.size(); ++i) {
    PERDURE_ASSERT(i == 0 || levels[i].log2_buckets < levels[i - 1].log2_buckets);
    root.set(name_of(levels[i].log2_buckets), levels[i].base.bytes,
             retires && i + 1 == levels.size() ? 1 : 0);
  }
}

}  // namespace perdure::gphash
