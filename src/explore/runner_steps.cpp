// The explorer's runner: steps, which commit dense buffers and a number with a transaction's batch.
// Invariant: as runner_batches.cpp; the step that a crash may leave goes with the contents it may
// leave.
#include "explore/judging.hpp"
#include "explore/runner.hpp"

namespace perdure::explore {

/// Each batch as a transaction, most of which write a step.
std::optional<std::string> Runner::run_steps(Store& store, Scenario const& scenario,
                                             Contents& contents) {
  if (Status const s = store.register_dense(dense_.buffers()); !s.ok())
    return "register_dense: " + s.message();
  std::optional<std::uint64_t> step;
  for (std::size_t b = 0; b < scenario.batches.size(); ++b) {
    if (auto wrong = run_step(store, scenario.batches[b], scenario.stepping[b], b, contents, step))
      return wrong;
    if (auto wrong = check_gets(store, scenario, contents)) return "after a step, " + *wrong;
    if (auto wrong = check_step(store, step)) return "after a step, " + *wrong;
  }
  return std::nullopt;
}

std::optional<std::string> Runner::run_step(Store& store, Batch const& batch, Stepping stepping,
                                            std::uint64_t number, Contents& contents,
                                            std::optional<std::uint64_t>& step) {
  auto const settled = [&] { return Oracle{contents, contents, false, false, {}, step, step}; };
  expect(settled());
  auto transaction = store.begin({batch.operations.size()});
  if (!transaction) return "begin: " + transaction.status().message();
  CallOptions how;
  how.transaction = &*transaction;
  dense_.fill(number);
  auto const write_step = [&] { return transaction->write_step(number); };
  if (Status const s = stepping == Stepping::before_batch ? write_step() : Status{}; !s.ok())
    return "a step before a batch: " + s.message();
  Columns columns(*scenario_, batch);
  Contents fresh = contents;
  auto const answers = apply(batch, fresh);
  Status const put = columns.apply(store, how);
  if (!put.ok() && put.code() != Code::no_space)
    return "a batch of a step failed: " + put.message();
  if (!put.ok()) fresh = contents;  // it fails alone
  if (Totals* const t = put.ok() ? nullptr : progress_.counted()) ++t->met.batches_refused;
  if (auto wrong = put.ok() ? columns.check(batch, answers) : std::nullopt) return wrong;
  bool const after = stepping == Stepping::after_batch || stepping == Stepping::aborted;
  if (Status const s = after ? write_step() : Status{}; !s.ok())
    return "a step after a batch: " + s.message();
  bool const commits = stepping != Stepping::aborted;
  if (commits) {
    auto const fresh_step = stepping == Stepping::not_at_all ? step : number;
    expect({contents, fresh, true, false, {}, step, fresh_step});
    contents = fresh;
    step = fresh_step;
  }
  if (Status const s = commits ? transaction->commit() : transaction->abort(); !s.ok())
    return "the end of a step: " + s.message();
  expect(settled());
  tracker_.recorder.cut(true);
  if (Totals* const t = progress_.counted())
    t->met.steps += commits && stepping != Stepping::not_at_all;
  return std::nullopt;
}

/// Which step a store says that it holds; its buffers must be that step's.
std::optional<std::string> Runner::read_step(Store& store, std::optional<std::uint64_t>& step) {
  dense_.fill(999999);
  if (Status const s = store.register_dense(dense_.buffers()); !s.ok())
    return "register_dense: " + s.message();
  auto const restored = store.restore_step();
  if (!restored) return "restore_step: " + restored.status().message();
  step = restored.value();
  if (!dense_.hold(step.value_or(999999)))
    return "the buffers are not those of step " + shown(step);
  return std::nullopt;
}

std::optional<std::string> Runner::check_step(Store& store, std::optional<std::uint64_t> step) {
  std::optional<std::uint64_t> found;
  if (auto wrong = read_step(store, found)) return wrong;
  if (found == step) return std::nullopt;
  return "the step is " + shown(found) + ", not " + shown(step);
}

/// One more, after recovery.
std::optional<std::string> Runner::further_step(Store& store, std::optional<std::uint64_t>& step) {
  step = step.value_or(0) + 1;
  dense_.fill(*step);
  auto transaction = store.begin({1});
  if (!transaction) return "begin: " + transaction.status().message();
  if (Status const s = transaction->write_step(*step); !s.ok()) return "a step: " + s.message();
  if (Status const s = transaction->commit(); !s.ok()) return "a commit: " + s.message();
  return check_step(store, step);
}

}  // namespace perdure::explore
