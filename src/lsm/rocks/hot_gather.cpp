#include "lsm/rocks/hot_gather.hpp"

#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "base/caught.hpp"
#include "base/mutex.hpp"
#include "lsm/cache/cache_scan.hpp"
#include "lsm/rocks/key_column.hpp"

namespace perdure::lsm {

namespace {

constexpr std::size_t kSetsAChunk = 4096;
constexpr std::uint32_t kUses = 32;  // more than any way has

/// What an entry takes, of the host's memory and the machine's together, as good as.
std::uint64_t bytes_of(CacheEntry const& entry) {
  return 24 + 2 * entry.key.size() + entry.value.size();
}

/// Entries of a family, as a chunk has them.
struct HotPart {
  KeyColumn keys;
  std::vector<Kind> kinds;
  std::vector<std::uint64_t> sizes;  // of values, which lie one behind the other
  std::vector<std::byte> values;

  void add(CacheEntry const& entry) {
    keys.add(as_slice(entry.key));
    kinds.push_back(entry.is_absent ? Kind::erase : Kind::put);
    sizes.push_back(entry.value.size());
    values.insert(values.end(), entry.value.begin(), entry.value.end());
  }
};
using HotParts = std::map<std::uint32_t, std::deque<HotPart>>;  // by family

/// Which entries are taken: all that are used more often than `uses`, and of those that are used
/// so often as many as there is room for.
struct Border {
  std::uint32_t uses = kUses;
  std::int64_t room = 0;
};

class Gathering {
 public:
  Gathering(BlockCache const& cache, exec::Workers& workers, CacheTicket const& ticket)
      : view_(cache.view()), workers_(workers), epoch_(ticket.epoch) {}

  Border border(HotAsked const& asked) {
    std::array<std::atomic<std::uint64_t>, kUses> bytes{};
    for_chunks(asked.uses, [&](auto const& for_entries) {
      std::array<std::uint64_t, kUses> here{};
      for_entries([&](CacheEntry const& entry) { here[entry.uses] += bytes_of(entry); });
      for (std::uint32_t u = 0; u < kUses; ++u) bytes[u] += here[u];
    });
    Border border{kUses, static_cast<std::int64_t>(asked.bytes)};
    while (border.uses > asked.uses) {
      --border.uses;
      auto const here = static_cast<std::int64_t>(bytes[border.uses].load());
      if (here >= border.room) break;
      if (border.uses > asked.uses) border.room -= here;
    }
    return border;
  }

  HotParts take(Border const& border) {
    HotParts parts;
    Mutex mutex;
    std::atomic<std::int64_t> room = border.room;
    for_chunks(border.uses, [&](auto const& for_entries) {
      std::map<std::uint32_t, HotPart> here;
      for_entries([&](CacheEntry const& entry) {
        auto const bytes = static_cast<std::int64_t>(bytes_of(entry));
        if (entry.uses > border.uses || room.fetch_sub(bytes) > 0) here[entry.family].add(entry);
      });
      MutexLock const lock(mutex);
      for (auto& [family, part] : here) parts[family].push_back(std::move(part));
    });
    return parts;
  }

 private:
  /// use(for_entries) of each chunk of the sets, by all workers.
  template <class Use>
  void for_chunks(std::uint32_t least_uses, Use const& use) {
    workers_.for_chunks(view_.count, kSetsAChunk, [&](std::size_t begin, std::size_t end) {
      CacheSetCopy copy(view_);
      use([&](auto const& f) {
        for (std::size_t i = begin; i < end; ++i)
          copy.for_entries(view_.sets + i, epoch_, least_uses, f);
      });
    });
  }

  CacheView const view_;
  exec::Workers& workers_;
  std::uint64_t const epoch_;
};

/// A run of a family's entries, their values in the generation's memory.
Result<RunPtr> build_run(Engine& engine, std::deque<HotPart> const& parts, Generation& hot) {
  HotPart all;
  std::size_t bytes = 0;
  for (HotPart const& part : parts) {
    for (std::size_t i = 0; i < part.kinds.size(); ++i) all.keys.add(part.keys.key(i));
    all.kinds.insert(all.kinds.end(), part.kinds.begin(), part.kinds.end());
    all.sizes.insert(all.sizes.end(), part.sizes.begin(), part.sizes.end());
    bytes += part.values.size();
  }
  std::byte* to = hot.buffer(bytes).data();
  std::vector<ValueRef> values;
  values.reserve(all.kinds.size());
  for (std::byte const* at = to; std::uint64_t const size : all.sizes)
    values.push_back({std::exchange(at, at + size), size});
  for (HotPart const& part : parts) {
    if (part.values.empty()) continue;
    std::memcpy(to, part.values.data(), part.values.size());
    to += part.values.size();
  }
  std::vector<RequestId> const requests(all.kinds.size(), kHotRequest);
  Entries entries;
  entries.keys = all.keys.column();
  entries.kinds = all.kinds;
  entries.values = values;
  entries.requests = requests;
  return engine.build(entries);
}

}  // namespace

Result<HotGathered> gather_hot(BlockCache const& cache, Engine& engine, exec::Workers& workers,
                               CacheTicket const& ticket, HotAsked const& asked) {
  return caught([&]() -> Result<HotGathered> {
    Gathering gathering(cache, workers, ticket);
    HotParts const parts = gathering.take(gathering.border(asked));
    HotGathered gathered{ticket, nullptr, 0};
    for (auto const& [family, some] : parts)
      for (HotPart const& part : some) gathered.entries += part.kinds.size();
    if (gathered.entries < asked.entries) return gathered;
    auto hot = std::make_shared<Generation>(nullptr);
    for (auto const& [family, some] : parts) {
      auto run = build_run(engine, some, *hot);
      if (!run) return run.status();
      hot->set_runs(family, {std::move(*run)});
    }
    gathered.generation = std::move(hot);
    return gathered;
  });
}

}  // namespace perdure::lsm
