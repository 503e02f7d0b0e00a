#include "store/dash/dash_recovery.hpp"

#include <cstddef>
#include <span>

#include "base/assert.hpp"
#include "index/dash/root.hpp"
#include "pm/host_verbs.hpp"
#include "store/repair_reports.hpp"

namespace perdure {

std::uint64_t DashRecovery::sum_of_index() const {
  std::byte const* const at = core_.pool.base() + core_.index_at().bytes;
  return dash::sum_of_index(at, core_.index() == Index::dash_lh ? dash::kLinearArrays : 0);
}

std::vector<std::string> DashRecovery::changed_words(Offset index) {
  auto note = core_.pool.closing_note();
  if (!note) return {note.status().message()};
  left_ = *note;
  if (!left_ || left_->sum == sum_of_index()) return {};
  return {"the words of its index at byte " + std::to_string(index.bytes) + " have another sum"};
}

std::optional<pm::ClosingNote> DashRecovery::closing_note() {
  if (core_.pool.read_only()) return left_;
  PERDURE_ASSERT(core_.counters.counted());  // and so `records` is what it holds
  if (!core_.engine->store_sums()) return std::nullopt;
  pm::ClosingNote note{};
  note.records = core_.counters.records();
  note.sum = sum_of_index();
  return note;
}

/// The one bit of the index's words that keeps their sum from being what the close noted, put
/// right.
std::string DashRecovery::mend_index() {
  PERDURE_ASSERT(left_.has_value() && !core_.pool.read_only());
  std::byte* const at = core_.pool.base() + core_.index_at().bytes;
  std::vector<std::uint64_t> offsets{offsetof(dash::IndexRoot, directory),
                                     offsetof(dash::IndexRoot, first),
                                     offsetof(dash::IndexRoot, counted)};
  for (std::uint32_t i = 0; core_.index() == Index::dash_lh && i < dash::kLinearArrays; ++i)
    offsets.push_back(dash::kDirectories + i * sizeof(std::uint64_t));
  for (std::uint64_t const offset : offsets) {
    auto* const word = reinterpret_cast<std::uint64_t*>(at + offset);
    for (std::uint32_t bit = 0; bit < 64; ++bit) {
      std::uint64_t const was = pm::load_word(at + offset);
      pm::store_word(word, was ^ std::uint64_t{1} << bit);
      if (sum_of_index() == left_->sum)
        return "the word of its index at byte " + std::to_string(core_.index_at().bytes + offset) +
               ": put right, nothing is lost";
      pm::store_word(word, was);
    }
  }
  return {};
}

void DashRecovery::note_found(std::vector<std::string>& lines) {
  for (std::string& line : lines) line = "found: " + line;
  core_.repairs.add(lines);
  note_changes(core_.recovery, lines);
}

Status DashRecovery::lost(std::string const& why) const {
  return {Code::corrupt, "pool " + core_.path + ": no repair mends that " + why +
                             "; restore a snapshot or load an export"};
}

Status DashRecovery::repair(Offset index, std::vector<std::string> wrong) {
  PERDURE_ASSERT(core_.options.repair && core_.recovery.clean);
  std::vector<std::string> mended;
  bool const note_lost = !wrong.empty() && !left_;
  if (!wrong.empty()) {
    note_found(wrong);
    if (note_lost)
      mended.push_back(
          "without the note of the last close its segments' own sums were compared, but neither "
          "the words of its index "
          "nor the number of its records, which may have changed");
    else if (std::string line = mend_index(); !line.empty())
      mended.push_back(std::move(line));
  }
  // That there was a note says that each segment has its sum.
  if (Status s = core_.engine->open(index, true, left_.has_value() || note_lost); !s.ok())
    return lost(s.message());
  threads::Faults damaged;
  static_cast<void>(core_.engine->positions(damaged));
  if (damaged.count != 0) note_found(damaged.first);
  if (wrong.empty() && damaged.count == 0) return {};
  core_.engine->begin_mending();
  threads::Faults left;
  static_cast<void>(core_.engine->positions(left));
  std::vector<std::string> const segments = core_.engine->mended();
  mended.insert(mended.end(), segments.begin(), segments.end());
  core_.repairs.add(mended);
  if (left.count != 0) return lost(left.first.front());
  DashCount const count = core_.engine->count();
  mended.push_back(std::to_string(count.records) + " records are left" +
                   (left_ ? " of " + std::to_string(left_->records) : std::string()));
  core_.repairs.add(std::span(mended).last(1));
  note_changes(core_.recovery, mended);
  core_.recovery.repaired = true;
  if (left_ && left_->records > count.records) {
    core_.recovery.dropped = left_->records - count.records;
    core_.recovery.why_dropped =
        std::to_string(core_.recovery.dropped) + " records were lost to damage";
  }
  core_.engine->note_count(count.records);
  return {};
}

}  // namespace perdure
