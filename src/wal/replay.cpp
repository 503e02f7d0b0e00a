#include "wal/replay.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <optional>
#include <vector>

#include "base/assert.hpp"
#include "base/crc32c.hpp"
#include "base/hooks.hpp"
#include "wal/log_stream.hpp"

namespace perdure::wal {
namespace {

/// What the next group must carry.
struct Expected {
  PoolId pool_id;
  Lsn lsn;
  std::uint64_t batch;
  std::uint32_t part;
  std::uint32_t epoch_low, epoch_high;  // both ends count
};

GroupHeader header_of(std::span<std::byte const> bytes) {
  PERDURE_ASSERT(bytes.size() >= sizeof(GroupHeader));
  GroupHeader h;
  std::memcpy(&h, bytes.data(), sizeof h);
  return h;
}

bool has_sane_length(GroupHeader const& h) {
  return h.payload_bytes <= kMaxGroup - sizeof(GroupHeader);
}

bool is_expected(GroupHeader const& h, Expected const& e) {
  return h.magic == kGroupMagic && h.format_version == kLogVersion && h.pool_id == e.pool_id &&
         h.lsn == e.lsn && h.batch == e.batch && h.part == e.part && h.epoch >= e.epoch_low &&
         h.epoch <= e.epoch_high && h.last <= 1 && has_sane_length(h);
}

std::string bit_text(std::uint64_t byte, std::uint64_t bit) {
  return "bit " + std::to_string(bit) + " of byte " + std::to_string(byte) + " of the group";
}

struct Bit {
  std::uint64_t byte = 0, bit = 0;
};

/// The one bit of a group that keeps its checksum from passing; none if it is not one.
std::optional<Bit> find_flip(std::span<std::byte const> group, GroupHeader const& h) {
  std::uint32_t const difference = group_crc(group.data(), group.size()) ^ h.crc;
  constexpr std::uint64_t kCrcAt = offsetof(GroupHeader, crc);
  if (std::has_single_bit(difference)) {  // in the checksum itself
    auto const bit = static_cast<std::uint64_t>(std::countr_zero(difference));
    return Bit{kCrcAt + bit / 8, bit % 8};
  }
  auto const bit = wrong_bit(difference, group.size() - sizeof h.crc);
  if (!bit) return std::nullopt;
  std::uint64_t const byte = *bit / 8;
  return Bit{byte < kCrcAt ? byte : byte + sizeof h.crc, *bit % 8};
}

/// But for that bit it is the group that was expected, to the zeros that close it: no torn write
/// looks like that.
bool is_expected_but_for(Bit flip, std::span<std::byte const> group, Expected const& e) {
  PERDURE_ASSERT(flip.byte < group.size() && flip.bit < 8);
  std::vector<std::byte> right(group.begin(), group.end());
  right[flip.byte] ^= static_cast<std::byte>(1u << flip.bit);
  GroupHeader const h = header_of(right);
  if (!is_expected(h, e) || sizeof h + h.payload_bytes > right.size()) return false;
  auto const rest = std::span(right).subspan(sizeof h + h.payload_bytes);
  return std::all_of(rest.begin(), rest.end(), [](std::byte b) { return b == std::byte{0}; });
}

class Replayer {
 public:
  Replayer(LogIdentity const& identity, LogPosition from, LogStream stream, Deliver const& deliver)
      : identity_(identity), stream_(std::move(stream)), deliver_(&deliver) {
    PERDURE_ASSERT(from.lsn == stream_.lsn() && identity.ring_bytes > 0);
    report_.begin = report_.end = from;
  }

  Result<ReplayReport> run() {
    for (;;) {
      auto group = next_group();
      if (!group) return group.status();
      if (group->empty()) break;
      if (Status s = take(*group); !s.ok()) return s;
      stream_.advance(group->size());
    }
    PERDURE_ASSERT(report_.end.lsn >= report_.begin.lsn);
    if (report_.reason == StopReason::flipped) report_.lost("a group that was whole is damaged");
    if (Status s = look_beyond(); !s.ok()) return s;
    if (report_.end.lsn < identity_.epoch_lsn)
      report_.lost("an earlier opening had reached further");
    return report_;
  }

 private:
  Expected expected() const {
    Lsn const lsn = stream_.lsn();
    bool const current = lsn >= identity_.epoch_lsn;
    return {identity_.pool_id,
            lsn,
            report_.end.next_batch,
            part_,
            current ? std::max(identity_.epoch, epoch_) : epoch_,
            current ? identity_.epoch +
                          (identity_.copy_damaged && !mutated("log_next_epoch_ignored") ? 1 : 0)
                    : identity_.epoch - 1};
  }

  /// A write that was under way may be lost while later ones are there, but no later one was sealed
  /// when it was durable. One that was tells damage from the log's end. It is not far: a log's
  /// memory holds what is not durable.
  Status look_beyond() {
    constexpr std::uint64_t kFar = 8u << 20;
    Lsn const stop = report_.stop_lsn;
    while (stream_.lsn() < stop + kFar) {
      auto block = stream_.peek(kBlock);
      if (!block) return block.status();
      if (block->size() < kBlock) return {};  // the file ends, or a whole lap has been read
      auto bytes = whole_group(header_of(*block));
      if (!bytes) return bytes.status();
      if (*bytes > 0 && durable_when_sealed(header_of(*block)) > stop) {
        report_.lost("a later group, at byte " +
                     std::to_string(kRingOffset + stream_.lsn() % identity_.ring_bytes) +
                     " of the log, was written when it was durable");
        return {};
      }
      stream_.advance(std::max(*bytes, kBlock));
    }
    return {};
  }
  /// Length of the group that begins here, where it is of this place and of the present epoch; else
  /// 0.
  Result<std::uint64_t> whole_group(GroupHeader const& h) {
    Expected const e = expected();
    bool const ours = h.magic == kGroupMagic && h.format_version == kLogVersion &&
                      h.pool_id == e.pool_id && h.lsn == e.lsn && h.epoch >= e.epoch_low &&
                      h.epoch <= e.epoch_high && has_sane_length(h);
    if (!ours) return std::uint64_t{0};
    std::uint64_t const bytes = group_bytes(h.payload_bytes);
    auto group = stream_.peek(bytes);
    if (!group) return group.status();
    return group->size() == bytes && passes(h, group->data(), bytes) ? bytes : 0;
  }

  /// The next group, if it is whole and the right one; else empty, and the report says why.
  Result<std::span<std::byte const>> next_group() {
    using Bytes = std::span<std::byte const>;
    auto first = stream_.peek(kBlock);
    if (!first) return first.status();
    if (first->size() < kBlock) return stop_short();
    GroupHeader const h = header_of(*first);
    std::uint64_t const bytes = has_sane_length(h) ? group_bytes(h.payload_bytes) : kBlock;
    auto group = stream_.peek(bytes);
    if (!group) return group.status();
    bool const whole = group->size() == bytes;
    if (whole && is_expected(h, expected()) &&
        (passes(h, group->data(), bytes) || mutated("torn_group_replayed")))
      return *group;
    if (!whole && stream_.file_ended()) return stop_short();
    if (Status s = classify(h, whole ? *group : Bytes{}); !s.ok()) return s;
    return Bytes{};
  }

  Status take(std::span<std::byte const> group) {
    GroupHeader const h = header_of(group);
    PERDURE_ASSERT(group.size() >= sizeof h + h.payload_bytes);
    PERDURE_ASSERT(group.size() % kBlock == 0 && h.part == part_);
    auto const payload = group.subspan(sizeof h, h.payload_bytes);
    payload_.insert(payload_.end(), payload.begin(), payload.end());
    epoch_ = h.epoch;
    ++part_;
    if (h.last == 0) return {};
    report_.payload_bytes += payload_.size();
    if (Status s = (*deliver_)(h.batch, payload_); !s.ok()) return s;
    ++report_.batches;
    PERDURE_ASSERT(h.batch == report_.end.next_batch);
    report_.end = {stream_.lsn() + group.size(), h.batch + 1};
    part_ = 0;
    payload_.clear();
    return {};
  }

  std::span<std::byte const> stop_short() {
    if (stream_.file_ended()) return stop(StopReason::truncated, "the file ends here");
    // A whole lap was read: the group after the last one would lie where the first one does.
    return stop(StopReason::stale_lap, "the ring is full");
  }

  std::span<std::byte const> stop(StopReason reason, std::string detail) {
    report_.reason = reason;
    report_.detail = std::move(detail);
    report_.stop_lsn = stream_.lsn();
    PERDURE_ASSERT(report_.stop_lsn >= report_.end.lsn);
    report_.stop_offset = kRingOffset + report_.stop_lsn % identity_.ring_bytes;
    return {};
  }

  /// Only for the report: nothing that comes here is delivered.
  Status classify(GroupHeader const& h, std::span<std::byte const> group) {
    bool const whole =
        !group.empty() && h.magic == kGroupMagic && passes(h, group.data(), group.size());
    if (whole) {
      classify_whole(h);
      return {};
    }
    auto block = stream_.peek(kBlock);
    if (!block) return block.status();
    bool zeros = true;
    for (std::byte const b : *block) zeros &= b == std::byte{0};
    if (zeros) {
      stop(part_ == 0 ? StopReason::end : StopReason::torn,
           part_ == 0 ? "" : "the rest of its batch was never written");
      return {};
    }
    auto flip = flip_in(h, group);
    if (!flip) return flip.status();
    flip->empty() ? stop(StopReason::torn, "its checksum does not match")
                  : stop(StopReason::flipped, *flip);
    return {};
  }

  void classify_whole(GroupHeader const& h) {
    Expected const e = expected();
    if (h.pool_id != e.pool_id) {
      stop(StopReason::foreign, "it belongs to another pool");
    } else if (h.format_version != kLogVersion) {
      stop(StopReason::foreign, "its format version is " + std::to_string(h.format_version));
    } else if (part_ != 0) {
      stop(StopReason::torn, "the rest of its batch was never written");
    } else {
      stop(StopReason::stale_lap, "it was written as LSN " + std::to_string(h.lsn) + " of epoch " +
                                      std::to_string(h.epoch));
    }
  }

  /// Looks for the one wrong bit, also where that bit is in the length and so hides the group's
  /// end.
  Result<std::string> flip_in(GroupHeader const& h, std::span<std::byte const> group) {
    if (!group.empty()) {
      auto const flip = find_flip(group, h);
      if (flip && is_expected_but_for(*flip, group, expected()))
        return bit_text(flip->byte, flip->bit);
    }
    for (std::uint32_t bit = 0; bit < 32; ++bit) {
      GroupHeader right = h;
      right.payload_bytes ^= 1u << bit;
      if (!has_sane_length(right) || !is_expected(right, expected())) continue;
      auto whole = stream_.peek(group_bytes(right.payload_bytes));
      if (!whole) return whole.status();
      if (whole->size() != group_bytes(right.payload_bytes)) continue;
      std::uint32_t crc = crc32c(0, &right, offsetof(GroupHeader, crc));
      crc = crc32c(crc, whole->data() + sizeof right, whole->size() - sizeof right);
      if (crc == h.crc) return bit_text(offsetof(GroupHeader, payload_bytes) + bit / 8, bit % 8);
    }
    return std::string{};
  }

  LogIdentity identity_;
  LogStream stream_;
  Deliver const* deliver_;
  std::uint32_t part_ = 0;  // of the next group within its batch
  std::uint32_t epoch_ = 0;  // of the last group
  std::vector<std::byte> payload_;  // of the batch, so far
  ReplayReport report_;
};

}  // namespace

std::string_view name(StopReason reason) {
  switch (reason) {
    case StopReason::end: return "end";
    case StopReason::stale_lap: return "stale lap";
    case StopReason::torn: return "torn";
    case StopReason::truncated: return "truncated";
    case StopReason::flipped: return "flipped";
    case StopReason::foreign: return "foreign";
  }
  return "unknown";
}

std::string ReplayReport::describe() const {
  std::string text = std::to_string(batches) + " batches from LSN " + std::to_string(begin.lsn) +
                     " to " + std::to_string(end.lsn) + "; ended at LSN " +
                     std::to_string(stop_lsn) + " (byte " + std::to_string(stop_offset) +
                     " of the log): " + std::string(name(reason));
  if (!detail.empty()) text += ", " + detail;
  if (lost_acknowledged) text += "; ACKNOWLEDGED BATCHES ARE LOST: " + lost_why;
  return text;
}

void ReplayReport::lost(std::string why) {
  lost_acknowledged = true;
  lost_why = std::move(why);
}

Result<ReplayReport> replay(BlockFile& file, LogIdentity const& identity, LogPosition from,
                            Deliver const& deliver) {
  auto const begin = std::chrono::steady_clock::now();
  auto stream = LogStream::begin(file, identity.ring_bytes, from.lsn);
  if (!stream) return stream.status();
  auto report = Replayer(identity, from, std::move(*stream), deliver).run();
  if (report)
    report->seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace perdure::wal
