#include "lsm/rocks/flusher.hpp"

#include <algorithm>
#include <chrono>
#include <list>
#include <utility>

#include "base/own_thread.hpp"
#include "exec/range.hpp"
#include "lsm/rocks/cache_refresh.hpp"
#include "lsm/rocks/generation_batch.hpp"
#include "lsm/rocks/status.hpp"

namespace perdure::lsm {

namespace {

constexpr std::chrono::milliseconds kTurn(20);
constexpr std::chrono::milliseconds kIdle(1000);  // without memtables; who begins one gives notice
constexpr auto kLook = std::chrono::milliseconds(5);  // for what was sealed meanwhile
constexpr std::chrono::milliseconds kRetry(1000);

rocksdb::IngestExternalFileOptions ingest_options() {
  rocksdb::IngestExternalFileOptions options;
  options.move_files = true;
  options.write_global_seqno = false;
  options.verify_file_checksum = false;
  return options;
}

}  // namespace

Flusher::Flusher(rocksdb::DB& base, Engine& engine, exec::Workers& workers, Tables& tables,
                 Families const& families, Counters& counters, BlockCache* cache,
                 std::string directory, std::function<std::shared_ptr<void>()> seal_idle)
    : base_(base),
      engine_(engine),
      workers_(workers),
      tables_(tables),
      families_(families),
      counters_(counters),
      cache_(cache),
      directory_(std::move(directory)),
      buffers_wal_(base.GetDBOptions().manual_wal_flush),
      side_by_side_(std::clamp<std::size_t>(std::thread::hardware_concurrency() / 2, 2, 8)),
      seal_idle_(std::move(seal_idle)) {}

Flusher::~Flusher() { stop(); }

void Flusher::start() {
  thread_ = own_thread([this] { run(); });
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
  if (!thread_.joinable()) return;
  thread_.join();
  base_.GetEnv()->DeleteDir(directory_).PermitUncheckedError();  // empty but for a failed flush
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
      auto const turn = tables_.any() ? kTurn : kIdle;
      auto const pause = failure_.ok() ? turn : kRetry;
      if (!noticed_ && !stopping_) changed_.wait_for(mutex_, pause);
      if (stopping_) break;
      noticed_ = false;
    }
    std::shared_ptr<void> hold = seal_idle_();
    bool flushed = false;
    busy_since_ = Clock::now();
    if (hold != nullptr && !buffers_wal_) {
      flushed = hand_over();
      hold = nullptr;  // what RocksDB did not take is flushed, and no write waits for that
    }
    for (bool more = true; more;) {
      std::uint64_t const before = tables_.sealed_generations();
      rocksdb::Status const s = flush_oldest();
      MutexLock lock(mutex_);
      failure_ = s;
      ++attempts_;
      changed_.notify_all();
      more = s.ok() && !stopping_ && before != 0;
      flushed |= more;
      noticed_ |= flushed && !more;  // a hand-over goes on at once
    }
    rest();
  }
  ahead_.clear();
}

/// Once, a while after the last generation.
void Flusher::rest() {
  constexpr auto kAfter = std::chrono::seconds(10);
  if (tables_.any()) rests_ = false;
  if (rests_ || tables_.any() || Clock::now() - last_flush_ < kAfter) return;
  tables_.rest();
  rests_ = true;
}

/// The one generation that there is, with the gate held.
bool Flusher::hand_over() {
  std::vector<GenerationPtr> const sealed = tables_.sealed();
  if (sealed.size() != 1 || !write_over(*sealed[0]).ok()) return false;
  sealed[0]->ingested = true;
  return flush(sealed[0], nullptr).ok();
}

/// Without operands, to write it again changes nothing: no intent is needed. With them, one says
/// whether RocksDB has it, for its number rises with a write as with an ingest.
rocksdb::Status Flusher::write_over(Generation& generation) {
  exec::Range const range("rocks write over");
  GwalSegment* const segment = generation.segment();
  if (generation.uncertain || generation.ingested) return rocksdb::Status::Aborted();
  if (Status s = tables_.compact(generation); !s.ok()) return to_rocks(s);
  GenerationBatch all;
  if (auto s = all.read(engine_, families_, generation); !s.ok()) return s;
  rocksdb::WriteOptions options;
  options.no_slowdown = true;
  options.disableWAL = segment == nullptr;
  options.sync = generation.synced && !options.disableWAL;
  std::uint64_t const sequence = base_.GetLatestSequenceNumber();
  bool const intends = generation.merges && segment != nullptr;
  if (intends) {
    if (Status s = segment->intend(sequence); !s.ok()) return to_rocks(s);
  }
  if (cache_ != nullptr) cache_->close(sequence);
  if (auto s = base_.Write(options, &all.batch); !s.ok()) {
    if (cache_ != nullptr) cache_->reopen();
    if (!intends) return s;
    // Of a stall nothing is written; else nobody knows what of it is in RocksDB's log.
    if (s.IsIncomplete()) return after_failed_ingest(generation, sequence, s);
    generation.uncertain = true;
    uncertain_ = true;
    return s;
  }
  if (cache_ != nullptr) static_cast<void>(cache_->invalidate(all.hashes));
  counters_.flushed_entries += all.batch.Count();
  return rocksdb::Status::OK();
}

/// A generation with operands is written when its elders are in RocksDB, on which they are folded,
/// and so are those behind it.
void Flusher::write_ahead() {
  std::vector<GenerationPtr> const sealed = tables_.sealed();
  for (std::size_t i = 0; i < std::min(sealed.size(), side_by_side_); ++i) {
    GenerationPtr const& generation = sealed[i];
    if (generation->merges || generation->ingested || generation->uncertain) return;
    if (i < ahead_.size()) continue;
    Ahead& one = ahead_.emplace_back(generation);
    try {
      one.written = std::async(std::launch::async, [this, &one] {
        return write_files(*one.generation, nullptr, one.files);
      });
    } catch (std::system_error const& error) {
      ahead_.pop_back();  // it is written in its turn
      return warn_of_threads(error);
    }
  }
}

void Flusher::warn_of_threads(std::system_error const& error) const {
  rocksdb::Warn(base_.GetDBOptions().info_log.get(),
                "perdure: no thread to write a memtable's files by (%s): they take longer",
                error.what());
}

rocksdb::Status Flusher::wait_for_files(GenerationPtr const& generation) {
  write_ahead();
  if (ahead_.empty() || ahead_.front().generation != generation) return rocksdb::Status::OK();
  std::future<rocksdb::Status>& written = ahead_.front().written;
  while (written.wait_for(kLook) != std::future_status::ready) write_ahead();
  return written.get();
}

rocksdb::Status Flusher::flush_oldest() {
  std::vector<GenerationPtr> const sealed = tables_.sealed();
  if (sealed.empty()) return rocksdb::Status::OK();
  auto s = wait_for_files(sealed.front());
  bool const is_written = !ahead_.empty() && ahead_.front().generation == sealed.front();
  if (s.ok()) s = flush(sealed.front(), is_written ? &ahead_.front().files : nullptr);
  if (!s.ok())
    ahead_.clear();  // files that nobody ingests take room
  else if (is_written)
    ahead_.pop_front();
  return s;
}

/// Ingested files pile up in level 0 unless somebody waits; RocksDB itself does not.
void Flusher::wait_for_compaction(Generation const& generation) {
  auto const is_behind = [&] {
    for (View::FamilyRuns const& one : generation.families) {
      FamilyPtr const family = families_.find(one.family);
      if (family == nullptr || family->dropped || family->base == nullptr) continue;
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

rocksdb::Status Flusher::flush(GenerationPtr const& generation, Files* prepared) {
  exec::Range const range("rocks flush");
  if (!generation->ingested) {
    if (Status s = tables_.compact(*generation); !s.ok()) return to_rocks(s);
    tables_.prepare_removal(generation);
    if (auto s = ingest(*generation, prepared); !s.ok()) return s;
    generation->ingested = true;  // never again: operands would count twice
  }
  if (GwalSegment* const segment = generation->segment()) {
    if (Status s = segment->retire(); !s.ok()) return to_rocks(s);
  }
  ++counters_.flushed_generations;
  count_flush();
  std::uint64_t const now = tables_.remove(generation);
  if (cache_ != nullptr) cache_->advance(now);
  refresh(*generation, now);
  MutexLock lock(mutex_);
  changed_.notify_all();
  return rocksdb::Status::OK();
}

void Flusher::invalidate(Files const& files) {
  std::uint32_t before = 0;  // keys of the family's parts before this one
  for (SortedFiles const& one : files) {
    if (invalidated_.empty() || invalidated_.back().first != one.family().id) {
      invalidated_.emplace_back(one.family().id, std::vector<std::uint32_t>());
      before = 0;
    }
    std::vector<std::uint32_t>& places = invalidated_.back().second;
    for (std::uint32_t const place : cache_->invalidate(one.hashes()))
      places.push_back(before + place);
    before += static_cast<std::uint32_t>(one.hashes().size());
  }
}

/// Readers of the cache have the new state already; until then they ask RocksDB.
void Flusher::refresh(Generation const& generation, std::uint64_t sequence) {
  for (auto const& [family, places] : std::exchange(invalidated_, {})) {
    std::vector<RunPtr> const runs = generation.runs(family);
    if (generation.merges || places.empty() || runs.size() != 1) continue;
    refresh_cache(*cache_, engine_, workers_, sequence, family, *runs.front(), places);
  }
}

void Flusher::count_flush() {
  auto const now = Clock::now();
  auto const took = std::chrono::duration_cast<std::chrono::microseconds>(
      now - std::max(busy_since_, last_flush_));
  last_flush_ = now;
  a_flush_ = a_flush_ == 0 ? took.count() : (3 * a_flush_ + took.count()) / 4;
}

rocksdb::Status Flusher::write_files(Generation& generation, rocksdb::Snapshot const* snapshot,
                                     Files& files) {
  exec::Range const range("rocks write files");
  if (Status s = tables_.compact(generation); !s.ok()) return to_rocks(s);
  for (View::FamilyRuns const& one : generation.families) {
    FamilyPtr const family = families_.find(one.family);
    if (family == nullptr || !family->has_tables() || one.runs.empty()) continue;
    if (auto s = write_parts(family, *one.runs.front(), snapshot, files); !s.ok()) return s;
  }
  return rocksdb::Status::OK();
}

/// Files of one memtable do not overlap, and yet each counts towards the compaction of level 0: so
/// there are at most half as many as begin one.
rocksdb::Status Flusher::write_parts(FamilyPtr const& family, Run const& run,
                                     rocksdb::Snapshot const* snapshot, Files& files) {
  constexpr std::uint32_t kLeast = 1u << 20;  // entries: a third of a second of a core
  int const trigger = base_.GetOptions(family->base).level0_file_num_compaction_trigger;
  auto const found = SortedFiles::parts_of(engine_, run, kLeast,
                                           static_cast<std::size_t>(std::clamp(trigger / 2, 1, 8)));
  if (!found) return to_rocks(found.status());
  std::vector<std::uint32_t> const& borders = found.value();
  auto const write = [&](std::size_t i, SortedFiles& part) {
    return part.write(engine_, run, borders[i], borders[i + 1]);
  };
  rocksdb::Status s;
  std::vector<std::future<rocksdb::Status>> others;
  for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
    std::string const prefix = directory_ + "/flush-" + std::to_string(next_file_++);
    SortedFiles& part = files.emplace_back(base_, family, snapshot, prefix, cache_ != nullptr);
    if (i + 2 == borders.size()) break;  // the last is this thread's
    try {
      others.push_back(std::async(std::launch::async, write, i, std::ref(part)));
    } catch (std::system_error const& error) {
      warn_of_threads(error);
      if (s.ok()) s = write(i, part);
    }
  }
  if (s.ok()) s = write(borders.size() - 2, files.back());
  for (auto& other : others)
    if (auto const theirs = other.get(); s.ok()) s = theirs;
  return s;
}

/// Where RocksDB's number stands still, what else raises it later does not mean this generation. It
/// may have risen although the MANIFEST was not written, and then only the MANIFEST knows.
rocksdb::Status Flusher::after_failed_ingest(Generation& generation, std::uint64_t sequence,
                                             rocksdb::Status const& failure) {
  GwalSegment* const segment = generation.segment();
  if (base_.GetLatestSequenceNumber() > sequence) {
    generation.uncertain = true;
    uncertain_ = true;
  } else if (segment != nullptr) {
    if (Status s = segment->intend(kNoGwalIntent); !s.ok()) return to_rocks(s);
  }
  return failure;
}

rocksdb::Status Flusher::ingest(Generation& generation, Files* prepared) {
  if (generation.uncertain)
    return rocksdb::Status::IOError(
        "an ingest failed while RocksDB's MANIFEST was written; close the database and open it "
        "again, which tells whether it has the data");
  wait_for_compaction(generation);
  BaseSnapshot const snapshot(base_);
  std::uint64_t const sequence = base_.GetLatestSequenceNumber();
  Files own;
  if (prepared == nullptr) {
    if (auto s = write_files(generation, snapshot.get(), own); !s.ok()) return s;
    prepared = &own;
  }
  return ingest(generation, *prepared, sequence);
}

rocksdb::Status Flusher::ingest(Generation& generation, Files const& files,
                                std::uint64_t sequence) {
  std::vector<rocksdb::IngestExternalFileArg> args;
  std::uint64_t entries = 0;
  for (SortedFiles const& one : files) {
    if (one.files().empty() || one.family().dropped) continue;
    if (args.empty() || args.back().column_family != one.family().base) {
      args.emplace_back();
      args.back().column_family = one.family().base;
      args.back().options = ingest_options();
    }
    std::vector<std::string>& all = args.back().external_files;
    all.insert(all.end(), one.files().begin(), one.files().end());
    entries += one.entries();
  }
  if (GwalSegment* const segment = generation.segment()) {
    if (Status s = segment->intend(sequence); !s.ok()) return to_rocks(s);
  }
  if (cache_ != nullptr) cache_->close(sequence);
  if (!args.empty()) {
    if (auto s = base_.IngestExternalFiles(args); !s.ok()) {
      if (cache_ != nullptr) cache_->reopen();
      return after_failed_ingest(generation, sequence, s);
    }
  }
  if (cache_ != nullptr) invalidate(files);
  counters_.flushed_entries += entries;
  return rocksdb::Status::OK();
}

}  // namespace perdure::lsm
