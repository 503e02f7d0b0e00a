#include "explore/history.hpp"

#include <set>
#include <utility>

#include "batch/arithmetic.hpp"

namespace perdure::explore {
namespace {

using Value = std::optional<std::uint64_t>;

/// Its effect on the key; false if it would have answered otherwise.
bool take_effect(Seen const& s, Value& value) {
  if (s.acknowledged && s.status == KeyStatus::no_space)
    return s.kind == OpKind::erase ? s.erases_run_out && value.has_value() : s.kind != OpKind::get;
  bool const inserts = s.kind == OpKind::put || (s.kind == OpKind::update && s.adds);
  bool const found = value.has_value() || inserts;
  if (s.acknowledged && s.status != (found ? KeyStatus::ok : KeyStatus::not_found)) return false;
  if (!found) return true;
  if (s.kind == OpKind::get) return !s.acknowledged || *value == s.value;
  if (s.kind == OpKind::erase) {
    value.reset();
    return true;
  }
  bool const adds = s.kind == OpKind::update && s.adds;
  if (s.kind == OpKind::update && s.rmw != Rmw::replace) {
    value = combine(s.rmw, *value, s.operand);
    return true;
  }
  value = adds ? value.value_or(0) + s.operand : s.operand;
  return !adds || !s.acknowledged || *value == s.value;
}

/// Depth first over which operation comes next; what was tried once is not tried again.
class Search {
 public:
  Search(std::span<Seen const> seen, Value after) : seen_(seen), after_(after) {}

  bool from(std::uint64_t decided, Value const& value) {
    if (decided ==
        (seen_.size() == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << seen_.size()) - 1))
      return value == after_;
    if (!tried_.emplace(decided, value).second) return false;
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      if ((decided >> i & 1) != 0 || !may_be_next(decided, i)) continue;
      std::uint64_t const with = decided | std::uint64_t{1} << i;
      Value then = value;
      if (take_effect(seen_[i], then) && from(with, then)) return true;
      if (!seen_[i].acknowledged && from(with, value)) return true;
    }
    return false;
  }

 private:
  [[nodiscard]] bool may_be_next(std::uint64_t decided, std::size_t i) const {
    for (std::size_t j = 0; j < seen_.size(); ++j)
      if ((decided >> j & 1) == 0 && seen_[j].ended < seen_[i].began) return false;
    return true;
  }

  std::span<Seen const> seen_;
  Value after_;
  std::set<std::pair<std::uint64_t, Value>> tried_;
};

}  // namespace

bool explained(std::span<Seen const> seen, std::optional<std::uint64_t> before,
               std::optional<std::uint64_t> after) {
  return Search(seen, after).from(0, before);
}

}  // namespace perdure::explore
