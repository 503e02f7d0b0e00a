// Passing a key's entries in both directions. Backward the oldest version comes first, so a chain's
// part is read into a list of its own.
#include "lsm/rocks/run_source.hpp"

namespace perdure::lsm {
namespace {

std::uint64_t first_word(rocksdb::Slice const& key) {
  return key_word(reinterpret_cast<std::byte const*>(key.data()), key.size(), 0);
}

}  // namespace

Status RunSource::find_head(Direction direction, std::uint64_t& word) {
  entry_ = direction == Direction::forward ? position_ : position_ - 1;
  Status const loaded = window_.load(entry_, direction);
  if (!loaded.ok()) return loaded;
  word = first_word(window_.key(entry_));
  return {};
}

rocksdb::Slice RunSource::keep_window_head(KeyRoom& room) {
  rocksdb::Slice const head = window_.key(entry_);
  if (pin_keys_) return head;
  room.bytes.assign(head.data(), head.size());
  return room.bytes;
}

rocksdb::Slice RunSource::pin(rocksdb::Slice const& head) {
  if (head.empty()) return head;
  if (pinned_ == nullptr) pinned_ = std::make_unique<std::deque<std::uint64_t>>();
  std::uint64_t& pinned = pinned_->emplace_back();
  std::memcpy(&pinned, head.data(), head.size());
  return {reinterpret_cast<char const*>(&pinned), head.size()};
}

Status RunSource::pass(rocksdb::Slice const& key, Direction direction, VersionChain& chain) {
  if (direct_.is_there()) {
    pass_directly(direct_.target(key), direction, chain);
    return {};
  }
  return direction == Direction::forward ? pass_forward(key, chain) : pass_backward(key, chain);
}

Status RunSource::pass_forward(rocksdb::Slice const& key, VersionChain& chain) {
  if (Status const added = add_from(key, position_, chain); !added.ok()) return added;
  std::uint32_t passed = 0;
  for (; position_ < count_; ++position_, ++passed) {
    if (!window_.holds(position_) && passed > kManyVersions) {
      return window_.seek(key, Bound::upper, position_);
    }
    Status const loaded = window_.load(position_, Direction::forward);
    if (!loaded.ok()) return loaded;
    if (window_.key(position_) != key) break;
  }
  return {};
}

Status RunSource::pass_backward(rocksdb::Slice const& key, VersionChain& chain) {
  passed_.clear();
  std::uint32_t passed = 0;
  for (; position_ > 0; --position_, ++passed) {
    if (passed > kManyVersions) {
      Status const found = window_.seek(key, Bound::lower, position_);
      std::uint32_t newest = position_;
      return found.ok() ? add_from(key, newest, chain) : found;
    }
    Status const loaded = window_.load(position_ - 1, Direction::backward);
    if (!loaded.ok()) return loaded;
    if (window_.key(position_ - 1) != key) break;
    Version const& version = window_.version(position_ - 1);
    if (chain.closed || version.request > limit_) continue;
    if (version.kind != Kind::merge) passed_.clear();  // nothing older counts
    passed_.push_back(version);
  }
  for (auto version = passed_.rbegin(); version != passed_.rend(); ++version) chain.add(*version);
  return {};
}

Status RunSource::add_from(rocksdb::Slice const& key, std::uint32_t& position,
                           VersionChain& chain) {
  for (; !chain.closed && position < count_; ++position) {
    Status const loaded = window_.load(position, Direction::forward);
    if (!loaded.ok()) return loaded;
    if (window_.key(position) != key) break;
    if (window_.version(position).request <= limit_) chain.add(window_.version(position));
  }
  return {};
}

}  // namespace perdure::lsm
