#include "log/log_dir.hpp"

#include <array>
#include <utility>

#include "base/mutants.hpp"
#include "log/disk.hpp"

namespace perdure::log {
namespace {

constexpr std::array kNames{"redo.log", "checkpoint", "image-a", "image-b"};

std::string name_in(std::string const& directory, char const* name) { return directory + "/" + name; }

/// A log that a power loss takes with it would be a lie.
Status check_medium(std::string const& directory) {
  auto const forgets = disk().forgets(directory);
  if (!forgets) return {forgets.status().code(), "log " + forgets.status().message()};
  if (!forgets.value()) return {};
  return {Code::unsupported,
          "log directory " + directory +
              " lies in memory, which a power loss clears; name one on a disk, or choose durability process"};
}

/// A log whose directory a power loss takes with it would be a lie, too.
Status make_directory(std::string const& directory) {
  auto const made = disk().make_directory(directory);
  if (!made) return {made.status().code(), "log " + made.status().message()};
  auto const name_end = directory.find_last_not_of('/');
  if (name_end == std::string::npos || mutated(Mutant::log_dir_not_synced)) return {};  // the root has no name
  Status const s = disk().sync_directory_of(directory.substr(0, name_end + 1));
  // One that was there may lie in a directory that we may not read: its name is the matter of whoever made it.
  return !made.value() && s.code() == Code::unsupported ? Status{} : s;
}

using Opened = std::array<std::unique_ptr<BlockFile>, kNames.size()>;

Result<Opened> open_all(std::string const& directory, OpenMode mode) {
  Opened files;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    auto file = BlockFile::open(name_in(directory, kNames[i]), mode);
    if (!file) {
      for (std::size_t mine = 0; mine < i && mode == OpenMode::create; ++mine)
        static_cast<void>(disk().remove(name_in(directory, kNames[mine])));
      return Status{file.status().code(), "log directory " + directory + ": " + file.status().message()};
    }
    files[i] = std::move(*file);
  }
  return files;
}

Checkpoints::Files checkpoint_files(Opened& files) {
  return {std::move(files[1]), {std::move(files[2]), std::move(files[3])}};
}

}  // namespace

LogDir::LogDir(std::string directory, std::unique_ptr<BlockFile> log_file, LogIdentity const& identity,
               Checkpoints::Files files)
    : directory_(std::move(directory)),
      log_file_(std::move(log_file)),
      identity_(identity),
      checkpoints_(std::make_unique<Checkpoints>(std::move(files), identity.pool_id)) {}

void LogDir::remove(std::string const& directory) {
  for (char const* const name : kNames) static_cast<void>(disk().remove(name_in(directory, name)));
}

Result<std::unique_ptr<LogDir>> LogDir::create(std::string const& directory, PoolId const& pool_id,
                                               std::uint64_t log_bytes, bool overwrite) {
  if (log_bytes < least_log() || log_bytes % kBlock != 0)
    return Status{Code::invalid_argument, "log directory " + directory + ": log_bytes " + std::to_string(log_bytes) +
                                              " must be a multiple of 4096 and at least " +
                                              std::to_string(least_log())};
  if (Status s = make_directory(directory); !s.ok()) return s;
  if (Status s = check_medium(directory); !s.ok()) return s;
  if (overwrite) {
    auto old = open_all(directory, OpenMode::read_write);  // not while another process uses them
    if (!old.ok() && old.status().code() == Code::busy) return old.status();
    remove(directory);
  }
  auto files = open_all(directory, OpenMode::create);
  if (!files) return files.status();
  auto const format = [&]() -> Result<LogIdentity> {
    if (Status s = format_log(*(*files)[0], pool_id, log_bytes); !s.ok()) return s;
    return read_identity(*(*files)[0]);
  };
  auto const identity = format();
  if (!identity) {
    remove(directory);
    return identity.status();
  }
  std::unique_ptr<LogDir> made(
      new LogDir(directory, std::move((*files)[0]), identity.value(), checkpoint_files(*files)));
  if (Status s = made->start({}); !s.ok()) {
    remove(directory);
    return s;
  }
  return made;
}

Result<std::unique_ptr<LogDir>> LogDir::open(std::string const& directory) {
  if (Status s = check_medium(directory); !s.ok()) return s;
  auto files = open_all(directory, OpenMode::read_write);
  if (!files) return files.status();
  auto const identity = read_identity(*(*files)[0]);
  if (!identity) return identity.status();
  return std::unique_ptr<LogDir>(
      new LogDir(directory, std::move((*files)[0]), identity.value(), checkpoint_files(*files)));
}

Result<ReplayReport> LogDir::replay(LogPosition from, Deliver const& deliver) {
  return log::replay(*log_file_, identity_, from, deliver);
}

Status LogDir::start(LogPosition end) {
  auto log = RedoLog::start(std::move(log_file_), end, checkpoints_->keep_from());
  if (!log) return log.status();
  log_ = std::move(*log);
  return {};
}

Status LogDir::checkpoint(std::span<std::byte const> pool) {
  LogPosition const at = log_->position();
  // Else an image could count whose log ends before it.
  Status const logged = mutated(Mutant::checkpoint_without_its_log) ? Status{} : log_->wait_durable(at.lsn);
  if (!logged.ok()) return logged;
  if (Status s = checkpoints_->write(pool, at); !s.ok()) return s;
  log_->truncate(mutated(Mutant::log_truncated_to_newest) ? at.lsn : checkpoints_->keep_from());
  ++written_;
  return {};
}

bool LogDir::wants_checkpoint() const {
  std::uint64_t const ring = log_->ring_bytes();
  std::uint64_t const since = log_->position().lsn - checkpoints_->newest().lsn;
  return log_->used_bytes() > ring / 2 && since > ring / 4;
}

}  // namespace perdure::log
