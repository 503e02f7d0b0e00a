#include "lsm/rocks/wait_graph.hpp"

#include <algorithm>
#include <ctime>
#include <utility>

namespace perdure::lsm {

bool WaitGraph::begin(rocksdb::TransactionID who, Wait wait, std::int64_t depth) {
  MutexLock lock(mutex_);
  for (rocksdb::TransactionID const on : wait.on) ++waiters_[on];
  waits_.insert_or_assign(who, std::move(wait));
  std::vector<Step> steps;
  Search const found = search(who, depth, steps);
  if (found == Search::no_cycle) return true;
  keep(steps, found);
  erase(who);
  return false;
}

void WaitGraph::end(rocksdb::TransactionID who) {
  MutexLock lock(mutex_);
  erase(who);
}

/// Breadth first, so that a path is a shortest one. The last step of a cycle is `who`.
WaitGraph::Search WaitGraph::search(rocksdb::TransactionID who, std::int64_t depth,
                                    std::vector<Step>& steps) const {
  if (!waiters_.contains(who)) return Search::no_cycle;
  auto const most = static_cast<std::size_t>(std::max<std::int64_t>(depth, 0));
  auto const add = [&](std::vector<rocksdb::TransactionID> const& on, std::ptrdiff_t from) {
    for (rocksdb::TransactionID const next : on)
      if (steps.size() < most) steps.push_back({next, from});
  };
  add(waits_.at(who).on, -1);
  for (std::size_t i = 0; i < most; ++i) {
    if (i == steps.size()) return Search::no_cycle;
    if (steps[i].who == who) {
      steps.resize(i + 1);
      return Search::cycle;
    }
    auto const next = waits_.find(steps[i].who);
    if (next != waits_.end()) add(next->second.on, static_cast<std::ptrdiff_t>(i));
  }
  return Search::too_deep;
}

void WaitGraph::keep(std::vector<Step> const& steps, Search found) {
  rocksdb::DeadlockPath path(std::time(nullptr), found == Search::too_deep);
  if (found == Search::cycle) {
    auto at = static_cast<std::ptrdiff_t>(steps.size()) - 1;
    for (; at >= 0; at = steps[static_cast<std::size_t>(at)].from) {
      rocksdb::TransactionID const id = steps[static_cast<std::size_t>(at)].who;
      Wait const& wait = waits_.at(id);
      path.path.push_back({id, wait.family, wait.exclusive, wait.key});
    }
    std::reverse(path.path.begin(), path.path.end());
  }
  paths_.push_front(std::move(path));
  if (paths_.size() > paths_kept_) paths_.resize(paths_kept_);
}

void WaitGraph::erase(rocksdb::TransactionID who) {
  auto const wait = waits_.find(who);
  if (wait == waits_.end()) return;
  for (rocksdb::TransactionID const on : wait->second.on) {
    auto const count = waiters_.find(on);
    if (--count->second == 0) waiters_.erase(count);
  }
  waits_.erase(wait);
}

std::vector<rocksdb::DeadlockPath> WaitGraph::paths() const {
  MutexLock lock(mutex_);
  return {paths_.begin(), paths_.end()};
}

void WaitGraph::keep_paths(std::uint32_t count) {
  MutexLock lock(mutex_);
  paths_kept_ = count;
  if (paths_.size() > count) paths_.resize(count);
}

}  // namespace perdure::lsm
