// An image of a pool, written piece by piece: whoever owns the pool says when, and how much, and
// nothing here waits for the disk unless it is told to. So a checkpoint goes on beside batches.
//
// Invariants:
//  1. The header is written only after all that it vouches for is durable.
//  2. The source is asked for the chunks in order, for each once, and what is summed is what is
//     written.
//  3. The buffers outlive the requests: an image that is given up waits for what is under way.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "perdure/status.h"
#include "wal/disk/block_file.hpp"
#include "wal/image.hpp"

namespace perdure::wal {

/// Brings the bytes of the image from `at` on.
using ImageSource = std::function<void(std::uint64_t at, std::span<std::byte> into)>;
/// Calls f(i) for each i < n, side by side perhaps.
using ForEach = std::function<void(std::size_t n, std::function<void(std::size_t)> const& f)>;
void one_after_another(std::size_t n, std::function<void(std::size_t)> const& f);

/// A few blocks that are written durably, and the file synced after them.
class SyncedWrite {
 public:
  /// The blocks hold `bytes` from `data`, and zeros. `sync` false: the write alone.
  Status begin(BlockFile& file, std::uint64_t offset, void const* data, std::uint64_t bytes,
               bool sync = true);
  /// Without `wait` only what has ended already counts.
  Status go_on(bool wait);
  [[nodiscard]] bool done() const { return next_ == Next::none; }
  ~SyncedWrite();  // waits for what is under way

  SyncedWrite() = default;
  SyncedWrite(SyncedWrite const&) = delete;
  SyncedWrite& operator=(SyncedWrite const&) = delete;

 private:
  enum class Next : std::uint8_t { none, write_ends, sync_ends };
  BlockFile* file_ = nullptr;
  AlignedBuffer blocks_;
  Next next_ = Next::none;
  bool sync_ = false;
  bool under_way_ = false;
};

class ImageWriter {
 public:
  /// `info` has all but the checksums. At most `depth` chunks are under way. `replaces`: there may
  /// be an image in the file, which counts no more before the first chunk is written. Nothing is
  /// written yet.
  static Result<std::unique_ptr<ImageWriter>> begin(BlockFile& file, ImageInfo const& info,
                                                    std::uint32_t depth, bool replaces);
  ~ImageWriter();
  ImageWriter(ImageWriter const&) = delete;
  ImageWriter& operator=(ImageWriter const&) = delete;

  /// Begins up to `most` chunks, as far as there are buffers, and what comes after the last of
  /// them. After an error the image is of no use.
  Status go_on(std::uint64_t most, ImageSource const& source, ForEach const& each);
  /// Waits until half of the buffers are free. What fails meanwhile the next step answers.
  void wait_for_buffers();
  /// All the rest, waiting for it.
  Status finish(ImageSource const& source, ForEach const& each);

  [[nodiscard]] bool whole() const { return stage_ == Stage::whole; }
  [[nodiscard]] std::uint64_t chunks() const { return sums_.size(); }
  /// The source has brought so many.
  [[nodiscard]] std::uint64_t copied() const { return next_; }
  /// With all checksums once it is whole.
  [[nodiscard]] ImageInfo const& info() const { return info_; }

 private:
  enum class Stage : std::uint8_t { begun, old_header, chunks, table, header, whole };
  ImageWriter(BlockFile& file, ImageInfo const& info, std::uint32_t depth);
  Status begin_chunks(std::uint64_t most, ImageSource const& source, ForEach const& each);
  Status take_ends(bool wait);
  [[nodiscard]] bool stage_ended() const;
  Status begin_next_stage();
  Status begin_old_header();
  Status begin_table();
  Status begin_header();

  BlockFile* file_;
  ImageInfo info_;
  std::uint32_t const depth_;
  // Of the file. Chunks within it are written durably each: to sync all of them at the end would
  // hold up, for as long as that takes, whoever else waits for this disk, the log first.
  std::uint64_t const old_bytes_;
  AlignedBuffer buffers_;  // depth_ chunks
  std::vector<std::uint32_t> sums_;
  std::vector<std::uint32_t> free_;  // buffers
  std::uint64_t next_ = 0;  // chunk
  Stage stage_ = Stage::begun;
  SyncedWrite blocks_;
  Status failed_;  // for good
  std::vector<Done> done_;  // with room for all there can be
};

}  // namespace perdure::wal
