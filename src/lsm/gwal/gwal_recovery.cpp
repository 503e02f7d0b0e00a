#include "lsm/gwal/gwal_recovery.hpp"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "base/hooks.hpp"
#include "lsm/gwal/gwal_headers.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::lsm {

/// They go oldest first, so one that is missing between two is damage.
Result<std::vector<GwalLeft>> find_gwal_segments(GwalFiles& files, GwalIdentity const& identity) {
  auto const numbers = files.numbers();
  if (!numbers.ok()) return numbers.status();
  std::vector<GwalLeft> left;
  for (std::uint64_t const number : numbers.value()) {
    auto file = files.open(number);
    if (!file.ok()) return file.status();
    GwalLeft found{std::move(file).value()};
    auto const bytes = found.file->bytes();
    pm::read_bytes(&found.header, bytes.data(), sizeof found.header);
    if (Status s =
            check_gwal_segment(found.header, found.file->name(), identity, number, bytes.size());
        !s.ok())
      return s;
    if (!left.empty() && left.back().header.number + 1 != number)
      return gwal_damaged(files.name(), "lacks segment " +
                                            std::to_string(left.back().header.number + 1) +
                                            ", although there are older and newer ones");
    auto const intent = read_gwal_intent(bytes.data(), found.file->name(), identity, number);
    if (!intent.ok()) return intent.status();
    found.intent = intent.value();
    left.push_back(std::move(found));
  }
  return left;
}

Result<std::size_t> ingested_gwal_segments(std::span<GwalLeft const> segments,
                                           std::uint64_t rocks_sequence) {
  if (mutated("gwal_replay_twice")) return std::size_t{0};
  auto const has = [&](GwalLeft const& l) { return rocks_sequence > l.intent.rocks_sequence; };
  auto const first = std::find_if_not(segments.begin(), segments.end(), has);
  if (auto const later = std::find_if(first, segments.end(), has); later != segments.end())
    return gwal_damaged(first->file->name(), "was not ingested by RocksDB, although segment " +
                                                 std::to_string(later->header.number) + " was");
  return static_cast<std::size_t>(first - segments.begin());
}

void scan_gwal_segments(std::span<GwalLeft> segments, GwalIdentity const& identity,
                        exec::Workers* workers) {
  if (segments.empty()) return;
  std::optional<exec::Workers> own;
  if (workers == nullptr) workers = &own.emplace(std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::span<std::byte const>> bytes;
  for (GwalLeft const& l : segments) bytes.emplace_back(l.file->bytes());
  auto scanned = scan_gwal(bytes, segments.front().header.number, identity, *workers);
  for (std::size_t i = 0; i < segments.size(); ++i) segments[i].scanned = std::move(scanned[i]);
}

// ------------------------------------------------------------------------------------------------
// What is missing

namespace {

/// Where the next segment says that the records end; 0: there is none, or it does not say.
std::uint64_t said_end(std::span<GwalLeft const> segments, std::size_t i) {
  return i + 1 < segments.size() ? segments[i + 1].header.previous_end : 0;
}

bool lacks_records(std::span<GwalLeft const> segments, std::size_t i) {
  GwalScanned const& s = segments[i].scanned;
  std::uint64_t const end = said_end(segments, i);
  return !s.behind.empty() || (end != 0 && end != s.end);
}

/// The system went down since they were written, and nothing behind says that they were there after
/// that, or synced before: a segment that was begun after it, or a record that was written after a
/// sync, which says how far that went; older segments are synced with it.
bool may_be_lost(std::span<GwalLeft const> segments, std::size_t i, std::uint64_t boot) {
  GwalLeft const& l = segments[i];
  if (boot == 0 || l.header.boot == 0 || boot == l.header.boot) return false;
  if (l.scanned.synced_behind > l.scanned.end) return false;
  auto const later = segments.subspan(i + 1);
  return std::all_of(later.begin(), later.end(), [&](GwalLeft const& s) {
    return s.header.boot == l.header.boot &&
           std::max(s.scanned.synced, s.scanned.synced_behind) <= kGwalRecords;
  });
}

Status lacking(std::span<GwalLeft const> segments, std::size_t i) {
  GwalScanned const& s = segments[i].scanned;
  std::string const what =
      "is damaged at offset " + std::to_string(s.end) + ": no record passes there, and ";
  if (!s.behind.empty())
    return gwal_damaged(segments[i].file->name(),
                        what + "one does at " + std::to_string(s.behind.front()));
  return gwal_damaged(segments[i].file->name(),
                      what + "its records went on to " + std::to_string(said_end(segments, i)));
}

}  // namespace

Result<std::optional<std::size_t>> check_gwal_segments(std::span<GwalLeft const> segments,
                                                       std::uint64_t boot) {
  RequestId next = 0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    for (GwalRecord const& record : segments[i].scanned.records) {
      if (record.first_request < next)
        return gwal_damaged(segments[i].file->name(), "has the request " +
                                                          std::to_string(record.first_request) +
                                                          " behind " + std::to_string(next - 1));
      next = record.first_request + record.requests;
    }
    if (!lacks_records(segments, i)) continue;
    if (may_be_lost(segments, i, boot)) return std::optional(i);
    return lacking(segments, i);
  }
  return std::optional<std::size_t>();
}

Status mend_gwal_intents(std::span<GwalLeft> segments) {
  if (mutated("gwal_intent_not_mended")) return {};
  for (GwalLeft& l : segments) {
    auto const differs = std::exchange(l.intent.differs, std::nullopt);
    if (!differs) continue;
    std::byte* const segment = l.file->bytes().data();
    std::byte* const at = segment + kGwalIntents[*differs];
    GwalIntent intent;
    pm::read_bytes(&intent, segment + kGwalIntents[1 - *differs], sizeof intent);
    pm::write_bytes(at, &intent, sizeof intent);
    if (Status s = l.file->sync(at, sizeof intent); !s.ok()) return s;
  }
  return {};
}

/// Their numbers come again, for none may be missing: so their files may not. The newest goes
/// first: as long as anything is left of what is to go, the next opening finds that
/// the same is missing.
Status cut_gwal_segments(std::span<GwalLeft> segments) {
  for (std::size_t i = segments.size() - 1; i > 0; --i)
    if (Status s = segments[i].file->remove(false); !s.ok()) return s;
  GwalLeft& kept = segments.front();
  for (std::uint64_t const place : kept.scanned.behind) {
    std::byte* const at = kept.file->bytes().data() + place;
    pm::zero_bytes(at, sizeof(GwalRecordHeader));
    if (Status s = kept.file->sync(at, sizeof(GwalRecordHeader)); !s.ok()) return s;
  }
  return {};
}

}  // namespace perdure::lsm
