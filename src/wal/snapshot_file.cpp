#include "wal/snapshot_file.hpp"

#include <unistd.h>

#include <utility>

#include "base/hooks.hpp"
#include "wal/disk/disk.hpp"

namespace perdure::wal {
namespace {

/// A slip of the name must not cost a pool or a checkpoint.
Status only_a_snapshot(std::string const& path, int fd) {
  ImageHeader header{};
  bool const whole = ::pread(fd, &header, sizeof header, 0) == static_cast<ssize_t>(sizeof header);
  if (whole && header.magic == kImageMagic && header.sequence == 0) return {};
  return {Code::already_exists,
          "snapshot " + path +
              ": what is there is no snapshot, and is not replaced; name another file, or pass "
              "force"};
}

}  // namespace

Status write_snapshot(std::string const& path, pm::MakeOptions make, ImageInfo info,
                      std::span<std::byte const> bytes, std::span<std::byte const> head) {
  make.may_replace = [&](int fd) { return only_a_snapshot(path, fd); };
  auto made = BlockFile::make(path, make);
  if (!made) return made.status();
  Status s = write_image(*made->first, info, bytes, head);
  if (s.ok()) s = made->second->keep();
  if (!s.ok()) return {s.code(), s.message() + "; no snapshot was made"};
  if (!mutated("snapshot_name_not_synced")) s = disk().sync_directory_of(path);
  if (s.ok()) return {};
  return {s.code(), "snapshot " + path +
                        ": it is there now, but perhaps not after a power loss: " + s.message()};
}

Result<SnapshotFile> open_snapshot(std::string const& path) {
  auto file = BlockFile::open(path, OpenMode::read_only);
  if (!file) return file.status();
  auto info = read_image_info(**file);
  if (!info) return info.status();
  if (info->sequence != 0) {
    return Status{Code::invalid_argument,
                  "image " + path +
                      " is a checkpoint of a log directory and lacks what its log holds; open "
                      "its pool with that log_dir, and take a snapshot"};
  }
  std::uint64_t const needed = image_file_bytes(*info);
  if ((*file)->bytes() < needed) {
    return Status{Code::corrupt, "image " + path + ": truncated: the file has " +
                                     std::to_string((*file)->bytes()) + " bytes, the whole image " +
                                     std::to_string(needed)};
  }
  return SnapshotFile{std::move(*file), *info};
}

}  // namespace perdure::wal
