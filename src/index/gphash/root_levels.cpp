#include "index/gphash/root_levels.hpp"

#include <string>

#include "base/assert.hpp"

namespace perdure::gphash {
namespace {

std::string name_of(std::uint32_t log2_buckets) {
  PERDURE_ASSERT(log2_buckets <= kMaxTop);
  return "gphash.level." + std::to_string(log2_buckets);
}

/// f(log2_buckets, name) for each name that a level can have, largest first.
template <class F>
void for_each_name(F f) {
  for (std::uint32_t i = 0; i <= kMaxTop; ++i) f(kMaxTop - i, name_of(kMaxTop - i));
}

}  // namespace

bool is_level_name(std::string_view name) {
  bool known = false;
  for_each_name([&](std::uint32_t, std::string const& one) { known |= one == name; });
  return known;
}

Result<RootLevels> read_levels(pm::Root const& root, std::uint32_t live) {
  RootLevels found;
  bool sane = true;
  for_each_name([&](std::uint32_t log2_buckets, std::string const& name) {
    pm::RootEntry const* const entry = root.find(name);
    if (entry == nullptr) return;
    sane &= !found.retires && entry->value <= 1;  // below one that retires there is none
    found.retires = entry->value == 1;
    found.levels.push_back({Offset{entry->offset}, 0, log2_buckets});
  });
  if (sane && found.levels.size() == live + (found.retires ? 1 : 0)) return found;
  return Status{Code::corrupt, "the root names impossible levels; restore it from a copy"};
}

void put_levels(pm::Root& root, std::span<Level const> levels, bool retires) {
  PERDURE_ASSERT(!levels.empty() && levels.size() <= kMaxLevels + 1);
  for_each_name([&](std::uint32_t, std::string const& name) { root.remove(name); });
  for (std::size_t i = 0; i < levels.size(); ++i) {
    PERDURE_ASSERT(i == 0 || levels[i].log2_buckets < levels[i - 1].log2_buckets);
    root.set(name_of(levels[i].log2_buckets), levels[i].base.bytes,
             retires && i + 1 == levels.size() ? 1 : 0);
  }
}

}  // namespace perdure::gphash
