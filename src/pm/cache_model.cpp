#include "pm/cache_model.hpp"

#include <bit>

#include "base/assert.hpp"
#include "base/hash.hpp"

namespace perdure::pm {

CacheModel::CacheModel(CacheShape const& shape)
    : shape_(shape),
      count_(std::max<std::uint64_t>(1, shape.bytes / kCacheLine / kWays)),
      sets_(std::make_unique<Set[]>(count_)),
      lately_(shape.replacement == Replacement::rotating ? count_ : 0) {
  PERDURE_ASSERT(shape.sets_by != SetsBy::slices ||
                 (count_ % kSlices == 0 && std::has_single_bit(count_ / kSlices)));
}

/// kWays where it is not there.
std::size_t CacheModel::way_of(Set const& set, std::uint64_t line) {
  auto const tag = static_cast<std::uint32_t>(2 * line + 2);
  std::size_t way = 0;
  while (way < kWays && (set[way] & ~1u) != tag) ++way;
  return way;
}

std::size_t CacheModel::victim(Set const& set, std::uint64_t index) {
  if (shape_.replacement == Replacement::lru) return kWays - 1;
  if (auto const* const none = std::find(set.begin(), set.end(), 0u); none != set.end())
    return static_cast<std::size_t>(none - set.begin());
  std::uint64_t const number = victims_++;
  if (shape_.replacement == Replacement::random) return nth_hash(number, 1) % kWays;
  std::size_t way = number % kWays;
  while ((lately_[index] >> way & 1) != 0) way = (way + 1) % kWays;
  return way;
}

/// Once all ways of a set are in use, the others are forgotten; so there is always a victim.
void CacheModel::used(std::uint64_t index, std::size_t way) {
  if (shape_.replacement != Replacement::rotating) return;
  auto const bit = static_cast<std::uint16_t>(1u << way);
  std::uint16_t& lately = lately_[index];
  lately = static_cast<std::uint16_t>(lately | bit);
  if (lately == (1u << kWays) - 1) lately = bit;
}

CacheModel::Touched CacheModel::touch(std::uint64_t line, bool store) {
  std::uint64_t const index = index_of(line);
  Set& set = sets_[index];
  std::size_t way = way_of(set, line);
  Touched touched{way < kWays, kNone};
  auto const tag = static_cast<std::uint32_t>(2 * line + 2);
  std::uint32_t const entry = (touched.hit ? set[way] : tag) | static_cast<std::uint32_t>(store);
  if (!touched.hit) {
    way = victim(set, index);
    if ((set[way] & 1) != 0) touched.written_back = set[way] / 2 - 1;
  }
  if (shape_.replacement == Replacement::lru) {
    std::copy_backward(set.begin(), set.begin() + static_cast<std::ptrdiff_t>(way),
                       set.begin() + static_cast<std::ptrdiff_t>(way) + 1);
    way = 0;
  }
  set[way] = entry;
  used(index, way);
  return touched;
}

bool CacheModel::clean(std::uint64_t line) {
  Set& set = sets_[index_of(line)];
  std::size_t const way = way_of(set, line);
  if (way == kWays || (set[way] & 1) == 0) return false;
  set[way] &= ~1u;
  return true;
}

void CacheModel::drop(std::uint64_t line) {
  Set& set = sets_[index_of(line)];
  std::size_t const way = way_of(set, line);
  if (way == kWays) return;
  if (shape_.replacement == Replacement::lru)  // empty ways come last
    std::copy(set.begin() + static_cast<std::ptrdiff_t>(way) + 1, set.end(),
              set.begin() + static_cast<std::ptrdiff_t>(way));
  set[shape_.replacement == Replacement::lru ? kWays - 1 : way] = 0;
}

}  // namespace perdure::pm
