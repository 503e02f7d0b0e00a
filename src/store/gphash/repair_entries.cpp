// Repairs of layout `log`: its log first, before it is put into the table (wal/entry_damage.hpp),
// then what the table has that nothing vouches for. Invariants: lines are noted before anything is
// changed; the log is whole once its own repair is done, and says of each key what the table says.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>

#include "base/assert.hpp"
#include "base/crc32c.hpp"
#include "base/hooks.hpp"
#include "pm/heap_headers.hpp"
#include "pm/host_verbs.hpp"
#include "pm/record.hpp"
#include "pm/record_numbers.hpp"
#include "store/gphash/recovery.hpp"
#include "store/gphash/write.hpp"
#include "store/repair_reports.hpp"
#include "wal/entry_damage.hpp"

namespace perdure {
namespace {

using pm::Unfinished;
using wal::EntryDamage;

constexpr int kPasses = 64;  // as many slots of one key as a repair drops

std::uint32_t crc_part(std::uint32_t crc, std::byte const* data, std::size_t bytes) {
  return crc32c(crc, data, bytes);
}

/// Whether the record that a put leads to says the same as its entry: key and checksum.
EntryDamage::Word judge_put(pm::Pool& pool, std::byte const* cell) {
  pm::PoolHeader const& h = pool.header();
  wal::LogEntry entry;
  std::memcpy(&entry, cell, sizeof entry);
  Offset const at = wal::record_of(entry.what);
  std::uint64_t const room = pm::HeapHeaders(pool).room(at);
  if (room == 0) return EntryDamage::Word::nonsense;
  if (pm::RecordShape(h).bare()) return EntryDamage::Word::doubtful;
  pm::RecordView const r = pm::view_whole(pool.base() + at.bytes, room);
  if (pm::record_sum(r, r.value, crc_part) != r.header.crc ||
      pm::short_sum(r.header.crc) != wal::value_sum_of(entry.what))
    return EntryDamage::Word::doubtful;
  if (h.logs_hashes())
    return hash_bytes(r.key, r.header.key_bytes) == entry.key ? EntryDamage::Word::kept
                                                              : EntryDamage::Word::doubtful;
  if (r.header.key_bytes != h.key_bytes) return EntryDamage::Word::doubtful;
  wal::NewEntry const said{r.key, h.key_bytes, entry.what};
  std::uint32_t const bytes = wal::cell_bytes_for(h.key_bytes);
  bool same = said.first().key == entry.key;
  for (auto part = static_cast<std::uint32_t>(sizeof entry); part < bytes;
       part += sizeof(wal::KeyPart)) {
    wal::KeyPart const its = said.part(part);
    same &= std::memcmp(cell + part, &its, sizeof its) == 0;
  }
  return same ? EntryDamage::Word::kept : EntryDamage::Word::doubtful;
}

}  // namespace

/// `unfinished`: what follows from them, and is not over with the next change.
void Recovery::say(std::vector<std::string> const& lines, Unfinished unfinished) {
  if (lines.empty()) return;
  core_.repairs.add(lines, unfinished);
  note_changes(core_.recovery, lines);
  core_.recovery.repaired = true;
}

Status Recovery::repair_entries() {
  if (!core_.options.repair) return {};
  PERDURE_ASSERT(core_.logged() && core_.entries.segments() == 0);
  auto const named = [&](Status const& s) {
    return s.ok() ? s : Status{s.code(), "pool " + core_.path + ": " + s.message()};
  };
  EntryDamage damage(core_.pool, core_.workers,
                     [&](std::byte const* cell) { return judge_put(core_.pool, cell); });
  if (Status s = damage.look(); !s.ok()) return named(s);
  Unfinished const left = core_.repairs.unfinished();
  if (left != Unfinished::nothing) {  // the log may be whole by now, and its table not
    changes_.begin_opening();
    mended_ = true;
    lossy_ = left == Unfinished::doubts;
  }
  if (!damage.lines().empty()) {
    changes_.begin_opening();
    if (mutated("repair_changes_before_note")) damage.apply();
    say(damage.lines(), damage.lossy() ? Unfinished::doubts : Unfinished::nothing);
    damage.apply();
    mended_ = true;
    lossy_ |= damage.lossy();
    core_.recovery.dropped += damage.dropped();
    if (damage.dropped() != 0)
      core_.recovery.why_dropped = std::to_string(damage.dropped()) +
                                   " entries of the log that nothing vouches for were dropped by "
                                   "the repair";
  }
  if (Status s = core_.entries.attach(); !s.ok()) return named(s);
  mend_heads();  // for after a kill the last batch counts only if its records are there
  return {};
}

/// Of superblocks of records, whether or not anything leads there.
void Recovery::mend_heads() {
  pm::HeapHeaders const heads(core_.pool);
  auto const headers = heads.damaged();
  if (headers.empty()) return;
  changes_.begin_opening();
  std::vector<std::string> lines;
  for (auto const& one : headers)
    lines.push_back("the header of the records at byte " + std::to_string(one.at.bytes) +
                    ", put right");
  say(lines);
  heads.mend(headers);
}

/// Of layout `log`, whose log is whole by now.
Status Recovery::repair_table(BatchWriter& writer, std::vector<std::string> const& wrong,
                              gphash::Survey& found) {
  PERDURE_ASSERT(core_.options.repair && core_.logged());
  std::vector<std::string> lines;
  for (std::string const& line : wrong) lines.push_back("found: " + line);
  say(lines);
  restore_words();
  if (Status s = core_.show_words(); !s.ok()) return s;
  core_.heap.forget();
  found = gphash::survey(core_.table, core_.workers);
  bool const told = core_.repairs.unfinished() == Unfinished::drops ||
                    (left_ ? found.sum == left_->sum : !lossy_);
  // What one pass drops may have hidden others: of three slots that have one key, for instance.
  for (int pass = 0; pass < kPasses; ++pass) {
    auto const doubtful = doubtful_slots(found, told);
    if (doubtful.empty()) break;
    if (Status s = erase_slots(writer, doubtful, told); !s.ok()) return s;
    repair_dropped_ += doubtful.size();
    if (Status s = core_.show_words(); !s.ok()) return s;
    core_.heap.forget();
    found = gphash::survey(core_.table, core_.workers);
  }
  say_what_is_left(found, told);
  if (core_.repairs.unfinished() != Unfinished::nothing) core_.repairs.finish();
  return {};
}

void Recovery::say_what_is_left(gphash::Survey const& found, bool told) {
  std::string const older = "values may have changed to older ones";
  if (!told) say({"nothing vouches for all that the log had: " + older});
  if (told && !left_ && core_.recovery.clean) say({"no note says where the log ended: " + older});
  bool const as_it_was = left_ && found.sum == left_->sum && found.astray <= left_->astray;
  say({as_it_was ? "all slots are as the last close left them again"
                 : std::to_string(found.records) + " records are left" +
                       (left_ ? " of " + std::to_string(left_->records) : std::string())});
}

/// Slots that may not stay. `told`: their words are what they were, so a record whose checksum
/// fails is damaged itself, and no other is in its place.
std::vector<Recovery::Doubtful> Recovery::doubtful_slots(gphash::Survey const& found, bool told) {
  gphash::Table& table = core_.table;
  // Values alone do not say whose they are: of two slots that lead to one, neither is to be
  // believed.
  std::set<std::uint64_t> shared;
  if (!told && pm::RecordShape(core_.pool.header()).bare())
    for (std::uint64_t const number : found.again)
      shared.insert(table.record_at(table.locate(number)).bytes);
  std::mutex mutex;
  std::vector<Doubtful> doubtful;
  core_.workers.for_chunks(table.slots(), 1 << 14, [&](std::size_t begin, std::size_t end) {
    for (std::uint64_t number = begin; number < end; ++number) {
      auto const entry = table.entry(number);
      if (!entry || (told && entry->readable)) continue;
      std::string why = table.fault(number, *entry);
      if (why.empty() && shared.contains(entry->record.bytes))
        why = "another slot leads to its record";
      if (why.empty()) continue;
      std::lock_guard const lock(mutex);
      doubtful.push_back({entry->readable ? older_twin(number, *entry) : number, std::move(why)});
    }
  });
  std::ranges::sort(doubtful, {}, &Doubtful::slot);
  auto const again = std::ranges::unique(doubtful, {}, &Doubtful::slot);
  doubtful.erase(again.begin(), again.end());
  return doubtful;
}

/// Where whole records of one key are in two slots: the one whose record is older. Else the slot
/// itself.
std::uint64_t Recovery::older_twin(std::uint64_t number, gphash::Entry const& entry) {
  gphash::Table& table = core_.table;
  if (!core_.pool.header().logs_hashes() || !table.intact(entry)) return number;
  auto const sequence_of = [&](gphash::Entry const& of) {
    return pm::view_whole(table.base() + of.record.bytes, core_.heap.room(of.record))
        .header.sequence;
  };
  for (std::uint64_t const other : table.candidate_slots(entry.key)) {
    auto const twin = other == number ? std::nullopt : table.entry(other);
    if (!twin || !twin->readable || !std::ranges::equal(twin->key, entry.key)) continue;
    if (sequence_of(*twin) < sequence_of(entry)) return other;
  }
  return number;
}

/// An extent says so, and so does the table.
Status Recovery::erase_slots(BatchWriter& writer, std::vector<Doubtful> const& slots, bool told) {
  wal::EntryLog& log = core_.entries;
  std::uint64_t const n = slots.size();
  std::vector<std::string> lines;
  for (Doubtful const& one : slots)
    lines.push_back(core_.table.name(one.slot) + ": " + one.why + ", dropped");
  bool const doubts = !told || mutated("repair_forgets_what_was_told");
  say(lines, doubts ? Unfinished::doubts : Unfinished::drops);
  pm::Root root = core_.pool.root();
  root.clean = 0;  // what the last close noted is not so any more
  settle_log(root);  // nothing follows what no commit followed
  if (Status s = log.reserve(n); !s.ok())
    return {s.code(), "pool " + core_.path + ": the log of its entries: " + s.message()};
  core_.pool_may_have_grown();
  wal::EntryRegion region = log.next();
  auto const segments = log.segments_for(n);
  region.segments = segments.data();
  bool const hashes = core_.pool.header().logs_hashes();
  std::uint32_t const key_bytes = core_.pool.header().key_bytes;
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    std::byte const* const identity = core_.table.identity(slots[i].slot);
    auto const put = [&](auto const& entry) {
      std::byte* const cell = core_.pool.base() + region.cell(i).bytes;
      wal::LogEntry const first = entry.first();
      pm::write_bytes(cell, &first, sizeof first);
      for (auto at = static_cast<std::uint32_t>(sizeof first); at < region.cell_bytes;
           at += sizeof(wal::KeyPart)) {
        wal::KeyPart const part = entry.part(at);
        pm::write_bytes(cell + at, &part, sizeof part);
      }
      sum += wal::sum_of(entry, region.cell_bytes);
    };
    if (hashes) {
      std::uint64_t hash = 0;
      std::memcpy(&hash, identity, sizeof hash);
      Offset const record = core_.table.record_at(core_.table.locate(slots[i].slot));
      put(wal::NewHashEntry{hash, wal::kErases, record});
    } else {
      put(wal::erase_entry(identity, key_bytes));
    }
  }
  if (Status s = writer.replay({segments, region, n, {}, log.id()}); !s.ok()) return s;
  std::uint64_t const number = log.last_number() + 1;
  if (number > pm::leased_numbers(core_.pool)) pm::lease_numbers(core_.pool, number);
  if (!mutated("repair_erases_in_table_alone")) log.seal(number, n, wal::ExtentKind::batch, sum);
  pm::order();
  return {};
}

}  // namespace perdure
