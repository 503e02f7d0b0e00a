#include "lsm/gwal/gwal.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "lsm/gwal/gwal_files.hpp"
#include "lsm/gwal/gwal_format.hpp"
#include "lsm/gwal/gwal_headers.hpp"
#include "lsm/gwal/gwal_power.hpp"
#include "lsm/gwal/gwal_recovery.hpp"
#include "lsm/gwal/gwal_segment.hpp"

namespace perdure::lsm {
namespace {

class LogOfSegments final : public Gwal {
 public:
  LogOfSegments(std::unique_ptr<GwalFiles> files, std::vector<GwalLeft> left,
                GwalOptions const& options)
      : log_(std::make_shared<GwalLog>(std::move(files), options)),
        segment_bytes_(options.segment_bytes),
        workers_(options.workers),
        left_(std::move(left)) {}

  Result<std::vector<GwalRecovered>> recover(std::uint64_t rocks_sequence) override;
  void prepare() override { log_->prepare(); }
  void trim(std::size_t left) override { log_->files().trim(left); }
  Result<std::unique_ptr<GwalSegment>> begin(std::uint64_t bytes, bool small) override;

 private:
  Status remove_ingested(std::size_t count) const;
  std::vector<GwalRecovered> hand_over(std::size_t discarded);

  std::shared_ptr<GwalLog> log_;
  std::uint64_t segment_bytes_;
  exec::Workers* workers_;
  std::vector<GwalLeft> left_;  // until recover()
  std::uint64_t newest_ = 0;  // number of all that were found
  bool recovered_ = false;
};

Result<std::vector<GwalRecovered>> LogOfSegments::recover(std::uint64_t rocks_sequence) {
  if (recovered_)
    return Status{Code::invalid_argument,
                  "G-WAL " + log_->files().name() + " is recovered already"};
  auto const discarded = ingested_gwal_segments(left_, rocks_sequence);
  if (!discarded.ok()) return discarded.status();
  auto const rest = std::span(left_).subspan(discarded.value());
  scan_gwal_segments(rest, log_->identity(), workers_);
  auto const cut = check_gwal_segments(rest, log_->files().boot());
  if (!cut.ok()) return cut.status();
  if (Status s = remove_ingested(discarded.value()); !s.ok()) return s;
  if (cut.value()) {
    std::size_t const kept = *cut.value();
    if (Status s = cut_gwal_segments(rest.subspan(kept)); !s.ok()) return s;
    left_.resize(discarded.value() + kept + 1);
    left_.back().scanned.torn = true;
  }
  if (!left_.empty()) newest_ = left_.back().header.number;
  if (Status s = mend_gwal_intents(std::span(left_).subspan(discarded.value())); !s.ok()) return s;
  recovered_ = true;
  return hand_over(discarded.value());
}

/// Oldest first, so that a crash in between leaves less of the same.
Status LogOfSegments::remove_ingested(std::size_t count) const {
  for (GwalLeft const& l : std::span(left_).first(count))
    if (Status s = l.file->remove(true); !s.ok()) return s;
  return {};
}

std::vector<GwalRecovered> LogOfSegments::hand_over(std::size_t discarded) {
  std::vector<GwalLive> live;
  RequestId next = 0;
  for (GwalLeft const& l : std::span(left_).subspan(discarded)) {
    live.push_back(
        {l.file, l.header.number, l.scanned.end, kGwalRecords, l.intent.rocks_sequence, false});
    if (l.scanned.records.empty()) continue;
    next = l.scanned.records.back().first_request + l.scanned.records.back().requests;
  }
  log_->found(live, newest_, next);
  std::vector<GwalRecovered> recovered;
  for (std::size_t i = 0; i < left_.size(); ++i) {
    GwalScanned& s = left_[i].scanned;
    GwalRecovered& r = recovered.emplace_back();
    r.found = {left_[i].header.number, s.records.size(), 0, i < discarded, s.torn};
    for (GwalRecord const& record : s.records) r.found.bytes += record.payload.size();
    if (i >= discarded) r.segment = make_gwal_segment(log_, r.found.number);
    r.records = std::move(s.records);
  }
  left_.clear();
  return recovered;
}

Result<std::unique_ptr<GwalSegment>> LogOfSegments::begin(std::uint64_t bytes, bool small) {
  if (!recovered_)
    return Status{Code::invalid_argument,
                  "G-WAL " + log_->files().name() + ": recover() comes before begin()"};
  if (bytes > kMostGwalPayload)
    return Status{Code::invalid_argument,
                  "G-WAL " + log_->files().name() + ": " + std::to_string(bytes) +
                      " bytes are more than one record holds (1 TiB); write smaller batches"};
  std::uint64_t const least = small ? std::min(segment_bytes_, kSmallGwalSegment) : segment_bytes_;
  auto const number = log_->begin(std::max(least, gwal_segment_bytes(bytes)));
  if (!number.ok()) return number.status();
  return make_gwal_segment(log_, number.value());
}

}  // namespace

Result<std::unique_ptr<Gwal>> open_gwal_over(std::unique_ptr<GwalFiles> files,
                                             GwalOptions const& options) {
  auto left = find_gwal_segments(*files, gwal_identity(options.identity));
  if (!left.ok()) return left.status();
  return std::unique_ptr<Gwal>(
      std::make_unique<LogOfSegments>(std::move(files), std::move(left).value(), options));
}

Result<std::unique_ptr<Gwal>> Gwal::open(GwalOptions const& options) {
  std::string const& directory = options.power ? options.power->directory : options.directory;
  if (directory.empty()) return Status{Code::invalid_argument, "G-WAL: name a directory"};
  if (options.identity.empty() || options.identity.size() > GwalIdentity{}.size())
    return Status{Code::invalid_argument, "G-WAL " + directory + ": the identity '" +
                                              options.identity + "' must have 1 to 64 bytes"};
  if (options.power) return open_gwal_power(options);
  auto files = open_gwal_directory(options);
  if (!files.ok()) return files.status();
  return open_gwal_over(std::move(files).value(), options);
}

}  // namespace perdure::lsm
