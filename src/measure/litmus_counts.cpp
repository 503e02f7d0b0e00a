#include "measure/litmus_counts.hpp"

#include <algorithm>
#include <vector>

namespace perdure::measure {
namespace {

constexpr std::uint64_t kCells = std::uint64_t{kRing} * exec::kLanes;  // of a team

std::uint64_t count_forbidden(LitmusTest const& test, LitmusPass const& pass) {
  std::uint64_t found = 0;
  std::uint64_t const runs = pass.runs();
  for (std::uint64_t run = 0; run < runs; ++run) {
    bool forbidden = true;
    for (std::uint32_t i = 0; i < pass.threads; ++i)
      forbidden &= pass.seen[i * runs + run] == test.forbidden[i];
    found += forbidden ? 1 : 0;
  }
  return found;
}

/// Each cell's word is the number of updates that threads made of it.
std::uint64_t count_lost(LitmusPass const& pass) {
  std::uint64_t lost = 0;
  std::uint64_t const of_team = std::uint64_t{pass.groups} * exec::kLanes;
  for (std::uint64_t team = 0; team < pass.teams; ++team) {
    for (std::uint64_t cell = 0; cell < kCells; ++cell) {
      std::uint64_t made = 0;
      for (std::uint32_t i = 0; i < pass.threads; ++i) {
        for (std::uint64_t at = cell; at < of_team; at += kCells)
          made += pass.seen[i * pass.runs() + team * of_team + at];
      }
      std::uint64_t const there = pass.x[(team * kCells + cell) * kWordStride];
      lost += made > there ? made - there : there - made;
    }
  }
  return lost;
}

/// Each token that was put into a word was taken out once, or is there still.
std::uint64_t count_tokens(LitmusPass const& pass) {
  std::uint64_t const tokens = pass.runs() * pass.threads;
  std::vector<std::uint8_t> marks(tokens + 1);
  auto const mark = [&](std::uint32_t token) {
    if (token <= tokens && marks[token] < 2) ++marks[token];
  };
  for (std::uint64_t i = 0; i < tokens; ++i) mark(pass.seen[i]);
  for (std::uint64_t cell = 0; cell < pass.teams * kCells; ++cell) mark(pass.x[cell * kWordStride]);
  return static_cast<std::uint64_t>(  // 0 is no token
      std::count_if(marks.begin() + 1, marks.end(), [](std::uint8_t n) { return n != 1; }));
}

}  // namespace

std::uint64_t count_seen(LitmusTest const& test, LitmusPass const& pass) {
  if (test.steps[0].first == Access::swap) return count_tokens(pass);
  return test.is_update() ? count_lost(pass) : count_forbidden(test, pass);
}

}  // namespace perdure::measure
