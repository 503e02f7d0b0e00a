// Growth without a stop. It begins when a key finds no room: the root names a new top level and a
// retiring one, and the units of the table that refused keys move at once. The others follow, some
// before each write batch, until none is left and the retiring level is dropped. Invariants: a
// unit's entries are copied | order | it is emptied on the retiring level, and counts as moved.
// What it was emptied with is ordered by the point after the next batch's first phase, or by the
// root's: before any word changes that stale copies could contradict. No transaction is open, but
// in layout `log`, where nothing durable names slots.
#include <algorithm>
#include <iterator>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "base/log.hpp"
#include "store/gphash/growth.hpp"

namespace perdure {
namespace {

using exec::Counts;

// What a batch moves before its own work: so many slots an operation, which takes about as long as
// the operations do, but one unit at least, and one in so many of them at most.
constexpr std::uint64_t kSlotsAnOperation = 4;
constexpr std::uint64_t kShare = 8;

// The load that a large batch leaves a table of the default shape with before it displaces
// anything. It may come to 0.99, but each of those keys costs more than its share of a growth.
constexpr double kMostLoad = 0.97;

// A bulk load: new keys of one batch that found no room are so many, at least one to so many slots
// of the table, and more than it can take. It then grows as a whole, to this load at most. Unit by
// unit it would grow once for each pass of the batch, and each pass looks at all keys that wait.
constexpr std::uint64_t kBulkKeys = 1u << 14, kSlotsABulkKey = 64;
constexpr double kBulkLoad = 0.7;

/// The same part of the table in units of a larger one.
std::vector<std::uint32_t> finer(std::vector<std::uint32_t> const& units, std::uint32_t bits_more) {
  std::vector<std::uint32_t> all;
  for (std::uint32_t const unit : units)
    for (std::uint32_t part = 0; part < 1u << bits_more; ++part)
      all.push_back((unit << bits_more) + part);
  return all;
}

void tell(Core const& core, std::string_view what, std::string message) noexcept try {
  log::note(LogLevel::info, what, core.path, std::move(message),
            {{"slots", core.table.slots()}, {"records", core.counters.records()}});
} catch (...) {  // growing needs the memory more
}

bool only_no_space(Status const& s) { return s.ok() || s.code() == Code::no_space; }

}  // namespace

/// Keys chosen to collide must not take all memory: a table that is full while nearly empty stays.
Status Growth::check_worth_growing() {
  constexpr std::uint64_t kSmall = 1u << 20;
  constexpr std::uint64_t kEmptiest = 4096;
  std::uint64_t const records = core_.counters.records();
  if (core_.table.slots() < kSmall || records >= core_.table.slots() / kEmptiest) return {};
  return {Code::no_space, "pool " + core_.path + ": " + std::to_string(records) +
                              " records fill all candidate slots of a key in a table of " +
                              std::to_string(core_.table.slots()) +
                              "; these keys collide, and growing would not help"};
}

/// A new level may need superblocks that hold no record: so the heap has its records back
/// meanwhile.
Status Growth::make_level(std::function<Status()> const& make) {
  PERDURE_ASSERT(core_.is_exclusive() && core_.device_session == nullptr);
  bool const leased = records_.leased();
  if (Status s = records_.end_lease(); !s.ok()) return s;
  PERDURE_ASSERT(!records_.leased());
  Status const made = make();
  if (leased) {
    // Without memory for it the heap keeps them: see BatchWriter::release_records().
    if (Status s = records_.begin_lease(); !only_no_space(s)) return s;
  }
  return made;
}

Status Growth::begin() {
  if (Status s = make_level([&] { return core_.table.begin_growth(core_.workers); }); !s.ok())
    return s;
  PERDURE_ASSERT(core_.table.growing() && core_.table.units_left() == core_.table.units());
  stuck_units_.clear();
  ++core_.generation;
  core_.counters.add_growth(1);
  Status const set = core_.show_table();
  if (set.ok() && log::wants(LogLevel::info)) tell(core_, "growth_begun", "begins to grow");
  return set.code() == Code::no_space ? abandon(set) : set;
}

/// The device has no memory for the larger table: back to the one before, of which nothing has
/// moved.
Status Growth::abandon(Status const& why) {
  PERDURE_ASSERT(core_.table.units_left() == core_.table.units());  // none has moved
  core_.table.give_up({});
  PERDURE_ASSERT(!core_.table.growing());
  core_.counters.add_growth(-1);
  Status back = core_.show_table();
  if (back.ok()) back = core_.engine->refresh();
  if (back.ok()) return why;
  return {Code::device_error,
          why.message() + "; then, going back to the table as it was: " + back.message()};
}

/// Before a write batch: its share of a growth that is under way.
Status Growth::advance(std::uint64_t operations) {
  if (!core_.table.growing()) return {};
  PERDURE_ASSERT(core_.transaction == nullptr || core_.logged());  // undo entries name slots
  PERDURE_ASSERT(core_.table.unit_slots() > 0);
  std::uint64_t const share = std::min(operations * kSlotsAnOperation / core_.table.unit_slots(),
                                       core_.table.units() / kShare);
  Status const s = move_units(core_.table.unmoved(std::max<std::uint64_t>(1, share), stuck_units_));
  return only_no_space(s) ? Status{} : s;
}

bool Growth::is_bulk(std::uint64_t waiting) const {
  return waiting >= kBulkKeys && waiting * kSlotsABulkKey >= core_.table.slots() &&
         !may_take(waiting);
}

bool Growth::may_take(std::uint64_t more) const { return load_with(more) <= kMostLoad; }

double Growth::load_with(std::uint64_t more) const {
  PERDURE_ASSERT(core_.table.usable_slots() > 0);
  return static_cast<double>(core_.counters.records() + more) /
         static_cast<double>(core_.table.usable_slots());
}

/// So many new keys of a batch found no room: their units move. Where they have, the table is too
/// small even when it has grown: then this growth ends, and the next one begins.
Status Growth::make_room(std::uint64_t waiting) {
  PERDURE_ASSERT(waiting > 0 && core_.health.changing);
  auto refused = core_.engine->units().take_refused();
  if (!refused) return refused.status();
  if (is_bulk(waiting)) return grow_for(waiting, kBulkLoad);
  std::vector<std::uint32_t> units = std::move(*refused);
  std::vector<std::uint32_t> too_small;
  for (std::uint32_t const unit : units)
    if (core_.table.growing() && core_.table.view().unit_moved(unit)) too_small.push_back(unit);
  if (!too_small.empty()) {
    std::uint32_t const bits = core_.table.view().unit_bits;
    if (Status s = complete(); !s.ok()) return s;
    PERDURE_ASSERT(!core_.table.growing() && core_.table.view().unit_bits >= bits);
    units = finer(too_small, core_.table.view().unit_bits - bits);
  }
  if (!core_.table.growing()) {
    if (Status s = check_worth_growing(); !s.ok()) return s;
    if (Status s = begin(); !s.ok()) return s;
  }
  return move_units(std::move(units));
}

Status Growth::complete() { return move_units(core_.table.unmoved(core_.table.units(), {})); }

/// For those who need room made before they begin: they say for how much, so an empty table grows.
Status Growth::grow_for(std::uint64_t more, double most_load) {
  PERDURE_ASSERT(core_.is_exclusive() && core_.health.changing);
  auto const grow = [&]() -> Status {
    if (Status s = begin(); !s.ok()) return s;
    return complete();
  };
  // What answers no_space may have left a growth under way, whose units find no room: no other can
  // begin then.
  for (Status done = complete();; done = grow()) {
    if (!only_no_space(done)) return core_.health.fail(done);
    if (!core_.options.grow || load_with(more) <= most_load) return {};
    if (done.ok()) continue;
    std::string const named =
        done.message().starts_with("pool ") ? "" : "pool " + core_.path + ", making room: ";
    return {done.code(), named + done.message()};
  }
}

/// Moves units that have not moved, and those of them that find no room in a wider table. Refused
/// with no_space, some stay where they are; every key is found all the same.
Status Growth::move_units(std::vector<std::uint32_t> units) {
  while (!units.empty()) {
    PERDURE_ASSERT(core_.is_exclusive() && core_.table.growing());
    PERDURE_ASSERT(!kCostlyAssertions || std::ranges::is_sorted(units));
    PERDURE_ASSERT(units.back() < core_.table.units());
    auto copied = core_.engine->units().rehash(units);
    if (!copied) return copied.status();
    core_.counters.add(*copied);
    std::vector<std::uint32_t> stuck;
    if ((*copied)[BatchCounts::full] != 0 && !mutated("rehash_ignores_full")) {
      auto refused = core_.engine->units().take_refused();
      if (!refused) return refused.status();
      std::set_intersection(units.begin(), units.end(), refused->begin(), refused->end(),
                            std::back_inserter(stuck));
    }
    std::vector<std::uint32_t> moved;
    std::set_difference(units.begin(), units.end(), stuck.begin(), stuck.end(),
                        std::back_inserter(moved));
    PERDURE_ASSERT(moved.size() + stuck.size() == units.size());
    if (Status s = note_moved(moved); !s.ok()) return s;
    if (stuck.empty()) return {};
    if (Status s = widen(stuck); !s.ok()) return s;
    units = std::move(stuck);
  }
  return {};
}

/// Their copies are ordered. With the last of them the retiring level goes as a whole.
Status Growth::note_moved(std::vector<std::uint32_t> const& units) {
  if (!mutated("scan_ignores_moved_units")) ++core_.generation;
  PERDURE_ASSERT(units.size() <= core_.table.units_left());
  if (units.size() == core_.table.units_left()) {
    core_.table.finish_growth();
    if (log::wants(LogLevel::info)) tell(core_, "growth_ended", "has grown");
    return core_.show_table();
  }
  if (units.empty()) return {};
  auto emptied = core_.engine->units().empty(units);
  if (!emptied) return emptied.status();
  core_.counters.add(*emptied);
  core_.table.moved(units);
  return core_.engine->units().set_moved(core_.table.moved_bits());
}

/// Extreme shapes only: these units' entries find no room on the new levels. The new top gives way
/// to a larger one.
Status Growth::widen(std::vector<std::uint32_t> const& stuck) {
  PERDURE_ASSERT(!stuck.empty() && stuck.size() <= core_.table.units_left());
  bool const some_moved = core_.table.units_left() != core_.table.units();
  if (core_.logged() && (some_moved || !check_worth_growing().ok())) return leave(stuck);
  Status const wider = make_level([&] { return core_.table.widen(core_.workers); });
  if (!only_no_space(wider)) return wider;
  if (core_.logged()) {
    if (!wider.ok()) return leave(stuck);
    Status const set = core_.show_table();
    return set.code() == Code::no_space ? abandon(set) : set;
  }
  if (!wider.ok()) {
    core_.table.give_up(stuck);
    stuck_units_ = stuck;
    PERDURE_ASSERT(core_.table.growing() == some_moved);
    if (!core_.table.growing()) core_.counters.add_growth(-1);
  }
  if (Status s = core_.show_table(); !s.ok()) return s;
  if (wider.ok() && !some_moved) return {};
  Status const followed = core_.engine->refresh();
  return followed.ok() ? wider : followed;
}

/// Layout `log`, whose words are the engine's, so that nobody brings what moved units hold to a
/// wider level: these units stay, and if none has moved, so does the table. It takes many keys of
/// equal hashes, which anybody can make, to come here; an opening puts all keys into new levels.
Status Growth::leave(std::vector<std::uint32_t> const& stuck) {
  Status const why{Code::no_space,
                   "pool " + core_.path + ": keys of equal hashes find no room in a larger table"};
  if (Status s = core_.engine->units().clear_copies(stuck); !s.ok()) return s;
  stuck_units_ = stuck;
  return core_.table.units_left() == core_.table.units() ? abandon(why) : why;
}

}  // namespace perdure
