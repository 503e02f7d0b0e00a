#include "rocks/fuzz/duel.hpp"

#include <algorithm>
#include <numeric>

#include "rocks/fuzz/actions.hpp"

namespace perdure::test {
namespace {

Draws draws_of(std::uint64_t seed, std::uint64_t operation) {
  Draws mixed(seed * 0x9e3779b97f4a7c15u + operation);
  return Draws(mixed.any());
}

Action const& draw_action(Draws& draws) {
  static unsigned const sum =
      std::accumulate(actions().begin(), actions().end(), 0u,
                      [](unsigned weight, Action const& a) { return weight + a.weight; });
  std::uint64_t drawn = draws.below(sum);
  for (Action const& action : actions()) {
    if (drawn < action.weight) return action;
    drawn -= action.weight;
  }
  return actions().front();
}

std::optional<Disagreement> where_any(std::uint64_t operation, std::string const& name,
                                      std::string const& differs) {
  if (differs.empty()) return std::nullopt;
  return Disagreement{operation, name + ": " + differs};
}

/// What one side's opener finds in the other's closed directory, if it is not what is expected.
std::string visit(Side const& visitor, Side const& host, bool extra, Transcript const& expected) {
  Transcript found;
  auto const s = dump_closed(visitor.opener(), host.path(), extra, found);
  std::string const who = visitor.opener().name + " in the directory of " + host.opener().name;
  if (!s.ok()) return who + ": " + s.ToString();
  std::string const differs = difference(found.text(), expected.text());
  return differs.empty() ? differs : who + ": " + differs;
}

}  // namespace

Duel::Duel(std::uint64_t seed, Opener left, Opener right)
    : seed_(seed),
      keys_(seed),
      left_(std::move(left), fresh_path("left"), keys_),
      right_(std::move(right), fresh_path("right"), keys_) {
  left_.may_skip_log = right_.may_skip_log = seed % 2 == 0;
  left_.may_single_delete = right_.may_single_delete = seed % 4 == 0;
}

Duel::~Duel() {
  for (Side* side : {&left_, &right_}) {
    if (side->db() != nullptr) static_cast<void>(side->close(false));
    remove_database(side->path());
  }
}

std::optional<Disagreement> Duel::begin() {
  auto const left = left_.open();
  if (!left.ok()) return Disagreement{0, "open: left says " + left.ToString()};
  auto const right = right_.open();
  if (!right.ok()) return Disagreement{0, "open: right says " + right.ToString()};
  return std::nullopt;
}

std::optional<Disagreement> Duel::take(std::uint64_t operation) {
  Draws draws = draws_of(seed_, operation);
  Action const& action = draw_action(draws);
  if (action.act == nullptr) return where_any(operation, action.name, reopen(draws));
  Transcript left, right;
  Draws again = draws;
  action.act(left_, draws, left);
  action.act(right_, again, right);
  return where_any(operation, action.name, difference(left.text(), right.text()));
}

std::optional<Disagreement> Duel::end(std::uint64_t operation) {
  Transcript left, right;
  left_.dump(left);
  right_.dump(right);
  if (auto differs = where_any(operation, "all there is", difference(left.text(), right.text())))
    return differs;
  return where_any(operation, "closed", close_and_cross(true));
}

std::string Duel::reopen(Draws draws) {
  if (std::string differs = close_and_cross(draws.once_in(2)); !differs.empty()) return differs;
  // Not with SingleDelete: perdure::rocks writes Delete for it, and where one key has seen both,
  // RocksDB's own SingleDelete may bring back what a Delete had hidden.
  if (draws.once_in(2) && !left_.may_single_delete) {
    std::string const path = left_.path();
    left_.move_to(right_.path());
    right_.move_to(path);
  }
  auto const left = left_.open();
  auto const right = right_.open();
  if (!left.ok() || !right.ok())
    return "open: left " + left.ToString() + ", right " + right.ToString();
  return {};
}

std::string Duel::close_and_cross(bool explicitly) {
  bool const extra = left_.has_extra();
  Transcript statuses_left, statuses_right;
  statuses_left.status(left_.close(explicitly));
  statuses_right.status(right_.close(explicitly));
  std::string const statuses = difference(statuses_left.text(), statuses_right.text());
  if (!statuses.empty()) return "close: " + statuses;
  Transcript expected;
  auto const s = dump_closed(right_.opener(), right_.path(), extra, expected);
  if (!s.ok()) return right_.opener().name + " does not open its own: " + s.ToString();
  std::string differs = visit(right_, left_, extra, expected);
  return differs.empty() ? visit(left_, right_, extra, expected) : differs;
}

char const* operation_name(std::uint64_t seed, std::uint64_t operation) {
  Draws draws = draws_of(seed, operation);
  return draw_action(draws).name;
}

std::optional<Disagreement> run(std::uint64_t seed, std::vector<std::uint64_t> const& operations,
                                Opener const& left, Opener const& right) {
  Duel duel(seed, left, right);
  if (auto differs = duel.begin()) return differs;
  for (std::uint64_t const operation : operations)
    if (auto differs = duel.take(operation)) return differs;
  return duel.end(operations.empty() ? 0 : operations.back());
}

std::vector<std::uint64_t> operations_without(std::uint64_t seed, std::uint64_t count,
                                              std::vector<std::string> const& names) {
  std::vector<std::uint64_t> operations(count);
  std::iota(operations.begin(), operations.end(), 0);
  std::erase_if(operations, [&](std::uint64_t n) {
    return std::find(names.begin(), names.end(), operation_name(seed, n)) != names.end();
  });
  return operations;
}

std::vector<std::uint64_t> shrink(std::uint64_t seed, std::vector<std::uint64_t> operations,
                                  Opener const& left, Opener const& right, int runs) {
  for (std::size_t part = operations.size() / 2; part > 0 && runs > 0; part /= 2) {
    for (std::size_t at = 0; at < operations.size() && runs > 0;) {
      std::vector<std::uint64_t> fewer = operations;
      auto const begin = fewer.begin() + static_cast<std::ptrdiff_t>(at);
      fewer.erase(begin, begin + static_cast<std::ptrdiff_t>(std::min(part, fewer.size() - at)));
      --runs;
      if (auto const differs = run(seed, fewer, left, right)) {
        std::erase_if(fewer, [&](std::uint64_t n) { return n > differs->operation; });
        operations = std::move(fewer);
      } else {
        at += part;
      }
    }
  }
  return operations;
}

}  // namespace perdure::test
