#include "lsm/rocks/flusher.hpp"

#include <algorithm>
#include <chrono>
#include <list>
#include <utility>

#include "lsm/rocks/sorted_files.hpp"
#include "lsm/rocks/status.hpp"

namespace perdure::lsm {

namespace {

constexpr auto kTurn = std::chrono::milliseconds(20);
constexpr auto kRetry = std::chrono::seconds(1);

rocksdb::IngestExternalFileOptions ingest_options() {
  rocksdb::IngestExternalFileOptions options;
  options.move_files = true;
  options.write_global_seqno = false;
  options.verify_file_checksum = false;
  return options;
}

}  // namespace

Flusher::Flusher(rocksdb::DB& base, Engine& engine, Tables& tables, Families const& families,
                 Counters& counters, std::string directory, std::function<void()> seal_idle)
    : base_(base),
      engine_(engine),
      tables_(tables),
      families_(families),
      counters_(counters),
      directory_(std::move(directory)),
      seal_idle_(std::move(seal_idle)) {}

Flusher::~Flusher() { stop(); }

void Flusher::start() {
  thread_ = std::thread([this] { run(); });
}

void Flusher::notice() {
  MutexLock lock(mutex_);
  noticed_ = true;
  changed_.notify_all();
}

void Flusher::stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

rocksdb::Status Flusher::failure() const {
  MutexLock lock(mutex_);
  return failure_;
}

template <class Waits>
rocksdb::Status Flusher::wait_while(Waits waits) {
  MutexLock lock(mutex_);
  std::uint64_t const before = attempts_;
  noticed_ = true;
  changed_.notify_all();
  while (waits()) {
    // A failure from before this call may be over: one attempt more decides.
    if (!failure_.ok() && attempts_ > before) return failure_;
    if (stopping_) return rocksdb::Status::ShutdownInProgress("memtables are no longer flushed");
    changed_.wait(mutex_);
  }
  return rocksdb::Status::OK();
}

rocksdb::Status Flusher::wait_until_sealed(std::uint64_t left) {
  return wait_while([&] { return tables_.sealed_generations() > left; });
}

rocksdb::Status Flusher::wait_until_flushed(GenerationPtr const& generation) {
  return wait_while([&] { return tables_.has(generation); });
}

void Flusher::run() {
  for (;;) {
    {
      MutexLock lock(mutex_);
      auto const pause = failure_.ok() ? kTurn : kRetry;
      if (!noticed_ && !stopping_) changed_.wait_for(mutex_, pause);
      if (stopping_) return;
      noticed_ = false;
    }
    seal_idle_();
    while (GenerationPtr const oldest = tables_.oldest_sealed()) {
      rocksdb::Status const s = flush(oldest);
      MutexLock lock(mutex_);
      failure_ = s;
      ++attempts_;
      changed_.notify_all();
      if (!s.ok() || stopping_) break;
    }
  }
}

/// Ingested files pile up in level 0 unless somebody waits; RocksDB itself does not.
void Flusher::wait_for_compaction(Generation const& generation) {
  auto const is_behind = [&] {
    for (View::FamilyRuns const& one : generation.families) {
      FamilyPtr const family = families_.find(one.family);
      if (family == nullptr || family->dropped) continue;
      rocksdb::Options const options = base_.GetOptions(family->base);
      if (options.disable_auto_compactions) continue;
      std::uint64_t files = 0, running = 0;
      base_.GetIntProperty(family->base, "rocksdb.num-files-at-level0", &files);
      base_.GetIntProperty(family->base, "rocksdb.num-running-compactions", &running);
      if (running > 0 && files >= static_cast<std::uint64_t>(options.level0_stop_writes_trigger))
        return true;
    }
    return false;
  };
  if (!is_behind()) return;
  ++counters_.ingest_waits;
  MutexLock lock(mutex_);
  while (!stopping_ && is_behind()) changed_.wait_for(mutex_, std::chrono::milliseconds(2));
}

rocksdb::Status Flusher::flush(GenerationPtr const& generation) {
  if (!generation->ingested) {
    if (auto s = ingest(*generation); !s.ok()) return s;
    generation->ingested = true;  // never again: operands would count twice
  }
  if (GwalSegment* const segment = generation->segment()) {
    if (Status s = segment->retire(); !s.ok()) return to_rocks(s);
  }
  ++counters_.flushed_generations;
  tables_.remove(generation);
  return rocksdb::Status::OK();
}

rocksdb::Status Flusher::ingest(Generation& generation) {
  wait_for_compaction(generation);
  if (Status s = tables_.compact(generation); !s.ok()) return to_rocks(s);
  BaseSnapshot const snapshot(base_);
  std::uint64_t const sequence = base_.GetLatestSequenceNumber();
  std::list<SortedFiles> written;
  std::vector<rocksdb::IngestExternalFileArg> args;
  for (View::FamilyRuns const& one : generation.families) {
    FamilyPtr const family = families_.find(one.family);
    if (family == nullptr || family->dropped) continue;
    std::string const prefix = directory_ + "/flush-" + std::to_string(one.family);
    SortedFiles& files = written.emplace_back(base_, *family, snapshot.get(), prefix);
    if (auto s = files.write(engine_, *one.runs.front()); !s.ok()) return s;
    if (files.files().empty()) continue;
    args.emplace_back();
    args.back().column_family = family->base;
    args.back().external_files = files.files();
    args.back().options = ingest_options();
  }
  if (GwalSegment* const segment = generation.segment()) {
    if (Status s = segment->intend(sequence); !s.ok()) return to_rocks(s);
  }
  if (!args.empty()) {
    if (auto s = base_.IngestExternalFiles(args); !s.ok()) return s;
  }
  for (SortedFiles const& files : written) counters_.flushed_entries += files.entries();
  return rocksdb::Status::OK();
}

}  // namespace perdure::lsm
