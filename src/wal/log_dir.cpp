#include "wal/log_dir.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/assert.hpp"
#include "base/caught.hpp"
#include "base/hooks.hpp"
#include "base/log.hpp"
#include "wal/disk/disk.hpp"

namespace perdure::wal {
namespace {

constexpr std::array kNames{"redo.log", "checkpoint", "image-a", "image-b"};
constexpr std::array kMagics{kLogMagic, kCheckpointMagic, kImageMagic, kImageMagic};

// A checkpoint begins when so much of the log is used, and is to be whole by the time so much more
// has been written. The log is needed from the checkpoint before on, so that checkpoints follow
// each other by 5/16 of the log, which is then full to 13/16 at most. For 2/16 both images are
// whole.
constexpr std::uint64_t kEighthsToBegin = 5;
constexpr std::uint64_t kSixteenthsToCopy = 3;

std::string name_in(std::string const& directory, char const* name) {
  return directory + "/" + name;
}

void tell_checkpoint(std::string const& directory, std::uint64_t written) noexcept try {
  if (!log::wants(LogLevel::debug)) return;
  log::note(LogLevel::debug, "checkpoint", {}, "the log's older part is in an image",
            {{"log_dir", directory}, {"checkpoints", written}});
} catch (...) {  // without memory the checkpoint is whole all the same
}

/// A log that a power loss takes with it would be a lie.
Status check_medium(std::string const& directory) {
  auto const forgets = disk().forgets(directory);
  if (!forgets) return {forgets.status().code(), "log " + forgets.status().message()};
  if (!forgets.value()) return {};
  return {Code::unsupported, "log directory " + directory +
                                 " lies in memory, which a power loss clears; name one on a disk, "
                                 "or choose durability process"};
}

/// A log whose directory a power loss takes with it would be a lie, too.
Status make_directory(std::string const& directory, mode_t mode) {
  auto const made = disk().make_directory(directory, mode);
  if (!made) return {made.status().code(), "log " + made.status().message()};
  auto const name_end = directory.find_last_not_of('/');
  if (name_end == std::string::npos || mutated("log_dir_not_synced"))
    return {};  // the root has no name
  Status const s = disk().sync_directory_of(directory.substr(0, name_end + 1));
  // One that was there may lie in a directory that we may not read: its name is the matter of
  // whoever made it.
  return !made.value() && s.code() == Code::unsupported ? Status{} : s;
}

using Opened = std::array<std::unique_ptr<BlockFile>, kNames.size()>;

Result<Opened> open_all(std::string const& directory, OpenMode mode) {
  Opened files;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    auto file = BlockFile::open(name_in(directory, kNames[i]), mode);
    if (!file) {
      // All that counts is in the log and one image.
      bool const lost = i > 0 && file.status().code() == Code::not_found;
      return Status{file.status().code(),
                    "log directory " + directory + ": " + file.status().message() +
                        (lost ? "; if it is lost, put an empty file in its place" : "")};
    }
    files[i] = std::move(*file);
  }
  return files;
}

/// What a killed process wrote is there to be read, and a power loss may still take it. An opening
/// shows all that it finds, and begins an epoch after it: so first that lasts. Images, too: the
/// newest may hold a batch that found no room in the log.
Status make_durable(std::string const& directory, Opened const& files) {
  Status s = mutated("opened_log_not_synced") ? Status{} : files[0]->sync();
  for (std::size_t i = 1; s.ok() && i < files.size() && !mutated("opened_images_not_synced"); ++i)
    s = files[i]->sync();
  if (s.ok() && !mutated("opened_names_not_synced"))
    s = disk().sync_directory_of(name_in(directory, kNames[0]));
  return s.ok() ? s : Status{s.code(), "log directory " + directory + ": " + s.message()};
}

/// New files, and their names, which go first: while the files are locked. "checkpoint" is what
/// others call files of theirs, too.
struct Made {
  Opened files;
  std::vector<std::unique_ptr<NewName>> names;
};

Result<Made> make_all(std::string const& directory, pm::MakeOptions make) {
  Made all;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    std::string const path = name_in(directory, kNames[i]);
    std::string_view const magic{kMagics[i].data(), kMagics[i].size()};
    make.may_replace =
        pm::only_replaces("file " + path, "file of a log directory", magic, true, true);
    auto made = BlockFile::make(path, make);
    if (!made)
      return Status{made.status().code(),
                    "log directory " + directory + ": " + made.status().message()};
    all.files[i] = std::move(made->first);
    all.names.push_back(std::move(made->second));
  }
  return all;
}

/// Who may read files may go through their directory.
mode_t directory_mode(std::uint32_t mode) { return mode == 0 ? 0700 : mode | (mode & 0444) >> 2; }

Checkpoints::Files checkpoint_files(Opened& files) {
  return {std::move(files[1]), {std::move(files[2]), std::move(files[3])}};
}

}  // namespace

LogDir::LogDir(std::string directory, std::unique_ptr<BlockFile> log_file,
               LogIdentity const& identity, Checkpoints::Files files)
    : directory_(std::move(directory)),
      log_file_(std::move(log_file)),
      identity_(identity),
      checkpoints_(std::make_unique<Checkpoints>(std::move(files), identity.pool_id)) {}

Result<std::unique_ptr<LogDir>> LogDir::create(std::string const& directory, PoolId const& pool_id,
                                               std::uint64_t log_bytes,
                                               pm::MakeOptions const& make) {
  if (log_bytes < least_log() || log_bytes % kBlock != 0)
    return Status{Code::invalid_argument,
                  "log directory " + directory + ": log_bytes " + std::to_string(log_bytes) +
                      " must be a multiple of 4096 and at least " + std::to_string(least_log())};
  if (Status s = make_directory(directory, directory_mode(make.mode)); !s.ok()) return s;
  if (Status s = check_medium(directory); !s.ok()) return s;
  auto all = make_all(directory, make);
  if (!all) return all.status();
  if (Status s = format_log(*all->files[0], pool_id, log_bytes); !s.ok()) return s;
  auto const identity = read_identity(*all->files[0]);
  if (!identity) return identity.status();
  std::unique_ptr<LogDir> made(new LogDir(directory, std::move(all->files[0]), identity.value(),
                                          checkpoint_files(all->files)));
  made->names_ = std::move(all->names);
  if (Status s = made->checkpoints_->format(); !s.ok()) return s;
  if (Status s = made->start({}); !s.ok()) return s;
  return made;
}

Status LogDir::keep() {
  Status s = caught([this]() -> Status {
    for (auto const& name : names_)
      if (Status kept = name->keep(); !kept.ok()) return kept;
    // New names, and what they replaced, are so for good only when the directory is on the disk
    // too.
    if (mutated("file_name_not_synced")) return {};
    return disk().sync_directory_of(name_in(directory_, kNames[0]));
  });
  if (!s.ok()) {
    for (auto const& name : names_) name->remove();
    s = {s.code(), "log directory " + directory_ + ": " + s.message()};
  }
  names_.clear();
  return s;
}

std::uint32_t LogDir::mode() const {
  struct stat st{};
  return ::stat(name_in(directory_, kNames[0]).c_str(), &st) == 0 ? st.st_mode & 0777 : 0;
}

Result<std::unique_ptr<LogDir>> LogDir::open(std::string const& directory) {
  if (Status s = check_medium(directory); !s.ok()) return s;
  auto files = open_all(directory, OpenMode::read_write);
  if (!files) return files.status();
  if (Status s = make_durable(directory, *files); !s.ok()) return s;
  auto const identity = read_identity(*(*files)[0]);
  if (!identity) return identity.status();
  return std::unique_ptr<LogDir>(
      new LogDir(directory, std::move((*files)[0]), identity.value(), checkpoint_files(*files)));
}

Result<ReplayReport> LogDir::replay(LogPosition from, Deliver const& deliver) {
  PERDURE_ASSERT(log_file_ != nullptr && log_ == nullptr);
  auto report = wal::replay(*log_file_, identity_, from, deliver);
  if (report && checkpoints_->has_seen_more_than(report->end))
    report->lost("a later checkpoint had been written");
  return report;
}

Status LogDir::write_both_images(std::span<std::byte const> pool, LogPosition end) {
  PERDURE_ASSERT(log_ == nullptr && !pool.empty());
  for (int image = 0; image < 2; ++image)
    if (Status s = checkpoints_->write(pool, end); !s.ok()) return s;
  return {};
}

Status LogDir::start(LogPosition end) {
  PERDURE_ASSERT(log_file_ != nullptr && log_ == nullptr);
  auto log = RedoLog::start(std::move(log_file_), end, checkpoints_->keep_from());
  if (!log) return log.status();
  log_ = std::move(*log);
  return {};
}

// ------------------------------------------------------------------------------------------------
// Checkpoints

Status LogDir::checkpoint(std::span<std::byte const> pool, LogPosition at) {
  PERDURE_ASSERT(log_ != nullptr && !pool.empty() && at.lsn <= log_->position().lsn && !runs_);
  // Else an image could count whose log ends before it.
  Status const logged =
      mutated("checkpoint_without_its_log") ? Status{} : log_->wait_durable(at.lsn);
  if (!logged.ok()) return logged;
  if (Status s = checkpoints_->write(pool, at); !s.ok()) return s;
  log_->truncate(mutated("log_truncated_to_newest") ? at.lsn : checkpoints_->keep_from());
  ++written_;
  tell_checkpoint(directory_, written_);
  return {};
}

Status LogDir::begin_checkpoint(std::uint64_t bytes) {
  PERDURE_ASSERT(log_ != nullptr && !runs_);
  std::lock_guard const lock(running_);
  if (Status s = checkpoints_->begin(bytes, log_->position()); !s.ok()) return s;
  copied_ = 0;
  runs_ = true;
  return {};
}

/// So many chunks are to be copied by now.
std::uint64_t LogDir::due_chunks() const {
  LogRoom const room = log_->room();
  std::uint64_t const since = room.end - checkpoints_->position().lsn;
  std::uint64_t const interval = std::max(room.ring_bytes / 16 * kSixteenthsToCopy, kBlock);
  std::uint64_t const all = checkpoints_->chunks();
  if (since >= interval) return all;
  return static_cast<std::uint64_t>(static_cast<double>(all) * static_cast<double>(since) /
                                    static_cast<double>(interval));
}

/// Whoever waits for its buffers is let wait: the next batch goes on.
Status LogDir::go_on_with_checkpoint(ImageSource const& source, ForEach const& each) {
  PERDURE_ASSERT(runs_);
  std::unique_lock const lock(running_, std::try_to_lock);
  if (!lock.owns_lock()) return {};
  // Else an image could count whose log ends before it.
  bool const logged =
      log_->durable_lsn() >= checkpoints_->position().lsn || mutated("checkpoint_without_its_log");
  if (!logged) return {};
  std::uint64_t const due = due_chunks();
  std::uint64_t const copied = checkpoints_->copied_chunks();
  Status const s = checkpoints_->go_on(due - std::min(due, copied), source, each);
  note_checkpoint(s.ok());
  return s;
}

Status LogDir::finish_checkpoint(ImageSource const& source, ForEach const& each) {
  PERDURE_ASSERT(runs_);
  std::lock_guard const lock(running_);
  Status s = log_->wait_durable(checkpoints_->position().lsn);
  if (s.ok())
    s = checkpoints_->finish(source, each);
  else
    checkpoints_->give_up();
  note_checkpoint(s.ok());
  return s;
}

void LogDir::give_up_checkpoint() {
  std::lock_guard const lock(running_);
  checkpoints_->give_up();
  note_checkpoint(false);
}

/// After each step. It runs no more if it is whole or was given up.
void LogDir::note_checkpoint(bool good) {
  if (checkpoints_->running()) {
    copied_ = checkpoints_->copied_chunks() * kChunkBytes;
    behind_ = checkpoints_->copied_chunks() < due_chunks();
    return;
  }
  runs_ = behind_ = false;
  if (!good) return;
  log_->truncate(mutated("log_truncated_to_newest") ? checkpoints_->newest().lsn
                                                    : checkpoints_->keep_from());
  ++written_;
  tell_checkpoint(directory_, written_);
}

void LogDir::wait_for_checkpoint() {
  if (!behind_) return;
  std::lock_guard const lock(running_);
  if (checkpoints_->running()) checkpoints_->wait_for_buffers();
}

bool LogDir::wants_checkpoint() const {
  PERDURE_ASSERT(log_ != nullptr);
  LogRoom const room = log_->room();
  std::uint64_t const since = room.end - checkpoints_->newest().lsn;
  return room.used_bytes > room.ring_bytes / 8 * kEighthsToBegin && since > room.ring_bytes / 4;
}

}  // namespace perdure::wal
