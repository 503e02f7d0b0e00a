#include "explore/gwal/gwal_scenario.hpp"

#include "explore/gpm/gpm_scenario.hpp"
#include "explore/window.hpp"

namespace perdure::explore {
namespace {

using Kind = GwalStep::Kind;

Kind draw_kind(GpmRandom& random) {
  constexpr Kind kKinds[] = {Kind::write,  Kind::write,  Kind::write,  Kind::write,
                             Kind::write,  Kind::write,  Kind::seal,   Kind::intend,
                             Kind::intend, Kind::ingest, Kind::ingest, Kind::ingest,
                             Kind::retire, Kind::retire, Kind::retire, Kind::direct};
  if (random.one_in(12)) return Kind::withdraw;
  if (random.one_in(14)) return Kind::reopen;
  return kKinds[random.below(std::size(kKinds))];
}

GwalOp draw_op(GpmRandom& random, std::uint32_t& next_operand) {
  std::uint32_t const dice = random.below(10);
  GwalOp::Kind const kind = dice < 7   ? GwalOp::Kind::merge
                            : dice < 9 ? GwalOp::Kind::put
                                       : GwalOp::Kind::erase;
  return {kind, random.below(kGwalKeys), kind == GwalOp::Kind::erase ? 0 : next_operand++};
}

char const* name(Kind kind) {
  switch (kind) {
    case Kind::write: return "write";
    case Kind::direct: return "write to RocksDB";
    case Kind::seal: return "seal";
    case Kind::intend: return "intend";
    case Kind::withdraw: return "withdraw, and RocksDB is written to";
    case Kind::ingest: return "ingest";
    case Kind::retire: return "retire";
    case Kind::reopen: break;
  }
  return "open again";
}

}  // namespace

void GwalContents::apply(GwalOp const& op) {
  auto& operands = of[op.key];
  if (op.kind != GwalOp::Kind::merge) operands.clear();
  if (op.kind != GwalOp::Kind::erase) operands.push_back(op.operand);
}

std::uint64_t GwalContents::hash() const {
  std::uint64_t h = 0;
  for (auto const& operands : of) {
    h = mix(h, operands.size());
    for (std::uint32_t const operand : operands) h = mix(h, operand);
  }
  return h;
}

std::string GwalContents::describe() const {
  std::string text;
  for (std::size_t key = 0; key < of.size(); ++key) {
    text += " k" + std::to_string(key) + "=";
    for (std::uint32_t const operand : of[key]) text += std::to_string(operand) + ".";
  }
  return text;
}

std::uint64_t gwal_word(GwalOp const& op) {
  return std::uint64_t{0xa5} << 56 | static_cast<std::uint64_t>(op.kind) << 48 |
         std::uint64_t{op.key} << 32 | op.operand;
}
GwalOp gwal_op(std::uint64_t word) {
  return {static_cast<GwalOp::Kind>(word >> 48 & 3),
          static_cast<std::uint32_t>(word >> 32) % (kGwalKeys + 1),
          static_cast<std::uint32_t>(word)};
}

GwalScenario make_gwal_scenario(std::uint64_t seed) {
  GpmRandom random(seed);
  GwalScenario scenario;
  std::uint32_t next_operand = 1;
  for (std::uint32_t n = 4 + random.below(10); n > 0; --n) {
    if (random.one_in(5)) {  // one after the other
      for (Kind const kind : {Kind::intend, Kind::ingest, Kind::retire})
        scenario.steps.push_back({kind});
      continue;
    }
    GwalStep step{draw_kind(random), random.one_in(3)};
    if (step.kind == Kind::write || step.kind == Kind::direct)
      for (std::uint32_t ops = 1 + random.below(3); ops > 0; --ops)
        step.ops.push_back(draw_op(random, next_operand));
    if (step.kind == Kind::withdraw)
      step.ops.push_back({GwalOp::Kind::merge, kGwalDirectKey, next_operand++});
    scenario.steps.push_back(std::move(step));
  }
  return scenario;
}

std::string GwalScenario::describe() const {
  std::string text = "a log of segments";
  for (GwalStep const& step : steps) {
    text += std::string("\n  ") + name(step.kind) + (step.sync ? ", synced" : "");
    for (GwalOp const& op : step.ops) {
      char const* const what = op.kind == GwalOp::Kind::put     ? " put"
                               : op.kind == GwalOp::Kind::merge ? " merge"
                                                                : " erase";
      text += std::string(what) + "(k" + std::to_string(op.key) + ", " +
              std::to_string(op.operand) + ")";
    }
  }
  return text;
}

}  // namespace perdure::explore
