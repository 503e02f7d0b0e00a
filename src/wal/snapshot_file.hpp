// A snapshot as a file: one image by itself. Invariant: under its own name a snapshot is whole and
// on the disk, or not there; until then it stands beside it under a temporary name
// (pm/named_file.hpp).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "perdure/status.h"
#include "wal/checkpoint.hpp"
#include "wal/disk/block_file.hpp"

namespace perdure::wal {

/// Writes an image of `bytes`, with `head` in place of its first bytes. A file that is there is
/// replaced only with `overwrite`, and only if it is a snapshot, or with `force`.
Status write_snapshot(std::string const& path, pm::MakeOptions make, ImageInfo info,
                      std::span<std::byte const> bytes, std::span<std::byte const> head);

struct SnapshotFile {
  std::unique_ptr<BlockFile> file;
  ImageInfo info;
};
/// Refuses what is no snapshot, of another version, or truncated.
Result<SnapshotFile> open_snapshot(std::string const& path);

}  // namespace perdure::wal
