#include "lsm/rocks/tables.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/assert.hpp"

namespace perdure::lsm {

Tables::Tables(rocksdb::DB& base, Engine& engine, Gwal& gwal, exec::Workers& workers,
               std::uint64_t memtable_bytes, std::uint64_t flushed_bytes)
    : base_(base),
      engine_(engine),
      gwal_(gwal),
      workers_(workers),
      memtable_bytes_(memtable_bytes),
      flushed_bytes_(flushed_bytes),
      flushed_(flushed_bytes) {
  MutexLock lock(mutex_);
  view_ = std::make_shared<View>();
}

ViewPtr Tables::view() const {
  MutexLock lock(mutex_);
  return view_;
}

std::shared_ptr<View> Tables::view_of_rocksdb() const {
  auto alone = std::make_shared<View>();
  alone->base = std::make_shared<BaseSnapshot>(base_);
  return alone;
}

void Tables::add_flushed(View& view) const {
  if (flushed_.hold_at(view.base->get()->GetSequenceNumber())) flushed_.add_to(view);
}

std::unique_ptr<ViewSnapshot> Tables::snapshot() const {
  ViewPtr now = view();
  if (!now->empty()) return std::make_unique<ViewSnapshot>(now, now->last);
  std::shared_ptr<View> const alone = view_of_rocksdb();
  std::uint64_t const sequence = alone->base->get()->GetSequenceNumber() + ahead_.load();
  MutexLock lock(mutex_);
  add_flushed(*alone);
  return std::make_unique<ViewSnapshot>(alone, sequence);
}

/// Under the lock, so that no memtables come and go between the snapshot and its number.
std::unique_ptr<ViewSnapshot> Tables::pin() {
  MutexLock lock(mutex_);
  ViewPtr now = view_;
  std::uint64_t sequence = last_;
  if (generations_.empty()) {
    std::shared_ptr<View> const alone = view_of_rocksdb();
    sequence = alone->base->get()->GetSequenceNumber() + ahead_.load();
    add_flushed(*alone);
    now = alone;
  }
  history_.pin(sequence);
  return std::make_unique<ViewSnapshot>(std::move(now), sequence);
}

void Tables::unpin(std::uint64_t sequence) {
  MutexLock lock(mutex_);
  history_.unpin(sequence);
}

Tables::Past Tables::past() const {
  MutexLock lock(mutex_);
  return {view_, history_};
}

std::uint64_t Tables::sequence() const {
  if (any()) return last_;
  return base_.GetLatestSequenceNumber() + ahead_.load();
}

std::uint64_t Tables::sealed_generations() const {
  MutexLock lock(mutex_);
  return static_cast<std::uint64_t>(std::count_if(generations_.begin(), generations_.end(),
                                                  [](auto const& one) { return one->sealed; }));
}

Tables::Load Tables::load() const {
  MutexLock lock(mutex_);
  Load all;
  all.generations = generations_.size();
  for (GenerationPtr const& generation : generations_) {
    all.requests += generation->requests;
    all.bytes += generation->bytes;
  }
  return all;
}

GenerationPtr Tables::newest_sealed() const {
  MutexLock lock(mutex_);
  auto const at = std::find_if(generations_.begin(), generations_.end(),
                               [](auto const& one) { return one->sealed; });
  return at == generations_.end() ? nullptr : *at;
}

bool Tables::has(GenerationPtr const& generation) const {
  MutexLock lock(mutex_);
  return generation != nullptr &&
         std::find(generations_.begin(), generations_.end(), generation) != generations_.end();
}

Tables::Flushed Tables::flushed() const {
  MutexLock lock(mutex_);
  return {flushed_.generations(), flushed_.bytes(), flushed_.hot_entries()};
}

/// The flusher says that RocksDB has a generation under the same lock: until then RocksDB's number
/// tells.
bool Tables::add_hot(GenerationPtr hot, std::uint64_t sequence) {
  MutexLock lock(mutex_);
  if (base_.GetLatestSequenceNumber() != sequence) return false;
  flushed_.add_hot(std::move(hot), sequence);
  if (!generations_.empty()) publish();
  return true;
}

void Tables::forget_flushed() {
  MutexLock lock(mutex_);
  flushed_.forget();
}

Result<std::span<std::byte>> Tables::reserve(std::uint64_t bytes, bool logged, bool few) {
  if (active_ == nullptr) active_ = std::make_shared<Generation>(nullptr);
  if (!logged) return active_->buffer(bytes);
  if (active_->segment() == nullptr) {
    auto segment = few ? gwal_.begin(bytes, true) : gwal_.begin(std::max(bytes, memtable_bytes_));
    if (!segment) return segment.status();
    active_->set_segment(std::move(*segment));
  }
  auto room = active_->segment()->reserve(bytes);
  if (room || room.status().code() != Code::no_space) return room;
  seal();
  return reserve(bytes, logged, few);
}

RequestId Tables::next_request() { return sequence() + 1; }

/// A run of each part, side by side.
Result<std::vector<RunPtr>> Tables::build(std::span<FamilyBatch const> batch) {
  std::vector<RunPtr> built(batch.size());
  std::vector<Status> failed(batch.size());
  workers_.for_chunks(batch.size(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      auto run = engine_.build(batch[i].entries);
      failed[i] = run.status();
      if (run) built[i] = std::move(*run);
    }
  });
  for (Status const& one : failed)
    if (!one.ok()) return one;
  return built;
}

/// A few runs are searched as fast as one, and merging them as they come would cost more. Beyond
/// that, runs grow by size, so that of n entries each is merged log n times. What cannot be merged
/// for want of memory stays as it is.
void Tables::merge_some(std::vector<RunPtr>& runs) {
  constexpr std::size_t kFew = 6;
  if (runs.size() <= kFew) return;
  std::size_t together = 1;
  std::uint64_t entries = runs[0]->count();
  while (together < runs.size() &&
         (runs[together]->count() / 2 <= entries || runs.size() - together >= kFew))
    entries += runs[together++]->count();
  auto merged = engine_.merge(RunList(runs).first(together));
  if (!merged) return;
  runs.erase(runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(together));
  runs.insert(runs.begin(), std::move(*merged));
}

Status Tables::append(std::span<FamilyBatch const> batch, Written const& written, ViewPtr* seen) {
  PERDURE_ASSERT(active_ != nullptr && !active_->sealed);
  auto built = build(batch);
  if (!built) return built.status();
  RequestId const first = next_request();
  if (written.logged) {
    Status const s = active_->segment()->commit(first, written.requests, written.sync, written.sum);
    if (!s.ok()) return s;
  }
  std::map<std::uint32_t, std::vector<RunPtr>> grown;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    std::uint32_t const family = batch[i].family;
    auto const [at, is_new] = grown.try_emplace(family);
    if (is_new) at->second = active_->runs(family);  // readers' views have their own
    at->second.insert(at->second.begin(), std::move(built.value()[i]));
  }
  for (auto& [family, runs] : grown) merge_some(runs);
  MutexLock lock(mutex_);
  for (auto& [family, runs] : grown) active_->set_runs(family, std::move(runs));
  active_->bytes += written.bytes;
  active_->requests += written.requests;
  for (FamilyBatch const& one : batch) active_->merges |= one.merges;
  active_->synced |= written.sync;
  if (generations_.empty() || generations_.front() != active_) add_generation(active_);
  last_ = first + written.requests - 1;
  active_->last = last_;
  publish();
  if (seen != nullptr) *seen = view_;
  return {};
}

void Tables::add_generation(GenerationPtr generation) {
  if (generations_.empty()) {
    std::uint64_t const base = base_.GetLatestSequenceNumber();
    history_.generations_begin(base);
    if (!flushed_.hold_at(base)) flushed_.forget();  // RocksDB had writes of its own
  }
  generations_.push_front(std::move(generation));
}

void Tables::seal() {
  if (active_ == nullptr) return;
  if (active_->requests == 0) return;  // it goes on
  MutexLock lock(mutex_);
  active_->sealed = true;
  active_ = nullptr;
}

void Tables::close() {
  if (active_ != nullptr && active_->requests == 0 && active_->segment() != nullptr)
    static_cast<void>(active_->segment()->retire());  // it holds nothing
  active_ = nullptr;
  MutexLock lock(mutex_);
  generations_.clear();
  flushed_.forget();
  publish();
}

bool Tables::is_full() const { return active_ != nullptr && active_->bytes >= memtable_bytes_; }

Status Tables::restore(GenerationPtr generation, std::span<FamilyBatch const> batch,
                       RequestId last) {
  auto built = build(batch);
  if (!built) return built.status();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    std::vector<RunPtr> runs = generation->runs(batch[i].family);
    runs.insert(runs.begin(), std::move(built.value()[i]));
    merge_some(runs);
    generation->set_runs(batch[i].family, std::move(runs));
    generation->merges |= batch[i].merges;
  }
  MutexLock lock(mutex_);
  generation->sealed = true;
  generation->synced = true;  // nobody knows any more what was promised
  generation->last = last;
  add_generation(std::move(generation));
  last_ = std::max(last_.load(), last);
  publish();
  return {};
}

std::vector<GenerationPtr> Tables::sealed() const {
  MutexLock lock(mutex_);
  std::vector<GenerationPtr> oldest_first(generations_.rbegin(), generations_.rend());
  std::erase_if(oldest_first, [](GenerationPtr const& one) { return !one->sealed; });
  return oldest_first;
}

void Tables::rest() {
  constexpr std::size_t kSegments = 2;  // that a write after a while finds there
  gwal_.trim(kSegments);
}

Status Tables::compact(Generation& generation) {
  for (View::FamilyRuns& one : generation.families) {
    if (one.runs.size() < 2) continue;
    auto merged = engine_.merge(one.runs);
    if (!merged) return merged.status();
    MutexLock lock(mutex_);
    one.runs = {std::move(*merged)};
    publish();
  }
  return {};
}

void Tables::prepare_removal(GenerationPtr const& generation) {
  kept_ = worth_keeping(engine_, generation, flushed_bytes_);
  leaves_ = generation;
}

std::uint64_t Tables::remove(GenerationPtr const& generation) {
  if (leaves_ != generation) prepare_removal(generation);  // it became RocksDB's by a write
  leaves_ = nullptr;
  MutexLock lock(mutex_);
  PERDURE_ASSERT(!generations_.empty() && generations_.back() == generation);
  generations_.pop_back();
  history_.keep(generation);
  snapshot_ = nullptr;
  // Where no generation is left, RocksDB gets writes again once any_ says so, and not before.
  if (!generations_.empty()) snapshot_ = std::make_shared<BaseSnapshot>(base_);
  flushed_.add(std::exchange(kept_, nullptr), snapshot_ != nullptr
                                                  ? snapshot_->get()->GetSequenceNumber()
                                                  : base_.GetLatestSequenceNumber());
  return publish();
}

std::uint64_t Tables::publish() {
  auto next = std::make_shared<View>();
  next->last = last_;
  std::uint64_t base = 0;
  if (generations_.empty()) {
    base = base_.GetLatestSequenceNumber();
    RequestId const last = last_;
    ahead_ = std::max(ahead_.load(), last > base ? last - base : 0);
    history_.generations_end(base, ahead_.load());
    snapshot_ = nullptr;
  } else if (snapshot_ == nullptr) {
    snapshot_ = std::make_shared<BaseSnapshot>(base_);
  }
  for (GenerationPtr const& generation : generations_) {
    next->generations.push_back(generation);
    for (View::FamilyRuns const& one : generation->families) View::add(next->families, one);
  }
  next->base = snapshot_;
  if (snapshot_ != nullptr) {
    base = snapshot_->get()->GetSequenceNumber();
    add_flushed(*next);
  }
  view_ = std::move(next);
  any_.store(!generations_.empty(), std::memory_order_release);
  return base;
}

}  // namespace perdure::lsm
