// An engine of two sides that are both CPU warps, one of them playing the device: the calls that
// each side gets are counted, and copies fail when told to.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "lsm/engine/two_sided.hpp"

namespace perdure::lsm {

struct SideCalls {
  std::atomic<std::uint64_t> builds = 0, merges = 0, finds = 0, chains = 0, folds = 0, seeks = 0,
                             fetches = 0, ranges = 0, copies_in = 0, keys = 0;
  std::atomic<bool> refuses_copies = false;
  std::atomic<bool> holds_copies = false;  // until it is false

  [[nodiscard]] std::uint64_t reads() const {
    return finds + chains + folds + seeks + fetches + ranges;
  }
};

class CountingSide final : public MachineEngine {
 public:
  CountingSide(std::unique_ptr<MachineEngine> engine, SideCalls& calls, bool is_host)
      : engine_(std::move(engine)), calls_(&calls), is_host_(is_host) {}

  std::string describe() const override { return is_host_ ? "the host" : "the device"; }
  std::uint64_t free_bytes() const override { return is_host_ ? 1 : 2; }
  Result<RunPtr> build(Entries const& entries) override {
    ++calls_->builds;
    return engine_->build(entries);
  }
  Result<RunPtr> merge(RunSpan runs) override {
    ++calls_->merges;
    return engine_->merge(runs);
  }
  Status find(RunSpan runs, Column const& keys, Limits const& limits, std::span<Answer> answers,
              AnswerRows const& rows) override {
    ++calls_->finds;
    calls_->keys += keys.count;
    return engine_->find(runs, keys, limits, answers, rows);
  }
  Status chains(RunSpan runs, Column const& keys, Limits const& limits, Chains& chains) override {
    ++calls_->chains;
    return engine_->chains(runs, keys, limits, chains);
  }
  Status fold(RunSpan runs, Column const& keys, Limits const& limits, Operation operation,
              std::span<Answer> answers) override {
    ++calls_->folds;
    return engine_->fold(runs, keys, limits, operation, answers);
  }
  Result<RangePairs> ranges(RunSpan runs, RangeQuery const& query) override {
    ++calls_->ranges;
    return engine_->ranges(runs, query);
  }
  FewMany range_pairs() const override { return engine_->range_pairs(); }
  Status seek(Run const& run, Column const& keys, Bound bound,
              std::span<std::uint32_t> positions) override {
    ++calls_->seeks;
    return engine_->seek(run, keys, bound, positions);
  }
  Status fetch(Run const& run, std::uint32_t first, std::uint32_t count,
               EntryBlock& block) override {
    ++calls_->fetches;
    return engine_->fetch(run, first, count, block);
  }
  RunForm form(Run const& run) const override { return engine_->form(run); }
  std::byte const* host_bytes(Run const& run) const override {
    return is_host_ ? engine_->host_bytes(run) : nullptr;
  }
  RunView const* host_view(Run const& run) const override {
    return is_host_ ? engine_->host_view(run) : nullptr;
  }
  Status copy_out(Run const& run, std::byte* to) override { return engine_->copy_out(run, to); }
  Result<RunPtr> copy_in(MachineEngine& from, Run const& run) override {
    ++calls_->copies_in;
    calls_->holds_copies.wait(true);
    if (calls_->refuses_copies) return Status{Code::no_space, "no copies, as the test asked"};
    return engine_->copy_in(from, run);
  }

 private:
  std::unique_ptr<MachineEngine> engine_;
  SideCalls* calls_;
  bool is_host_;
};

/// Such that what tests do crosses each of them.
inline SideRules low_rules() {
  SideRules rules;
  rules.host_build = 30;
  rules.host_merge = 60;
  rules.host_keys = 50;
  rules.host_pairs = 50;
  rules.device_ranges = 2;
  rules.launch = 100;
  rules.key = 1;
  rules.copy = 250;
  rules.copy_byte = 0;
  return rules;
}

inline std::unique_ptr<TwoSidedEngine> make_two_cpu_sides(exec::Workers& workers, SideCalls& host,
                                                          SideCalls& device, SideRules const& rules,
                                                          EngineOptions const& options = {}) {
  return std::make_unique<TwoSidedEngine>(
      std::make_unique<CountingSide>(make_cpu_side(workers, options).value(), host, true),
      std::make_unique<CountingSide>(make_cpu_side(workers, options).value(), device, false),
      rules);
}

/// Uncounted.
inline std::unique_ptr<TwoSidedEngine> make_two_cpu_sides(exec::Workers& workers,
                                                          EngineOptions const& options = {}) {
  static SideCalls host, device;
  return make_two_cpu_sides(workers, host, device, low_rules(), options);
}

}  // namespace perdure::lsm
