#include "store/gphash/log_follower.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <utility>

#include "base/assert.hpp"
#include "base/caught.hpp"
#include "base/hooks.hpp"
#include "pm/root.hpp"
#include "wal/entry_log.hpp"

namespace perdure::gphash {
namespace {

constexpr int kAttempts = 64;  // while the log is written anew under the reader
constexpr int kDamaged = 4;  // of them, that find the same damage

std::uint64_t load_now(std::byte const* at) {
  auto* const word = reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(at));
  return std::atomic_ref<std::uint64_t>(*word).load(std::memory_order_acquire);
}

/// What was read before it was there no later than what is read behind it.
void in_this_order() { std::atomic_thread_fence(std::memory_order_acquire); }

}  // namespace

LogFollower::LogFollower(std::string path, pm::PoolHeader const& h, std::byte const* base, Map map)
    : path_(std::move(path)),
      header_(h),
      base_(base),
      map_(std::move(map)),
      index_(h.key_bytes),
      records_(h) {
  next_.cells = wal::EntryCells(h);
  look_at(base, base);
}

void LogFollower::look_at(std::byte const* base, std::byte const* records) {
  std::lock_guard const following(following_);
  std::unique_lock const lock(mutex_);
  base_ = base;
  records_.base = records;
  mark_.cells.base = base;
  next_.cells.base = base;
}

LogFollower::Seen LogFollower::seen() const {
  std::shared_lock lock(mutex_);
  LogRecords records = records_;
  records.pool_bytes = mark_.pool_bytes;
  return {std::move(lock), &index_, records, version_};
}

Status LogFollower::damaged(std::string const& what) const {
  return {Code::corrupt,
          "pool " + path_ + ": " + what +
              "; open it with repair (perdure verify --repair), or restore a snapshot"};
}

// ------------------------------------------------------------------------------------------------
// Whether anything has come, or gone

LogFollower::RootWords LogFollower::root_words() const {
  return {load_now(base_ + pm::kRootOffset[0]), load_now(base_ + pm::kRootOffset[1])};
}

std::uint64_t LogFollower::change_word() const { return load_now(base_ + pm::kChangeWordOffset); }

bool LogFollower::is_there(Mark const& mark, std::uint64_t head, std::uint64_t number) {
  auto const extent = mark.cells.head_at(head, number - 1);
  return extent && extent->number == number;
}

/// Or perhaps: where the log goes on in a segment that is not known yet.
bool LogFollower::news_behind(Mark const& mark) const {
  wal::EntryCells const& cells = mark.cells;
  if (mark.end + cells.head_cells() > cells.cells())
    return cells.header_at(cells.segments.back()).next != 0;
  return cells.head_at(mark.end, mark.number).has_value();
}

/// Each look covers the ones before it. A head goes before anything else is written in its room;
/// those behind it go first; and a segment is used again once a root does not name it.
bool LogFollower::stands(Mark const& mark) const {
  if (!mark.known) return false;
  in_this_order();
  if (news_behind(mark) && !mutated("log_reader_ignores_news")) return false;
  in_this_order();
  if (mark.head && !is_there(mark, *mark.head, mark.number) &&
      !mutated("log_reader_ignores_reverts"))
    return false;
  in_this_order();
  // Segments behind the end are given back where no more are to be had.
  wal::EntryCells const& cells = mark.cells;
  for (std::uint64_t i = mark.end == 0 ? 0 : (mark.end - 1) / cells.cells_each();
       i + 1 < cells.segments.size(); ++i)
    if (cells.header_at(cells.segments[i]).next != cells.segments[i + 1]) return false;
  in_this_order();
  return root_words() == mark.roots;
}

bool LogFollower::stands(std::uint64_t version) const {
  std::shared_lock const lock(mutex_);
  return version == version_ && stands(mark_);
}

// ------------------------------------------------------------------------------------------------
// Following

Status LogFollower::follow(exec::Workers* workers) {
  std::lock_guard const following(following_);
  {
    std::shared_lock const lock(mutex_);
    if (stands(mark_) && !check_is_due()) return {};  // perhaps somebody else has followed
  }
  // In a forked child they are not there, and each one's share would be one more look at all.
  bool const there = workers != nullptr && process_ == this_process();
  workers_ = there ? workers : &alone_;
  Status s = caught([&] { return follow_log(); });
  workers_ = &alone_;
  if (!s.ok()) forget();
  return s;
}

Status LogFollower::follow_log() {
  int damages = 0;
  for (int n = 0; n < kAttempts; ++n) {
    if (n > 0) std::this_thread::yield();
    auto const done = attempt();
    if (done.ok() && done.value()) return {};
    if (done.ok()) continue;
    next_.known = false;
    bool const moves = root_words() != next_.roots;
    if (!moves && (done.status().code() != Code::corrupt || ++damages == kDamaged))
      return done.status();
  }
  return {Code::busy, "pool " + path_ + ": its log is written anew faster than it is read; " +
                          "read it with more time, or look at it live (live=True)"};
}

/// False: what was being read was let go meanwhile.
Result<bool> LogFollower::attempt() {
  next_.roots = root_words();
  Begin begin;
  if (Status s = read_root(begin); !s.ok()) return s;
  // The first segment's number is of this root: another life of it has another number, and may
  // still have what was written in this one.
  in_this_order();
  if (root_words() != next_.roots) return false;
  if (!continues(begin)) begin_anew(begin);
  auto const read = read_on();
  bool const applied = apply_waiting();
  if (!read || !read.value()) return read;
  if (!applied) return false;
  if (anew_ || check_is_due()) {
    if (Status s = check_end(); !s.ok()) return s;
    anew_ = false;
  }
  in_this_order();
  bool const there = !next_.head || is_there(next_, *next_.head, next_.number);
  in_this_order();
  if (root_words() != next_.roots || !there) return false;
  drop_segments();
  publish();
  return true;
}

Status LogFollower::read_root(Begin& begin) {
  auto const root = pm::newest_root(base_);
  if (!root) return damaged("neither copy of the root has a valid checksum");
  auto const mapped = map_();
  if (!mapped) return mapped.status();
  std::uint64_t const each = header_.superblock_bytes;
  next_.pool_bytes = std::min(mapped.value() / each, root->superblocks) * each;
  pm::RootEntry const* const first = root->find(wal::kEntrySegments);
  pm::RootEntry const* const above = root->find(wal::kEntryNumbers);
  if (first == nullptr || above == nullptr || first->offset == 0 || first->offset % each != 0 ||
      first->offset >= next_.pool_bytes || first->value >= next_.cells.cells_each())
    return damaged("the root names a log of entries that cannot be there");
  wal::SegmentHeader const header = next_.cells.header_at(first->offset);
  if (header.magic != wal::kSegmentMagic || header.crc != wal::EntryCells::crc_of(header))
    return damaged("the log of entries has no segment at byte " + std::to_string(first->offset) +
                   ", where one should be");
  begin = {first->offset, header.log_id, header.number, first->value, above->value};
  return {};
}

/// Whether what the index has is a beginning of what the log comes to. Parts may have gone.
bool LogFollower::continues(Begin const& begin) {
  wal::EntryCells& cells = next_.cells;
  if (!next_.known || cells.id != begin.id) return false;
  std::uint64_t const each = cells.cells_each(), head = cells.head_cells();
  auto const from_first = [&](std::uint64_t position) {
    return cells.first_number * each + position;
  };
  std::uint64_t const oldest = begin.segment_number * each + begin.cell;
  while (!parts_.empty() && (from_first(parts_.back().first - head) < oldest ||
                             !is_there(next_, parts_.back().first - head, parts_.back().number)))
    parts_.pop_back();
  set_newest();
  if (counted_.head && from_first(*counted_.head) >= oldest) {
    cells.segments.resize((next_.end + each - 1) / each);
    return is_there(next_, *counted_.head, counted_.number);
  }
  // It went with all before it, when the log was written anew: what follows stands at the
  // beginning.
  if (!parts_.empty() || counted_.number != begin.above || from_first(counted_.end) != oldest)
    return false;
  anchor(begin);
  return true;
}

void LogFollower::anchor(Begin const& begin) {
  next_.cells.id = begin.id;
  next_.cells.first_number = begin.segment_number;
  next_.cells.segments.assign(1, begin.segment);
  counted_ = {std::nullopt, begin.above, begin.cell};
  parts_.clear();
  set_newest();
}

void LogFollower::begin_anew(Begin const& begin) {
  {
    std::unique_lock const lock(mutex_);
    mark_.known = false;
    ++version_;
    index_.empty();
  }
  anchor(begin);
  next_.known = anew_ = touched_ = true;
  waiting_.clear();
  waiting_entries_ = 0;
}

void LogFollower::set_newest() {
  if (parts_.empty()) {
    next_.head = counted_.head, next_.number = counted_.number, next_.end = counted_.end;
  } else {
    Extent const& part = parts_.back();
    next_.head = part.first - next_.cells.head_cells();
    next_.number = part.number, next_.end = part.end();
  }
}

/// Before the newest extent that counts, and behind the room of the next one's head.
void LogFollower::drop_segments() {
  std::uint64_t const each = next_.cells.cells_each();
  std::uint64_t const room = (next_.end + next_.cells.head_cells() + each - 1) / each;
  if (room < next_.cells.segments.size()) next_.cells.segments.resize(room);
  std::uint64_t const gone = counted_.head.value_or(0) / each;
  if (gone == 0) return;
  auto& segments = next_.cells.segments;
  segments.erase(segments.begin(), segments.begin() + static_cast<std::ptrdiff_t>(gone));
  next_.cells.first_number += gone;
  *counted_.head -= gone * each;
  counted_.end -= gone * each;
  for (Extent& part : parts_) part.first -= gone * each;
  set_newest();
}

void LogFollower::publish() {
  Mark mark = next_;
  std::unique_lock const lock(mutex_);
  mark_ = std::move(mark);
  if (std::exchange(touched_, false)) ++version_;
}

void LogFollower::forget() {
  next_.known = false;
  std::unique_lock const lock(mutex_);
  mark_.known = false;
  ++version_;
  index_.clear();
}

// ------------------------------------------------------------------------------------------------
// Reading

/// Whether segments are known for cells up to that one. They are chained, and one is linked once
/// its header is ordered.
Result<bool> LogFollower::cover(std::uint64_t position) {
  wal::EntryCells& cells = next_.cells;
  while (cells.cells() < position) {
    std::uint64_t const next = cells.header_at(cells.segments.back()).next;
    if (next == 0) return false;
    if (next % header_.superblock_bytes != 0 || next >= next_.pool_bytes ||
        !cells.is_segment(next, cells.first_number + cells.segments.size()))
      return damaged("the log of entries has no segment at byte " + std::to_string(next) +
                     ", where one should be");
    cells.segments.push_back(next);
  }
  return true;
}

bool LogFollower::is_whole(Extent const& extent) const {
  return wal::EntryCells::is_borne_out(extent, [&] {
    Extent const said = extent.saying();
    return next_.cells.sum_of_cells(said, 0, said.entries);
  });
}

/// Of a batch that may not be ordered yet: its values come by themselves.
bool LogFollower::values_whole(Extent const& extent) const {
  LogRecords records = records_;
  records.pool_bytes = next_.pool_bytes;
  bool whole = true;
  std::uint32_t const each = next_.cells.cell_bytes();
  (void)next_.cells.sum_of_cells(extent, 0, extent.entries, [&](std::span<std::byte const> cells) {
    for (std::size_t at = 0; whole && at < cells.size(); at += each) {
      wal::LogEntry entry;
      std::memcpy(&entry, &cells[at], sizeof entry);
      if (wal::says_put(entry.what)) whole = records.has_record_of(cells.subspan(at, each));
    }
  });
  return whole;
}

/// The one behind the newest that was read, if it is there whole. One that is being written is not
/// ordered, and so nothing that it unlinks is used again.
Result<std::optional<LogFollower::Extent>> LogFollower::next_extent() {
  wal::EntryCells const& cells = next_.cells;
  std::optional<Extent> const none;
  auto known = cover(next_.end + cells.head_cells());
  if (!known) return known.status();
  if (!known.value()) return none;
  for (;;) {
    auto const extent = cells.head_at(next_.end, next_.number);
    if (!extent) return none;
    in_this_order();
    std::uint64_t const word = change_word();
    bool const written = word % 2 == 0;  // and so ordered
    known = cover(extent->end());
    if (!known) return known.status();
    if (!known.value() || !is_whole(*extent)) return none;
    if (Status s = fits_session(*extent); !s.ok()) return s;
    if (written || extent->kind != wal::ExtentKind::batch) return extent;
    known = cover(extent->end() + cells.head_cells());
    if (!known) return known.status();
    bool const followed = cells.head_at(extent->end(), extent->number).has_value();
    if (followed || values_whole(*extent)) return extent;
    // Where that change has ended meanwhile, the batch may be ordered, and its records used again.
    in_this_order();
    if (change_word() == word) return none;
  }
}

/// A session's end stands directly behind it, with what its entries come to, and nothing else does.
Status LogFollower::fits_session(Extent const& extent) const {
  bool const open = !parts_.empty() && parts_.back().kind == wal::ExtentKind::session;
  bool const ends = extent.kind == wal::ExtentKind::session_end;
  if (ends != open)
    return damaged("the log of entries has " +
                   std::string(ends ? "no device session before the end of number "
                                    : "no end of the device session before the batch of number ") +
                   std::to_string(extent.number));
  if (!ends) return {};
  Extent const& session = parts_.back();
  if (next_.cells.sum_of_cells(session, 0, session.entries) == extent.sum) return {};
  return damaged("the log of entries is damaged in the device session of number " +
                 std::to_string(session.number));
}

/// The number of the newest head: what comes behind it need not be read.
std::uint64_t LogFollower::goal() {
  std::uint64_t position = next_.end, number = next_.number;
  for (;;) {
    auto const known = cover(position + next_.cells.head_cells());
    if (!known || !known.value()) return number;
    auto const extent = next_.cells.head_at(position, number);
    if (!extent) return number;
    position = extent->end(), number = extent->number;
  }
}

Result<bool> LogFollower::read_on() {
  for (std::uint64_t const last = goal(); next_.number < last;) {
    auto const extent = next_extent();
    if (!extent) return extent.status();
    if (!extent.value()) return true;
    auto const taken = take(*extent.value());
    if (!taken || !taken.value()) return taken;
    set_newest();
  }
  return true;
}

/// What is damaged at the log's end looks as if nothing were there. Now and then, after changes.
bool LogFollower::check_is_due() const {
  return change_word() != checked_ && Clock::now() >= next_check_;
}

/// A whole extent behind the end means that those before it are damaged: the newest goes first.
Status LogFollower::check_end() {
  constexpr auto kLeast = std::chrono::milliseconds(50);
  auto const begin = Clock::now();
  checked_ = change_word();
  Status s = find_behind_end();
  auto const end = Clock::now();
  next_check_ = end + std::max<Clock::duration>(kLeast, 100 * (end - begin));
  return s;
}

Status LogFollower::find_behind_end() {
  wal::EntryCells& cells = next_.cells;
  for (bool more = true; more;) {
    auto const known = cover(cells.cells() + 1);
    if (!known) return known.status();
    more = known.value();
  }
  for (std::uint64_t at = next_.end + 1; at + cells.head_cells() <= cells.cells(); ++at) {
    auto const extent = cells.head_at(at, next_.number);
    if (!extent || extent->end() > cells.cells() || !is_whole(*extent)) continue;
    auto const next = next_extent();
    if (!next) return next.status();
    if (next.value()) return {};  // it has come meanwhile, and this one behind it
    in_this_order();
    if (!is_there(next_, at, extent->number)) return {};
    return damaged("the log of entries is damaged behind the batch of number " +
                   std::to_string(next_.number));
  }
  return {};
}

}  // namespace perdure::gphash
