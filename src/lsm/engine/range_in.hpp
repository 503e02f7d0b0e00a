// How a machine reads ranges: it finds them in each run, merges each by a lane of its own, and
// writes what they have, so that all of it comes down at once. Where a range has at most a few
// pairs, each has room for them, and is merged once; else once to count them and once more.
//
// Invariant: an answer is the session's until the last who has it lets it go.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "lsm/engine/range_bodies.hpp"
#include "lsm/engine/run_on.hpp"

namespace perdure::lsm {

template <class Machine>
class RangeIn {
  template <class T>
  using Buffer = typename Machine::template Buffer<T>;
  using Solo = typename Machine::Solo;
  static constexpr bool kFar = Machine::kPoolIsFar;

 public:
  /// Slots that ranges have before anybody knows how many they need.
  static constexpr std::uint64_t kMostSlots = std::uint64_t{1} << 22;
  /// Of an answer.
  static constexpr std::uint64_t kMostPairs = std::uint64_t{1} << 25;
  /// Of a range whose pairs are counted first: a lane of a GPU takes as long for one as a host's
  /// thread for several.
  static constexpr std::uint64_t kMostCounted =
      kFar ? std::uint64_t{1} << 16 : std::numeric_limits<std::uint64_t>::max();

  /// `views`: of the runs, for the host; `view` has them where the machine reads them, and the
  /// ranges.
  Status read(Machine& machine, std::vector<RunView> const& views, RangesView view,
              RangeQuery const& query) {
    view.most = query.most;
    view.with_erased = query.with_erased;
    if (Status s = find(machine, view); !s.ok()) return s;
    if (Status s = counts_.resize(some(view.n)); !s.ok()) return s;
    std::uint64_t const room = room_of(query);
    is_exact_ = room > kMostSlots / some(view.n);
    if (Status s = is_exact_ ? merge_twice(machine, view) : merge_once(machine, view, room);
        !s.ok())
      return s;
    return write(machine, views, view, room);
  }

  /// Whether one of the answers took so much memory that nobody should keep it for the next.
  [[nodiscard]] bool is_large() const { return largest_ > kKept; }

  /// Of the last read; its memory is whose this is.
  [[nodiscard]] RangePairs answer() const {
    RangePairs pairs;
    pairs.ranges = {counts_.twin(), firsts_.size() - 1};
    pairs.firsts = firsts_;
    pairs.pairs = {pairs_.twin(), firsts_.back()};
    pairs.keys = keys_.twin();
    pairs.key_width = key_width_;
    pairs.key_offsets = sizes_vary_ ? offsets_.twin() : nullptr;
    return pairs;
  }

 private:
  static constexpr std::uint64_t kKept = std::uint64_t{128} << 20;  // bytes

  static std::size_t some(std::size_t n) { return std::max<std::size_t>(n, 1); }

  /// Erased keys take room, too: there is some for a few of them.
  static std::uint64_t room_of(RangeQuery const& query) {
    if (!query.with_erased || query.most >= kMostSlots) return query.most;
    return query.most + query.most / 4 + 16;
  }

  Status find(Machine& machine, RangesView const& view) {
    std::size_t const items = view.n * view.count;
    if (Status s = heads_.resize(some(items)); !s.ok()) return s;
    heads_of_ = {heads_.data(), kFar ? 1 : view.count, kFar ? view.n : 1};
    return machine.threads(groups<Machine>(items),
                           RangeSeekBody<Solo, kGroup<Machine>>{view, heads_of_});
  }

  Status merge_once(Machine& machine, RangesView const& view, std::uint64_t room) {
    if (Status s = slots_.resize(some(view.n * room)); !s.ok()) return s;
    RangeMergeBody const body{view, heads_of_, counts_.data(), slots_.data(), nullptr, room};
    if (Status s = machine.threads(view.n, body); !s.ok()) return s;
    return add_up(machine, view.n);
  }

  Status merge_twice(Machine& machine, RangesView const& view) {
    RangeMergeBody body{view, heads_of_, counts_.data(), nullptr, nullptr, kMostCounted};
    if (Status s = machine.threads(view.n, body); !s.ok()) return s;
    if (Status s = add_up(machine, view.n); !s.ok()) return s;
    if (Status s = slots_.resize(some(firsts_.back())); !s.ok()) return s;
    auto const firsts = bring(machine, firsts_here_, std::span<std::uint64_t const>(firsts_));
    if (!firsts) return firsts.status();
    if (Status s = find(machine, view); !s.ok()) return s;
    body.slots = slots_.data();
    body.firsts = firsts.value();
    return machine.threads(view.n, body);
  }

  /// Where the pairs of each range, and their keys, begin.
  Status add_up(Machine& machine, std::size_t n) {
    auto const counts = machine.fetch(counts_, some(n));
    if (!counts) return counts.status();
    firsts_.assign(1, 0);
    key_bytes_.assign(1, 0);
    for (std::size_t i = 0; i < n; ++i) {
      firsts_.push_back(firsts_.back() + counts.value()[i].keys);
      key_bytes_.push_back(key_bytes_.back() + counts.value()[i].key_bytes);
    }
    if (firsts_.back() > kMostPairs)
      return {Code::unsupported, "ranges of " + std::to_string(firsts_.back()) +
                                     " keys in one question; ask for fewer ranges, or pairs"};
    return {};
  }

  Status write(Machine& machine, std::vector<RunView> const& views, RangesView const& view,
               std::uint64_t room) {
    take_key_sizes(views);
    std::size_t const n = firsts_.back();
    std::size_t const bytes = key_bytes_.back();
    std::size_t const slots = is_exact_ ? n : view.n * room;
    std::size_t const a_pair = sizeof(RangePair) + sizeof(std::uint64_t);
    largest_ = std::max(largest_, slots * sizeof(RangeSlot) + n * a_pair + bytes);
    if (Status s = make_room(n, bytes); !s.ok()) return s;
    auto const firsts = bring(machine, firsts_here_, std::span<std::uint64_t const>(firsts_));
    if (!firsts) return firsts.status();
    auto const begins = bring(machine, key_bytes_here_, std::span<std::uint64_t const>(key_bytes_));
    if (!begins) return begins.status();
    RangeWriter const to{view.runs,      slots_.data(), pairs_.data(),
                         keys_.data(),   key_width_,    sizes_vary_ ? offsets_.data() : nullptr,
                         firsts.value(), begins.value()};
    if (Status s = launch(machine, to, view.n, is_exact_ ? firsts.value() : nullptr, room); !s.ok())
      return s;
    if (Status s = bring_down(machine, pairs_, n); !s.ok()) return s;
    if (Status s = bring_down(machine, keys_, bytes); !s.ok()) return s;
    if (Status s = bring_down(machine, offsets_, sizes_vary_ ? n : 0); !s.ok()) return s;
    if (Status s = machine.wait(); !s.ok()) return s;
    if (sizes_vary_) offsets_.twin()[n] = bytes;
    return {};
  }

  Status launch(Machine& machine, RangeWriter const& to, std::size_t n, std::uint64_t const* slots,
                std::uint64_t room) {
    if constexpr (kFar) {
      std::size_t const all = slots != nullptr ? firsts_.back() : n * room;
      return machine.threads(all, RangeSlotBody{to, counts_.data(), slots, room, n});
    } else {
      return machine.threads(n, RangeWriteBody{to, counts_.data(), slots, room});
    }
  }

  void take_key_sizes(std::vector<RunView> const& views) {
    bool first = true;
    sizes_vary_ = false;
    key_width_ = 0;
    for (RunView const& view : views) {
      if (view.count == 0) continue;
      sizes_vary_ |= view.sizes != nullptr || (!first && view.width != key_width_);
      key_width_ = view.width;
      first = false;
    }
  }

  Status make_room(std::size_t pairs, std::size_t bytes) {
    if (Status s = with_twin(pairs_, pairs); !s.ok()) return s;
    if (Status s = with_twin(keys_, bytes); !s.ok()) return s;
    return sizes_vary_ ? with_twin(offsets_, pairs + 1) : Status{};
  }
  /// The next answer may be a little larger.
  template <class T>
  static Status with_twin(Buffer<T>& buffer, std::size_t n) {
    std::size_t const room = std::bit_ceil(std::max<std::size_t>(n, 64));
    if (Status s = buffer.resize(room); !s.ok()) return s;
    return buffer.need_twin(room);
  }
  template <class T>
  static Status bring_down(Machine& machine, Buffer<T>& buffer, std::size_t n) {
    if (n == 0) return {};
    return machine.download_bytes(reinterpret_cast<std::byte*>(buffer.twin()),
                                  reinterpret_cast<std::byte const*>(buffer.data()), n * sizeof(T));
  }

  std::uint64_t largest_ = 0;  // bytes
  bool is_exact_ = false;
  bool sizes_vary_ = false;
  std::uint32_t key_width_ = 0;
  RangeHeads heads_of_;
  std::vector<std::uint64_t> firsts_, key_bytes_;
  Buffer<RangeHead> heads_;
  Buffer<RangeCount> counts_;
  Buffer<RangeSlot> slots_;
  Buffer<std::uint64_t> firsts_here_, key_bytes_here_;
  Buffer<RangePair> pairs_;
  Buffer<std::byte> keys_;
  Buffer<std::uint64_t> offsets_;
};

}  // namespace perdure::lsm
