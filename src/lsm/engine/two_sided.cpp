// Who does what, and when a copy has paid off.
#include "lsm/engine/two_sided.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/caught.hpp"

namespace perdure::lsm {
namespace {

constexpr double kLaunchesOfFetch = 3;  // sizes, versions, keys

}  // namespace

SideRules SideRules::of(exec::Workers const& workers) {
  SideRules rules;
  rules.key /= std::max(1u, workers.threads());
  long const pages = ::sysconf(_SC_PHYS_PAGES);
  long const page = ::sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0)
    rules.image_bytes = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page) / 4;
  return rules;
}

TwoSidedEngine::TwoSidedEngine(std::unique_ptr<MachineEngine> host,
                               std::unique_ptr<MachineEngine> device, SideRules const& rules)
    : host_(std::move(host)),
      device_(std::move(device)),
      rules_(rules),
      room_(std::make_shared<ImageRoom>(rules.image_bytes)) {}

template <class F>
Result<RunPtr> TwoSidedEngine::make(Side side, F const& make) {
  return caught([&]() -> Result<RunPtr> {
    auto made = make(side);
    if (!made && made.status().code() == Code::no_space) {
      side = other(side);
      auto second = make(side);
      if (!second) return made.status();
      made = std::move(second);
    }
    if (!made) return made.status();
    return RunPtr(std::make_shared<TwoSidedRun>(side, std::move(*made)));
  });
}

Result<RunPtr> TwoSidedEngine::build(Entries const& entries) {
  Side const side = entries.keys.count < rules_.host_build ? Side::host : Side::device;
  return make(side, [&](Side on) { return engine(on).build(entries); });
}

Result<RunPtr> TwoSidedEngine::merge(RunList runs) {
  std::uint64_t entries = 0;
  bool host_has_all = true;
  for (RunPtr const& run : runs) {
    entries += run->count();
    host_has_all &= TwoSidedRun::of(*run).on(Side::host) != nullptr;
  }
  Side const side = host_has_all && entries < rules_.host_merge ? Side::host : Side::device;
  return make(side, [&](Side on) { return merge_on(on, runs); });
}

/// What the side lacks it gets for this once: the runs are at their end.
Result<RunPtr> TwoSidedEngine::merge_on(Side side, RunList runs) {
  std::vector<RunPtr> copies;
  RunPointers list;
  for (RunPtr const& run : runs) {
    TwoSidedRun const& one = TwoSidedRun::of(*run);
    if (one.on(side) == nullptr) {
      auto copy = engine(side).copy_in(engine(other(side)), *one.on(other(side)));
      if (!copy) return copy;
      copies.push_back(std::move(*copy));
      list.add(copies.back().get());
    } else {
      list.add(one.on(side));
    }
  }
  return engine(side).merge(list.span());
}

bool TwoSidedEngine::all_on(Side side, RunList runs, RunPointers& list) {
  for (RunPtr const& run : runs) {
    Run const* const here = TwoSidedRun::of(*run).on(side);
    if (here == nullptr) return false;
    list.add(here);
  }
  return true;
}

double TwoSidedEngine::cost_without(Side side, std::size_t keys, std::size_t runs) const {
  if (side == Side::host) return rules_.launch;
  return rules_.key * static_cast<double>(keys) * static_cast<double>(runs);
}

double TwoSidedEngine::price(TwoSidedRun const& run) const {
  return rules_.copy + rules_.copy_byte * static_cast<double>(run.bytes());
}

Side TwoSidedEngine::take(Side side, RunParts& parts, std::size_t keys, RunPointers& part) {
  auto const [where, runs] = parts.next();
  if (where != side) settle(side, runs, keys);
  return parts.take(part);
}

/// A read costs the same for one run and for several, and all of them must come to spare it: each
/// pays its part.
void TwoSidedEngine::settle(Side side, RunList runs, std::size_t keys) {
  double all = 0;
  std::size_t missing = 0;
  for (RunPtr const& run : runs) {
    TwoSidedRun const& one = TwoSidedRun::of(*run);
    if (one.on(side) != nullptr) continue;
    all += price(one);
    ++missing;
  }
  if (missing == 0) return;
  double const cost = cost_without(side, keys, missing);
  for (RunPtr const& run : runs) {
    TwoSidedRun const& one = TwoSidedRun::of(*run);
    if (one.on(side) == nullptr) settle(side, one, cost * price(one) / all);
  }
}

void TwoSidedEngine::settle(Side side, TwoSidedRun const& run, double cost) {
  if (run.on(side) == nullptr && run.pay(side, cost, price(run))) bring(side, run);
}

void TwoSidedEngine::bring(Side side, TwoSidedRun const& run) {
  bool const is_image = side == Side::host;
  if (is_image && !room_->take(run.bytes())) return run.give_up(side);
  auto copy =
      caught([&] { return engine(side).copy_in(engine(other(side)), *run.on(other(side))); });
  if (!copy) {
    if (is_image) room_->give_back(run.bytes());
    return run.give_up(side);
  }
  if (is_image) {
    run.publish_image(std::move(*copy), room_);
  } else {
    run.publish(side, std::move(*copy));
  }
}

Status TwoSidedEngine::find(RunList runs, Column const& keys, Limits const& limits,
                            std::span<Answer> answers, AnswerRows const& rows) {
  PERDURE_ASSERT(answers.size() == keys.count);
  Side const wish = side_of_keys(keys.count);
  RunPointers list;
  if (all_on(wish, runs, list)) return engine(wish).find(list.span(), keys, limits, answers, rows);
  return caught([&]() -> Status {
    OpenKeys open(keys, limits);
    SomeAnswers some;
    for (RunParts parts(runs, wish); !parts.at_end() && !open.empty();) {
      MachineEngine& one = engine(take(wish, parts, open.which().size(), list));
      if (open.are_all()) {
        if (Status s = one.find(list.span(), keys, limits, answers, rows); !s.ok()) return s;
      } else {
        AnswerRows const their_rows = some.take(open.which().size(), rows);
        Status const s =
            one.find(list.span(), open.column(), open.limits(), some.answers(), their_rows);
        if (!s.ok()) return s;
        some.put(open, answers, rows);
      }
      open.keep([&](std::size_t i) { return answers[i].found == Found::absent; });
    }
    return {};
  });
}

Status TwoSidedEngine::chains(RunList runs, Column const& keys, Limits const& limits,
                              Chains& chains) {
  Side const wish = side_of_keys(keys.count);
  RunPointers list;
  if (all_on(wish, runs, list)) return engine(wish).chains(list.span(), keys, limits, chains);
  return caught([&]() -> Status {
    OpenKeys open(keys, limits);
    GrowingChains growing(keys.count);
    Chains part;
    for (RunParts parts(runs, wish); !parts.at_end() && !open.empty();) {
      MachineEngine& one = engine(take(wish, parts, open.which().size(), list));
      if (Status s = one.chains(list.span(), open.column(), open.limits(), part); !s.ok()) return s;
      growing.add(open, part);
      open.keep([&](std::size_t i) { return growing.is_open(i); });
    }
    growing.finish(chains);
    return {};
  });
}

Status TwoSidedEngine::fold(RunList runs, Column const& keys, Limits const& limits,
                            Operation operation, std::span<Answer> answers) {
  Side const wish = side_of_keys(keys.count);
  for (Side const side : {wish, other(wish)}) {
    RunPointers list;
    if (all_on(side, runs, list))
      return engine(side).fold(list.span(), keys, limits, operation, answers);
  }
  return {Code::unsupported, "runs on two machines are not folded by one"};
}

Status TwoSidedEngine::seek(Run const& run, Column const& keys, Bound bound,
                            std::span<std::uint32_t> positions) {
  TwoSidedRun const& one = TwoSidedRun::of(run);
  Side const wish = side_of_keys(keys.count);
  settle(wish, one, cost_without(wish, keys.count, 1));
  if (wish == Side::host) one.wait_for(wish);
  Side const side = there(wish, one);
  return engine(side).seek(*one.on(side), keys, bound, positions);
}

Status TwoSidedEngine::fetch(Run const& run, std::uint32_t first, std::uint32_t count,
                             EntryBlock& block) {
  TwoSidedRun const& one = TwoSidedRun::of(run);
  settle(Side::host, one, kLaunchesOfFetch * rules_.launch);
  one.wait_for(Side::host);
  Side const side = there(Side::host, one);
  return engine(side).fetch(*one.on(side), first, count, block);
}

RunView const* TwoSidedEngine::host_view(Run const& run) const {
  Run const* const here = TwoSidedRun::of(run).on(Side::host);
  return here == nullptr ? nullptr : host_->host_view(*here);
}

}  // namespace perdure::lsm
