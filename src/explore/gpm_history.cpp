#include "explore/gpm_history.hpp"

#include <algorithm>
#include <functional>

namespace perdure::explore {
namespace {

std::uint32_t words_in_use(GpmStack const& stack) {
  std::uint32_t used = 0;
  for (GpmEntry const& entry : stack) used += entry.words + 1;
  return used;
}

/// Carries the operation out; false if it would have answered otherwise.
bool step(GpmSeen const& seen, GpmStack& stack, std::uint32_t partition_words) {
  using log::GpmLogError;
  GpmOp const& op = seen.op;
  std::uint32_t const used = words_in_use(stack);
  if (op.kind == GpmOpKind::insert) {
    if (used + op.words + 1 > partition_words) return seen.answer == GpmLogError::overflow;
    stack.push_back({op.words, gpm_entry(op.words, op.value)});
    return seen.answer == GpmLogError::none;
  }
  if (op.kind == GpmOpKind::clear) {
    stack.clear();
    return seen.answer == GpmLogError::none;
  }
  if (stack.empty()) return seen.answer == GpmLogError::empty;
  if (stack.back().words != op.words) return seen.answer == GpmLogError::mismatch;
  bool const right = op.kind == GpmOpKind::remove || seen.got == stack.back().is;
  if (op.kind == GpmOpKind::remove) stack.pop_back();
  return right && seen.answer == GpmLogError::none;
}

/// Visits every state that some order comes to, each once, until a visit says true.
class Orders {
 public:
  using Visit = std::function<bool(std::vector<std::size_t> const& done, GpmStack const& stack)>;
  Orders(GpmHistory const& history, std::uint32_t partition_words, Visit visit)
      : history_(history), partition_words_(partition_words), visit_(std::move(visit)), done_(history.size(), 0) {}

  bool from(GpmStack const& stack) {
    if (!met_.insert({done_, stack}).second) return false;
    if (visit_(done_, stack)) return true;
    for (std::size_t t = 0; t < history_.size(); ++t) {
      if (done_[t] == history_[t].size() || !may_go(t)) continue;
      GpmStack after = stack;
      if (!step(history_[t][done_[t]], after, partition_words_)) continue;
      ++done_[t];
      bool const enough = from(after);
      --done_[t];
      if (enough) return true;
    }
    return false;
  }

 private:
  /// Nothing that had ended before the thread's next operation began is still to come.
  [[nodiscard]] bool may_go(std::size_t thread) const {
    std::uint64_t const began = history_[thread][done_[thread]].began;
    for (std::size_t t = 0; t < history_.size(); ++t)
      if (done_[t] < history_[t].size() && history_[t][done_[t]].ended < began) return false;
    return true;
  }

  GpmHistory const& history_;
  std::uint32_t partition_words_;
  Visit visit_;
  std::vector<std::size_t> done_;
  std::set<std::pair<std::vector<std::size_t>, GpmStack>> met_;
};

}  // namespace

std::string shown(GpmStack const& stack) {
  std::string text = "[";
  for (GpmEntry const& entry : stack) {
    text += text.size() > 1 ? ", " : "";
    for (std::uint32_t i = 0; i < entry.words; ++i) text.append(i > 0 ? "." : "").append(std::to_string(entry.is[i]));
  }
  text.append("]");
  return text;
}

bool begins_with(GpmStack const& whole, GpmStack const& part) {
  return part.size() <= whole.size() && std::equal(part.begin(), part.end(), whole.begin());
}

bool gpm_explained(GpmHistory const& of_partition, GpmStack const& old, GpmStack const& found,
                   std::uint32_t partition_words) {
  Orders orders(of_partition, partition_words, [&](std::vector<std::size_t> const& done, GpmStack const& stack) {
    bool clearing = false;
    for (std::size_t t = 0; t < done.size(); ++t) {
      if (done[t] == of_partition[t].size()) continue;
      if (of_partition[t][done[t]].acknowledged) return false;
      clearing |= of_partition[t][done[t]].op.kind == GpmOpKind::clear;
    }
    return stack == found || (clearing && begins_with(stack, found));
  });
  return orders.from(old);
}

GpmPlaces gpm_places(GpmHistory const& of_partition, GpmStack const& old, std::uint32_t partition_words) {
  GpmPlaces places{{}, old.size()};
  Orders orders(of_partition, partition_words, [&](std::vector<std::size_t> const&, GpmStack const& stack) {
    std::uint32_t first = 0;
    std::size_t same = 0;
    for (std::size_t i = 0; i < stack.size(); ++i) {
      same += same == i && i < old.size() && stack[i] == old[i];
      places.entries.insert({first, stack[i]});
      first += stack[i].words + 1;
    }
    places.kept = std::min(places.kept, same);
    return false;
  });
  orders.from(old);
  return places;
}

}  // namespace perdure::explore
