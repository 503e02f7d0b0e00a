#include "log/snapshot_file.hpp"

#include <cstring>
#include <utility>

#include "base/mutants.hpp"
#include "log/disk.hpp"

namespace perdure::log {
namespace {

Status there_already(std::string const& path) {
  return {Code::already_exists, "snapshot " + path + " is there already; name another file, or pass overwrite"};
}

/// Whether a new snapshot may take this name; a slip of the name must not cost a pool or a checkpoint.
Status check_target(std::string const& path, bool overwrite) {
  auto const found = disk().look(path, sizeof(ImageHeader));
  if (!found) return {found.status().code(), "snapshot " + path + ": " + found.status().message()};
  if (!found.value()) return {};
  if (!overwrite) return there_already(path);
  ImageHeader header{};
  if (auto const& head = found.value()->head; !head.empty()) std::memcpy(&header, head.data(), head.size());
  if (header.magic == kImageMagic && header.sequence == 0) return {};
  return {Code::already_exists,
          "snapshot " + path + ": what is there is no snapshot, and is not replaced; name another"};
}

/// A file that a crash left is in nobody's use.
Status remove_abandoned(std::string const& path) {
  auto left = BlockFile::open(path, OpenMode::read_write);
  if (left.status().code() == Code::not_found) return {};
  if (!left.ok()) return left.status();
  return disk().remove(path);
}

Status give_name(std::string const& from, std::string const& path, bool overwrite) {
  Status const s = disk().rename(from, path, overwrite);
  if (s.ok()) return {};
  if (s.code() == Code::already_exists) return there_already(path);
  return {s.code(), "snapshot " + path + ": " + s.message()};
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
  if (!s.ok()) {
    static_cast<void>(disk().remove(partial));  // a snapshot that failed has said so
    return {s.code(), s.message() + "; no snapshot was made"};
  }
  if (!mutated(Mutant::snapshot_name_not_synced)) s = disk().sync_directory_of(path);
  if (s.ok()) return {};
  return {s.code(), "snapshot " + path + ": it is there now, but perhaps not after a power loss: " + s.message()};
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
