// What `perdure-bench baselines` asks of each system: the workloads, one batch's arrays, and a
// bench that loads the records, makes the calls and compares every answer. Invariant: after every
// workload the records are those that were loaded.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "common.hpp"
#include "dataset.hpp"
#include "device_arrays.hpp"
#include "systems.hpp"
#include "ycsb.hpp"

namespace perdure::bench::beside {

struct Options {
  std::uint64_t records = 2'000'000;
  std::uint64_t ops = 1 << 20;
  std::vector<std::size_t> batches{std::size_t{1} << 12, std::size_t{1} << 16,
                                   std::size_t{1} << 20};
  std::uint32_t key_bytes = 8;
  std::uint32_t value_bytes = 128;
  std::string device = "cpu";
  std::vector<std::string> workloads{"insert", "get-hit", "get-miss", "update", "zipf", "delete"};
  std::vector<std::string> systems = system_names();
  std::string trace;
  double theta = 0.99;
  std::uint32_t repeats = 5;
  double seconds = 0;
  std::string space = "both";
  std::uint32_t threads = 0;
  std::uint64_t seed = 1;
  bool verify_reads = true;
  bool count_accesses = true;
  std::string pool;
  std::string json;
};

inline constexpr std::uint64_t kCountedRecords = 1 << 18;
inline constexpr std::size_t kLoadBatch = std::size_t{1} << 18;
// batches, which decide how gets gather; fewer where they take
inline constexpr std::uint64_t kWarmUps = 21;
inline constexpr double kWarmSeconds = 1;  // so long

enum class Workload : std::uint8_t {
  insert,
  get_hit,
  get_miss,
  update,
  zipf,
  erase,
  ycsb_a,
  ycsb_b,
  ycsb_d,
  ycsb_f,
  trace
};
inline constexpr char const* kNames[] = {"insert", "get-hit", "get-miss", "update",
                                         "zipf",   "delete",  "ycsb-a",   "ycsb-b",
                                         "ycsb-d", "ycsb-f",  "trace"};
inline constexpr std::size_t kWorkloads = std::size(kNames);
inline constexpr std::uint64_t kTraceWrite = std::uint64_t{1}
                                             << 63;  // an update in a trace; the rest is the record

inline char const* name(Workload workload) { return kNames[static_cast<std::size_t>(workload)]; }
inline bool reads(Workload workload) {
  return workload == Workload::get_hit || workload == Workload::get_miss ||
         workload == Workload::zipf;
}
inline bool is_mixture(Workload workload) { return workload >= Workload::ycsb_a; }
/// What is inserted must be deleted again, whatever time it takes.
inline bool may_end_early(Workload workload) {
  return workload != Workload::insert && workload != Workload::erase;
}
inline double share_of_writes(Workload mixture) {
  return mixture == Workload::ycsb_b || mixture == Workload::ycsb_d ? 0.05 : 0.5;
}

/// The workloads asked for, in an order in which each finds the records that it needs. What is
/// inserted must be deleted again, so each of those two brings the other.
inline std::vector<Workload> workloads_of(std::vector<std::string> const& names) {
  auto const requested = [&](Workload workload) {
    return std::find(names.begin(), names.end(), name(workload)) != names.end();
  };
  std::vector<Workload> workloads;
  for (std::size_t i = 0; i < kWorkloads; ++i) {
    auto const workload = static_cast<Workload>(i);
    bool const pair = workload == Workload::insert || workload == Workload::erase;
    if (requested(workload) ||
        (pair && (requested(Workload::insert) || requested(Workload::erase))))
      workloads.push_back(workload);
  }
  return workloads;
}

inline std::vector<std::uint64_t> read_trace(Options const& o) {
  if (o.trace.empty()) return {};
  std::ifstream file(o.trace, std::ios::binary | std::ios::ate);
  auto const bytes = file ? static_cast<std::size_t>(file.tellg()) : 0;
  if (!file || bytes == 0 || bytes % sizeof(std::uint64_t) != 0)
    throw Failure("--trace " + o.trace + ": cannot be read, or is not whole 8-byte numbers");
  std::vector<std::uint64_t> trace(bytes / sizeof(std::uint64_t));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(trace.data()), static_cast<std::streamsize>(bytes));
  for (std::uint64_t const each : trace) {
    if ((each & ~kTraceWrite) >= o.records)
      throw Failure("--trace " + o.trace + ": names record " + std::to_string(each & ~kTraceWrite) +
                    ", but --records is " + std::to_string(o.records));
  }
  return trace;
}

/// One batch's arrays, in host memory and, for `near` calls on a GPU, there too.
class Arrays {
 public:
  Arrays(Dataset const& dataset, std::size_t batch, bool device)
      : dataset_(dataset),
        keys_(batch * dataset.key_bytes()),
        values_(batch * dataset.value_bytes()),
        out_(values_) {
    if (!device) return;
    for (auto* const array : {&keys_, &values_, &out_})
      there_.push_back(std::make_unique<DeviceArray>(array->size()));
  }

  void fill(std::vector<std::uint64_t> const& ids, std::vector<std::uint32_t> const& versions,
            MemorySpace space) {
    count_ = ids.size();
    space_ = space;
    on_all_cores(count_, [&](std::size_t i) {
      dataset_.write_key(ids[i], keys_.data() + i * dataset_.key_bytes());
      dataset_.write_value(ids[i], versions[i], values_.data() + i * dataset_.value_bytes());
    });
    std::fill_n(out_.begin(), count_ * dataset_.value_bytes(), std::byte{0});
    if (space == MemorySpace::host) return;
    there_[0]->upload({keys_.data(), count_ * dataset_.key_bytes()});
    there_[1]->upload({values_.data(), count_ * dataset_.value_bytes()});
    there_[2]->upload({out_.data(), count_ * dataset_.value_bytes()});
  }
  std::byte const* fetch_out() {
    if (space_ == MemorySpace::device)
      there_[2]->download({out_.data(), count_ * dataset_.value_bytes()});
    return out_.data();
  }

  [[nodiscard]] Column keys() {
    return {at(0, keys_), nullptr, dataset_.key_bytes(), count_, space_};
  }
  [[nodiscard]] Column values() {
    return {at(1, values_), nullptr, dataset_.value_bytes(), count_, space_};
  }
  [[nodiscard]] MutableColumn out() {
    return {at(2, out_), dataset_.value_bytes(), count_, space_};
  }

 private:
  std::byte* at(std::size_t which, std::vector<std::byte>& host) {
    return space_ == MemorySpace::host ? host.data() : there_[which]->data();
  }

  Dataset dataset_;
  std::vector<std::byte> keys_, values_, out_;
  std::vector<std::unique_ptr<DeviceArray>> there_;
  std::size_t count_ = 0;
  MemorySpace space_ = MemorySpace::host;
};

struct Timed {
  std::uint64_t ops = 0;
  std::uint64_t batches = 0;
  double seconds = 0;
  double kernel_seconds = 0;  // 0: not told apart from the rest of a call
};

struct Figures {
  std::vector<double> near, host, kernel;  // Mop/s, one a repeat
};

/// One system with the records in it, and what it must hold.
class Bench {
 public:
  Bench(Options const& o, baselines::Baseline& system, std::uint64_t records, std::uint64_t ops,
        std::size_t batch, bool device, std::vector<std::uint64_t> trace)
      : system_(system),
        dataset_(o.seed, o.key_bytes, o.value_bytes),
        arrays_(dataset_, std::max(batch, kLoadBatch), device),
        records_(records),
        ops_(ops),
        limit_(o.seconds),
        zipf_(records, o.theta),
        scramble_(records),
        random_(o.seed),
        versions_(records, 0),
        trace_(std::move(trace)) {}

  void load() {
    for (std::uint64_t done = 0; done < records_; done += ids_.size()) {
      ids_.resize(std::min<std::uint64_t>(kLoadBatch, records_ - done));
      std::iota(ids_.begin(), ids_.end(), done);
      Timed unused;
      batch(Workload::insert, MemorySpace::host, unused);
    }
  }

  Timed pass(Workload workload, std::size_t size, MemorySpace space) {
    Timed timed;
    system_.reset_counts();
    while (timed.ops < ops_ &&
           !(limit_ > 0 && timed.seconds >= limit_ && may_end_early(workload))) {
      std::uint64_t const count = std::min<std::uint64_t>(size, ops_ - timed.ops);
      step(workload, timed.ops, count, space, timed);
      timed.ops += count;
      ++timed.batches;
    }
    timed.kernel_seconds = system_.stats().kernel_seconds;
    finish(workload, space);
    return timed;
  }

  /// All operations as one batch, and nothing else.
  void once(Workload workload) {
    Timed unused;
    step(workload, 0, ops_, MemorySpace::host, unused);
  }

  /// After a workload: reads its last writes back, and deletes what a mixture inserted.
  void finish(Workload workload, MemorySpace space) {
    Timed unused;
    if (is_mixture(workload)) ids_ = writes_;
    if (workload == Workload::erase) batch(Workload::get_miss, space, unused);
    if ((workload == Workload::update || is_mixture(workload)) && !ids_.empty())
      batch(Workload::get_hit, space, unused);
    for (std::uint64_t gone = 0; gone < inserted_; gone += ids_.size()) {
      ids_.resize(std::min<std::uint64_t>(kLoadBatch, inserted_ - gone));
      std::iota(ids_.begin(), ids_.end(), records_ + gone);
      batch(Workload::erase, MemorySpace::host, unused);
    }
    inserted_ = 0;
  }

  [[nodiscard]] std::uint64_t checked() const { return checked_; }
  [[nodiscard]] std::uint64_t faults() const { return faults_; }
  [[nodiscard]] std::string const& first_fault() const { return first_fault_; }

 private:
  void step(Workload workload, std::uint64_t done, std::uint64_t count, MemorySpace space,
            Timed& timed) {
    if (is_mixture(workload)) return mixture(workload, count, space, timed);
    choose(workload, done, count);
    batch(workload, space, timed);
  }

  /// Writes of a mixture may name a record twice: both write the same value, so what they leave is
  /// certain.
  void mixture(Workload workload, std::uint64_t count, MemorySpace space, Timed& timed) {
    gets_.clear();
    writes_.clear();
    for (std::uint64_t i = 0; i < count; ++i) draw(workload);
    ids_ = gets_;
    if (!ids_.empty()) batch(Workload::get_hit, space, timed);
    ids_ = writes_;
    if (!ids_.empty())
      batch(workload == Workload::ycsb_d ? Workload::insert : Workload::update, space, timed);
    if (workload == Workload::ycsb_d) inserted_ += writes_.size();
  }

  /// The next operation of a mixture. A read-modify-write is a get and an update, and counts as one
  /// operation.
  void draw(Workload workload) {
    if (workload == Workload::trace) {
      std::uint64_t const next = trace_[trace_at_++ % trace_.size()];
      ((next & kTraceWrite) != 0 ? writes_ : gets_).push_back(next & ~kTraceWrite);
      return;
    }
    bool const write = unit(random_) < share_of_writes(workload);
    if (workload == Workload::ycsb_d) {
      std::uint64_t const there = records_ + inserted_;
      if (write) writes_.push_back(there + writes_.size());
      if (!write) gets_.push_back(there - 1 - zipf_(random_));
      return;
    }
    std::uint64_t const id = scramble_(zipf_(random_));
    if (!write || workload == Workload::ycsb_f) gets_.push_back(id);
    if (write) writes_.push_back(id);
  }

  /// The next batch's records. Writes never name one twice, so that what they leave is certain.
  void choose(Workload workload, std::uint64_t done, std::uint64_t count) {
    ids_.resize(count);
    std::uint64_t const start = below(random_, records_);
    for (std::uint64_t i = 0; i < count; ++i) {
      switch (workload) {
        case Workload::insert:
        case Workload::erase: ids_[i] = records_ + done + i; break;
        case Workload::get_hit: ids_[i] = below(random_, records_); break;
        case Workload::get_miss: ids_[i] = records_ + ops_ + below(random_, records_); break;
        case Workload::update: ids_[i] = scramble_((start + i) % records_); break;
        default: ids_[i] = scramble_(zipf_(random_)); break;
      }
    }
    if (workload == Workload::erase) std::shuffle(ids_.begin(), ids_.end(), random_);
  }

  void batch(Workload workload, MemorySpace space, Timed& timed) {
    batch_versions_.resize(ids_.size());
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      std::uint32_t const stored = ids_[i] < records_ ? versions_[ids_[i]] : 0;
      batch_versions_[i] = workload == Workload::update ? stored + 1 : stored;
    }
    arrays_.fill(ids_, batch_versions_, space);
    statuses_.assign(ids_.size(), KeyStatus::corrupt);
    auto const begin = std::chrono::steady_clock::now();
    Status const status = call(workload);
    timed.seconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    require(status, name(workload));
    check(workload);
  }

  Status call(Workload workload) {
    switch (workload) {
      case Workload::insert: return system_.put(arrays_.keys(), arrays_.values(), statuses_);
      case Workload::update: return system_.update(arrays_.keys(), arrays_.values(), statuses_);
      case Workload::erase: return system_.erase(arrays_.keys(), statuses_);
      default: return system_.get(arrays_.keys(), arrays_.out(), statuses_);
    }
  }

  void check(Workload workload) {
    KeyStatus const want = workload == Workload::get_miss ? KeyStatus::not_found : KeyStatus::ok;
    std::byte const* const out = reads(workload) ? arrays_.fetch_out() : nullptr;
    good_.resize(ids_.size());
    on_all_cores(ids_.size(), [&](std::size_t i) {
      good_[i] = statuses_[i] == want ? 1 : 0;
      if (good_[i] != 0 && out != nullptr && want == KeyStatus::ok)
        good_[i] =
            dataset_.holds(out + i * dataset_.value_bytes(), ids_[i], batch_versions_[i]) ? 1 : 0;
    });
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      if (good_[i] == 0 && faults_++ == 0)
        first_fault_ = std::string(name(workload)) + " of record " + std::to_string(ids_[i]) +
                       ": wrong answer";
      if (workload == Workload::update) versions_[ids_[i]] = batch_versions_[i];
    }
    checked_ += ids_.size();
  }

  baselines::Baseline& system_;
  Dataset dataset_;
  Arrays arrays_;
  std::uint64_t records_;
  std::uint64_t ops_;
  double limit_;  // seconds of a pass; 0 = none
  Zipf zipf_;
  Scramble scramble_;
  Random random_;
  std::vector<std::uint32_t> versions_;
  std::vector<std::uint64_t> trace_;
  std::size_t trace_at_ = 0;
  std::vector<std::uint64_t> ids_;  // of the batch under way
  std::vector<std::uint64_t> gets_, writes_;  // of a mixture's batch
  std::uint64_t inserted_ = 0;  // by a mixture, from record records_ on
  std::vector<std::uint32_t> batch_versions_;
  std::vector<KeyStatus> statuses_;
  std::vector<std::uint8_t> good_;  // answers, 1 or 0
  std::uint64_t checked_ = 0;
  std::uint64_t faults_ = 0;
  std::string first_fault_;
};

}  // namespace perdure::bench::beside
