// Ranges of a B+-tree's records, in the order of their keys. Entries are noted some hundreds at a
// time, each leaf's as they were at one moment, and their records looked at afterwards. Invariant:
// what is shown of a key was valid when it was looked at; a key that was there throughout is shown
// once, one that came or went meanwhile at most once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "exec/epochs.hpp"
#include "store/btree/btree_reader.hpp"
#include "store/btree/btree_runs.hpp"

namespace perdure {

template <class Parts, class Keys, class Host>
class BtreeRanges {
 public:
  BtreeRanges(Parts& parts, Keys const& keys, Host& host)
      : parts_(parts),
        keys_(keys),
        host_(host),
        reader_(parts.table, parts.records, parts.options, host) {}

  BtreePage page(BtreeRange range, std::size_t limit, std::uint64_t most_bytes,
                 threads::Visitor const& visit) {
    PERDURE_ASSERT(limit > 0);  // else it would not get on
    BtreePage page;
    std::uint64_t bytes = 0;
    std::vector<std::byte> last;  // key that was noted
    for (page.more = true; page.more;) {
      exec::EpochGuard const guard(parts_.table.epochs());
      page.more = note(range, std::min(limit - page.records, kNoted));
      if (damaged_) {
        page.fault =
            "a record at byte " + std::to_string(damaged_) + " claims more room than it has";
        return page;
      }
      for (std::size_t i = 0; i < noted_.size(); ++i) {
        if (i + kAhead < noted_.size()) parts_.records.prefetch(noted_[i + kAhead], kNear);
        page.fault = show(noted_[i], page.records, bytes, visit);
        if (!page.fault.empty()) return page;
      }
      if (noted_.empty() || page.records >= limit || bytes >= most_bytes) break;
      auto const key = parts_.records.key_at(noted_.back());
      last.assign(key.begin(), key.end());
      range = rest(range, last);
    }
    return page;
  }

  /// Exact where nobody writes.
  std::uint64_t count(BtreeRange range) {
    std::uint64_t n = 0;
    std::vector<std::byte> last;
    for (bool more = true; more;) {
      exec::EpochGuard const guard(parts_.table.epochs());
      more = note(range, kCounted);
      n += noted_.size();
      if (noted_.empty() || damaged_ != 0) return n;
      auto const key = parts_.records.key_at(noted_.back());
      last.assign(key.begin(), key.end());
      range = rest(range, last);
    }
    return n;
  }

 private:
  static constexpr std::size_t kNoted = 256;  // between two guards
  static constexpr std::size_t kCounted = 4096;
  // Neighbours in the tree lie anywhere in the pool, so each would be waited for by itself.
  static constexpr std::size_t kAhead = 8;  // records
  static constexpr std::uint64_t kNear = 2 * pm::kCacheLine;  // bytes of each

  /// What is left behind a key.
  static BtreeRange rest(BtreeRange range, std::span<std::byte const> last) {
    if (range.reverse) {
      range.end = last;
    } else {
      range.start = last;
      range.after_start = true;
    }
    return range;
  }

  /// Notes the words of `most` entries, under the caller's guard. False: there are no more.
  bool note(BtreeRange const& range, std::size_t most) {
    noted_.clear();
    damaged_ = 0;
    auto const bound = [&](auto const& of) {
      return of ? std::optional(parts_.make_key(*of)) : std::nullopt;
    };
    std::optional<btree::Key> const start = bound(range.start), end = bound(range.end);
    bool more = false;
    auto const visit = [&](std::uint64_t prefix, std::uint64_t word) {
      if (beyond(range, start, end, prefix, word)) return false;
      more = noted_.size() == most;
      if (!more) noted_.push_back(word);
      return !more && damaged_ == 0;
    };
    btree::Key const* const from =
        range.reverse ? (end ? &*end : nullptr) : (start ? &*start : nullptr);
    range.reverse ? parts_.table.descend(host_, from, false, visit)
                  : parts_.table.ascend(host_, from, !range.after_start, visit);
    return more;
  }
  bool beyond(BtreeRange const& range, std::optional<btree::Key> const& start,
              std::optional<btree::Key> const& end, std::uint64_t prefix, std::uint64_t word) {
    auto const& bound = range.reverse ? start : end;
    if (!bound) return false;
    btree::Key const key = keys_.key_of(prefix, word);
    if (!Keys::readable(key)) {
      damaged_ = word;
      return true;
    }
    auto const order = Keys::compare(key, *bound);
    return range.reverse ? order < 0 || (range.after_start && order == 0) : order >= 0;
  }

  /// Shows the record of an entry that was noted, or what the key leads to by now. Answers what is
  /// wrong with it.
  std::string show(std::uint64_t word, std::size_t& records, std::uint64_t& bytes,
                   threads::Visitor const& visit) {
    std::span<std::byte const> const key = parts_.records.key_at(word);
    std::span<std::byte const> value;
    switch (reader_.value(parts_.make_key(key), word, value)) {
      case KeyStatus::ok: break;
      case KeyStatus::not_found: return {};
      default: return "record at byte " + std::to_string(word) + " is damaged";
    }
    visit(key, value);
    ++records;
    bytes += key.size() + value.size();
    return {};
  }

  Parts& parts_;
  Keys const& keys_;
  Host& host_;
  BtreeReader<std::remove_reference_t<decltype(std::declval<Parts>().table)>, Host> reader_;
  std::vector<std::uint64_t> noted_;
  std::uint64_t damaged_ = 0;  // a record whose key cannot be read
};

}  // namespace perdure
