#include "lsm/rocks/hot_entries.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/caught.hpp"
#include "base/own_thread.hpp"
#include "exec/range.hpp"

namespace perdure::lsm {

namespace {

/// Of the room for what was flushed, hot entries take one part in so many.
constexpr std::uint64_t kShare = 2;
/// The machine has so many times the memory left, which memtables need first.
constexpr std::uint64_t kFreeForMemtables = 4;

}  // namespace

HotEntries::HotEntries(rocksdb::DB& base, Engine& engine, exec::Workers& workers, Tables& tables,
                       Writer& writer, Counters& counters, BlockCache& cache,
                       std::uint64_t most_bytes)
    : base_(base),
      engine_(engine),
      workers_(workers),
      tables_(tables),
      writer_(writer),
      counters_(counters),
      cache_(cache),
      most_bytes_(most_bytes / kShare) {}

HotEntries::~HotEntries() { stop(); }

void HotEntries::start(HotRules const& rules) {
  if (most_bytes_ == 0) return;
  due_ = rules.hits;
  try {
    thread_ = own_thread([this, rules] { run(rules); });
  } catch (std::system_error const& error) {
    due_ = kNever;
    rocksdb::Warn(base_.GetDBOptions().info_log.get(),
                  "perdure: no thread to bring hot entries to the machine (%s): they stay in the "
                  "block cache",
                  error.what());
  }
}

void HotEntries::stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void HotEntries::wake() {
  MutexLock lock(mutex_);
  changed_.notify_all();
}

bool HotEntries::wait_for_hits(std::uint64_t keys) {
  due_ = keys;
  MutexLock lock(mutex_);
  while (!stopping_ && hits_ < keys) changed_.wait(mutex_);
  due_ = kNever;
  return !stopping_;
}

bool HotEntries::pause(Clock::duration time) {
  auto const until = Clock::now() + time;
  MutexLock lock(mutex_);
  for (auto now = Clock::now(); !stopping_ && now < until; now = Clock::now())
    changed_.wait_for(mutex_, until - now);
  return !stopping_;
}

void HotEntries::run(HotRules rules) {
  HotPace pace(rules.pause);
  std::uint64_t machine_then = counters_.hot_hits;
  for (std::uint64_t entries = 0; wait_for_hits(std::max(rules.hits, entries));) {
    auto const began = Clock::now();
    std::uint64_t const by_cache = hits_.exchange(0);
    std::uint64_t const machine_now = counters_.hot_hits;
    entries = build(rules.asked);
    auto const times =
        pace.after(entries, by_cache, machine_now - std::exchange(machine_then, machine_now));
    if (!pause((Clock::now() - began) * times)) return;
  }
}

std::uint64_t HotEntries::build(HotAsked const& asked) {
  HotGathered const gathered = gather(asked);
  auto published = caught([&]() -> Result<bool> { return publish(gathered); });
  if (published && *published) ++counters_.hot_builds;
  return gathered.entries;
}

HotGathered HotEntries::gather(HotAsked asked) {
  exec::Range const range("rocks gather hot");
  auto const ticket = cache_.ticket(base_.GetLatestSequenceNumber(), 0);
  if (!ticket) return {};
  asked.bytes = std::min(most_bytes_, engine_.free_bytes() / kFreeForMemtables);
  auto gathered = gather_hot(cache_, engine_, workers_, *ticket, asked);
  return gathered ? std::move(*gathered) : HotGathered{};
}

/// With the gate held, an ingest that takes no sequence number is over, and then the cache knows
/// the state no more, or comes later, and makes all that was published forgotten.
bool HotEntries::publish(HotGathered const& gathered) {
  if (gathered.generation == nullptr) return false;
  auto const hold = writer_.hold_rocksdb();
  return cache_.holds(gathered.ticket) &&
         tables_.add_hot(gathered.generation, gathered.ticket.sequence);
}

}  // namespace perdure::lsm
