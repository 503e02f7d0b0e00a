// The explorer's runner: steps, which commit dense buffers and a number with a transaction's batch.
// Invariant: as runner_batches.cpp; the step that a crash may leave goes with the contents it may
// leave, and so does what both can be taken back to.
#include "explore/judging.hpp"
#include "explore/runner.hpp"

namespace perdure::explore {

/// Each batch as a transaction, most of which write a step.
std::optional<std::string> Runner::run_steps(Store& store, Scenario const& scenario,
                                             Contents& contents) {
  if (Status const s = store.register_dense(dense_.buffers()); !s.ok())
    return "register_dense: " + s.message();
  Settled now{contents, {}, {}};
  for (std::size_t b = 0; b < scenario.batches.size(); ++b) {
    if (auto wrong = run_step(store, scenario.batches[b], scenario.stepping[b], b, now))
      return wrong;
    if (auto wrong = look_at_step(store, now)) return "after a step, " + *wrong;
    if (scenario.stepping[b] != Stepping::taken_back) continue;
    if (auto wrong = run_revert(store, now)) return wrong;
    if (auto wrong = look_at_step(store, now)) return "after taking a step back, " + *wrong;
  }
  contents = now.contents;
  return std::nullopt;
}

Oracle Runner::settled(Settled const& now) {
  return {now.contents, now.contents, false, false, {}, now.step, now.step, now.back, now.back};
}

std::optional<std::string> Runner::look_at_step(Store& store, Settled const& now) {
  if (auto wrong = check_gets(store, *scenario_, now.contents)) return wrong;
  return check_step(store, now.step);
}

std::optional<std::string> Runner::run_step(Store& store, Batch const& batch, Stepping stepping,
                                            std::uint64_t number, Settled& now) {
  Oracle keeping = settled(now);
  keeping.kept = true;
  expect(std::move(keeping));
  auto transaction = store.begin({batch.operations.size(), scenario_->revertible});
  if (!transaction) return "begin: " + transaction.status().message();
  now.back.reset();
  expect(settled(now));
  CallOptions how;
  how.transaction = &*transaction;
  dense_.fill(number);
  auto const write_step = [&] { return transaction->write_step(number); };
  if (Status const s = stepping == Stepping::before_batch ? write_step() : Status{}; !s.ok())
    return "a step before a batch: " + s.message();
  Columns columns(*scenario_, batch);
  Contents fresh = now.contents;
  auto const answers = apply(batch, fresh);
  Status const put = columns.apply(store, how);
  if (!put.ok() && put.code() != Code::no_space)
    return "a batch of a step failed: " + put.message();
  if (!put.ok()) fresh = now.contents;  // it fails alone
  if (Totals* const t = put.ok() ? nullptr : progress_.counted()) ++t->met.batches_refused;
  if (auto wrong = put.ok() ? columns.check(batch, answers) : std::nullopt) return wrong;
  bool const steps = stepping != Stepping::not_at_all;
  if (Status const s = steps && stepping != Stepping::before_batch ? write_step() : Status{};
      !s.ok())
    return "a step after a batch: " + s.message();
  bool const commits = stepping != Stepping::aborted;
  if (commits) {
    Settled after{fresh, steps ? number : now.step, {}};
    if (scenario_->revertible && (steps || put.ok())) after.back = {now.contents, now.step};
    expect({now.contents, fresh, true, false, {}, now.step, after.step, {}, after.back});
    now = after;
  }
  if (Status const s = commits ? transaction->commit() : transaction->abort(); !s.ok())
    return "the end of a step: " + s.message();
  expect(settled(now));
  tracker_.recorder.cut(true);
  if (Totals* const t = progress_.counted()) t->met.steps += commits && steps;
  return std::nullopt;
}

std::optional<std::string> Runner::run_revert(Store& store, Settled& now) {
  if (!now.back) return "a step was committed, and nothing can be taken back";
  Settled const after{now.back->contents, now.back->step, {}};
  expect({now.contents, after.contents, true, false, {}, now.step, after.step, now.back, {}});
  if (Status const s = store.revert(); !s.ok()) return "taking a step back: " + s.message();
  now = after;
  expect(settled(now));
  tracker_.recorder.cut(true);
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

/// The step goes with the contents: both old, or both fresh; and so does what they go back to,
/// which some crashes have them do.
std::optional<std::string> Runner::judge_step(Store& store, Oracle const& oracle, Contents& found,
                                              std::optional<std::uint64_t>& step) {
  if (auto wrong = read_step(store, step)) return wrong;
  auto const can = store.can_revert();
  if (!can.ok()) return "can_revert: " + can.status().message();
  auto const is = [&](Contents const& contents, std::optional<std::uint64_t> of,
                      std::optional<Back> const& back) {
    return found == contents && step == of && (can.value() == back.has_value() || oracle.kept);
  };
  bool const old = is(oracle.old, oracle.old_step, oracle.old_back);
  if (!old && !is(oracle.fresh, oracle.fresh_step, oracle.fresh_back))
    return "the step is " + shown(step) + (can.value() ? ", which can be taken back" : "") +
           "; it was " + shown(oracle.old_step) + (oracle.old_back ? ", likewise" : "") +
           ", and may have become " + shown(oracle.fresh_step) +
           (oracle.fresh_back ? ", likewise" : "") + ", with the contents";
  if (!can.value() || tracker_.crashed.read_hash() % 4 == 0) return std::nullopt;
  auto const& back = old ? oracle.old_back : oracle.fresh_back;
  if (!back) return "what nobody expects can be taken back";
  if (Status const s = store.revert(); !s.ok()) return "taking a step back: " + s.message();
  if (auto wrong = check_step(store, back->step)) return "taken back, " + *wrong;
  if (auto wrong = check_gets(store, *scenario_, back->contents)) return "taken back, " + *wrong;
  if (auto wrong = check_verify(store, back->contents)) return "taken back, " + *wrong;
  if (auto wrong = check_counts(store, back->contents)) return "taken back, " + *wrong;
  found = back->contents;
  step = back->step;
  return std::nullopt;
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
