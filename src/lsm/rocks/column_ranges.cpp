// range(): many ranges of one state of the database (perdure/rocks.h). Each worker has one iterator
// for all the ranges that it reads, and columns of its own, which are joined at the end.
#include <deque>
#include <memory>
#include <vector>

#include "exec/range.hpp"
#include "lsm/rocks/array_call.hpp"
#include "lsm/rocks/found_pairs.hpp"

namespace perdure::rocks {

using namespace lsm;  // NOLINT: whose interface this is
using rocksdb::ColumnFamilyHandle;
using rocksdb::Slice;

namespace {

constexpr std::size_t kRangesAChunk = 16;

class RangeCall {
 public:
  RangeCall(rocksdb::DB& db, DatabaseParts& parts, ColumnFamilyHandle* family,
            rocksdb::ReadOptions const& options, Column const& begins, Column const& ends,
            std::uint64_t limit, Ranges& ranges)
      : db_(db),
        parts_(parts),
        family_(family),
        options_(options),
        begins_(begins),
        ends_(ends),
        limit_(limit),
        ranges_(ranges) {
    options_.total_order_seek = true;  // ranges know no prefixes
  }

  rocksdb::Status run() {
    std::size_t const n = begins_.count;
    ranges_.offsets.assign(n + 1, 0);  // number of pairs of range i, at i + 1
    chunks_.resize((n + kRangesAChunk - 1) / kRangesAChunk);
    parts_.workers->for_chunks(n, kRangesAChunk, [&](std::size_t begin, std::size_t end) {
      read_chunk(begin, end, chunks_[begin / kRangesAChunk]);
    });
    join();
    MutexLock const lock(mutex_);
    return failure_;
  }

 private:
  struct Worker {
    explicit Worker(Reused<FoundPairs>::Loan pairs) : found(std::move(pairs)) {}
    std::unique_ptr<rocksdb::Iterator> iterator;
    Reused<FoundPairs>::Loan found;
  };
  /// Neighbouring ranges, whose pairs lie side by side in a worker's columns.
  struct Chunk {
    Worker const* worker = nullptr;
    std::size_t first = 0, count = 0;  // of the worker's pairs
    std::size_t pair = 0;  // of the answer
    std::uint64_t key_byte = 0, value_byte = 0;  // of the answer
  };

  void read_chunk(std::size_t begin, std::size_t end, Chunk& chunk) {
    Worker& worker = take_worker();
    chunk.worker = &worker;
    chunk.first = worker.found->keys.count();
    rocksdb::Iterator& at = *worker.iterator;
    for (std::size_t i = begin; i < end; ++i) {
      std::uint64_t n = 0;
      for (at.Seek(element(begins_, i)); n < limit_ && at.Valid(); at.Next(), ++n) {
        Slice const key = at.key();
        if (ends_.count != 0 && key.compare(element(ends_, i)) >= 0) break;
        worker.found->keys.add(key);
        worker.found->values.add(at.value());
      }
      ranges_.offsets[i + 1] = static_cast<std::int64_t>(n);
      if (!at.status().ok()) fail(at.status());
    }
    chunk.count = worker.found->keys.count() - chunk.first;
    MutexLock const lock(mutex_);
    idle_.push_back(&worker);
  }

  Worker& take_worker() {
    {
      MutexLock const lock(mutex_);
      if (!idle_.empty()) {
        Worker& worker = *idle_.back();
        idle_.pop_back();
        return worker;
      }
    }
    auto fresh = std::make_unique<Worker>(parts_.read_rooms->pairs.take());
    fresh->found->keys.clear();
    fresh->found->values.clear();
    fresh->iterator.reset(db_.NewIterator(options_, family_));
    MutexLock const lock(mutex_);
    return *workers_.emplace_back(std::move(fresh));
  }

  void join() {
    for (std::size_t i = 1; i < ranges_.offsets.size(); ++i)
      ranges_.offsets[i] += ranges_.offsets[i - 1];
    std::size_t pairs = 0;
    std::uint64_t key_bytes = 0, value_bytes = 0;
    for (Chunk& chunk : chunks_) {
      FoundPairs const& found = *chunk.worker->found;
      chunk.pair = pairs;
      chunk.key_byte = key_bytes;
      chunk.value_byte = value_bytes;
      std::size_t const end = chunk.first + chunk.count;
      pairs += chunk.count;
      key_bytes += found.keys.begin(end) - found.keys.begin(chunk.first);
      value_bytes += found.values.begin(end) - found.values.begin(chunk.first);
    }
    make_room(ranges_.keys, pairs, key_bytes);
    make_room(ranges_.values, pairs, value_bytes);
    parts_.workers->for_chunks(chunks_.size(), 1, [&](std::size_t i, std::size_t) {
      Chunk const& chunk = chunks_[i];
      FoundPairs const& found = *chunk.worker->found;
      found.keys.copy(chunk.first, chunk.count, ranges_.keys, chunk.pair, chunk.key_byte);
      found.values.copy(chunk.first, chunk.count, ranges_.values, chunk.pair, chunk.value_byte);
    });
  }

  static void make_room(VariableValues& values, std::size_t count, std::uint64_t bytes) {
    values.offsets.resize(count + 1);
    values.offsets[0] = 0;
    values.data.resize(bytes);
  }

  void fail(rocksdb::Status const& why) {
    MutexLock const lock(mutex_);
    if (failure_.ok()) failure_ = why;
  }

  rocksdb::DB& db_;
  DatabaseParts& parts_;
  ColumnFamilyHandle* const family_;
  rocksdb::ReadOptions options_;
  Column const begins_, ends_;
  std::uint64_t const limit_;
  Ranges& ranges_;
  std::vector<Chunk> chunks_;
  Mutex mutex_;
  rocksdb::Status failure_ PERDURE_GUARDED_BY(mutex_);
  std::deque<std::unique_ptr<Worker>> workers_ PERDURE_GUARDED_BY(mutex_);
  std::vector<Worker*> idle_ PERDURE_GUARDED_BY(mutex_);
};

}  // namespace

rocksdb::Status range(rocksdb::DB& db, ColumnFamilyHandle* family, Column const& begins,
                      Column const& ends, std::uint64_t limit, Ranges& ranges,
                      ArrayOptions const& options) {
  exec::Range const marked("rocks range");
  Database* database = nullptr;
  if (auto s = check_call(db, family, database); !s.ok()) return s;
  if (ends.count != 0 && ends.count != begins.count)
    return rocksdb::Status::InvalidArgument("as many ends as begins, or none");
  DatabaseParts& parts = database->parts();
  DeviceColumns device(*parts.device, *parts.workers, options);
  Column const from = device.bring(begins, "begins");
  Column const to = device.bring(ends, "ends");
  if (auto s = device.arrived(); !s.ok()) return s;
  OneState const state(*database, options);
  return RangeCall(db, parts, family, state.options(), from, to, limit, ranges).run();
}

}  // namespace perdure::rocks
