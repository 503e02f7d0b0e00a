#include "pm/repairs.hpp"

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/assert.hpp"
#include "base/crc32c.hpp"
#include "base/hooks.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::pm {
namespace {

constexpr std::uint64_t kText = kRepairNoteOffset + sizeof(RepairNote);
// RepairNote::state of a repair that is not over.
constexpr std::uint64_t kDropping = 0x676e6970706f7264u;  // "dropping"
constexpr std::uint64_t kDoubting = 0x6e69726961706572u;  // "repairin"

Unfinished unfinished_by(std::uint64_t state) {
  return state == kDoubting   ? Unfinished::doubts
         : state == kDropping ? Unfinished::drops
                              : Unfinished::nothing;
}
std::uint64_t state_for(Unfinished what) {
  return what == Unfinished::doubts ? kDoubting : what == Unfinished::drops ? kDropping : kRepaired;
}

std::uint64_t unix_seconds() {
#if defined(PERDURE_EXPLORE)
  return 1;  // a run follows from its seed
#else
  return static_cast<std::uint64_t>(std::time(nullptr));
#endif
}

/// It does not tell the states apart, for one becomes another by one store.
std::uint32_t checksum_of(RepairNote note) {
  if (unfinished_by(note.state) != Unfinished::nothing) note.state = kRepaired;
  return checksum(note);
}

}  // namespace

Repairs::Lines Repairs::read() const {
  RepairNote note;
  read_bytes(&note, pool_->base() + kRepairNoteOffset, sizeof note);
  Lines lines;
  if (note.state == 0) return lines;
  lines.count = note.count;
  bool const known = state_for(unfinished_by(note.state)) == note.state;
  lines.damaged = !known || note.crc != checksum_of(note) || note.text_bytes > kMostRepairText;
  if (lines.damaged) return lines;
  std::string text(note.text_bytes, '\0');
  read_bytes(text.data(), pool_->base() + kText, text.size());
  lines.damaged = crc32c(0, text.data(), text.size()) != note.text_crc;
  for (std::size_t at = 0; !lines.damaged && at < text.size();) {
    std::size_t const end = std::min(text.find('\n', at), text.size());
    lines.text.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// The word `state` goes first and comes last: a crash in between leaves a note that is damaged, and
// so still waits.
void Repairs::add(std::span<std::string const> lines, Unfinished what) {
  Lines const before = read();
  std::string text;
  auto const append = [&](std::string const& line) {
    if (text.size() + line.size() + 1 <= kMostRepairText) text += line + '\n';
  };
  if (before.damaged) append("an earlier repair, of which what was noted is damaged");
  for (std::string const& line : before.text) append(line);
  for (std::string const& line : lines) append(line);
  RepairNote note{};
  note.state = state_for(std::max(what, unfinished()));
  note.repaired_unix_s = unix_seconds();
  note.count = (before.damaged ? 1 : before.count) + lines.size();
  note.text_bytes = static_cast<std::uint32_t>(text.size());
  note.text_crc = crc32c(0, text.data(), text.size());
  note.crc = checksum_of(note);
  PERDURE_ASSERT(text.size() <= kMostRepairText);
  PERDURE_ASSERT(note.count >= lines.size());
  std::byte* const at = pool_->base() + kRepairNoteOffset;
  write_bytes(pool_->base() + kText, text.data(), text.size());
  write_bytes(at + sizeof note.state, reinterpret_cast<std::byte const*>(&note) + sizeof note.state,
              sizeof note - sizeof note.state);
  if (!mutated("repair_state_before_lines")) order();
  store_word(reinterpret_cast<std::uint64_t*>(at), note.state);
  order();
}

std::vector<std::string> Repairs::waiting() const {
  Lines lines = read();
  if (lines.damaged)
    return {"a repair changed this pool, and what was noted of it, at byte " +
            std::to_string(kRepairNoteOffset) + ", is damaged"};
  if (lines.count > lines.text.size())
    lines.text.push_back(std::to_string(lines.count - lines.text.size()) +
                         " more changes, which there was no room to note");
  return std::move(lines.text);
}

Unfinished Repairs::unfinished() const { return unfinished_repair(pool_->base()); }

void Repairs::finish() {
  PERDURE_ASSERT(unfinished() != Unfinished::nothing);
  order();
  store_word(reinterpret_cast<std::uint64_t*>(pool_->base() + kRepairNoteOffset), kRepaired);
  order();
}

void Repairs::acknowledge() {
  store_word(reinterpret_cast<std::uint64_t*>(pool_->base() + kRepairNoteOffset), 0);
  order();
}

Unfinished unfinished_repair(std::byte const* base) {
  std::uint64_t state = 0;
  read_bytes(&state, base + kRepairNoteOffset, sizeof state);
  return unfinished_by(state);
}

}  // namespace perdure::pm
