#include "store/gphash/logged_queue.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "store/gphash/logged_batch.hpp"

namespace perdure {
namespace {

constexpr std::uint64_t kMostBytes = 64u << 20;      // read ahead of what is run
// Merged for each worker. More of them fall out of its cache, fewer are soon done beside the waking
// of all.
constexpr std::size_t kOperationsAWorker = 1u << 13;

bool goes_with(wal::BatchOps const& a, wal::BatchOps const& b) {
  return a.kinds.empty() && b.kinds.empty() && a.kind == b.kind && a.rmw == b.rmw &&
         a.element == b.element && a.keys.width == b.keys.width &&
         (a.values.data == nullptr) == (b.values.data == nullptr) &&
         a.values.width == b.values.width;
}

}  // namespace

bool LoggedQueue::give(std::uint64_t number, std::vector<std::byte>& payload) {
  std::unique_lock lock(mutex_);
  changed_.wait(
      lock, [&] { return stopped_ || there_.empty() || bytes_ + payload.size() <= kMostBytes; });
  if (stopped_) return false;
  PERDURE_ASSERT(!ended_);
  bytes_ += payload.size();
  there_.push_back({number, std::exchange(payload, {})});
  if (!free_.empty()) {
    payload = std::move(free_.back());
    free_.pop_back();
  }
  changed_.notify_all();
  return true;
}

void LoggedQueue::end() {
  std::lock_guard const lock(mutex_);
  PERDURE_ASSERT(!ended_);
  ended_ = true;
  changed_.notify_all();
}

std::optional<Logged> LoggedQueue::take(bool wait) {
  std::unique_lock lock(mutex_);
  if (wait) changed_.wait(lock, [&] { return ended_ || !there_.empty(); });
  if (there_.empty()) return std::nullopt;
  Logged logged = std::move(there_.front());
  there_.pop_front();
  PERDURE_ASSERT(bytes_ >= logged.payload.size());
  bytes_ -= logged.payload.size();
  changed_.notify_all();
  return logged;
}

void LoggedQueue::give_back(std::vector<Logged>& used, std::size_t count) {
  std::lock_guard const lock(mutex_);
  PERDURE_ASSERT(count <= used.size());
  auto const end = used.begin() + static_cast<std::ptrdiff_t>(count);
  for (auto it = used.begin(); it != end; ++it) free_.push_back(std::move(it->payload));
  used.erase(used.begin(), end);
}

void LoggedQueue::stop() {
  std::lock_guard const lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

// ------------------------------------------------------------------------------------------------

bool MergedBatches::takes(wal::DecodedBatch const& batch) const {
  if (parts_.empty()) return true;
  wal::BatchOps const ops = batch.ops();
  return operations_ + ops.keys.count <= kOperationsAWorker * workers_->threads() &&
         goes_with(parts_.front().batch.ops(), ops);
}

void MergedBatches::add(std::uint64_t number, wal::DecodedBatch batch) {
  PERDURE_ASSERT(!kCostlyAssertions || takes(batch));
  std::size_t const count = batch.ops().keys.count;
  parts_.push_back({number, operations_, std::move(batch)});
  operations_ += count;
}

void MergedBatches::clear() {
  parts_.clear();
  operations_ = 0;
}

Call MergedBatches::part(std::size_t p) const {
  PERDURE_ASSERT(p < parts_.size());
  return call_of(parts_[p].batch.ops());
}

Call MergedBatches::call() {
  Call call = part(0);
  if (parts_.size() == 1) return call;
  bool const has_values = call.values.data != nullptr;
  call.keys = gather(keys_, [](wal::BatchOps const& ops) { return ops.keys; });
  if (has_values)
    call.values = gather(values_, [](wal::BatchOps const& ops) { return ops.values; });
  return call;
}

/// The parts' columns one behind the other.
template <class ColumnOf>
Column MergedBatches::gather(Gathered& to, ColumnOf const& column_of) {
  std::vector<std::size_t> at(parts_.size());
  std::size_t bytes = 0;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    at[p] = bytes;
    bytes += wal::bytes_of(column_of(parts_[p].batch.ops()));
  }
  Column all = column_of(parts_.front().batch.ops());
  bool const variable = all.offsets != nullptr;
  if (to.data.size() <= bytes) to.data.resize(bytes + 1);  // a column of no bytes is still one
  if (variable && to.offsets.size() <= operations_) to.offsets.resize(operations_ + 1);
  workers_->for_chunks(parts_.size(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t p = begin; p < end; ++p) {
      Column const column = column_of(parts_[p].batch.ops());
      std::memcpy(to.data.data() + at[p], column.data, wal::bytes_of(column));
      for (std::size_t i = 0; variable && i <= column.count; ++i) {
        if (i == column.count && p + 1 < parts_.size()) break;  // the next part begins with it
        to.offsets[parts_[p].begin + i] = static_cast<std::int64_t>(at[p]) + column.offsets[i];
      }
    }
  });
  all.data = to.data.data();
  if (variable) all.offsets = to.offsets.data();
  PERDURE_ASSERT(parts_.back().begin <= operations_);
  all.count = operations_;
  return all;
}

Status MergedBatches::check(std::size_t first, Status const& done,
                            std::span<KeyStatus const> statuses) const {
  if (!done.ok())
    return {done.code(), "from batch " + std::to_string(parts_[first].number) +
                             " of its log on: " + done.message()};
  auto const odd = std::find_if(statuses.begin(), statuses.end(),
                                [](KeyStatus s) { return s != KeyStatus::ok; });
  if (odd == statuses.end()) return {};
  std::size_t const operation =
      parts_[first].begin + static_cast<std::size_t>(odd - statuses.begin());
  auto const after =
      std::upper_bound(parts_.begin(), parts_.end(), operation,
                       [](std::size_t o, Part const& part) { return o < part.begin; });
  PERDURE_ASSERT(after != parts_.begin() && operation < operations_);
  Part const& part = *std::prev(after);
  return {Code::corrupt, "batch " + std::to_string(part.number) +
                             " of its log does not take effect again at operation " +
                             std::to_string(operation - part.begin)};
}

}  // namespace perdure
