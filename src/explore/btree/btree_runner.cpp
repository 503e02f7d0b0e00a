#include "explore/btree/btree_runner.hpp"

#include <algorithm>

#include "explore/dash/dash_host.hpp"
#include "index/btree/tree.hpp"

namespace perdure::explore {
namespace {

KeyStatus as_status(btree::Answer answer) {
  if (answer == btree::Answer::not_found) return KeyStatus::not_found;
  if (answer == btree::Answer::damaged) return KeyStatus::corrupt;
  return answer == btree::Answer::full ? KeyStatus::no_space : KeyStatus::ok;
}

btree::Key as_key(std::uint64_t key) { return {key, nullptr, sizeof key}; }

std::string named_alone(std::uint64_t key) { return "key " + std::to_string(key); }

}  // namespace

struct BTreeRunner::OpenedTree {
  btree::Tree<btree::WordKeys> tree;
  SimHost host;

  btree::Answer put(std::uint64_t key, std::uint64_t value, btree::Write how) {
    exec::EpochGuard const guard(tree.epochs());
    std::optional<std::uint64_t> before;
    return tree.write(host, as_key(key), value, how, before);
  }
  btree::Answer get(std::uint64_t key, std::uint64_t& value) {
    exec::EpochGuard const guard(tree.epochs());
    return tree.find(host, as_key(key), value);
  }
  btree::Answer erase(std::uint64_t key) {
    btree::Answer answer;
    {
      exec::EpochGuard const guard(tree.epochs());
      std::uint64_t before = 0;
      answer = tree.erase(host, as_key(key), [](std::uint64_t) {}, before);
    }
    tree.epochs().collect();
    return answer;
  }
};

bool BTreeRunner::set_up(std::uint64_t scenario_seed) {
  scenario_ = make_btree_scenario(scenario_seed, options_.bounds.operations);
  base_ = medium_.now();
  return true;
}

bool BTreeRunner::fill(OpenedTree& opened) const {
  std::vector<btree::LoadedEntry> entries;
  for (std::uint64_t const key : scenario_.loaded) entries.push_back({as_key(key), key});
  if (opened.tree.create(opened.host) != btree::Answer::done) return false;
  if (!opened.tree.bulk_load(opened.host, entries.begin(), entries.end()).ok()) return false;
  for (std::uint64_t const key : scenario_.erased)
    if (opened.erase(key) != btree::Answer::done) return false;
  return true;
}

void BTreeRunner::operate(OpenedTree& opened, std::size_t thread) {
  for (BTreeOp const& op : scenario_.operations[thread]) {
    if (op.scans) {
      if (auto wrong = fault_of_scan(opened, op.value % 2 == 0, nullptr)) wrong_ = wrong;
      continue;
    }
    DoneOperation mine{op.key, {}};
    operate(opened, op, mine);
    oracle_.history[thread].push_back(mine);
  }
}

void BTreeRunner::operate(OpenedTree& opened, BTreeOp const& op, DoneOperation& mine) {
  mine.seen.kind = op.kind;
  mine.seen.operand = op.value;
  mine.seen.began = clock_++;
  btree::Answer answer = btree::Answer::done;
  switch (op.kind) {
    case OpKind::get: answer = opened.get(op.key, mine.seen.value); break;
    case OpKind::put: answer = opened.put(op.key, op.value, btree::Write::put); break;
    case OpKind::update: answer = opened.put(op.key, op.value, btree::Write::update); break;
    case OpKind::erase: answer = opened.erase(op.key); break;
  }
  mine.seen.status = as_status(answer);
  mine.seen.ended = clock_++;
}

/// A scan has each filler once, and keys in their order, of those that anybody writes.
std::optional<std::string> BTreeRunner::fault_of_scan(OpenedTree& opened, bool up,
                                                      Contents* found) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> pairs;
  {
    exec::EpochGuard const guard(opened.tree.epochs());
    auto const visit = [&](std::uint64_t key, std::uint64_t value) {
      pairs.emplace_back(key, value);
      return pairs.size() < 10000;
    };
    up ? opened.tree.ascend(opened.host, nullptr, true, visit)
       : opened.tree.descend(opened.host, nullptr, true, visit);
  }
  if (!up) std::reverse(pairs.begin(), pairs.end());
  std::size_t fillers = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    auto const [key, value] = pairs[i];
    if (i > 0 && pairs[i - 1].first >= key)
      return "a scan has " + named_alone(key) + " out of turn";
    bool const filler = std::binary_search(scenario_.fillers.begin(), scenario_.fillers.end(), key);
    fillers += filler && value == key;
    bool const known =
        std::find(scenario_.keys.begin(), scenario_.keys.end(), key) != scenario_.keys.end();
    if (!filler && !known) return "a scan has " + named_alone(key) + ", which nobody wrote";
    if (found != nullptr) found->emplace(key, value);
  }
  if (fillers == scenario_.fillers.size()) return std::nullopt;
  return "a scan has " + std::to_string(fillers) + " of " +
         std::to_string(scenario_.fillers.size()) + " keys that are there all the while";
}

std::optional<std::string> BTreeRunner::fault_in_the_end(OpenedTree& opened) {
  if (wrong_) return wrong_;
  Contents found;
  if (auto wrong = fault_of_scan(opened, true, &found)) return "in the end, " + *wrong;
  if (auto wrong = fault_of_scan(opened, false, nullptr)) return "in the end, " + *wrong;
  std::vector<std::uint64_t> const done(oracle_.history.size(), kAllDone);
  for (std::uint64_t const key : scenario_.keys) {
    auto const after = value_in(found, key);
    std::uint64_t value = 0;
    bool const there = opened.get(key, value) == btree::Answer::done;
    if (there != after.has_value() || (there && value != *after))
      return named_alone(key) + ": a get says something else than a scan";
    if (auto wrong = explain_key(oracle_, done, key, after)) return wrong;
  }
  return std::nullopt;
}

Crasher::Forward BTreeRunner::run(exec::SimSchedule const& schedule) {
  Forward forward;
  oracle_ = {{}, History(scenario_.operations.size())};
  for (std::uint64_t const key : scenario_.there) oracle_.old[key] = key;
  wrong_.reset();
  clock_ = 0;
  exec::SimScheduler scheduler(schedule);
  Simulated const simulated(scheduler, tracker_);
  OpenedTree opened;
  if (!fill(opened)) {
    forward.wrong = "the tree cannot be filled";
    return forward;
  }
  btree::Shape const before = opened.tree.shape(opened.host);
  bool const done = scheduler.launch(static_cast<std::uint32_t>(scenario_.operations.size()),
                                     [&](std::uint32_t me) { operate(opened, me); });
  if (!done) forward.wrong = "the threads make no progress";
  try {
    if (!forward.wrong) forward.wrong = fault_in_the_end(opened);
  } catch (Stuck const& stuck) {
    forward.wrong = stuck.what();
  }
  if (Totals* const t = progress_.counted()) {
    btree::Shape const after = opened.tree.shape(opened.host);
    t->met.growths += after.leaves > before.leaves;
    t->met.merges += after.leaves < before.leaves;
    for (auto const& mine : oracle_.history) t->met.session_operations += mine.size();
  }
  forward.taken = scheduler.taken();
  forward.others = scheduler.others();
  end_run(forward, scheduler);
  return forward;
}

}  // namespace perdure::explore
