#include "lsm/gwal/gwal_power.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/hooks.hpp"
#include "lsm/gwal/gwal_buffers.hpp"
#include "lsm/gwal/gwal_power_disk.hpp"
#include "lsm/gwal/gwal_power_log.hpp"
#include "lsm/gwal/gwal_power_note.hpp"
#include "wal/disk/disk.hpp"

namespace perdure::lsm {
namespace {

using Memory = std::shared_ptr<std::span<std::byte> const>;

/// A segment: its memory, and its number in the log.
class PowerSegment final : public GwalSegment {
 public:
  PowerSegment(std::shared_ptr<GwalPowerLog> log, std::uint64_t number, Memory memory)
      : log_(std::move(log)), number_(number), memory_(std::move(memory)) {}
  /// One that was found, whose records lie where the log was read to.
  PowerSegment(std::shared_ptr<GwalPowerLog> log, std::uint64_t number,
               std::vector<std::vector<std::byte>> records)
      : log_(std::move(log)), number_(number), records_(std::move(records)) {}

  [[nodiscard]] std::uint64_t number() const override { return number_; }
  [[nodiscard]] std::uint64_t memory() const override {
    std::uint64_t all = memory_ == nullptr ? 0 : memory_->size();
    for (std::vector<std::byte> const& record : records_) all += record.size();
    return all;
  }

  Result<std::span<std::byte>> reserve(std::uint64_t bytes) override {
    reserved_ = false;
    if (Status s = log_->takes_records(number_); !s.ok()) return s;
    std::uint64_t const left = memory_->size() - used_;
    if (bytes > left)
      return Status{Code::no_space, "power log " + log_->name() + ", segment " +
                                        std::to_string(number_) + " has no room for " +
                                        std::to_string(bytes) + " bytes: " + std::to_string(left) +
                                        " are left; begin the next segment"};
    payload_ = memory_->subspan(used_, bytes);
    reserved_ = true;
    return payload_;
  }

  /// With or without `sync`.
  Status commit(RequestId first_request, std::uint64_t requests, bool sync,
                GwalPayloadSum const*) override {
    if (!std::exchange(reserved_, false))
      return {Code::invalid_argument, "G-WAL: commit() without a payload that was reserved"};
    bool const logged = sync || !mutated("gwal_power_sync_not_implied");
    Status const s = logged ? log_->append(number_, {first_request, requests, payload_}) : Status{};
    if (s.ok()) used_ = std::min<std::uint64_t>(memory_->size(), used_ + gwal_up(payload_.size()));
    return s;
  }
  Status intend(std::uint64_t rocks_sequence) override {
    return log_->intend(number_, rocks_sequence);
  }
  Status retire() override { return log_->retire(number_); }

 private:
  std::shared_ptr<GwalPowerLog> log_;
  std::uint64_t number_;
  Memory memory_;  // null: it was found
  std::vector<std::vector<std::byte>> records_;
  std::uint64_t used_ = 0;
  std::span<std::byte> payload_;
  bool reserved_ = false;
};

class PowerGwal final : public Gwal {
 public:
  PowerGwal(std::unique_ptr<GwalPowerDisk> disk, bool made, bool noted, GwalOptions const& options)
      : options_(options),
        log_(std::make_shared<GwalPowerLog>(std::move(disk))),
        buffers_(std::make_shared<GwalBuffers>(options.spare_segments, 2 * options.segment_bytes)),
        made_(made),
        noted_(noted) {}
  ~PowerGwal() override { close(); }
  PowerGwal(PowerGwal const&) = delete;
  PowerGwal& operator=(PowerGwal const&) = delete;

  Result<std::vector<GwalRecovered>> recover(std::uint64_t rocks_sequence) override;
  void prepare() override {}
  void trim(std::size_t left) override { buffers_->trim(left); }
  Result<std::unique_ptr<GwalSegment>> begin(std::uint64_t bytes, bool small) override;
  GwalRoom make_room(std::uint64_t bytes) override { return log_->make_room(bytes); }
  [[nodiscard]] std::string report() const override { return report_; }
  void close() override;

 private:
  Result<std::vector<GwalPowerReplayed>> replay();
  std::vector<GwalRecovered> hand_over(std::vector<GwalPowerReplayed> found, bool first_goes);

  GwalOptions const options_;
  std::shared_ptr<GwalPowerLog> log_;
  std::shared_ptr<GwalBuffers> buffers_;
  bool const made_;  // by this opening
  bool const noted_;  // the log counted when it was opened
  std::optional<WrittenGwalPowerNote> note_;  // once it is recovered
  std::string report_;
};

/// Nobody leaves records and takes the note away.
Result<std::vector<GwalPowerReplayed>> PowerGwal::replay() {
  if (made_) return std::vector<GwalPowerReplayed>{};
  auto found = log_->disk().replay();
  if (!found.ok()) return found;
  report_ = "power log " + log_->name() + ": " + log_->disk().report();
  if (noted_ || found.value().empty()) return found;
  return gwal_power_damaged(
      log_->name(), "holds records from segment " + std::to_string(found.value().front().number) +
                        " on, and the database says that none are left: it is another copy "
                        "of the database that wrote them");
}

Result<std::vector<GwalRecovered>> PowerGwal::recover(std::uint64_t rocks_sequence) {
  if (note_)
    return Status{Code::invalid_argument, "power log " + log_->name() + " is recovered already"};
  GwalPowerPlace const place = log_->disk().place();
  auto replayed = replay();
  if (!replayed.ok()) return replayed.status();
  std::vector<GwalPowerReplayed> found = std::move(replayed).value();
  bool const first_goes = !found.empty() && found.front().number == place.oldest &&
                          rocks_sequence > place.intent && !mutated("gwal_power_replay_twice");
  std::vector<GwalPowerLog::Live> live;
  std::uint64_t newest = place.newest;
  RequestId next = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    newest = std::max(newest, found[i].number);
    if (i == 0 && first_goes) continue;
    if (found[i].records.front().first_request < next)
      return gwal_power_damaged(log_->name(), "has the request " + std::to_string(next - 1) +
                                                  " before segment " +
                                                  std::to_string(found[i].number));
    next = found[i].next_request();
    bool const is_oldest = found[i].number == place.oldest;
    live.push_back(
        {found[i].number, found[i].first, is_oldest ? place.intent : kNoGwalIntent, false});
  }
  auto note = WrittenGwalPowerNote::write(options_.power->note, options_.identity,
                                          options_.power->directory);
  if (!note.ok()) return note.status();
  if (!made_) {
    if (Status s = log_->disk().begin(); !s.ok()) return s;
  }
  if (Status s = log_->found(std::move(live), newest, next); !s.ok()) return s;
  note_ = std::move(note).value();
  return hand_over(std::move(found), first_goes);
}

std::vector<GwalRecovered> PowerGwal::hand_over(std::vector<GwalPowerReplayed> found,
                                                bool first_goes) {
  std::vector<GwalRecovered> recovered;
  for (std::size_t i = 0; i < found.size(); ++i) {
    GwalRecovered& r = recovered.emplace_back();
    bool const discarded = i == 0 && first_goes;
    bool const torn = log_->disk().torn() && i + 1 == found.size();
    r.found = {found[i].number, found[i].records.size(), 0, discarded, torn};
    for (GwalRecord const& record : found[i].records) r.found.bytes += record.payload.size();
    if (discarded) continue;
    r.records = std::move(found[i].records);
    r.segment = std::make_unique<PowerSegment>(log_, found[i].number, std::move(found[i].memory));
  }
  return recovered;
}

Result<std::unique_ptr<GwalSegment>> PowerGwal::begin(std::uint64_t bytes, bool small) {
  if (!note_)
    return Status{Code::invalid_argument,
                  "power log " + log_->name() + ": recover() comes before begin()"};
  std::uint64_t const least =
      small ? std::min(options_.segment_bytes, kSmallGwalSegment) : options_.segment_bytes;
  auto memory = buffers_->take(std::max(least, bytes));
  if (!memory.ok()) return memory.status();
  auto const number = log_->begin();
  if (!number.ok()) return number.status();
  return std::unique_ptr<GwalSegment>(
      std::make_unique<PowerSegment>(log_, number.value(), std::move(memory).value()));
}

/// A note that cannot be removed says too much: then the next opening finds a log without records.
void PowerGwal::close() {
  bool const needless = log_->close();
  if (note_ && needless) static_cast<void>(note_->remove());
}

Status elsewhere(std::string const& directory, std::string const& noted) {
  return {Code::invalid_argument, "the database's power log lies in " + noted + ", not in " +
                                      directory +
                                      "; open the database with that one, and close it, before it "
                                      "gets another"};
}

Status gone(std::string const& directory, std::string const& note) {
  return {Code::corrupt,
          "the power log " + directory +
              ", which has writes that RocksDB lacks, is gone; put it "
              "back, or, to go on with what RocksDB has and lose what it has not, remove " +
              note};
}

}  // namespace

/// Where the noted directory is no more, the log was moved.
Result<std::unique_ptr<Gwal>> open_gwal_power(GwalOptions const& options) {
  std::string const& directory = options.power->directory;
  auto const note = read_gwal_power_note(options.power->note);
  if (!note.ok()) return note.status();
  bool const noted = note.value() && note.value()->identity == options.identity;
  if (noted) {
    std::string const& there = note.value()->directory;
    if (there != directory && wal::disk().forgets(there).ok()) return elsewhere(directory, there);
  }
  auto disk = GwalPowerDisk::open(options);
  bool const make = disk.status().code() == Code::not_found;
  if (make && noted) return gone(directory, options.power->note);
  if (make) disk = GwalPowerDisk::make(options);
  if (!disk.ok()) return disk.status();
  return std::unique_ptr<Gwal>(
      std::make_unique<PowerGwal>(std::move(disk).value(), make, noted, options));
}

}  // namespace perdure::lsm
