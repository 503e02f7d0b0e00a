// Growth without a stop. It begins when a key finds no room: the root names a new top level and a
// retiring one, and the units of the table that refused keys move at once. The others follow, some
// before each write batch, until none is left and the retiring level is dropped. Invariants: a
// unit's entries are copied | order | it is emptied on the retiring level, and counts as moved.
// What it was emptied with is ordered by the point after the next batch's first phase, or by the
// root's: before any word changes that stale copies could contradict. No transaction is open.
#include <algorithm>
#include <iterator>

#include "base/hooks.hpp"
#include "store/gphash/gphash_store.hpp"

namespace perdure {
namespace {

using exec::Counts;

// What a batch moves before its own work: so many slots an operation, which takes about as long as
// the operations do, but one unit at least, and one in so many of them at most.
constexpr std::uint64_t kSlotsAnOperation = 4;
constexpr std::uint64_t kShare = 8;

// A bulk load: new keys of one batch that found no room are so many, at least one to so many slots
// of the table, and more than it can take. It then grows as a whole, to this load at most. Unit by
// unit it would grow once for each round of the batch, and each round looks at all keys that wait.
constexpr std::uint64_t kBulkKeys = 1u << 14, kSlotsABulkKey = 16;
constexpr double kBulkLoad = 0.7;

/// The same part of the table in units of a larger one.
std::vector<std::uint32_t> finer(std::vector<std::uint32_t> const& units, std::uint32_t bits_more) {
  std::vector<std::uint32_t> all;
  for (std::uint32_t const unit : units)
    for (std::uint32_t part = 0; part < 1u << bits_more; ++part)
      all.push_back((unit << bits_more) + part);
  return all;
}

bool only_no_space(Status const& s) { return s.ok() || s.code() == Code::no_space; }

}  // namespace

/// Keys chosen to collide must not take all memory: a table that is full while nearly empty stays.
Status GphashStore::check_worth_growing() {
  constexpr std::uint64_t kSmall = 1u << 20;
  constexpr std::uint64_t kEmptiest = 4096;
  std::lock_guard const lock(stats_mutex_);
  if (table_.slots() < kSmall || records_ >= table_.slots() / kEmptiest) return {};
  return {Code::no_space, "pool " + path + ": " + std::to_string(records_) +
                              " records fill all candidate slots of a key in a table of " +
                              std::to_string(table_.slots()) +
                              "; these keys collide, and growing would not help"};
}

/// A new level may need superblocks that hold no record: so the heap has its records back
/// meanwhile.
Status GphashStore::make_level(std::function<Status()> const& make) {
  bool const lent = loan_.has_value();
  if (Status s = take_records_back(); !s.ok()) return s;
  Status const made = make();
  if (lent) {
    // Without memory for it the heap keeps them: see finish_records().
    if (Status s = lend_records(); !only_no_space(s)) return s;
  }
  return made;
}

Status GphashStore::begin_growth() {
  if (Status s = check_worth_growing(); !s.ok()) return s;
  if (Status s = make_level([&] { return table_.begin_growth(workers_); }); !s.ok()) return s;
  stuck_units_.clear();
  ++generation_;
  {
    std::lock_guard const lock(stats_mutex_);
    ++growths_;
  }
  Status const set = engine_->set_table(table_.view(), table_.slots());
  return set.code() == Code::no_space ? abandon_growth(set) : set;
}

/// The device has no memory for the larger table: back to the one before, of which nothing has
/// moved.
Status GphashStore::abandon_growth(Status const& why) {
  table_.give_up({});
  {
    std::lock_guard const lock(stats_mutex_);
    --growths_;
  }
  Status back = engine_->set_table(table_.view(), table_.slots());
  if (back.ok()) back = engine_->refresh();
  if (back.ok()) return why;
  return {Code::device_error,
          why.message() + "; then, going back to the table as it was: " + back.message()};
}

/// Before a write batch: its share of a growth that is under way.
Status GphashStore::advance_growth(std::uint64_t operations) {
  if (!table_.growing()) return {};
  std::uint64_t const share =
      std::min(operations * kSlotsAnOperation / table_.unit_slots(), table_.units() / kShare);
  Status const s = move_units(table_.unmoved(std::max<std::uint64_t>(1, share), stuck_units_));
  return only_no_space(s) ? Status{} : s;
}

/// More than it has slots for, so that no search for one is worth its time.
bool GphashStore::is_bulk(std::uint64_t waiting) const {
  return waiting >= kBulkKeys && waiting * kSlotsABulkKey >= table_.slots() &&
         load_with(waiting) > 1;
}

double GphashStore::load_with(std::uint64_t more) const {
  std::lock_guard const lock(stats_mutex_);
  return static_cast<double>(records_ + more) / static_cast<double>(table_.usable_slots());
}

/// So many new keys of a batch found no room: their units move. Where they have, the table is too
/// small even when it has grown: then this growth ends, and the next one begins.
Status GphashStore::make_room(std::uint64_t waiting) {
  auto refused = engine_->take_refused();
  if (!refused) return refused.status();
  if (is_bulk(waiting)) return grow_for(waiting, kBulkLoad);
  std::vector<std::uint32_t> units = std::move(*refused);
  std::vector<std::uint32_t> too_small;
  for (std::uint32_t const unit : units)
    if (table_.growing() && table_.view().unit_moved(unit)) too_small.push_back(unit);
  if (!too_small.empty()) {
    std::uint32_t const bits = table_.view().unit_bits;
    if (Status s = complete_growth(); !s.ok()) return s;
    units = finer(too_small, table_.view().unit_bits - bits);
  }
  if (!table_.growing()) {
    if (Status s = begin_growth(); !s.ok()) return s;
  }
  return move_units(std::move(units));
}

Status GphashStore::complete_growth() { return move_units(table_.unmoved(table_.units(), {})); }

/// For those who need room made before they begin.
Status GphashStore::grow_for(std::uint64_t more, double most_load) {
  auto const grow = [&]() -> Status {
    if (Status s = begin_growth(); !s.ok()) return s;
    return complete_growth();
  };
  if (Status s = complete_growth(); !only_no_space(s)) return fail(s);
  while (options.grow && load_with(more) > most_load) {
    Status const s = grow();
    if (!only_no_space(s)) return fail(s);
    if (s.ok()) continue;
    std::string const named =
        s.message().starts_with("pool ") ? "" : "pool " + path + ", making room: ";
    return {s.code(), named + s.message()};
  }
  return {};
}

/// Moves units that have not moved, and those of them that find no room in a wider table. Refused
/// with no_space, some stay where they are; every key is found all the same.
Status GphashStore::move_units(std::vector<std::uint32_t> units) {
  while (!units.empty()) {
    auto copied = engine_->rehash(units);
    if (!copied) return copied.status();
    add(*copied);
    std::vector<std::uint32_t> stuck;
    if ((*copied)[Counts::full] != 0 && !mutated("rehash_ignores_full")) {
      auto refused = engine_->take_refused();
      if (!refused) return refused.status();
      std::set_intersection(units.begin(), units.end(), refused->begin(), refused->end(),
                            std::back_inserter(stuck));
    }
    std::vector<std::uint32_t> moved;
    std::set_difference(units.begin(), units.end(), stuck.begin(), stuck.end(),
                        std::back_inserter(moved));
    if (Status s = note_moved(moved); !s.ok()) return s;
    if (stuck.empty()) return {};
    if (Status s = widen(stuck); !s.ok()) return s;
    units = std::move(stuck);
  }
  return {};
}

/// Their copies are ordered. With the last of them the retiring level goes as a whole.
Status GphashStore::note_moved(std::vector<std::uint32_t> const& units) {
  if (!mutated("scan_ignores_moved_units")) ++generation_;
  if (units.size() == table_.units_left()) {
    table_.finish_growth();
    return engine_->set_table(table_.view(), table_.slots());
  }
  if (units.empty()) return {};
  auto emptied = engine_->empty(units);
  if (!emptied) return emptied.status();
  add(*emptied);
  table_.moved(units);
  return engine_->set_moved(table_.moved_bits());
}

/// Extreme shapes only: these units' entries find no room on the new levels. The new top gives way
/// to a larger one.
Status GphashStore::widen(std::vector<std::uint32_t> const& stuck) {
  bool const some_moved = table_.units_left() != table_.units();
  Status const wider = make_level([&] { return table_.widen(workers_); });
  if (!only_no_space(wider)) return wider;
  if (!wider.ok()) {
    table_.give_up(stuck);
    stuck_units_ = stuck;
    std::lock_guard const lock(stats_mutex_);
    growths_ -= table_.growing() ? 0 : 1;
  }
  if (Status s = engine_->set_table(table_.view(), table_.slots()); !s.ok()) return s;
  if (wider.ok() && !some_moved) return {};
  Status const followed = engine_->refresh();
  return followed.ok() ? wider : followed;
}

}  // namespace perdure
