#include "log/snapshot_file.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

namespace perdure::log {
namespace {

Status there_already(std::string const& path) {
  return {Code::already_exists, "snapshot " + path + " is there already; name another file, or pass overwrite"};
}

/// Whether a new snapshot may take this name; a slip of the name must not cost a pool or a checkpoint.
Status check_target(std::string const& path, bool overwrite) {
  struct stat st{};
  if (::lstat(path.c_str(), &st) != 0) {
    if (errno == ENOENT) return {};
    return {Code::io_error, "snapshot " + path + ": " + std::strerror(errno)};
  }
  if (!overwrite) return there_already(path);
  ImageHeader header{};
  if (S_ISREG(st.st_mode)) std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(&header), sizeof header);
  if (header.magic == kImageMagic && header.sequence == 0) return {};
  return {Code::already_exists,
          "snapshot " + path + ": what is there is no snapshot, and is not replaced; name another"};
}

/// A file that a crash left is in nobody's use.
Status remove_abandoned(std::string const& path) {
  auto left = BlockFile::open(path, OpenMode::read_write);
  if (left.status().code() == Code::not_found) return {};
  if (!left.ok()) return left.status();
  ::unlink(path.c_str());
  return {};
}

Status give_name(std::string const& from, std::string const& path, bool overwrite) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, path.c_str(), overwrite ? 0 : RENAME_NOREPLACE) == 0)
    return sync_directory_of(path);
  if (errno == EEXIST) return there_already(path);
  std::string const why = errno == EINVAL && !overwrite
                              ? "its file system cannot rename without replacing; pass overwrite"
                              : std::strerror(errno);
  return {Code::io_error, "snapshot " + path + ": " + why};
}

}  // namespace

std::string partial_name(std::string const& path) { return path + ".perdure-partial"; }

Status write_snapshot(std::string const& path, bool overwrite, ImageInfo info, std::span<std::byte const> bytes,
                      std::span<std::byte const> head) {
  if (Status s = check_target(path, overwrite); !s.ok()) return s;
  std::string const partial = partial_name(path);
  if (Status s = remove_abandoned(partial); !s.ok()) return s;
  auto file = BlockFile::open(partial, OpenMode::create);
  if (!file) return file.status();
  Status s = write_image(**file, info, bytes, head);
  if (s.ok()) s = give_name(partial, path, overwrite);
  if (s.ok()) return {};
  ::unlink(partial.c_str());
  return {s.code(), s.message() + "; no snapshot was made"};
}

Result<SnapshotFile> open_snapshot(std::string const& path) {
  auto file = BlockFile::open(path, OpenMode::read_only);
  if (!file) return file.status();
  auto info = read_image_info(**file);
  if (!info) return info.status();
  if (info->sequence != 0) {
    return Status{Code::invalid_argument, "image " + path +
                                              " is a checkpoint of a log directory and lacks what its log holds; open "
                                              "its pool with that log_dir, and take a snapshot"};
  }
  std::uint64_t const wanted = image_file_bytes(*info);
  if ((*file)->bytes() < wanted) {
    return Status{Code::corrupt, "image " + path + ": truncated: the file has " + std::to_string((*file)->bytes()) +
                                     " bytes, the whole image " + std::to_string(wanted)};
  }
  return SnapshotFile{std::move(*file), *info};
}

}  // namespace perdure::log
