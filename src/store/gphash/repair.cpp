// Pools that were closed in order: what that close notes, what an opening compares with it, and
// what a repair does where they differ.
#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "index/gphash/slot_damage.hpp"
#include "store/gphash/recovery.hpp"
#include "store/repair_reports.hpp"

namespace perdure {
namespace {

std::string differs(char const* what, std::uint64_t at, std::uint64_t is, std::uint64_t was) {
  return std::string("the ") + what + " at byte " + std::to_string(at) + " says " +
         std::to_string(is) + " instead of " + std::to_string(was);
}

}  // namespace

/// For the next opening. Readers may run.
std::optional<pm::ClosingNote> Recovery::closing_note() {
  if (core_.pool.read_only()) return left_;
  gphash::Slots::Sum const slots = core_.table.sum(core_.workers);
  pm::ClosingNote note{};
  note.records = slots.records;
  note.sum = slots.sum;
  note.astray = astray_ == 0 ? 0 : static_cast<std::uint32_t>(core_.table.astray());
  note.epoch = core_.undo.word();
  note.dense = core_.dense.word_now();
  return note;
}

/// Of the words that the note names one by one. Nothing where there is no note.
std::vector<std::string> Recovery::changed_words() {
  auto note = core_.pool.closing_note();
  if (!note) return {note.status().message()};
  left_ = *note;
  std::vector<std::string> wrong;
  if (!left_) return wrong;
  if (core_.undo.word() != left_->epoch)
    wrong.push_back(differs("number of the last transaction", pm::kEpochOffset, core_.undo.word(),
                            left_->epoch));
  if (core_.dense.word_now() != left_->dense)
    wrong.push_back(differs("word of the dense buffers", core_.dense.word_at().bytes,
                            core_.dense.word_now(), left_->dense));
  return wrong;
}

/// Those that the note names one by one, in a repair.
void Recovery::restore_words() {
  if (left_ && core_.undo.word() != left_->epoch) core_.undo.set_word(left_->epoch);
  if (core_.undo.revertible()) core_.undo.keep();  // what it needs may be damaged
  if (left_ && core_.dense.word_now() != left_->dense) core_.dense.set_word(left_->dense);
}

/// An orderly close leaves no slot half inserted and no two that lead to one record. Without a note
/// it is not known whether slots led to no record even then.
void Recovery::compare_slots(gphash::Survey const& found, std::vector<std::string>& wrong) {
  PERDURE_ASSERT(core_.recovery.clean);  // only such a close leaves all in order
  std::uint64_t const astray = left_ ? left_->astray : 0;
  bool const same = !left_ || left_->sum == found.sum;
  if (same && found.half.empty() && found.again.empty() && found.astray <= astray) return;
  for (std::uint64_t const number : found.half)
    wrong.push_back(core_.table.name(number) + ": half inserted");
  for (std::uint64_t const number : found.again)
    wrong.push_back(core_.table.name(number) + ": another slot leads to its record");
  if (Status s = core_.show_words(); !s.ok()) return wrong.push_back(s.message());
  std::vector<std::string> faults = look_at_slots().faults;
  wrong.insert(wrong.end(), faults.begin(), faults.end());
  if (left_ && !core_.table.growing() &&
      found.records + found.half.size() + found.again.size() + found.astray != left_->records)
    wrong.push_back("slots hold " + std::to_string(found.records) + " records, where there were " +
                    std::to_string(left_->records));
  if (wrong.empty())
    wrong.push_back("the sum of its slots differs, though no slot by itself is wrong");
}

/// Mends what it can, drops what cannot be right, and looks again.
gphash::Survey Recovery::repair(std::vector<std::string> const& wrong) {
  PERDURE_ASSERT(core_.options.repair && core_.recovery.clean && !wrong.empty());
  std::vector<std::string> lines;
  auto const say = [&](std::vector<std::string> const& more) {
    core_.repairs.add(more);
    lines.insert(lines.end(), more.begin(), more.end());
  };
  std::vector<std::string> found_wrong;
  for (std::string const& line : wrong) found_wrong.push_back("found: " + line);
  say(found_wrong);
  restore_words();
  core_.heap.forget();
  pm::HeapHeaders const heads(core_.pool);
  auto const headers = heads.damaged();
  std::vector<std::string> mended_headers;
  for (auto const& one : headers)
    mended_headers.push_back("the header of the records at byte " + std::to_string(one.at.bytes) +
                             ", put right");
  if (!headers.empty()) say(mended_headers);
  heads.mend(headers);
  gphash::Survey found = gphash::survey(core_.table, core_.workers);
  // While the table grew, or where it was grown since, the sum says nothing.
  bool const comparable = left_ && !core_.table.growing() && !core_.recovery.resize_resumed;
  // An older version of a record, still whole where it was freed, may be what a damaged slot or
  // record leads to now.
  std::string const older = "values may have changed to older ones";
  if (!comparable) say({"no sum says which records the slots led to: " + older});
  // What one pass puts right may leave a single word, which the sum then explains.
  constexpr int kPasses = 3;
  for (int pass = 1; pass <= kPasses && repair_dropped_ == 0; ++pass) {
    auto const missing = comparable ? std::optional(left_->sum - found.sum) : std::nullopt;
    bool const last = !comparable || pass == kPasses;
    gphash::Mended const mended = gphash::SlotDamage(core_.table, found, missing, last).mend(say);
    repair_dropped_ += mended.dropped;
    pm::order();
    core_.heap.forget();
    found = gphash::survey(core_.table, core_.workers);
    // Words may be right again while what they lead to is not.
    bool const all_right = comparable && found.sum == left_->sum && found.astray <= left_->astray;
    if (last || all_right || mended.lines.empty()) break;
  }
  if (comparable && found.sum != left_->sum) say({"the sum of its slots still differs: " + older});
  bool const as_it_was = left_ && found.sum == left_->sum && found.astray <= left_->astray;
  say({as_it_was ? "all slots are as the last close left them again"
                 : std::to_string(found.records) + " records are left" +
                       (left_ ? " of " + std::to_string(left_->records) : std::string())});
  note_changes(core_.recovery, lines);
  core_.recovery.repaired = true;
  return found;
}

}  // namespace perdure
