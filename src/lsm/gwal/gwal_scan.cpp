#include "lsm/gwal/gwal_scan.hpp"

#include <algorithm>
#include <utility>

#include "base/hooks.hpp"
#include "base/mutex.hpp"
#include "lsm/gwal/gwal_sum.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::lsm {
namespace {

constexpr std::size_t kScanChunk = std::size_t{1} << 14;  // places: 1 MiB

struct Candidate {
  std::size_t segment;
  GwalRecordHeader header;
  GwalPayloadSum sum;
  bool passes = false;
};

/// One segment, as it is read.
class SegmentReader {
 public:
  SegmentReader(std::span<std::byte const> bytes, std::uint64_t number,
                GwalIdentity const& identity)
      : bytes_(bytes), number_(number), identity_(&identity) {}

  /// Whether a header stands there whose place is right; whether its record passes is not said.
  [[nodiscard]] bool stands_at(std::uint64_t offset, GwalRecordHeader& h) const {
    if (offset + sizeof h > bytes_.size()) return false;
    if (static_cast<std::uint32_t>(pm::load_word(bytes_.data() + offset)) != kGwalRecordMagic)
      return false;
    pm::read_bytes(&h, bytes_.data() + offset, sizeof h);
    return h.format_version == kGwalVersion && h.number == number_ && h.offset == offset &&
           h.payload_bytes <= bytes_.size() - offset - sizeof h;
  }
  [[nodiscard]] std::span<std::byte const> payload(GwalRecordHeader const& h) const {
    return bytes_.subspan(h.offset + sizeof h, h.payload_bytes);
  }
  [[nodiscard]] GwalPayloadSum to_be_summed(GwalRecordHeader const& h) const {
    pm::will_read(payload(h).data(), h.payload_bytes);
    return GwalPayloadSum(payload(h));
  }
  /// `sum`: of all of its payload.
  [[nodiscard]] bool passes(GwalRecordHeader const& h, GwalPayloadSum const& sum) const {
    if (mutated("gwal_record_without_checksum")) return true;
    return gwal_crc(*identity_, h, sum) == h.crc && sum.hash() == h.sum;
  }
  [[nodiscard]] bool passes(GwalRecordHeader const& h) const {
    GwalPayloadSum sum = to_be_summed(h);
    sum.sum_all(nullptr);
    return passes(h, sum);
  }
  /// Whether the header of a record of this segment was begun there.
  [[nodiscard]] bool begun_at(std::uint64_t offset) const {
    if (offset + sizeof(GwalRecordHeader) > bytes_.size()) return false;
    GwalRecordHeader h;
    pm::read_bytes(&h, bytes_.data() + offset, sizeof h);
    return h.magic == kGwalRecordMagic && h.number == number_;
  }
  [[nodiscard]] std::uint64_t size() const { return bytes_.size(); }

 private:
  std::span<std::byte const> bytes_;
  std::uint64_t number_;
  GwalIdentity const* identity_;
};

/// What may be the segment's records, each behind the one before it.
void follow(SegmentReader const& reader, std::size_t segment, std::vector<Candidate>& candidates) {
  GwalRecordHeader h;
  for (std::uint64_t at = kGwalRecords; reader.stands_at(at, h);
       at += gwal_record_bytes(h.payload_bytes))
    candidates.push_back({segment, h, reader.to_be_summed(h)});
}

/// Says which of them pass. A long payload is the work of many.
void check(std::span<SegmentReader const> readers, std::span<Candidate> candidates,
           exec::Workers& workers) {
  std::vector<std::pair<GwalPayloadSum*, std::size_t>> chunks;
  for (Candidate& c : candidates)
    for (std::size_t i = 0; i < c.sum.chunks(); ++i) chunks.emplace_back(&c.sum, i);
  workers.for_chunks(chunks.size(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) chunks[i].first->sum_chunk(chunks[i].second);
  });
  workers.for_chunks(candidates.size(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      Candidate& c = candidates[i];
      c.passes = readers[c.segment].passes(c.header, c.sum);
    }
  });
}

/// All records behind its end that pass.
void look_behind(SegmentReader const& reader, GwalScanned& scanned, exec::Workers& workers) {
  std::uint64_t const from = scanned.end + kGwalLine;
  if (from >= reader.size()) return;
  Mutex mutex;  // guards what is found
  workers.for_chunks((reader.size() - from) / kGwalLine, kScanChunk,
                     [&](std::size_t begin, std::size_t end) {
                       GwalRecordHeader h;
                       for (std::size_t i = begin; i < end; ++i) {
                         std::uint64_t const at = from + i * kGwalLine;
                         if (!reader.stands_at(at, h) || !reader.passes(h)) continue;
                         MutexLock const lock(mutex);
                         scanned.behind.push_back(at);
                         scanned.synced_behind = std::max(scanned.synced_behind, h.synced);
                       }
                     });
  std::sort(scanned.behind.begin(), scanned.behind.end());
}

}  // namespace

std::vector<GwalScanned> scan_gwal(std::span<std::span<std::byte const> const> segments,
                                   std::uint64_t first, GwalIdentity const& identity,
                                   exec::Workers& workers) {
  std::vector<SegmentReader> readers;
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    readers.emplace_back(segments[i], first + i, identity);
    follow(readers.back(), i, candidates);
  }
  check(readers, candidates, workers);
  std::vector<GwalScanned> scanned(segments.size());
  auto next = candidates.begin();
  for (std::size_t i = 0; i < segments.size(); ++i) {
    GwalScanned& mine = scanned[i];
    for (; next != candidates.end() && next->segment == i && next->passes; ++next) {
      GwalRecordHeader const& h = next->header;
      mine.records.push_back({h.first_request, h.requests, readers[i].payload(h)});
      mine.end = h.offset + gwal_record_bytes(h.payload_bytes);
      mine.synced = h.synced;
    }
    next = std::find_if(next, candidates.end(), [i](auto const& c) { return c.segment != i; });
    mine.torn = readers[i].begun_at(mine.end);
    look_behind(readers[i], mine, workers);
  }
  return scanned;
}

}  // namespace perdure::lsm
