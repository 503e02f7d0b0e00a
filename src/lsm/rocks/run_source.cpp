// Passing a key's entries in both directions. Backward the oldest version comes first, so a chain's
// part is read into a list of its own.
#include "lsm/rocks/run_source.hpp"

namespace perdure::lsm {
namespace {

// A key with more versions than this in a run is passed by a search instead of step by step.
constexpr std::uint32_t kManyVersions = 64;

std::uint64_t first_word(rocksdb::Slice const& key) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < sizeof(word); ++i) {
    word = word << 8 | (i < key.size() ? static_cast<unsigned char>(key[i]) : 0);
  }
  return word;
}

}  // namespace

Status RunSource::find_head(Direction direction) {
  std::uint32_t const entry = direction == Direction::forward ? position_ : position_ - 1;
  Status const loaded = window_.load(entry, direction);
  if (!loaded.ok()) return loaded;
  head_ = window_.key(entry);
  head_word_ = first_word(head_);
  return {};
}

std::strong_ordering RunSource::order(RunSource const& other) const {
  if (head_word_ != other.head_word_) return head_word_ <=> other.head_word_;
  return head_.compare(other.head_) <=> 0;
}

Status RunSource::pass_forward(rocksdb::Slice const& key, VersionChain& chain) {
  if (Status const added = add_from(key, position_, chain); !added.ok()) return added;
  std::uint32_t passed = 0;
  for (; position_ < window_.count(); ++position_, ++passed) {
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
  for (; !chain.closed && position < window_.count(); ++position) {
    Status const loaded = window_.load(position, Direction::forward);
    if (!loaded.ok()) return loaded;
    if (window_.key(position) != key) break;
    if (window_.version(position).request <= limit_) chain.add(window_.version(position));
  }
  return {};
}

}  // namespace perdure::lsm
