#include "explore/gpm/gpm_scenario.hpp"

#include <algorithm>

namespace perdure::explore {
namespace {

constexpr exec::GridShape kGridShapes[] = {{2, 1}, {3, 1}, {2, 2}};  // blocks are what takes turns

GpmOp draw_operation(GpmRandom& random, std::uint32_t partition, std::uint32_t& next_value) {
  std::uint32_t const dice = random.below(20);
  GpmOpKind const kind = dice < 11   ? GpmOpKind::insert
                         : dice < 13 ? GpmOpKind::read
                         : dice < 18 ? GpmOpKind::remove
                                     : GpmOpKind::clear;
  // some bytes come again
  std::uint32_t const value = random.one_in(4) ? random.below(3) : next_value++;
  return {kind, partition, 1 + random.below(kMostGpmWords), value};
}

GpmStep draw_launch(GpmRandom& random, GpmLogScenario const& s, std::uint32_t& next_value) {
  GpmStep step{GpmStep::Kind::launch, !random.one_in(4), {}};
  std::uint32_t const threads = s.shape.blocks * s.shape.threads;
  for (std::uint32_t t = 0; t < threads; ++t) {
    auto& mine = step.operations.emplace_back();
    for (std::uint32_t n = 1 + random.below(3); n > 0; --n) {
      std::uint32_t const own = s.kind == gpm::GpmLogKind::hcl ? t : random.below(s.partitions);
      mine.push_back(draw_operation(random, own, next_value));
    }
  }
  return step;
}

char const* name(GpmOpKind kind) {
  switch (kind) {
    case GpmOpKind::insert: return "insert";
    case GpmOpKind::read: return "read";
    case GpmOpKind::remove: return "remove";
    case GpmOpKind::clear: break;
  }
  return "clear";
}

std::string shown(GpmOp const& o) {
  std::string text =
      std::string(" ").append(name(o.kind)).append("(p").append(std::to_string(o.partition));
  text.append(", ").append(std::to_string(o.words));
  if (o.kind == GpmOpKind::insert) text.append(" words of ").append(std::to_string(o.value));
  return text.append(")");
}

}  // namespace

GpmWords gpm_entry(std::uint32_t words, std::uint32_t value) {
  GpmWords entry{};
  entry[0] = value * 0x9e3779b1u;
  for (std::uint32_t i = 1; i < words; ++i)
    entry[i] = value == 0 ? 0 : value % 2 * 0x85ebca6bu + i * 0x3c6ef372u;
  std::size_t const odd = kGpmSizes[words - 1] % 4;
  if (odd != 0) entry[words - 1] &= (1u << odd * 8) - 1;
  return entry;
}

GpmLogScenario make_gpm_log_scenario(std::uint64_t seed, gpm::GpmLogKind kind) {
  GpmRandom random(seed);
  GpmLogScenario s{kind,
                   kGridShapes[random.below(std::size(kGridShapes))],
                   0,
                   (4 + random.below(8)) / 2 * 2,
                   {}};
  s.partitions =
      kind == gpm::GpmLogKind::hcl ? s.shape.blocks * s.shape.threads : 1 + random.below(2);
  std::uint32_t next_value = 3;
  for (std::uint32_t launches = 2 + random.below(3); launches > 0; --launches) {
    s.steps.push_back(draw_launch(random, s, next_value));
    if (random.one_in(4)) s.steps.push_back({GpmStep::Kind::clear, true, {}});
    if (random.one_in(5)) s.steps.push_back({GpmStep::Kind::reopen, true, {}});
  }
  return s;
}

std::string GpmLogScenario::describe() const {
  std::string text = std::to_string(shape.blocks) + " blocks of " + std::to_string(shape.threads) +
                     ", " + std::to_string(partitions) + " partitions of " + std::to_string(words) +
                     " words";
  for (GpmStep const& step : steps) {
    if (step.kind != GpmStep::Kind::launch) {
      text += step.kind == GpmStep::Kind::clear ? "\n  the host clears" : "\n  opened again";
      continue;
    }
    text += step.ordered ? "\n  launch" : "\n  launch, with no ordering point after it";
    for (std::size_t t = 0; t < step.operations.size(); ++t) {
      text += "\n    thread " + std::to_string(t) + ":";
      for (GpmOp const& o : step.operations[t]) text += shown(o);
    }
  }
  return text;
}

GpmCheckpointScenario make_gpm_checkpoint_scenario(std::uint64_t seed) {
  GpmRandom random(seed);
  GpmCheckpointScenario s{random.one_in(4) ? gpm::GpmPath::ndp : gpm::GpmPath::gpm, {}, {}};
  for (std::uint32_t groups = 1 + random.below(2); groups > 0; --groups) {
    auto& group = s.groups.emplace_back();
    for (std::uint32_t elements = 1 + random.below(3); elements > 0; --elements) {
      // of the kernel that copies: they take turns
      bool const several_blocks = group.empty() && random.one_in(3);
      std::uint32_t const unit = several_blocks ? 1 : 1u << random.below(4);
      std::uint32_t const bytes =
          several_blocks ? 257 + random.below(8) : unit * (1 + random.below(6));
      group.push_back({bytes, several_blocks ? 1 : random.below(2) * unit % 8});
    }
  }
  for (std::uint32_t n = 2 + random.below(4); n > 0; --n)
    s.steps.push_back({random.below(s.groups.size()), 1 + random.below(7), random.one_in(6)});
  return s;
}

std::uint32_t GpmCheckpointScenario::most_elements() const {
  std::size_t most = 0;
  for (auto const& group : groups) most = std::max(most, group.size());
  return static_cast<std::uint32_t>(most);
}

std::uint64_t GpmCheckpointScenario::most_bytes() const {
  std::uint64_t most = 0;
  for (auto const& group : groups) {
    std::uint64_t bytes = 0;
    for (GpmElementShape const& element : group) bytes += gpm::gpm_lines(element.bytes);
    most = std::max(most, bytes);
  }
  return most;
}

std::string GpmCheckpointScenario::describe() const {
  std::string text = "path " + std::string(gpm::name(path));
  for (std::size_t g = 0; g < groups.size(); ++g) {
    text += "; group " + std::to_string(g) + ":";
    for (GpmElementShape const& element : groups[g])
      text.append(" ")
          .append(std::to_string(element.bytes))
          .append(" bytes at +")
          .append(std::to_string(element.skew));
  }
  for (GpmCheckpointStep const& step : steps)
    text += std::string("\n  ") + (step.restores ? "restore, then " : "") + "checkpoint of group " +
            std::to_string(step.group) + ", changed elements " + std::to_string(step.changes);
  return text;
}

}  // namespace perdure::explore
