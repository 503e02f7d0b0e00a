#include "exec/sort.hpp"

#include <hwy/contrib/sort/vqsort.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

namespace perdure::exec {
namespace {

constexpr int kPartBits = 8;
constexpr std::size_t kParts = std::size_t{1} << kPartBits;
constexpr std::size_t kSmall = 1024;  // below it, splitting costs more than it saves
// Up to here by insertion: the library asks the system for random numbers at each sort, which takes
// as long as this.
constexpr std::size_t kFew = 32;

/// As fast as they are nearly sorted.
void sort_by_insertion(Sorted* items, std::size_t n) {
  for (std::size_t i = 1; i < n; ++i) {
    Sorted const item = items[i];
    std::size_t at = i;
    for (; at > 0; --at) {
      Sorted const& before = items[at - 1];
      if (before.hash != item.hash ? before.hash < item.hash : before.index <= item.index) break;
      items[at] = before;
    }
    items[at] = item;
  }
}

void sort_part(Sorted* items, std::size_t n) {
  if (n <= kFew) return sort_by_insertion(items, n);
  thread_local hwy::Sorter const sorter;
  static_assert(sizeof(Sorted) == sizeof(hwy::uint128_t));
  sorter(reinterpret_cast<hwy::uint128_t*>(items), n, hwy::SortAscending());
}

void sort_part(std::uint64_t* words, std::size_t n) {
  thread_local hwy::Sorter const sorter;
  sorter(words, n, hwy::SortAscending());
}

/// Sorts a part of a batch, whose hashes agree in their top bits, from `part` to `to`: hashes are
/// even, so by as many bits more as there are items nearly all come to their places at once. Where
/// they are not, by reason of a key that repeats or of somebody's intent, the library sorts them.
void sort_into(Sorted* to, Sorted const* part, std::size_t n) {
  constexpr std::size_t kBuckets = 4096, kCrowd = 32;
  std::array<std::uint32_t, kBuckets> begin;
  std::size_t const buckets = std::clamp<std::size_t>(std::bit_ceil(n), 2, kBuckets);
  int const shift = 64 - kPartBits - std::countr_zero(buckets);
  auto const bucket = [&](Sorted const& item) { return item.hash >> shift & (buckets - 1); };
  std::fill_n(begin.begin(), buckets, 0u);
  for (std::size_t i = 0; i < n; ++i) ++begin[bucket(part[i])];
  std::uint32_t sum = 0, most = 0;
  for (std::size_t b = 0; b < buckets; ++b) {
    most = std::max(most, begin[b]);
    sum += std::exchange(begin[b], sum);
  }
  if (most > kCrowd) {
    std::copy(part, part + n, to);
    return sort_part(to, n);
  }
  for (std::size_t i = 0; i < n; ++i) to[begin[bucket(part[i])]++] = part[i];
  sort_by_insertion(to, n);
}

void sort_into(std::uint64_t* to, std::uint64_t const* part, std::size_t n) {
  std::copy(part, part + n, to);
  sort_part(to, n);
}

// One pass splits by `part_of`, each worker over its own stretch, so that the parts are independent
// and about even; then each part is sorted in cache.
template <class T, class PartOf>
void sort_in_parts(Workers& workers, std::span<T> items, std::span<T> spare, PartOf part_of) {
  std::size_t const n = items.size();
  if (n <= kSmall) return sort_part(items.data(), n);
  std::size_t const stretches = workers.threads();
  std::size_t const stretch = (n + stretches - 1) / stretches;
  std::vector<std::array<std::size_t, kParts>> at(stretches);
  workers.for_chunks(stretches, 1, [&](std::size_t w, std::size_t) {
    at[w].fill(0);
    for (std::size_t i = w * stretch; i < std::min(n, (w + 1) * stretch); ++i)
      ++at[w][part_of(items[i])];
  });
  std::array<std::size_t, kParts + 1> begin{};
  std::size_t sum = 0;
  for (std::size_t p = 0; p < kParts; ++p) {
    begin[p] = sum;
    for (auto& counts : at) sum += std::exchange(counts[p], sum);
  }
  begin[kParts] = sum;
  workers.for_chunks(stretches, 1, [&](std::size_t w, std::size_t) {
    for (std::size_t i = w * stretch; i < std::min(n, (w + 1) * stretch); ++i)
      spare[at[w][part_of(items[i])]++] = items[i];
  });
  workers.for_chunks(kParts, 8, [&](std::size_t first, std::size_t last) {
    for (std::size_t p = first; p < last; ++p) {
      sort_into(items.data() + begin[p], spare.data() + begin[p], begin[p + 1] - begin[p]);
    }
  });
}

}  // namespace

void sort_words(std::span<std::uint64_t> words) { sort_part(words.data(), words.size()); }

void sort_words(Workers& workers, std::span<std::uint64_t> words, std::span<std::uint64_t> spare,
                std::uint32_t bits) {
  std::uint32_t const below = bits > kPartBits ? bits - kPartBits : 0;
  sort_in_parts(workers, words, spare,
                [=](std::uint64_t word) { return static_cast<std::size_t>(word >> below); });
}

void sort_batch(Workers& workers, std::span<Sorted> items, std::span<Sorted> spare) {
  sort_in_parts(workers, items, spare, [](Sorted const& item) {
    return static_cast<std::size_t>(item.hash >> (64 - kPartBits));
  });
}

}  // namespace perdure::exec
