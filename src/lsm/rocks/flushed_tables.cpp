#include "lsm/rocks/flushed_tables.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "lsm/rocks/entry_groups.hpp"
#include "lsm/rocks/hot_gather.hpp"
#include "lsm/rocks/key_column.hpp"

namespace perdure::lsm {

namespace {

/// A copy is worth its time where it leaves so many times its bytes to others.
constexpr std::uint64_t kEmptyEnough = 4;
/// The machine has so many times the memory left, which new memtables need first.
constexpr std::uint64_t kFreeForNewMemtables = 4;

/// The newest versions of a run's keys, their values in `copy`'s memory. They have no request below
/// another's: who reads sees all of them.
Result<RunPtr> copy_run(Engine& engine, Run const& run, Generation& copy) {
  EntryBlock block;
  if (Status s = engine.fetch(run, 0, run.count(), block); !s.ok()) return s;
  KeyColumn keys;
  std::vector<Kind> kinds;
  std::vector<ValueRef> values;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < block.size(); i = end_of_key(block, i)) {
    keys.add(as_slice(block.key(i)));
    kinds.push_back(block.versions[i].kind);
    values.push_back(block.versions[i].value);
    bytes += values.back().size;
  }
  std::byte* to = copy.buffer(bytes).data();
  for (ValueRef& value : values) {
    if (value.size == 0) continue;
    std::memcpy(to, value.data, value.size);
    value.data = std::exchange(to, to + value.size);
  }
  Entries entries;
  entries.keys = keys.column();
  entries.kinds = kinds;
  entries.values = values;
  entries.first_request = kHotRequest + 1;
  return engine.build(entries);
}

}  // namespace

GenerationPtr worth_keeping(Engine& engine, GenerationPtr const& generation,
                            std::uint64_t most_bytes) {
  std::uint64_t const memory = generation->memory();
  if (most_bytes == 0 || generation->merges || engine.free_bytes() / kFreeForNewMemtables < memory)
    return nullptr;
  if (generation->bytes > memory / kEmptyEnough) return memory <= most_bytes ? generation : nullptr;
  auto copy = std::make_shared<Generation>(nullptr);
  for (View::FamilyRuns const& one : generation->families) {
    if (one.runs.empty()) continue;
    auto run = copy_run(engine, *one.runs.front(), *copy);
    if (!run) return nullptr;
    copy->set_runs(one.family, {std::move(*run)});
  }
  copy->bytes = generation->bytes;
  copy->last = generation->last;
  return copy;
}

void FlushedTables::add(GenerationPtr kept, std::uint64_t sequence) {
  sequence_ = sequence;
  if (kept == nullptr) return forget();
  push(std::move(kept));
}

/// What is flushed from now on is newer. The entries that it takes the place of say nothing that
/// those in front of them and behind them do not.
void FlushedTables::add_hot(GenerationPtr hot, std::uint64_t sequence) {
  if (sequence_ != sequence) forget();  // RocksDB had writes of its own
  sequence_ = sequence;
  if (hot_ != nullptr) drop(std::find(generations_.begin(), generations_.end(), hot_));
  hot_ = hot;
  push(std::move(hot));
}

void FlushedTables::push(GenerationPtr newest) {
  bytes_ += newest->memory();
  generations_.push_front(std::move(newest));
  while (bytes_ > most_bytes_) drop(std::prev(generations_.end()));
}

void FlushedTables::drop(std::deque<GenerationPtr>::iterator at) {
  if (*at == hot_) hot_ = nullptr;
  bytes_ -= (*at)->memory();
  generations_.erase(at);
}

void FlushedTables::forget() {
  generations_.clear();
  hot_ = nullptr;
  bytes_ = 0;
}

std::uint64_t FlushedTables::hot_entries() const {
  std::uint64_t all = 0;
  if (hot_ == nullptr) return all;
  for (View::FamilyRuns const& one : hot_->families)
    for (RunPtr const& run : one.runs) all += run->count();
  return all;
}

void FlushedTables::add_to(View& view) const {
  view.known = view.families;
  for (GenerationPtr const& generation : generations_) {
    view.flushed.push_back(generation);
    view.last_flushed = std::max(view.last_flushed, generation->last);
    for (View::FamilyRuns const& one : generation->families) View::add(view.known, one);
  }
  view.last = std::max(view.last, view.last_flushed);  // its readers see them
}

}  // namespace perdure::lsm
