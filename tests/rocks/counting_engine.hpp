// An engine that counts an iterator's trips to the machine and reads of ranges, and loses the
// machine when told to.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "lsm/engine/ranges.hpp"

namespace perdure::lsm::test {

class CountingEngine final : public Engine {
 public:
  explicit CountingEngine(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}

  std::size_t trips = 0;
  std::atomic<std::size_t> range_reads = 0;
  Status refusal;  // of ranges
  bool lost = false;
  static constexpr std::size_t kNever = ~std::size_t{0};
  /// The host may read runs as they lie from this question on.
  std::size_t direct_from = kNever;

  std::string describe() const override { return engine_->describe(); }
  std::uint64_t free_bytes() const override { return engine_->free_bytes(); }
  Result<RunPtr> build(Entries const& entries) override { return engine_->build(entries); }
  Result<RunPtr> merge(RunList runs) override { return engine_->merge(runs); }
  Status find(RunList runs, Column const& keys, Limits const& limits, std::span<Answer> answers,
              AnswerRows const& rows) override {
    return engine_->find(runs, keys, limits, answers, rows);
  }
  Status chains(RunList runs, Column const& keys, Limits const& limits, Chains& chains) override {
    return engine_->chains(runs, keys, limits, chains);
  }
  Status fold(RunList runs, Column const& keys, Limits const& limits, Operation operation,
              std::span<Answer> answers) override {
    return engine_->fold(runs, keys, limits, operation, answers);
  }
  Result<RangePairs> ranges(RunList runs, RangeQuery const& query) override {
    ++range_reads;
    if (!refusal.ok()) return refusal;
    return engine_->ranges(runs, query);
  }
  FewMany range_pairs() const override { return engine_->range_pairs(); }
  Status seek(Run const& run, Column const& keys, Bound bound,
              std::span<std::uint32_t> positions) override {
    ++trips;
    return lost ? gone() : engine_->seek(run, keys, bound, positions);
  }
  Status fetch(Run const& run, std::uint32_t first, std::uint32_t count,
               EntryBlock& block) override {
    ++trips;
    return lost ? gone() : engine_->fetch(run, first, count, block);
  }
  RunView const* host_view(Run const& run) const override {
    return questions_++ >= direct_from ? engine_->host_view(run) : nullptr;
  }

 private:
  static Status gone() { return {Code::device_error, "the machine was lost, as the test asked"}; }

  std::unique_ptr<Engine> engine_;
  std::size_t mutable questions_ = 0;
};

}  // namespace perdure::lsm::test
