// The chain of a damaged log's segments: headers by one or two flipped bits, or by what leads to
// them and follows them; links by the numbers of segments.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <set>

#include "base/assert.hpp"
#include "pm/host_verbs.hpp"
#include "wal/entry_damage.hpp"
#include "wal/entry_log.hpp"

namespace perdure::wal {
namespace {

constexpr int kFewBits = 2;

bool says_segment(SegmentHeader const& header) {
  return header.magic == kSegmentMagic && header.crc == EntryCells::crc_of(header);
}

/// 0: the header's check matches.
std::uint32_t off_by(SegmentHeader const& header) {
  return header.crc ^ EntryCells::crc_of(header);
}

Status no_log(std::string const& what) {
  return {Code::corrupt,
          what + ", which is beyond repair; nothing was changed: restore a snapshot"};
}

}  // namespace

Status EntryDamage::find_segments() {
  pm::RootEntry const* const first = pool_->root().find(kEntrySegments);
  pm::RootEntry const* const above = pool_->root().find(kEntryNumbers);
  if (first == nullptr || above == nullptr || !pool_->is_free_run(Offset{first->offset}, 1) ||
      first->value >= cells_.cells_each())
    return no_log("the root names a log of entries that cannot be there");
  if (Status s = find_first(first->offset); !s.ok()) return s;
  note_headers();
  follow(first->offset);
  return {};
}

/// It says which log it is, and with which number it begins.
Status EntryDamage::find_first(std::uint64_t at) {
  SegmentHeader header = cells_.header_at(at);
  bool const whole = says_segment(header);
  if (!whole) {
    auto const near = near_header(at);
    SegmentHeader const next = pool_->is_free_run(Offset{header.next}, 1)
                                   ? cells_.header_at(header.next)
                                   : SegmentHeader{};
    if (near) {
      header = *near;
    } else if (says_segment(next) && next.number > 0) {
      header = {kSegmentMagic, 0, next.log_id, next.number - 1, header.next, {}};
      header.crc = EntryCells::crc_of(header);
    } else {
      return no_log("the log of entries has no segment at byte " + std::to_string(at) +
                    ", where the first should be");
    }
    put_header(at, header);
  }
  cells_.id = header.log_id;
  cells_.first_number = header.number;
  return {};
}

/// Of segments that may be this log's.
void EntryDamage::note_headers() {
  std::uint64_t const each = pool_->superblock_bytes();
  for (std::uint64_t at = each; at < pool_->superblocks() * each; at += each) {
    if (!pool_->is_free(Offset{at})) continue;
    SegmentHeader const header = cells_.header_at(at);
    if (says_segment(header) && header.log_id == cells_.id) by_number_.emplace(header.number, at);
  }
}

bool EntryDamage::is_segment(std::uint64_t at, std::uint64_t number) const {
  return pool_->is_free_run(Offset{at}, 1) && cells_.is_segment(at, number);
}

/// What stood there, if one or two bits flipped back make a header of it. No check covers `next`.
/// By how much the check is off is a sum of what each bit does to it, whatever the others are: so
/// there is one check to compute for a bit, and none for two of them.
std::optional<SegmentHeader> EntryDamage::near_header(std::uint64_t at) const {
  SegmentHeader const damaged = cells_.header_at(at);
  std::uint32_t const off = off_by(damaged);
  std::array<std::uint32_t, 8 * sizeof damaged> by_bit;
  for (std::uint32_t bit = 0; bit < by_bit.size(); ++bit)
    by_bit[bit] = off ^ off_by(flipped(damaged, bit));
  for (std::uint32_t a = 0; a < by_bit.size(); ++a) {
    for (std::uint32_t b = a; b < by_bit.size(); ++b) {
      if ((b == a ? by_bit[a] : by_bit[a] ^ by_bit[b]) != off) continue;
      SegmentHeader const header = b == a ? flipped(damaged, a) : flipped(flipped(damaged, a), b);
      if (says_segment(header) && header.next == damaged.next) return header;
    }
  }
  return std::nullopt;
}

/// From the first on. Numbers rise, so this ends.
void EntryDamage::follow(std::uint64_t at) {
  while (at != 0) {
    cells_.segments.push_back(at);
    at = next_of(at, cells_.first_number + cells_.segments.size());
  }
}

/// Where the segment of that number is, which follows the one there; 0: none does.
std::uint64_t EntryDamage::next_of(std::uint64_t at, std::uint64_t number) {
  std::uint64_t const next = cells_.header_at(at).next;
  if (next == 0 || is_segment(next, number)) return next;
  bool const runs =
      pool_->is_free_run(Offset{next}, 1) && !std::ranges::count(cells_.segments, next);
  if (runs) {
    auto const near = near_header(next);
    if (near && near->log_id == cells_.id && near->number == number) {
      put_header(next, *near);
      return next;
    }
  }
  if (auto const other = other_next(next, number)) {
    put_link(at, *other);
    return *other;
  }
  SegmentHeader const damaged = runs ? cells_.header_at(next) : SegmentHeader{};
  bool const begins = damaged.magic == kSegmentMagic || damaged.log_id == cells_.id;
  bool const goes_on =
      runs && (is_segment(damaged.next, number + 1) || (damaged.next == 0 && begins));
  if (goes_on) {
    SegmentHeader header{kSegmentMagic, 0, cells_.id, number, damaged.next, {}};
    header.crc = EntryCells::crc_of(header);
    put_header(next, header);
    return next;
  }
  put_link(at, 0);
  return 0;
}

/// A link that leads there, or to none, and should have led elsewhere: to the only segment of that
/// number, or the only one that one or two bits make of it.
std::optional<std::uint64_t> EntryDamage::other_next(std::uint64_t next,
                                                     std::uint64_t number) const {
  auto const [begin, end] = by_number_.equal_range(number);
  std::vector<std::uint64_t> all, near;
  for (auto one = begin; one != end; ++one) {
    all.push_back(one->second);
    if (std::popcount(one->second ^ next) <= kFewBits) near.push_back(one->second);
  }
  if (near.size() == 1) return near.front();
  if (next != 0 && near.empty() && all.size() == 1) return all.front();
  return std::nullopt;
}

/// The log goes on behind the last segment: a link that is zero was not.
bool EntryDamage::extend() {
  std::uint64_t const last = cells_.segments.back();
  auto const other = other_next(0, cells_.first_number + cells_.segments.size());
  if (!other || std::ranges::count(cells_.segments, *other) != 0) return false;
  put_link(last, *other);
  follow(*other);
  return true;
}

void EntryDamage::put_header(std::uint64_t at, SegmentHeader const& header) {
  PERDURE_ASSERT(says_segment(header));
  std::uint64_t words[sizeof header / sizeof(std::uint64_t)];
  std::memcpy(words, &header, sizeof header);
  for (std::size_t i = 0; i < std::size(words); ++i) put_word(at + i * sizeof words[i], words[i]);
  say("the header of the log's segment at byte " + std::to_string(at) + " had changed, put right");
}

void EntryDamage::put_link(std::uint64_t at, std::uint64_t next) {
  put_word(at + offsetof(SegmentHeader, next), next);
  say("the segment of the log at byte " + std::to_string(at) + " led to byte " +
      std::to_string(cells_.header_at(at).next) + " instead of " +
      (next == 0 ? std::string("none") : "byte " + std::to_string(next)) + ", put right");
}

}  // namespace perdure::wal
