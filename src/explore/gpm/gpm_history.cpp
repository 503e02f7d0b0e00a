#include "explore/gpm/gpm_history.hpp"

#include <algorithm>
#include <cstring>
#include <functional>

namespace perdure::explore {
std::uint32_t words_in_use(GpmStack const& stack) {
  std::uint32_t used = 0;
  for (GpmEntry const& entry : stack) used += entry.words + 1;
  return used;
}

namespace {

std::size_t bytes_of(GpmStack const& stack) {
  std::size_t bytes = 0;
  for (GpmEntry const& entry : stack) bytes += entry.left();
  return bytes;
}

/// Carries the operation out; false if it would have answered otherwise.
bool step(GpmSeen const& seen, GpmStack& stack, std::uint32_t partition_words) {
  using gpm::GpmLogError;
  GpmOp const& op = seen.op;
  std::uint32_t const used = words_in_use(stack);
  if (op.kind == GpmOpKind::insert) {
    if (used + op.words + 1 > partition_words) return seen.answer == GpmLogError::overflow;
    stack.push_back({op.words, gpm_entry(op.words, op.value), 0});
    return seen.answer == GpmLogError::none;
  }
  if (op.kind == GpmOpKind::clear) {
    stack.clear();
    return seen.answer == GpmLogError::none;
  }
  std::size_t const bytes = kGpmSizes[op.words - 1];
  if (stack.empty()) return seen.answer == GpmLogError::empty;
  if (bytes_of(stack) < bytes) return seen.answer == GpmLogError::fewer;
  if (op.kind == GpmOpKind::remove)
    return take_off(stack, bytes) && seen.answer == GpmLogError::none;
  return seen.got == last_bytes(stack, bytes) && seen.answer == GpmLogError::none;
}

/// Whether an operation that a crash cut short may have left `found`.
bool on_its_way(GpmOp const& op, GpmStack stack, GpmStack const& found) {
  if (op.kind == GpmOpKind::clear) return begins_with(stack, found, true);
  std::size_t bytes = op.kind == GpmOpKind::remove ? kGpmSizes[op.words - 1] : 0;
  while (!stack.empty() && stack.back().left() <= bytes) {
    bytes -= stack.back().left();
    stack.pop_back();
    if (stack == found) return true;
  }
  return false;
}

/// Visits every state that some order comes to, each once, until a visit says true.
class Orders {
 public:
  using Visit = std::function<bool(std::vector<std::size_t> const& done, GpmStack const& stack)>;
  Orders(GpmHistory const& history, std::uint32_t partition_words, Visit visit)
      : history_(history),
        partition_words_(partition_words),
        visit_(std::move(visit)),
        done_(history.size(), 0) {}

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
    for (std::uint32_t i = 0; i < entry.words; ++i)
      text.append(i > 0 ? "." : "").append(std::to_string(entry.is[i]));
    if (entry.taken != 0) text.append(" without ").append(std::to_string(entry.taken));
  }
  text.append("]");
  return text;
}

bool begins_with(GpmStack const& whole, GpmStack const& part, bool entries) {
  if (part.size() > whole.size()) return false;
  for (std::size_t i = 0; i < part.size(); ++i) {
    GpmEntry first = whole[i];
    if (!entries && i + 1 == part.size()) first.taken = std::max(first.taken, part[i].taken);
    if (first != part[i]) return false;
  }
  return true;
}

bool take_off(GpmStack& stack, std::size_t bytes) {
  if (bytes_of(stack) < bytes) return false;
  while (bytes > 0 && stack.back().left() <= bytes) {
    bytes -= stack.back().left();
    stack.pop_back();
  }
  if (bytes > 0) stack.back().taken += static_cast<std::uint32_t>(bytes);
  return true;
}

GpmWords last_bytes(GpmStack const& stack, std::size_t bytes) {
  std::vector<char> all;
  for (GpmEntry const& entry : stack) {
    auto const* const from = reinterpret_cast<char const*>(entry.is.data());
    all.insert(all.end(), from, from + entry.left());
  }
  GpmWords last{};
  std::memcpy(last.data(), all.data() + (all.size() - bytes), bytes);
  return last;
}

bool gpm_explained(GpmHistory const& of_partition, GpmStack const& old, GpmStack const& found,
                   std::uint32_t partition_words) {
  Orders orders(of_partition, partition_words,
                [&](std::vector<std::size_t> const& done, GpmStack const& stack) {
                  bool cut_short = false;
                  for (std::size_t t = 0; t < done.size(); ++t) {
                    if (done[t] == of_partition[t].size()) continue;
                    if (of_partition[t][done[t]].acknowledged) return false;
                    cut_short |= on_its_way(of_partition[t][done[t]].op, stack, found);
                  }
                  return stack == found || cut_short;
                });
  return orders.from(old);
}

GpmPlaces gpm_places(GpmHistory const& of_partition, GpmStack const& old,
                     std::uint32_t partition_words) {
  GpmPlaces places{{}, old.size()};
  Orders orders(of_partition, partition_words,
                [&](std::vector<std::size_t> const&, GpmStack const& stack) {
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
