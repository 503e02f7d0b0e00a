#include "explore/repair/repair_runner.hpp"

#include <algorithm>
#include <utility>

#include "explore/judging.hpp"
#include "index/gphash/candidates.hpp"
#include "pm/pool_format.hpp"

namespace perdure::explore {
namespace {

using exec::SimSchedule;
using exec::SimScheduler;

constexpr std::uint64_t kDamagesTried = 8;  // until one is repaired
constexpr std::uint32_t kNoteWord = pm::kRepairNoteOffset / 8;  // says whether lines wait
constexpr std::string_view kWaits = "repaired, and not acknowledged: ";

bool says(std::string const& line, std::string_view what) {
  return line.find(what) != std::string::npos;
}

/// That something is changed; others tell what was found, or how it ended.
bool is_about_a_change(std::string const& line) {
  return says(line, "put right") || says(line, "dropped") || says(line, "is lost");
}

bool note_is_damaged(std::vector<std::string> const& lines) {
  return std::ranges::any_of(lines, [](std::string const& line) {
    return says(line, "what was noted") && says(line, "is damaged");
  });
}

/// In layout `log` a schedule says which slot an entry comes to.
std::string without_slot(std::string line) {
  std::size_t const at = line.find("slot "), comma = line.find(", ", at);
  return at == line.npos || comma == line.npos ? line : line.erase(at, comma + 2 - at);
}

bool hits_records_and_more(Arena const& a, std::vector<Flip> const& damage) {
  constexpr std::uint32_t kEach = pm::kMinSuperblock / 8;
  auto const of_records = [&](Flip const& flip) {
    return static_cast<std::uint32_t>(a.now(flip.word / kEach * kEach)) == pm::kSuperblockMagic;
  };
  auto const n = std::ranges::count_if(damage, of_records);
  return n != 0 && n != std::ssize(damage);
}

std::string shown_key(std::size_t k, Contents const& contents) {
  return name_of(k) + (contents[k] == kDamagedValue ? " is damaged" : " is " + shown(contents[k]));
}

}  // namespace

bool RepairRunner::Repaired::lossy() const {
  return dropped != 0 || std::ranges::any_of(answers.lines, [](std::string const& line) {
           return says(line, "older") || says(line, "dropped");
         });
}

std::string RepairRunner::describe(std::uint64_t scenario_seed) const {
  std::string text = make_scenario(scenario_seed, options_.layout, options_.bounds).describe();
  if (scenario_seed == seed_) text += described(damage_, session_.ending);
  for (std::string const& line : repaired_.answers.lines) text += "\n  " + line;
  return text;
}

std::uint64_t RepairRunner::hash_of_oracle(std::size_t oracle) const {
  return mix(oracle, hash_of(repaired_.answers.contents));
}

// ------------------------------------------------------------------------------------------------
// The pool, and its damage

bool RepairRunner::set_up(std::uint64_t scenario_seed) {
  scenario_ = make_scenario(scenario_seed, options_.layout, options_.bounds);
  machine = scenario_->machine;
  gphash::explored_window_bits = machine.window_bits;
  SimScheduler scheduler({});
  Simulated const simulated(scheduler, tracker_);
  if (write_session(arena_, *scenario_, session_)) return false;
  State const sound = medium_.now();
  for (std::uint64_t n = 0; n < kDamagesTried; ++n) {
    medium_.back_to(sound);
    if (tries_damage(mix(scenario_seed, n))) break;
  }
  return true;
}

/// Whether a repair of it changes anything, or is refused.
bool RepairRunner::tries_damage(std::uint64_t random) {
  damage_ = draw_damage(arena_, random);
  // After a kill the last batches may be gone: what is changed of their records and of the log
  // nobody tells from that.
  if (session_.ending != Ending::closed && hits_records_and_more(arena_, damage_)) damage_.clear();
  for (Flip const& flip : damage_) arena_.set(flip.word, arena_.now(flip.word) ^ flip.bits);
  base_ = medium_.now();
  repaired_ = {};
  repaired_.opens_plainly = Store::open(kArenaPath, repair_options(false)).ok();
  medium_.back_to(base_);
  if (auto store = Store::open(kArenaPath, repair_options(true))) {
    repaired_.dropped = store->recovery().dropped;
    if (ask(*store, repaired_.answers)) repaired_.answers.lines.push_back("found in a run");
  } else {
    repaired_.refused = true;
  }
  medium_.back_to(base_);
  return repaired_.refused || !repaired_.answers.lines.empty();
}

// ------------------------------------------------------------------------------------------------
// A repair that nothing cuts off

Crasher::Forward RepairRunner::run(SimSchedule const& schedule) {
  Forward forward;
  medium_.back_to(base_);
  SimScheduler scheduler(schedule);
  Simulated const simulated(scheduler, tracker_);
  tracker_.recorder.record(true);
  tracker_.recorder.set_oracle(static_cast<std::size_t>(Stage::unsaid));
  forward.wrong = whole_run();
  forward.taken = scheduler.taken();
  forward.others = scheduler.others();
  end_run(forward, scheduler);
  if (repaired_.refused && !forward.windows.empty() && !forward.wrong)
    forward.wrong = "a repair that is refused has changed the pool";
  tell_stages(forward.windows);
  return forward;
}

std::optional<std::string> RepairRunner::whole_run() {
  auto store = Store::open(kArenaPath, repair_options(true));
  if (Totals* const t = progress_.counted()) {
    t->repairs.refused += !store;
    t->repairs.mended += store && !repaired_.answers.lines.empty();
    t->repairs.lossy += store && repaired_.lossy();
    t->repairs.unseen += repaired_.opens_plainly;
  }
  if (!store) {
    bool const corrupt = store.status().code() == Code::corrupt;
    return corrupt ? std::nullopt : std::optional("a repair: " + store.status().message());
  }
  tracker_.recorder.cut(true);
  tracker_.recorder.set_oracle(static_cast<std::size_t>(Stage::over));
  Answers now;
  if (auto wrong = ask(*store, now)) return "after a repair, " + *wrong;
  if (now != repaired_.answers) return "a repair comes to something else the second time";
  if (auto wrong = check_truth()) return wrong;
  return settle(*store, now);
}

/// Before its first lines wait, a repair has changed nothing.
void RepairRunner::tell_stages(std::vector<Window>& windows) const {
  bool said = false;
  for (Window& w : windows) {
    if (said && w.oracle == static_cast<std::size_t>(Stage::unsaid))
      w.oracle = static_cast<std::size_t>(Stage::said);
    said |= std::ranges::any_of(w.events, [](Event const& e) { return e.word == kNoteWord; });
  }
}

/// Whatever it answers, the session has written; unless it says otherwise, last of all.
std::optional<std::string> RepairRunner::check_truth() const {
  Contents const& found = repaired_.answers.contents;
  Contents known = found;
  for (std::size_t k = 0; k < kKeys; ++k) {
    bool const hides = repaired_.answers.damaged != 0 && !found[k];
    if (found[k] == kDamagedValue || hides)
      known[k] = session_.states.back()[k];
    else if (found[k] && !session_.written[k].contains(*found[k]))
      return "after a repair, " + shown_key(k, found) + ", which nobody wrote there";
  }
  bool const in_doubt = std::ranges::any_of(repaired_.answers.lines, [](std::string const& line) {
    return says(line, "nothing vouches");
  });
  if (in_doubt && repaired_.answers.damaged != 0)
    return "what nothing vouches for stays, and is damaged";
  if (repaired_.lossy()) return std::nullopt;
  bool const closed = session_.ending == Ending::closed;
  if (closed ? known == session_.states.back() : session_.were(known)) return std::nullopt;
  return "a repair says nothing of loss, and the pool is not what it was";
}

// ------------------------------------------------------------------------------------------------
// Crashes

std::optional<std::string> RepairRunner::ask(Store& store, Answers& answers) {
  std::vector<std::byte> keys;
  std::vector<std::int64_t> offsets{0};
  for (std::size_t k = 0; k < kKeys; ++k) {
    scenario_->add_key(k, keys);
    offsets.push_back(static_cast<std::int64_t>(keys.size()));
  }
  Column const column{keys.data(), scenario_->key_bytes == 0 ? offsets.data() : nullptr,
                      scenario_->key_bytes, kKeys, MemorySpace::host};
  std::vector<KeyStatus> statuses(kKeys);
  auto got = store.get_variable(column, statuses);
  if (!got) return "get: " + got.status().message();
  std::uint64_t damaged = 0;
  for (std::size_t k = 0; k < kKeys; ++k) {
    std::int64_t const at = got->offsets[k];
    auto const bytes = static_cast<std::size_t>(got->offsets[k + 1] - at);
    answers.contents[k].reset();
    if (statuses[k] == KeyStatus::corrupt) answers.contents[k] = kDamagedValue;
    if (statuses[k] == KeyStatus::ok)
      answers.contents[k] = scenario_->find_value(got->data.data() + at, bytes);
    if (statuses[k] == KeyStatus::ok && !answers.contents[k])
      return name_of(k) + " has a value that nobody wrote";
    damaged += answers.contents[k] == kDamagedValue;
  }
  auto report = store.verify();
  if (!report) return "verify: " + report.status().message();
  answers.lines.clear();
  for (std::string const& fault : report->faults)
    if (fault.starts_with(kWaits)) answers.lines.push_back(fault.substr(kWaits.size()));
  answers.damaged = report->fault_count - answers.lines.size();
  if (scenario_->layout == Layout::log) {
    std::ranges::transform(answers.lines, answers.lines.begin(), without_slot);
    std::ranges::sort(answers.lines);
  }
  // A record whose key has changed no get meets; one that looks like another key's, that key's
  // does.
  std::uint64_t const found = count(answers.contents);
  if (answers.damaged == 0 && (damaged != 0 || report->records != found))
    return "verify counts " + std::to_string(report->records) + " records of " +
           std::to_string(found) + ", and gets find " + std::to_string(damaged) + " damaged";
  Contents scanned;
  if (answers.damaged != 0) return std::nullopt;  // a scan ends there
  if (auto wrong = scan_contents(store, *scenario_, scanned)) return wrong;
  if (scanned != answers.contents) return "a scan finds what gets do not";
  return std::nullopt;
}

/// Whatever was changed, they tell: as the repair did that nothing cut off.
std::optional<std::string> RepairRunner::check_lines(std::vector<std::string> const& lines,
                                                     Stage stage) const {
  auto const& all = repaired_.answers.lines;
  if (lines.empty() && !all.empty()) return "no line says what a repair has changed";
  // An addition to lines that wait may be torn; the first ones, and those that stay, may not.
  if (note_is_damaged(lines))
    return stage == Stage::said ? std::nullopt
                                : std::optional<std::string>("what a repair noted is damaged");
  for (std::string const& line : all)
    if (is_about_a_change(line) && std::ranges::count(lines, line) == 0)
      return "no line says any more: " + line;
  return std::nullopt;
}

/// Once it is repaired: it closes, opens without a repair, and has the lines until somebody
/// acknowledges them. One more repair changes nothing.
std::optional<std::string> RepairRunner::settle(Store& store, Answers const& now) {
  if (Status const s = store.close(); !s.ok()) return "close: " + s.message();
  auto plain = Store::open(kArenaPath, repair_options(false));
  if (!plain) return "what was repaired does not open: " + plain.status().message();
  Answers then;
  if (auto wrong = ask(*plain, then)) return "opened after a repair, " + *wrong;
  if (then != now) return "opened after a repair, the pool answers something else";
  tracker_.recorder.cut(false);
  tracker_.recorder.record(false);  // from here on it has other contents, and no lines
  if (Status const s = plain->acknowledge_repair(); !s.ok()) return "acknowledge: " + s.message();
  if (now.damaged == 0) {
    Batch const more = further_writes(now.contents);
    Columns columns(*scenario_, more);
    if (Status const s = columns.apply(*plain); !s.ok()) return "a further write: " + s.message();
    apply(more, then.contents);
  }
  if (Status const s = plain->close(); !s.ok()) return "close: " + s.message();
  then.lines.clear();
  auto again = Store::open(kArenaPath, repair_options(true));
  if (!again) return "a further repair fails: " + again.status().message();
  if (again->recovery().repaired) return "a further repair finds something to mend";
  Answers last;
  if (auto wrong = ask(*again, last)) return "after a further repair, " + *wrong;
  return last == then ? std::nullopt : std::optional("a further repair changes something");
}

std::optional<std::string> RepairRunner::check_contents(Store& store, Answers& found) {
  if (auto wrong = ask(store, found)) return "after a crash, " + *wrong;
  // Of a loss: what stays of a head that is given up may be told once words of it are zero.
  Contents const& had = session_.states.back();
  for (std::size_t k = 0; k < kKeys; ++k)
    if (found.contents[k] != repaired_.answers.contents[k] &&
        !(repaired_.lossy() && found.contents[k] == had[k]))
      return "after a crash of a repair, " + shown_key(k, found.contents) + "; else it " +
             shown_key(k, repaired_.answers.contents).substr(name_of(k).size() + 1);
  if (store.recovery().records != store.stats().records)
    return "the report counts " + std::to_string(store.recovery().records) + " records of " +
           std::to_string(store.stats().records);
  return std::nullopt;
}

std::optional<std::string> RepairRunner::judge(std::size_t which, bool record_recovery,
                                               std::vector<Window>& recovery,
                                               std::uint64_t& logical) {
  auto const stage = static_cast<Stage>(which);
  // Damage that no opening sees without a repair says nothing of one.
  bool const plainly = seed_ % 2 != 0 && (stage == Stage::over || !repaired_.opens_plainly);
  tracker_.recorder.record(record_recovery);
  auto store = Store::open(kArenaPath, repair_options(!plainly));
  bool const was_plain = plainly && store;
  if (!store && plainly) {
    Status const s = store.status();
    if (stage == Stage::over) return "a repair is over, and the pool is refused: " + s.message();
    if (s.code() != Code::corrupt) return "without a repair: " + s.message();
    store = Store::open(kArenaPath, repair_options(true));
  }
  if (record_recovery) tracker_.recorder.cut(false);
  tracker_.recorder.record(false);
  recovery = tracker_.recorder.take_windows();
  for (Window& w : recovery)
    w.oracle = static_cast<std::size_t>(stage == Stage::over ? stage : Stage::said);
  if (!store) return "the next repair fails: " + store.status().message();
  Answers found;
  if (auto wrong = check_contents(*store, found)) return wrong;
  if (was_plain && stage != Stage::over) {  // a repair may look at more
    if (Status const s = store->close(); !s.ok()) return "close: " + s.message();
    store = Store::open(kArenaPath, repair_options(true));
    if (!store) return "the next repair fails: " + store.status().message();
    if (auto wrong = check_contents(*store, found)) return wrong;
  }
  if (auto wrong = check_lines(found.lines, stage)) return wrong;
  logical = mix(hash_of(found.contents), found.lines.size());
  return settle(*store, found);
}

}  // namespace perdure::explore
