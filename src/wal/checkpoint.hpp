// Copies of a pool on disk: two images, A and B, written in turn, and a record that says which
// counts. The same file format serves as a snapshot.
//
// Invariants:
//  1. The record is rewritten only after the image that it will name is durable, so that at every
//     moment a whole image is named.
//  2. The other image and its place in the log stay usable: the log may be truncated up to
//     keep_from(), the older of the two places, and no further.
//  3. No byte of an image is handed out before its chunk's checksum has passed.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "perdure/status.h"
#include "wal/disk/block_file.hpp"
#include "wal/image.hpp"
#include "wal/image_writer.hpp"

namespace perdure::wal {

/// Writes a whole image of `bytes` (a multiple of 4096), durably; the header last. Fills in `info`.
/// `head`, at most one chunk, stands in for the first bytes.
Status write_image(BlockFile& file, ImageInfo& info, std::span<std::byte const> bytes,
                   std::span<std::byte const> head = {});
/// Length of a file that holds the whole image.
[[nodiscard]] std::uint64_t image_file_bytes(ImageInfo const& info);
/// Refuses images of another version by name, and damaged headers.
Result<ImageInfo> read_image_info(BlockFile& file);
/// Reads the image into `into`, of info.bytes, which starts on a page. An error names the first
/// damaged chunk; what `into` then holds is of no use.
Status load_image(BlockFile& file, ImageInfo const& info, std::span<std::byte> into);

/// What load() found.
struct Loaded {
  ImageInfo image;
  char which = 'A';
  std::string report;  // empty where nothing was damaged
};

/// Gives memory for an image of this many bytes.
using MakeRoom = std::function<Result<std::span<std::byte>>(ImageInfo const&)>;

class Checkpoints {
 public:
  struct Files {
    std::unique_ptr<BlockFile> record;
    std::array<std::unique_ptr<BlockFile>, 2> image;
  };
  Checkpoints(Files files, PoolId const& pool_id) : files_(std::move(files)), pool_id_(pool_id) {}

  /// Of new files, before they have names: whatever a crash leaves of them can be told to be files
  /// of a log directory.
  Status format();
  /// Writes `bytes` as the next checkpoint. On failure the one before still counts.
  Status write(std::span<std::byte const> bytes, LogPosition at);

  // The same piece by piece: begin(), then go_on() until running() is false. Only finish() and
  // wait_for_buffers() wait for the disk.
  Status begin(std::uint64_t bytes, LogPosition at);
  [[nodiscard]] bool running() const { return running_ != nullptr; }
  /// Up to `most` chunks; after an error it is given up.
  Status go_on(std::uint64_t most, ImageSource const& source, ForEach const& each);
  /// All the rest of it, waiting for the disk.
  Status finish(ImageSource const& source, ForEach const& each);
  void wait_for_buffers() { running_->image->wait_for_buffers(); }
  /// The one before counts on.
  void give_up() { running_.reset(); }
  /// Of the one that is running.
  [[nodiscard]] LogPosition position() const { return running_->image->info().at; }
  [[nodiscard]] std::uint64_t chunks() const { return running_->image->chunks(); }
  [[nodiscard]] std::uint64_t copied_chunks() const { return running_->image->copied(); }
  /// Loads the image that counts; if that is damaged, or there is no room for it, the other one,
  /// and says so.
  Result<Loaded> load(MakeRoom const& make_room);
  /// Batches before this are in both images (in the one there is, if the other is none).
  [[nodiscard]] Lsn keep_from() const;
  /// A checkpoint that load() has seen, damaged perhaps, was written when the log had reached
  /// further than this.
  [[nodiscard]] bool has_seen_more_than(LogPosition end) const {
    return end.lsn < seen_.lsn || end.next_batch < seen_.next_batch;
  }
  /// Of the newest checkpoint.
  [[nodiscard]] LogPosition newest() const { return newest_; }

 private:
  Result<std::optional<CheckpointRecord>> read_record(std::string& report);
  Result<ImageInfo> read_image(std::uint32_t which);
  Status begin_record();
  void take_over();

  /// The next image, and then the record that names it.
  struct Running {
    std::uint32_t which = 0;
    std::unique_ptr<ImageWriter> image;
    std::optional<SyncedWrite> record;
  };

  Files files_;
  PoolId pool_id_;
  std::uint64_t sequence_ = 0;  // of the newest record
  std::uint32_t active_ = 1;  // image it names; the next checkpoint goes to the other
  LogPosition newest_;
  LogPosition seen_;  // furthest places that records, or images' headers, name
  std::optional<Lsn> older_;  // of the other image, where that is whole
  std::unique_ptr<Running> running_;
};

}  // namespace perdure::wal
