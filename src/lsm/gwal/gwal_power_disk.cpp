#include "lsm/gwal/gwal_power_disk.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/hash.hpp"
#include "lsm/gwal/gwal_headers.hpp"

namespace perdure::lsm {
namespace {

constexpr std::uint64_t kImage = wal::kBlock;

/// Groups of another database's log do not pass.
wal::PoolId pool_id_of(GwalIdentity const& identity) {
  std::uint64_t const first =
      hash_bytes(reinterpret_cast<std::byte const*>(identity.data()), identity.size());
  std::uint64_t const both[2] = {first, nth_hash(first, 1)};
  wal::PoolId id;
  static_assert(sizeof id == sizeof both);
  std::memcpy(id.data(), both, sizeof both);
  return id;
}

}  // namespace

Status gwal_power_damaged(std::string const& directory, std::string const& how) {
  return {Code::corrupt,
          "the power log " + directory + " " + how +
              "; restore the database and its power log from one copy, or, to go on with what "
              "RocksDB has and lose what it has not, remove the note perdure-power in the "
              "database's directory and move the log away"};
}

GwalPowerDisk::GwalPowerDisk(std::unique_ptr<wal::LogDir> files, GwalOptions const& options)
    : files_(std::move(files)),
      identity_(gwal_identity(options.identity)),
      identity_bytes_(static_cast<std::uint32_t>(options.identity.size())) {}

Result<std::unique_ptr<GwalPowerDisk>> GwalPowerDisk::open(GwalOptions const& options) {
  auto files = wal::LogDir::open(options.power->directory);
  if (!files.ok())
    return files.status().code() == Code::not_found ? files.status() : of_gwal(files.status());
  std::unique_ptr<GwalPowerDisk> disk(new GwalPowerDisk(std::move(files).value(), options));
  Status const loaded = disk->load();
  if (loaded.ok()) return disk;
  if (!disk->is_anothers_) return loaded;
  auto const found = disk->replay();
  if (!found.ok() || !found.value().empty()) return loaded;
  return Status{Code::not_found, "another database's power log, which holds nothing"};
}

Result<std::unique_ptr<GwalPowerDisk>> GwalPowerDisk::make(GwalOptions const& options) {
  auto files =
      wal::LogDir::create(options.power->directory, pool_id_of(gwal_identity(options.identity)),
                          options.power->bytes, {.overwrite = true});
  if (!files.ok()) return of_gwal(files.status());
  std::unique_ptr<GwalPowerDisk> disk(new GwalPowerDisk(std::move(files).value(), options));
  disk->place_.at = disk->log().position();
  if (Status s = disk->write(disk->place_); !s.ok()) return s;
  if (Status s = disk->files_->keep(); !s.ok()) return of_gwal(s);
  return disk;
}

/// The image that counts, and whose log it is.
Status GwalPowerDisk::load() {
  auto room = wal::AlignedBuffer::make(kImage);
  if (!room.ok()) return room.status();
  auto const loaded = files_->load([&](wal::ImageInfo const& info) -> Result<std::span<std::byte>> {
    if (info.bytes == kImage) return room->span();
    return Status{Code::corrupt, "its image is not one of a G-WAL's power log"};
  });
  if (!loaded.ok())
    return gwal_power_damaged(name(), "cannot be used: " + loaded.status().message());
  GwalPowerState state;
  std::memcpy(&state, room->data(), sizeof state);
  if (state.magic != kGwalPowerStateMagic)
    return gwal_power_damaged(name(), "is no power log of a G-WAL");
  if (state.format_version != kGwalPowerVersion)
    return {Code::corrupt, "the power log " + name() + " has format version " +
                               std::to_string(state.format_version) + ", and this Perdure knows " +
                               std::to_string(kGwalPowerVersion) +
                               "; open the database with the Perdure that wrote it"};
  is_anothers_ = state.identity != identity_;
  place_ = {state.newest, state.oldest, state.intent, loaded.value().image.at};
  if (!loaded.value().report.empty()) report_ = loaded.value().report + "; ";
  if (is_anothers_)
    return {Code::corrupt,
            "the power log " + name() + " belongs to the database '" +
                std::string(state.identity.data(),
                            std::min<std::size_t>(state.identity_bytes, state.identity.size())) +
                "', and this is '" + std::string(identity_.data(), identity_bytes_) +
                "'; give each database a power log of its own, or, if that database is no more, "
                "remove the directory"};
  return {};
}

Status GwalPowerDisk::take(std::uint64_t batch, std::vector<std::byte>& payload,
                           std::vector<GwalPowerReplayed>& found) const {
  auto const damaged = [&](std::string const& how) {
    return gwal_power_damaged(
        name(), "has a record, batch " + std::to_string(batch) + " of the log, that " + how);
  };
  GwalPowerRecord h;
  if (payload.size() < sizeof h) return damaged("is too short");
  std::memcpy(&h, payload.data(), sizeof h);
  if (h.magic != kGwalPowerRecordMagic || h.format_version != kGwalPowerVersion ||
      h.payload_bytes != payload.size() - sizeof h)
    return damaged("passes its checksum and is none");
  std::uint64_t const least = found.empty() ? place_.oldest : found.back().number;
  if (h.number < least || h.number == 0 || h.lsn < place_.at.lsn)
    return damaged("is of segment " + std::to_string(h.number) + ", behind segment " +
                   std::to_string(least));
  bool const begins = found.empty() || found.back().number != h.number;
  if (begins) found.push_back({h.number, {h.lsn, batch}, {}, {}});
  GwalPowerReplayed& segment = found.back();
  if (!begins && h.first_request < segment.next_request())
    return damaged("has the request " + std::to_string(h.first_request) + " behind " +
                   std::to_string(segment.next_request() - 1));
  segment.memory.push_back(std::move(payload));
  payload.clear();
  segment.records.push_back(
      {h.first_request, h.requests, std::span(segment.memory.back()).subspan(sizeof h)});
  return {};
}

Result<std::vector<GwalPowerReplayed>> GwalPowerDisk::replay() {
  PERDURE_ASSERT(!end_);
  std::vector<GwalPowerReplayed> found;
  auto replayed =
      files_->replay(place_.at, [&](std::uint64_t batch, std::vector<std::byte>& payload) {
        return take(batch, payload, found);
      });
  if (!replayed.ok()) return replayed.status();
  if (replayed->lost_acknowledged)
    return gwal_power_damaged(name(), "lacks records that were acknowledged: " +
                                          replayed->describe() + "; nothing was changed");
  report_ += replayed->describe();
  torn_ = replayed->reason == wal::StopReason::torn;
  end_ = replayed->end;
  return found;
}

Status GwalPowerDisk::begin() {
  PERDURE_ASSERT(end_.has_value());
  Status const s = files_->start(*end_);
  return s.ok() ? s : of_gwal(s);
}

Status GwalPowerDisk::write(GwalPowerPlace const& place) {
  auto image = wal::AlignedBuffer::make(kImage);
  if (!image.ok()) return image.status();
  GwalPowerState const state{kGwalPowerStateMagic, kGwalPowerVersion, identity_bytes_, identity_,
                             place.newest,         place.oldest,      place.intent,    {}};
  std::memcpy(image->data(), &state, sizeof state);
  if (Status s = files_->checkpoint(image->span(), place.at); !s.ok()) return of_gwal(s);
  place_ = place;
  return {};
}

}  // namespace perdure::lsm
