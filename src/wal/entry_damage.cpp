// The walk over a damaged log: from head to head, past what cannot be read.
#include "wal/entry_damage.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "pm/host_verbs.hpp"
#include "pm/record_numbers.hpp"
#include "wal/entry_log.hpp"

namespace perdure::wal {
namespace {

constexpr std::uint64_t kNumbersTried = 1u << 16;  // of a head that has lost its own

std::string at_byte(Offset at) { return " at byte " + std::to_string(at.bytes); }
std::string batch(std::uint64_t number) { return "batch " + std::to_string(number); }

Status beyond_repair(std::string what) {
  return {Code::corrupt, std::move(what) +
                             ", which is beyond repair; nothing was changed: restore "
                             "a snapshot"};
}

}  // namespace

Status EntryDamage::look() {
  if (Status s = find_segments(); !s.ok()) return s;
  PERDURE_ASSERT(!cells_.segments.empty());
  pm::Root const& root = pool_->root();
  position_ = root.find(kEntrySegments)->value;
  last_ = root.find(kEntryNumbers)->value;
  return walk();
}

Status EntryDamage::walk() {
  for (;;) {
    auto extent = whole_head_at(position_, last_);
    std::optional<Found> next;
    if (!extent && is_cut_off(position_) && extend()) continue;
    if (extent && static_cast<std::uint32_t>(extent->kind) > kLastExtentKind) return {};
    if (!extent || !is_whole(*extent)) {
      next = next_whole(position_ + 1);
      if (!closed_ && !next) return {};  // what a crash cut off
    }
    if (!extent) {
      if (auto const head = near_head(position_, next)) {
        put_head(position_, *head, mutated("repair_heads_together") ? heads_ : found_heads_);
        say("the log of entries" + at_byte(cells_.offset(position_)) + ": the head of " +
            batch(head->number) + " had changed, put right");
        extent = EntryExtent{head->number, head->entries, static_cast<ExtentKind>(head->kind),
                             position_ + cells_.head_cells(), head->sum};
      }
    }
    if (extent) {
      if (!is_whole(*extent)) mend_entries(*extent);
      if (extent->kind == ExtentKind::session_end && session_) mend_session(*extent);
      if (Status s = take(*extent); !s.ok()) return s;
    } else if (next) {
      if (Status s = bridge(position_, *next); !s.ok()) return s;
    } else {
      end_transaction();
      return {};
    }
  }
}

/// Its entries have not been looked at; there is room for them.
std::optional<EntryExtent> EntryDamage::whole_head_at(std::uint64_t position,
                                                      std::uint64_t above) const {
  auto const extent = cells_.head_at(position, above);
  if (!extent || extent->entries > cells_.cells() - extent->first) return std::nullopt;
  return extent;
}

/// By the end of the segments that are known.
bool EntryDamage::is_cut_off(std::uint64_t position) const {
  return position + cells_.head_cells() > cells_.cells() ||
         cells_.head_at(position, last_).has_value();
}

/// The first extent from there on that is whole, and comes after those that were taken.
std::optional<EntryDamage::Found> EntryDamage::next_whole(std::uint64_t from) const {
  std::uint64_t const each = cells_.cells_each();
  if (from >= cells_.cells()) return std::nullopt;
  std::mutex mutex;
  std::vector<Found> found;
  std::uint64_t const first = from / each;
  workers_->for_chunks(cells_.segments.size() - first, 1, [&](std::size_t begin, std::size_t end) {
    for (std::uint64_t at = std::max(from, (first + begin) * each); at < (first + end) * each;
         ++at) {
      std::uint64_t number = 0;
      pm::read_bytes(&number, cells_.cell(at), sizeof number);
      if (number <= last_) continue;
      auto const extent = whole_head_at(at, last_);
      if (!extent) continue;
      std::lock_guard const lock(mutex);
      found.push_back({at, *extent});
    }
  });
  std::ranges::sort(found, {}, &Found::position);
  auto const whole =
      std::ranges::find_if(found, [&](Found const& one) { return is_whole(one.extent); });
  if (whole == found.end()) return std::nullopt;
  return *whole;
}

Status EntryDamage::take(EntryExtent const& extent) {
  bool const part = extent.kind == ExtentKind::part;
  if (parts_wait_ && !part && !is_commit(extent.kind))
    return beyond_repair("the log of entries has no end of the transaction before " +
                         batch(extent.number));
  if (session_.has_value() != (extent.kind == ExtentKind::session_end))
    return beyond_repair("the log of entries has " +
                         std::string(session_ ? "no end of the device session before "
                                              : "no device session before the end of ") +
                         batch(extent.number));
  session_.reset();
  if (extent.kind == ExtentKind::session) session_ = extent;
  parts_wait_ = part;
  position_ = extent.end();
  last_ = extent.number;
  return {};
}

/// Whoever closes a pool in order has ended the transaction that was open: where parts are left, it
/// was committed. A device session has ended, too.
void EntryDamage::end_transaction() {
  if (closed_ && session_) return put_session_end(last_ + 1);
  if (!closed_ || !parts_wait_ || position_ + cells_.head_cells() > cells_.cells()) return;
  put_head(position_, {last_ + 1, 0, static_cast<std::uint32_t>(ExtentKind::commit), 0, 0});
  say("the log of entries" + at_byte(cells_.offset(position_)) +
      ": the end of its last transaction was lost, put right");
}

/// What the session came to nobody else says, so its entries are judged.
void EntryDamage::put_session_end(std::uint64_t number) {
  lossy_ = true;
  std::uint64_t const before = dropped_;
  put_head(position_, {number, 0, static_cast<std::uint32_t>(ExtentKind::session_end),
                       keep_what_is_sure(*session_, true), 0});
  say("the log of entries" + at_byte(cells_.offset(position_)) +
      ": the end of the device session of " + batch(session_->number) + " was lost, put right; " +
      std::to_string(dropped_ - before) +
      " entries of the session that nothing else vouches for were dropped");
}

// ------------------------------------------------------------------------------------------------
// Heads

ExtentHead EntryDamage::head_at(std::uint64_t position) const {
  ExtentHead head;
  auto* const bytes = reinterpret_cast<std::byte*>(&head);
  cells_.each_of_head(position, [&](std::uint64_t from, std::size_t begin, std::size_t n) {
    pm::read_bytes(bytes + begin, cells_.cell(from), n);
  });
  return head;
}

void EntryDamage::put_head(std::uint64_t position, ExtentHead head) {
  put_head(position, head, heads_);
}

void EntryDamage::put_head(std::uint64_t position, ExtentHead head, std::vector<Change>& among) {
  PERDURE_ASSERT(head.number > 0 && head.entries <= cells_.cells());
  head.check = cells_.check_of(head);
  auto const* const bytes = reinterpret_cast<std::byte const*>(&head);
  cells_.each_of_head(position, [&](std::uint64_t to, std::size_t begin, std::size_t n) {
    for (std::size_t at = 0; at < n; at += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes + begin + at, sizeof word);
      among.push_back({cells_.offset(to) + at, word});
    }
  });
}

/// Whether such an extent may begin there, whatever its entries and its check are.
bool EntryDamage::may_stand(ExtentHead const& head, std::uint64_t position) const {
  return head.number > last_ && head.kind <= kLastExtentKind &&
         head.entries <= cells_.cells() - position - cells_.head_cells();
}

bool EntryDamage::fits(ExtentHead const& head, std::uint64_t position) const {
  return may_stand(head, position) && head.check == cells_.check_of(head);
}

/// That stood there: by one or two bits, or by a word of it. What the check should be does not
/// follow from its own bits, so there is one to compute for all of those.
std::optional<ExtentHead> EntryDamage::near_head(std::uint64_t position,
                                                 std::optional<Found> const& next) const {
  if (position + cells_.head_cells() > cells_.cells()) return std::nullopt;
  ExtentHead const damaged = head_at(position);
  constexpr std::uint32_t kBits = 8 * sizeof damaged, kOfCheck = 8 * offsetof(ExtentHead, check);
  for (std::uint32_t a = 0; a < kBits; ++a) {
    ExtentHead const one = flipped(damaged, a);
    if (fits(one, position)) return one;
    std::uint64_t const check = cells_.check_of(one);
    for (std::uint32_t b = a + 1; b < kBits; ++b) {
      ExtentHead const two = flipped(one, b);
      if (!may_stand(two, position)) continue;
      if (two.check == (b < kOfCheck ? cells_.check_of(two) : check)) return two;
    }
  }
  return head_of_words(damaged, position, next);
}

/// One word of it is not what it was: the others, the entries and what follows tell it.
std::optional<ExtentHead> EntryDamage::head_of_words(ExtentHead const& damaged,
                                                     std::uint64_t position,
                                                     std::optional<Found> const& next) const {
  std::uint64_t const first = position + cells_.head_cells(), room = cells_.cells() - first;
  // Numbers above those were never given to a batch: one there would hide all that is written next.
  std::uint64_t const most = mutated("repair_believes_any_number") ? ~std::uint64_t{0}
                             : next                                ? next->extent.number - 1
                                                                   : pm::leased_numbers(*pool_);
  auto const sum_with = [&](ExtentHead const& head) {
    EntryExtent const extent{head.number, head.entries, static_cast<ExtentKind>(head.kind), first,
                             head.sum};
    return sum_of_entries(extent.saying());
  };
  auto const told = [&](ExtentHead head) -> std::optional<ExtentHead> {
    if (head.number <= last_ || head.number > most || head.kind > kLastExtentKind ||
        head.entries > room || head.entries == 0)
      return std::nullopt;
    std::uint64_t const sum = sum_with(head);
    if (sum == head.sum && sum != 0) return head;  // its check is what changed
    head.sum = sum;
    if (fits(head, position)) return head;
    return std::nullopt;
  };
  // A check that matches says more than one that may be what changed.
  ExtentHead head = damaged;
  head.number = last_ + 1;
  bool const tries = !mutated("repair_believes_any_number") && may_stand(head, position);
  for (std::uint64_t i = 1; tries && i <= kNumbersTried && last_ + i <= most; ++i) {
    head.number = last_ + i;
    if (head.check == cells_.check_of(head)) return head;
  }
  if (auto const as_it_is = told(damaged)) return as_it_is;
  auto const of_session = head_of_session(damaged, position, next);
  if (of_session && of_session->number <= most) return of_session;
  if (!next || next->position < first) return std::nullopt;
  head.number = damaged.number;
  head.entries = static_cast<std::uint32_t>(next->position - first);
  for (head.kind = 0; head.kind <= kLastExtentKind; ++head.kind)
    if (fits(head, position)) return head;
  return std::nullopt;
}

/// Of a session that is told by its end, or of the end of one that has been taken.
std::optional<ExtentHead> EntryDamage::head_of_session(ExtentHead head, std::uint64_t position,
                                                       std::optional<Found> const& next) const {
  std::uint64_t const first = position + cells_.head_cells();
  if (session_) {
    std::uint64_t const sum = sum_of_entries(*session_);
    bool const is_end = head.kind == static_cast<std::uint32_t>(ExtentKind::session_end) &&
                        head.entries == 0 && head.number > last_;
    if (is_end && head.sum == sum && sum != 0) return head;  // its check is what changed
    head.sum = sum;
    return is_end && fits(head, position) ? std::optional(head) : std::nullopt;
  }
  bool const ended = next && next->extent.kind == ExtentKind::session_end;
  if (!ended || head.kind != static_cast<std::uint32_t>(ExtentKind::session) ||
      head.number <= last_ || head.number >= next->extent.number ||
      next->position != first + head.entries)
    return std::nullopt;
  head.sum = 0;
  return head;
}

// ------------------------------------------------------------------------------------------------
// Where a head is lost

/// The head of a device session, or of its end, which stands directly behind it. What a session
/// came to its end says, so entries that came through it are known.
Status EntryDamage::bridge_session(std::uint64_t position, Found const& next) {
  std::uint64_t const first = position + cells_.head_cells();
  bool const has_room = next.position >= first && last_ + 1 < next.extent.number &&
                        next.position - first <= ~std::uint32_t{0};
  if (!has_room || (session_ && parts_wait_))
    return beyond_repair("the log of entries" + at_byte(cells_.offset(position)) +
                         " has lost the head of a device session or of its end");
  ExtentHead head{last_ + 1, 0, static_cast<std::uint32_t>(ExtentKind::session_end), 0, 0};
  if (session_) {
    put_session_end(head.number);
  } else {
    head.kind = static_cast<std::uint32_t>(ExtentKind::session);
    head.entries = static_cast<std::uint32_t>(next.position - first);
    put_head(position, head);
    say("the log of entries" + at_byte(cells_.offset(position)) +
        ": the head of a device session was lost, put right");
  }
  return take(EntryExtent{head.number, head.entries, static_cast<ExtentKind>(head.kind), first, 0});
}

/// Cells whose head nothing tells get one that covers them all. Which extents they were is not
/// known: one, as a rule.
Status EntryDamage::bridge(std::uint64_t position, Found const& next) {
  bool const ends = next.extent.kind == ExtentKind::session_end;
  if (session_ || (ends && !parts_wait_)) return bridge_session(position, next);
  std::uint64_t const heads = cells_.head_cells();
  std::string const where = "the log of entries" + at_byte(cells_.offset(position));
  bool const goes_on = next.extent.kind == ExtentKind::part || is_commit(next.extent.kind);
  std::uint64_t first = position + heads, number = last_ + 1;
  if (next.position < first) return beyond_repair(where + " has lost the head of a batch");
  auto const put = [&](std::uint64_t at, ExtentKind kind, std::uint64_t entries) {
    ExtentHead head{number, static_cast<std::uint32_t>(entries), static_cast<std::uint32_t>(kind),
                    0, 0};
    EntryExtent const extent{number, entries, kind, at + heads, 0};
    head.sum = keep_what_is_sure(extent.saying(), false);
    put_head(at, head);
    return take(extent);
  };
  lossy_ = true;
  say(where + ": the head of a batch is lost, between those of number " + std::to_string(last_) +
      " and " + std::to_string(next.extent.number));
  if (parts_wait_ && !(goes_on && next.position > first)) {
    if (Status s = put(position, ExtentKind::commit, 0); !s.ok()) return s;
    if (next.position == first) return {};
    if (ends) return bridge_session(first, next);
    position = first;
    first += heads;
    ++number;
    if (next.position < first) return beyond_repair(where + " has lost the end of a transaction");
  }
  if (number >= next.extent.number || next.position - first > ~std::uint32_t{0})
    return beyond_repair(where + " has lost the head of a batch");
  std::uint64_t const entries = next.position - first;
  bool const part = goes_on && entries % 2 == 0;
  if (parts_wait_ && !part)
    return beyond_repair(where + " has lost the head of a transaction's batch");
  return put(position, part ? ExtentKind::part : ExtentKind::batch, entries);
}

// ------------------------------------------------------------------------------------------------

/// First heads as they were: what tells them are the words that nobody has changed, and the entries
/// as they are. A new sum over words that are still damaged would leave neither. Then entries
/// before heads, so that what a crash leaves of a head is told by its entries: the sum that it will
/// have, or its check.
void EntryDamage::apply() {
  if (!found_heads_.empty()) {
    apply(found_heads_);
    pm::order();
  }
  apply(changes_);
  if (!mutated("repair_heads_with_entries")) pm::order();
  apply(heads_);
  pm::order();
}

void EntryDamage::apply(std::vector<Change> const& changes) {
  for (Change const& change : changes) {
    PERDURE_ASSERT(change.at.bytes % sizeof change.word == 0 && change.at.bytes < pool_->bytes());
    pm::store_word(reinterpret_cast<std::uint64_t*>(pool_->base() + change.at.bytes), change.word);
  }
}

}  // namespace perdure::wal
