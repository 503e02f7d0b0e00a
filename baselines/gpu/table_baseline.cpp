// A table of baselines/cpu behind the baselines' face, as an index of the CPU-assisted path. A
// batch is spread over the host's threads, which do one operation after the other, as in that
// table's own evaluation. Invariant: a session serves one chunk at a time.
#include <atomic>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cpu_baseline.hpp"
#include "exec/workers.hpp"
#include "table_baseline.hpp"

namespace perdure::baselines {
namespace {

using cpu_baselines::HostKind;
using cpu_baselines::Outcome;
using cpu_baselines::Session;

constexpr std::size_t kChunk = 256;  // operations

class TableBaseline final : public Baseline {
 public:
  TableBaseline(std::unique_ptr<cpu_baselines::Table> table, BaselineOptions const& options,
                cpu_baselines::Options const& shape)
      : table_(std::move(table)),
        shape_(shape),
        host_(options.count_accesses ? HostKind::counted : HostKind::ordered),
        workers_(options.threads),
        records_(table_->stats(true).records) {}

  Status get(Column const& keys, MutableColumn const& values,
             std::span<KeyStatus> statuses) override {
    if (values.width != shape_.value_bytes || values.count != keys.count) return other_sizes();
    return run(keys, statuses, [&](Session& session, std::size_t i, cpu_baselines::Key key) {
      return answer(session.find(key, std::span(values.data + i * values.width, values.width)));
    });
  }
  Status put(Column const& keys, Column const& values, std::span<KeyStatus> statuses) override {
    if (!fits(values, keys)) return other_sizes();
    return run(keys, statuses, [&](Session& session, std::size_t i, cpu_baselines::Key key) {
      // Others may insert or erase the key between the two.
      for (;;) {
        if (Outcome const made = session.insert(key, at(values, i)); made != Outcome::exists) {
          records_ += made == Outcome::done;
          return answer(made);
        }
        if (Outcome const changed = session.update(key, at(values, i)); changed != Outcome::absent)
          return answer(changed);
      }
    });
  }
  Status update(Column const& keys, Column const& values, std::span<KeyStatus> statuses) override {
    if (!fits(values, keys)) return other_sizes();
    return run(keys, statuses, [&](Session& session, std::size_t i, cpu_baselines::Key key) {
      return answer(session.update(key, at(values, i)));
    });
  }
  Status erase(Column const& keys, std::span<KeyStatus> statuses) override {
    return run(keys, statuses, [&](Session& session, std::size_t, cpu_baselines::Key key) {
      Outcome const erased = session.erase(key);
      records_ -= erased == Outcome::done;
      return answer(erased);
    });
  }

  [[nodiscard]] BaselineStats stats() const override {
    cpu_baselines::TableStats const stats = table_->stats(false);
    BaselineStats baseline;
    baseline.records = records_;
    baseline.slots = stats.slots;
    baseline.growths = stats.growths;
    baseline.machine =
        std::to_string(workers_.threads()) + " host threads, an operation at a time each";
    for (auto const& session : sessions_) {
      cpu_baselines::Counts const counts = session->counts();
      baseline.accesses.pm_reads += counts.lines_read;
      baseline.accesses.pm_writes += counts.lines_flushed;
      baseline.accesses.orders += counts.fences;
    }
    return baseline;
  }
  void reset_counts() override {
    for (auto const& session : sessions_) session->reset_counts();
  }

 private:
  /// A session that nobody else has, for one chunk.
  class Lease {
   public:
    explicit Lease(TableBaseline& baseline) : baseline_(baseline), session_(baseline.take()) {}
    Lease(Lease const&) = delete;
    Lease& operator=(Lease const&) = delete;
    ~Lease() {
      std::lock_guard const lock(baseline_.mutex_);
      baseline_.idle_.push_back(session_);
    }
    [[nodiscard]] Session& operator*() const { return *session_; }
    [[nodiscard]] Session* operator->() const { return session_; }

   private:
    TableBaseline& baseline_;
    Session* session_;
  };
  Session* take() {
    std::lock_guard const lock(mutex_);
    if (idle_.empty()) {
      sessions_.push_back(table_->session(host_));
      return sessions_.back().get();
    }
    Session* const session = idle_.back();
    idle_.pop_back();
    return session;
  }

  static cpu_baselines::Value at(Column const& column, std::size_t i) {
    return {column.data + i * column.width, column.width};
  }
  [[nodiscard]] bool fits(Column const& values, Column const& keys) const {
    return values.offsets == nullptr && values.width == shape_.value_bytes &&
           values.count == keys.count;
  }
  [[nodiscard]] Status other_sizes() const {
    return {Code::invalid_argument, "this table has keys of " + std::to_string(shape_.key_bytes) +
                                        " bytes and values of " +
                                        std::to_string(shape_.value_bytes) + ", a status each"};
  }
  static KeyStatus answer(Outcome outcome) {
    switch (outcome) {
      case Outcome::full: return KeyStatus::no_space;
      case Outcome::absent: return KeyStatus::not_found;
      default: return KeyStatus::ok;
    }
  }
  template <class F>
  Status run(Column const& keys, std::span<KeyStatus> statuses, F operation) {
    if (keys.offsets != nullptr || keys.width != shape_.key_bytes || statuses.size() != keys.count)
      return other_sizes();
    std::atomic<bool> full{false};
    workers_.for_chunks(keys.count, kChunk, [&](std::size_t begin, std::size_t end) {
      Lease const session(*this);
      for (std::size_t i = begin; i < end; ++i) {
        session->pin();
        statuses[i] = operation(*session, i, at(keys, i));
        session->unpin();
        if (statuses[i] == KeyStatus::no_space) full = true;
      }
    });
    return full ? table_->why_full() : Status{};
  }

  std::unique_ptr<cpu_baselines::Table> table_;
  cpu_baselines::Options shape_;
  HostKind host_;
  exec::Workers workers_;
  std::atomic<std::uint64_t> records_;
  std::mutex mutex_;  // guards the rest while a batch runs
  std::vector<std::unique_ptr<Session>> sessions_;
  std::vector<Session*> idle_;
};

}  // namespace

Result<std::unique_ptr<Baseline>> make_table_baseline(std::string const& path,
                                                      std::string const& table,
                                                      BaselineOptions const& options, bool fresh) {
  cpu_baselines::Options shape;
  shape.index = table;
  shape.key_bytes = options.key_bytes;
  shape.value_bytes = options.value_bytes;
  shape.reuse_records = true;
  shape.initial_slots = 2 * options.expected_records;  // clevel does not grow for what was expected
  auto made = fresh ? cpu_baselines::create(path, shape) : cpu_baselines::open(path, shape);
  if (!made) return made.status();
  return std::unique_ptr<Baseline>(new TableBaseline(std::move(*made), options, shape));
}

}  // namespace perdure::baselines
