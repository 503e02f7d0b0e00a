// A run whose arrays the host can read, as a source of the merge reads it: where it lies, without a
// copy and without a call of the machine.
//
// Invariant: what key() returns stays as long as the run, unless it lies in the room that was
// given.
#pragma once

#include <rocksdb/slice.h>

#include <cstdint>
#include <cstring>

#include "base/prefetch.hpp"
#include "lsm/engine/engine.hpp"
#include "lsm/engine/run_search.hpp"
#include "lsm/rocks/version_chain.hpp"

namespace perdure::lsm {

/// A key with more versions than this in a run is passed by a search instead of step by step.
inline constexpr std::uint32_t kManyVersions = 64;

/// As searches know one.
struct HostWarp {
  static void prefetch(void const* at, std::size_t) { prefetch_line(at); }
};

class DirectRun {
 public:
  DirectRun() = default;
  explicit DirectRun(RunView const* view) : view_(view) {}

  [[nodiscard]] bool is_there() const { return view_ != nullptr; }
  [[nodiscard]] RunView const& view() const { return *view_; }

  /// The bytes that all keys begin with.
  [[nodiscard]] rocksdb::Slice shared() const {
    if (view_->shared == 0 || view_->count == 0) return {};
    return {reinterpret_cast<char const*>(view_->key(0)), view_->shared};
  }
  /// A key that is a number in the run goes to the room.
  [[nodiscard]] rocksdb::Slice key(std::uint32_t entry, std::uint64_t& room) const {
    if (view_->keys != nullptr) return slice(view_->key(entry), view_->size(entry));
    room = swapped(view_->prefixes[entry]);
    return slice(&room, view_->width);
  }
  /// Of the key, from a byte on up to which all keys are the same.
  [[nodiscard]] std::uint64_t word(std::uint32_t entry, std::uint32_t from) const {
    return view_->word(entry, from);
  }

  [[nodiscard]] Search search_for(rocksdb::Slice const& key) const {
    return {*view_, bytes(key), static_cast<std::uint32_t>(key.size())};
  }
  /// Where the bound is, once search() has been there.
  [[nodiscard]] std::uint32_t bound(Search const& search, Bound bound) const {
    return first_bound(*view_, search.target, search.at, bound == Bound::upper);
  }

  /// The key that an entry has. It outlives what is returned.
  [[nodiscard]] Target target_at(std::uint32_t entry, rocksdb::Slice const& key) const {
    Target target;
    target.key = bytes(key);
    target.size = static_cast<std::uint32_t>(key.size());
    target.side = 0;
    target.word = view_->prefixes[entry];
    return target;
  }
  [[nodiscard]] Target target(rocksdb::Slice const& key) const { return search_for(key).target; }

  /// From a gap to the other side of all entries of the target that follow in the direction. Those
  /// that a reader with the limit sees go to the chain, until it is closed.
  [[nodiscard]] std::uint32_t pass_forward(std::uint32_t gap, Target const& target, RequestId limit,
                                           VersionChain& chain) const {
    std::uint32_t const end = target.side != 0 ? gap : first_bound(*view_, target, gap, true);
    add(gap, end, limit, chain);
    return end;
  }
  [[nodiscard]] std::uint32_t pass_backward(std::uint32_t gap, Target const& target,
                                            RequestId limit, VersionChain& chain) const;
  /// Whether the entry, whose key is the target's, is the only one of it, for all that its prefix
  /// and the next one's say; then it goes to the chain if the reader sees it.
  [[nodiscard]] bool pass_one(std::uint32_t entry, RequestId limit, VersionChain& chain) const {
    if (entry + 1 < view_->count && view_->prefixes[entry + 1] == view_->prefixes[entry])
      return false;
    if (chain.closed) return true;
    StoredVersion const& version = view_->versions[entry];
    if (version.request() <= limit)
      chain.add({view_->value(entry), version.request(), version.kind()});
    return true;
  }

  /// What a scan of a few entries reads besides values, from a gap on.
  void prefetch_entries(std::uint32_t gap, bool forward) const {
    std::uint32_t const first = forward || gap < kNear ? gap : gap - kNear;
    for (std::uint32_t i = first; i < first + kNear; i += 4) prefetch_line(view_->versions + i);
    for (std::uint32_t i = first; i < first + kNear; i += 8) prefetch_line(view_->prefixes + i);
  }
  /// What a scan comes to is on its way while it is with others: the value `ahead` entries behind
  /// the gap and, forward, what is read of entries further on.
  void prefetch_forward(std::uint32_t gap, std::uint32_t ahead) const {
    prefetch_line(view_->prefixes + gap + kNear);
    prefetch_line(view_->versions + gap + kNear);
    if (gap + ahead < view_->count) prefetch_line(view_->versions[gap + ahead].value);
  }
  void prefetch_backward(std::uint32_t gap, std::uint32_t ahead) const {
    if (gap > ahead) prefetch_line(view_->versions[gap - ahead - 1].value);
  }

 private:
  static constexpr std::uint32_t kNear = 16;  // entries: four lines of versions

  void add(std::uint32_t begin, std::uint32_t end, RequestId limit, VersionChain& chain) const {
    for (std::uint32_t i = begin; i < end && !chain.closed; ++i) {
      StoredVersion const& version = view_->versions[i];
      if (version.request() <= limit)
        chain.add({view_->value(i), version.request(), version.kind()});
    }
  }
  static std::byte const* bytes(rocksdb::Slice const& key) {
    return reinterpret_cast<std::byte const*>(key.data());
  }
  static rocksdb::Slice slice(void const* at, std::uint32_t size) {
    if (size == 0) return {};  // to RocksDB, null is no key
    return {static_cast<char const*>(at), size};
  }

  RunView const* view_ = nullptr;
};

}  // namespace perdure::lsm
