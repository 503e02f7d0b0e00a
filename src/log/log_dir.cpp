#include "log/log_dir.hpp"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/caught.hpp"

namespace perdure::log {
namespace {

constexpr std::array kNames{"redo.log", "checkpoint", "image-a", "image-b"};
constexpr std::uint64_t kLeastLog = 1u << 20;

std::string name_in(std::string const& directory, char const* name) { return directory + "/" + name; }

/// A log that a power loss takes with it would be a lie.
Status check_medium(std::string const& directory) {
  struct statfs fs{};
  if (::statfs(directory.c_str(), &fs) != 0) {
    Code const code = errno == ENOENT ? Code::not_found : Code::io_error;
    return {code, "log directory " + directory + ": " + std::strerror(errno)};
  }
  auto const magic = static_cast<std::uint64_t>(fs.f_type);
  if (magic != TMPFS_MAGIC && magic != HUGETLBFS_MAGIC && magic != RAMFS_MAGIC) return {};
  return {Code::unsupported,
          "log directory " + directory +
              " lies in memory, which a power loss clears; name one on a disk, or choose durability process"};
}

using Opened = std::array<std::unique_ptr<BlockFile>, kNames.size()>;

Result<Opened> open_all(std::string const& directory, OpenMode mode) {
  Opened files;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    auto file = caught([&] { return BlockFile::open(name_in(directory, kNames[i]), mode); });
    if (file) {
      files[i] = std::move(*file);
      continue;
    }
    if (mode == OpenMode::create) {  // those that were made go
      for (std::size_t made = 0; made < i; ++made) ::unlink(files[made]->name().c_str());
    }
    return Status{file.status().code(), "log directory " + directory + ": " + file.status().message()};
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
  for (char const* const name : kNames) ::unlink(name_in(directory, name).c_str());
}

Result<std::unique_ptr<LogDir>> LogDir::create(std::string const& directory, PoolId const& pool_id,
                                               std::uint64_t log_bytes, bool overwrite) {
  if (log_bytes < kLeastLog || log_bytes % kBlock != 0)
    return Status{Code::invalid_argument, "log directory " + directory + ": log_bytes " + std::to_string(log_bytes) +
                                              " must be a multiple of 4096 and at least 1048576"};
  if (::mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST)
    return Status{Code::io_error, "log directory " + directory + ": cannot make it: " + std::strerror(errno)};
  if (Status s = check_medium(directory); !s.ok()) return s;
  if (overwrite) {
    auto old = open_all(directory, OpenMode::read_write);  // not while another process uses them
    if (!old.ok() && old.status().code() == Code::busy) return old.status();
    remove(directory);
  }
  auto files = open_all(directory, OpenMode::create);
  if (!files) return files.status();
  auto made = caught([&]() -> Result<std::unique_ptr<LogDir>> {
    if (Status s = format_log(*(*files)[0], pool_id, log_bytes); !s.ok()) return s;
    auto const identity = read_identity(*(*files)[0]);
    if (!identity) return identity.status();
    std::unique_ptr<LogDir> dir(
        new LogDir(directory, std::move((*files)[0]), identity.value(), checkpoint_files(*files)));
    if (Status s = dir->start({}); !s.ok()) return s;
    return dir;
  });
  if (!made) remove(directory);
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
  if (Status s = log_->wait_durable(at.lsn); !s.ok()) return s;
  if (Status s = checkpoints_->write(pool, at); !s.ok()) return s;
  log_->truncate(checkpoints_->keep_from());
  ++written_;
  return {};
}

bool LogDir::wants_checkpoint() const {
  std::uint64_t const ring = log_->ring_bytes();
  std::uint64_t const since = log_->position().lsn - checkpoints_->newest().lsn;
  return log_->used_bytes() > ring / 2 && since > ring / 4;
}

}  // namespace perdure::log
