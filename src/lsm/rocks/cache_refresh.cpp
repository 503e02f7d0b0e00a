#include "lsm/rocks/cache_refresh.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "lsm/rocks/entry_groups.hpp"
#include "lsm/rocks/value_prefetch.hpp"

namespace perdure::lsm {

namespace {

constexpr std::uint32_t kWindow = 1u << 16;
constexpr std::size_t kInsertsAChunk = 1024;

/// The places in the order of a run, block by block.
class CachedEntries {
 public:
  explicit CachedEntries(std::span<std::uint32_t const> places) : left_(places) {}
  [[nodiscard]] bool at_end() const { return left_.empty(); }

  /// Entries of the block that are newest versions of the next places' keys.
  std::vector<std::size_t> in(EntryBlock const& block) {
    std::vector<std::size_t> entries;
    for (std::size_t i = 0; i < block.size() && !at_end(); i = end_of_key(block, i)) {
      auto const key = as_slice(block.key(i));
      if (i == 0 && last_ && key == *last_) continue;  // it began in the block before
      if (key_++ != left_.front()) continue;
      entries.push_back(i);
      left_ = left_.subspan(1);
    }
    if (block.size() != 0) last_ = as_slice(block.key(block.size() - 1)).ToString();
    return entries;
  }

 private:
  std::span<std::uint32_t const> left_;
  std::uint32_t key_ = 0;  // keys that came before
  std::optional<std::string> last_;
};

}  // namespace

void refresh_cache(BlockCache& cache, Engine& engine, exec::Workers& workers,
                   std::uint64_t sequence, std::uint32_t family, Run const& run,
                   std::span<std::uint32_t const> places) {
  auto const ticket = cache.ticket(sequence, places.size());
  if (!ticket) return;
  EntryBlock block;
  CachedEntries next(places);
  for (std::uint32_t at = 0; at < run.count() && !next.at_end();) {
    std::uint32_t const count = std::min(kWindow, run.count() - at);
    if (!engine.fetch(run, at, count, block).ok()) return;
    at += count;
    std::vector<std::size_t> const entries = next.in(block);
    workers.for_chunks(entries.size(), kInsertsAChunk, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        if (i + kValuesAhead < end) prefetch_value(block.versions[entries[i + kValuesAhead]].value);
        Version const& version = block.versions[entries[i]];
        cache.insert(*ticket, family, block.key(entries[i]),
                     {version.value.data, version.value.size, version.kind == Kind::erase});
      }
    });
  }
}

}  // namespace perdure::lsm
