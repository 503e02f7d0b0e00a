#include "exec/sort.hpp"

#include <hwy/contrib/sort/vqsort.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace perdure::exec {
namespace {

constexpr std::size_t kParts = 256;
constexpr std::size_t kSmall = 1024;  // below it, splitting costs more than it saves
// Up to here by insertion: the library asks the system for random numbers at each sort, which takes
// as long as this.
constexpr std::size_t kFew = 32;

void sort_few(Sorted* items, std::size_t n) {
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
  if (n <= kFew) return sort_few(items, n);
  thread_local hwy::Sorter const sorter;
  static_assert(sizeof(Sorted) == sizeof(hwy::uint128_t));
  sorter(reinterpret_cast<hwy::uint128_t*>(items), n, hwy::SortAscending());
}

void sort_part(std::uint64_t* words, std::size_t n) {
  thread_local hwy::Sorter const sorter;
  sorter(words, n, hwy::SortAscending());
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
      sort_part(spare.data() + begin[p], begin[p + 1] - begin[p]);
      std::copy(spare.begin() + static_cast<std::ptrdiff_t>(begin[p]),
                spare.begin() + static_cast<std::ptrdiff_t>(begin[p + 1]),
                items.begin() + static_cast<std::ptrdiff_t>(begin[p]));
    }
  });
}

}  // namespace

void sort_words(std::span<std::uint64_t> words) { sort_part(words.data(), words.size()); }

void sort_words(Workers& workers, std::span<std::uint64_t> words, std::span<std::uint64_t> spare,
                std::uint32_t bits) {
  std::uint32_t const below = bits > 8 ? bits - 8 : 0;
  sort_in_parts(workers, words, spare,
                [=](std::uint64_t word) { return static_cast<std::size_t>(word >> below); });
}

void sort_batch(Workers& workers, std::span<Sorted> items, std::span<Sorted> spare) {
  sort_in_parts(workers, items, spare,
                [](Sorted const& item) { return static_cast<std::size_t>(item.hash >> 56); });
}

}  // namespace perdure::exec
