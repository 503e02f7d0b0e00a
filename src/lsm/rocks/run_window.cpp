// How large windows are, and when a window answers a seek itself.
#include "lsm/rocks/run_window.hpp"

#include <algorithm>
#include <array>

#include "base/assert.hpp"

namespace perdure::lsm {
namespace {

// A scan of a hundred keys over a few runs is done with the first windows; a long one soon pays a
// trip to the machine for thousands of entries only.
constexpr std::uint32_t kFirstSize = 32;
constexpr std::uint32_t kGrowth = 4;
constexpr std::uint32_t kLargestSize = 4096;
constexpr std::uint32_t kBehind = 4;  // so that a scan that turns round needs no trip

}  // namespace

RunWindow::RunWindow(Engine& engine, RunPtr run, bool pin_keys)
    : engine_(&engine), run_(std::move(run)), pin_keys_(pin_keys), next_size_(kFirstSize) {
  blocks_.push_back(std::make_unique<EntryBlock>());
  block_ = blocks_.back().get();
}

rocksdb::Slice RunWindow::key(std::uint32_t position) const {
  PERDURE_ASSERT(holds(position));
  std::uint64_t const* const offset = &block_->key_offsets[position - first_];
  if (offset[0] == offset[1]) return {};  // to RocksDB, null is no key
  return {reinterpret_cast<char const*>(block_->keys.data()) + offset[0], offset[1] - offset[0]};
}

bool RunWindow::find_here(rocksdb::Slice const& target, Bound bound,
                          std::uint32_t& position) const {
  // An entry is ahead of the bound if its key is below, or for the upper bound if it is the same.
  auto const ahead = [&](std::uint32_t entry) {
    int const order = key(entry).compare(target);
    return order < 0 || (order == 0 && bound == Bound::upper);
  };
  if (held() == 0) return false;
  std::uint32_t low = first_;
  std::uint32_t high = first_ + held();
  if (low > 0 && !ahead(low)) return false;
  if (high < count() && ahead(high - 1)) return false;
  while (low < high) {
    std::uint32_t const middle = low + (high - low) / 2;
    if (ahead(middle)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  position = low;
  return true;
}

Status RunWindow::seek(rocksdb::Slice const& target, Bound bound, std::uint32_t& position) {
  if (find_here(target, bound, position)) return {};
  next_size_ = kFirstSize;
  std::array<std::int64_t, 2> const offsets{0, static_cast<std::int64_t>(target.size())};
  Column keys;
  keys.data = reinterpret_cast<std::byte const*>(target.data());
  keys.offsets = offsets.data();
  keys.count = 1;
  return engine_->seek(*run_, keys, bound, std::span(&position, 1));
}

Status RunWindow::load(std::uint32_t position, Direction direction) {
  if (holds(position)) return {};
  std::uint32_t first = position - std::min(position, kBehind);
  std::uint32_t end = position + std::min(count() - position, next_size_);
  if (direction == Direction::backward) {
    first = position + 1 - std::min(position + 1, next_size_);
    end = position + std::min(count() - position, kBehind);
  }
  if (pin_keys_) {
    blocks_.push_back(std::make_unique<EntryBlock>());
    block_ = blocks_.back().get();
  }
  first_ = first;
  Status const fetched = engine_->fetch(*run_, first, end - first, *block_);
  if (!fetched.ok()) {
    *block_ = {};
    return fetched;
  }
  PERDURE_ASSERT(held() == end - first);
  next_size_ = std::min(next_size_ * kGrowth, kLargestSize);
  return {};
}

}  // namespace perdure::lsm
