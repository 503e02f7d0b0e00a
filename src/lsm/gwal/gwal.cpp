#include "lsm/gwal/gwal.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/hooks.hpp"
#include "exec/workers.hpp"
#include "lsm/gwal/gwal_files.hpp"
#include "lsm/gwal/gwal_format.hpp"
#include "lsm/gwal/gwal_headers.hpp"
#include "lsm/gwal/gwal_scan.hpp"
#include "lsm/gwal/gwal_segment.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::lsm {
namespace {

/// A segment of an earlier process.
struct Left {
  GwalLive live;
  GwalSegmentHeader header;
  GwalScanned scanned = {};
};

class LogOfSegments final : public Gwal {
 public:
  LogOfSegments(std::unique_ptr<GwalFiles> files, GwalOptions const& options)
      : log_(std::make_shared<GwalLog>(std::move(files), gwal_identity(options.identity),
                                       static_cast<std::uint32_t>(options.identity.size()))),
        segment_bytes_(options.segment_bytes),
        workers_(options.workers) {}

  Status find();
  Result<std::vector<GwalRecovered>> recover(std::uint64_t rocks_sequence) override;
  Result<std::unique_ptr<GwalSegment>> begin(std::uint64_t bytes) override;

 private:
  Result<std::size_t> ingested(std::uint64_t rocks_sequence) const;
  void scan(std::span<Left> segments) const;
  Status check(std::span<Left const> segments) const;
  std::vector<GwalRecovered> hand_over(std::size_t discarded);

  std::shared_ptr<GwalLog> log_;
  std::uint64_t segment_bytes_;
  exec::Workers* workers_;
  std::vector<Left> left_;  // from find() to recover()
  bool recovered_ = false;
};

/// Every segment that is there, with a header that passes. They go oldest first, so one that is
/// missing between two is damage.
Status LogOfSegments::find() {
  auto const numbers = log_->files().numbers();
  if (!numbers.ok()) return numbers.status();
  for (std::uint64_t const number : numbers.value()) {
    auto file = log_->files().open(number);
    if (!file.ok()) return file.status();
    Left found{{std::move(file).value(), number}, {}};
    auto const bytes = found.live.file->bytes();
    std::string const name = found.live.file->name();
    pm::read_bytes(&found.header, bytes.data(), sizeof found.header);
    if (Status s = check_gwal_segment(found.header, name, log_->identity(), number, bytes.size());
        !s.ok())
      return s;
    if (!left_.empty() && left_.back().live.number + 1 != number)
      return gwal_damaged(log_->files().name(), "lacks segment " +
                                                    std::to_string(left_.back().live.number + 1) +
                                                    ", although there are older and newer ones");
    auto const intent = read_gwal_intent(bytes.data(), name, log_->identity(), number);
    if (!intent.ok()) return intent.status();
    found.live.intent = intent.value();
    left_.push_back(std::move(found));
  }
  return {};
}

/// How many of them RocksDB has.
Result<std::size_t> LogOfSegments::ingested(std::uint64_t rocks_sequence) const {
  if (mutated("gwal_replay_twice")) return std::size_t{0};
  auto const has = [&](Left const& l) { return rocks_sequence > l.live.intent; };
  auto const first = std::find_if_not(left_.begin(), left_.end(), has);
  if (auto const later = std::find_if(first, left_.end(), has); later != left_.end())
    return gwal_damaged(first->live.file->name(), "was not ingested by RocksDB, although segment " +
                                                      std::to_string(later->live.number) + " was");
  return static_cast<std::size_t>(first - left_.begin());
}

void LogOfSegments::scan(std::span<Left> segments) const {
  if (segments.empty()) return;
  std::vector<std::span<std::byte const>> bytes;
  for (Left const& l : segments) bytes.emplace_back(l.live.file->bytes());
  auto const scan_by = [&](exec::Workers& workers) {
    return scan_gwal(bytes, segments.front().live.number, log_->identity(), workers);
  };
  std::vector<GwalScanned> scanned;
  if (workers_ != nullptr) {
    scanned = scan_by(*workers_);
  } else {
    exec::Workers workers(std::max(1u, std::thread::hardware_concurrency()));
    scanned = scan_by(workers);
  }
  for (std::size_t i = 0; i < segments.size(); ++i) segments[i].scanned = std::move(scanned[i]);
}

/// A segment ends where the one behind it says, and nothing that passes lies behind its end.
Status LogOfSegments::check(std::span<Left const> segments) const {
  RequestId next = 0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    GwalScanned const& s = segments[i].scanned;
    std::string const name = segments[i].live.file->name();
    std::string const at = "at offset " + std::to_string(s.end);
    if (s.behind)
      return gwal_damaged(name, "is damaged " + at + ": no record passes there, and one does at " +
                                    std::to_string(*s.behind));
    std::uint64_t const end = i + 1 < segments.size() ? segments[i + 1].header.previous_end : 0;
    if (end != 0 && end != s.end)
      return gwal_damaged(name, "is damaged " + at + ": no record passes there, and its records " +
                                    "went on to " + std::to_string(end));
    for (GwalRecord const& record : s.records) {
      if (record.first_request < next)
        return gwal_damaged(name, "has the request " + std::to_string(record.first_request) +
                                      " after " + std::to_string(next - 1));
      next = record.first_request + record.requests;
    }
  }
  return {};
}

std::vector<GwalRecovered> LogOfSegments::hand_over(std::size_t discarded) {
  std::vector<GwalLive> live;
  RequestId next = 0;
  for (Left& l : std::span(left_).subspan(discarded)) {
    l.live.end = l.scanned.end;
    live.push_back(l.live);
    if (l.scanned.records.empty()) continue;
    next = l.scanned.records.back().first_request + l.scanned.records.back().requests;
  }
  log_->found(live, next);
  std::vector<GwalRecovered> recovered;
  for (std::size_t i = 0; i < left_.size(); ++i) {
    GwalScanned& s = left_[i].scanned;
    GwalRecovered& r = recovered.emplace_back();
    r.found = {left_[i].live.number, s.records.size(), 0, i < discarded, s.torn};
    for (GwalRecord const& record : s.records) r.found.bytes += record.payload.size();
    if (i >= discarded) r.segment = make_gwal_segment(log_, r.found.number);
    r.records = std::move(s.records);
  }
  left_.clear();
  return recovered;
}

/// Nothing is changed before everything was found to be sound; then what RocksDB has goes, oldest
/// first, so that a crash in between leaves less of the same.
Result<std::vector<GwalRecovered>> LogOfSegments::recover(std::uint64_t rocks_sequence) {
  if (recovered_)
    return Status{Code::invalid_argument,
                  "G-WAL " + log_->files().name() + " is recovered already"};
  auto const discarded = ingested(rocks_sequence);
  if (!discarded.ok()) return discarded.status();
  auto const rest = std::span(left_).subspan(discarded.value());
  scan(rest);
  if (Status s = check(rest); !s.ok()) return s;
  for (Left const& l : std::span(left_).first(discarded.value()))
    if (Status s = l.live.file->remove(); !s.ok()) return s;
  recovered_ = true;
  return hand_over(discarded.value());
}

Result<std::unique_ptr<GwalSegment>> LogOfSegments::begin(std::uint64_t bytes) {
  if (!recovered_)
    return Status{Code::invalid_argument,
                  "G-WAL " + log_->files().name() + ": recover() comes before begin()"};
  if (bytes > kMostGwalPayload)
    return Status{Code::invalid_argument,
                  "G-WAL " + log_->files().name() + ": " + std::to_string(bytes) +
                      " bytes are more than one record holds (1 TiB); write smaller batches"};
  auto const number =
      log_->begin(std::max(segment_bytes_, kGwalRecords + gwal_record_bytes(bytes)));
  if (!number.ok()) return number.status();
  return make_gwal_segment(log_, number.value());
}

}  // namespace

Result<std::unique_ptr<Gwal>> open_gwal_over(std::unique_ptr<GwalFiles> files,
                                             GwalOptions const& options) {
  auto log = std::make_unique<LogOfSegments>(std::move(files), options);
  if (Status s = log->find(); !s.ok()) return s;
  return std::unique_ptr<Gwal>(std::move(log));
}

Result<std::unique_ptr<Gwal>> Gwal::open(GwalOptions const& options) {
  if (options.directory.empty()) return Status{Code::invalid_argument, "G-WAL: name a directory"};
  if (options.identity.empty() || options.identity.size() > GwalIdentity{}.size())
    return Status{Code::invalid_argument, "G-WAL " + options.directory + ": the identity '" +
                                              options.identity + "' must have 1 to 64 bytes"};
  auto files = open_gwal_directory(options);
  if (!files.ok()) return files.status();
  return open_gwal_over(std::move(files).value(), options);
}

}  // namespace perdure::lsm
