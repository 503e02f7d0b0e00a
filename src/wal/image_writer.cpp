#include "wal/image_writer.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/assert.hpp"
#include "base/hooks.hpp"

namespace perdure::wal {

void one_after_another(std::size_t n, std::function<void(std::size_t)> const& f) {
  for (std::size_t i = 0; i < n; ++i) f(i);
}

// ------------------------------------------------------------------------------------------------
// A few blocks

Status SyncedWrite::begin(BlockFile& file, std::uint64_t offset, void const* data,
                          std::uint64_t bytes, bool sync) {
  PERDURE_ASSERT(done() && !under_way_ && bytes > 0 && offset % kBlock == 0);
  auto blocks = AlignedBuffer::make(round_up(bytes));
  if (!blocks) return blocks.status();
  blocks_ = std::move(*blocks);
  std::memcpy(blocks_.data(), data, bytes);
  file_ = &file;
  sync_ = sync;
  Status s = file.start({Verb::write_durably, offset, blocks_.data(), blocks_.size(), 0});
  under_way_ = s.ok();
  if (s.ok()) next_ = Next::write_ends;
  return s;
}

Status SyncedWrite::go_on(bool wait) {
  std::vector<Done> ended;
  while (!done()) {
    if (under_way_) {
      ended.clear();
      Status s = wait ? file_->wait(ended) : file_->poll(ended);
      if (!s.ok()) under_way_ = false;  // nor is anything any more
      if (!s.ok()) return s;
      if (ended.empty() && wait) continue;
      if (ended.empty()) return {};
      PERDURE_ASSERT(ended.size() == 1);
      under_way_ = false;
      if (!ended[0].status.ok()) return ended[0].status;
    }
    if (next_ == Next::sync_ends || !sync_) {
      next_ = Next::none;
      return {};
    }
    auto const begun = file_->start_sync(0);
    if (!begun) return begun.status();
    next_ = Next::sync_ends;
    under_way_ = begun.value();
  }
  return {};
}

SyncedWrite::~SyncedWrite() {
  std::vector<Done> ended;
  while (under_way_ && ended.empty() && file_->wait(ended).ok()) {
  }
}

// ------------------------------------------------------------------------------------------------
// An image

ImageWriter::ImageWriter(BlockFile& file, ImageInfo const& info, std::uint32_t depth)
    : file_(&file),
      info_(info),
      depth_(depth),
      old_bytes_(file.bytes()),
      sums_(chunks_of(info)),
      free_(depth) {
  std::iota(free_.begin(), free_.end(), 0u);
  done_.reserve(BlockFile::kMaxInFlight);
}

Result<std::unique_ptr<ImageWriter>> ImageWriter::begin(BlockFile& file, ImageInfo const& info,
                                                        std::uint32_t depth, bool replaces) {
  PERDURE_ASSERT(depth > 0 && depth < BlockFile::kMaxInFlight);
  if (info.bytes % kBlock != 0)
    return Status{Code::invalid_argument,
                  "image " + file.name() + ": its size must be a multiple of 4096 bytes"};
  std::unique_ptr<ImageWriter> writer(new ImageWriter(file, info, depth));
  auto buffers = AlignedBuffer::make(depth * std::uint64_t{info.chunk_bytes});
  if (!buffers) return buffers.status();
  writer->buffers_ = std::move(*buffers);
  if (!replaces) writer->stage_ = Stage::chunks;
  return writer;
}

// What the disk says of these writes nobody needs any more, and a wait that fails has seen to it
// that none is under way.
ImageWriter::~ImageWriter() {
  for (;; failed_ = {}) {
    if (free_.size() == depth_) return;
    static_cast<void>(take_ends(true));
  }
}

Status ImageWriter::go_on(std::uint64_t most, ImageSource const& source, ForEach const& each) {
  std::uint64_t const last = std::min(chunks(), next_ + most);
  for (;;) {
    if (Status s = take_ends(false); !s.ok()) return s;
    if (stage_ == Stage::chunks && next_ < last && !free_.empty()) {
      if (Status s = begin_chunks(last - next_, source, each); !s.ok()) return s;
      continue;  // a disk may have ended them already
    }
    if (!stage_ended() || whole()) return {};
    if (Status s = begin_next_stage(); !s.ok()) return s;
  }
}

Status ImageWriter::finish(ImageSource const& source, ForEach const& each) {
  while (!whole()) {
    if (Status s = go_on(chunks(), source, each); !s.ok()) return s;
    if (whole()) return {};
    if (Status s = take_ends(true); !s.ok()) return s;
  }
  return {};
}

void ImageWriter::wait_for_buffers() {
  while (stage_ == Stage::chunks && free_.size() < (depth_ + 1) / 2 && take_ends(true).ok()) {
  }
}

Status ImageWriter::take_ends(bool wait) {
  if (!failed_.ok()) return failed_;
  if (!blocks_.done()) return failed_ = blocks_.go_on(wait);
  if (free_.size() == depth_) return {};
  done_.clear();
  if (Status s = wait ? file_->wait(done_) : file_->poll(done_); !s.ok()) {
    free_.resize(depth_);  // nothing is under way any more
    return failed_ = s;
  }
  for (Done const& d : done_) {
    PERDURE_ASSERT(free_.size() < depth_ && d.tag < depth_);
    free_.push_back(static_cast<std::uint32_t>(d.tag));
    if (failed_.ok()) failed_ = d.status;
  }
  return failed_;
}

Status ImageWriter::begin_chunks(std::uint64_t most, ImageSource const& source,
                                 ForEach const& each) {
  std::uint64_t const first = next_;
  std::uint64_t const n = std::min({most, chunks() - next_, std::uint64_t{free_.size()}});
  auto const buffer = [&](std::size_t i) {
    return buffers_.data() + std::uint64_t{free_[free_.size() - 1 - i]} * info_.chunk_bytes;
  };
  each(n, [&](std::size_t i) {
    std::uint64_t const size = chunk_size(info_, first + i);
    source((first + i) * info_.chunk_bytes, {buffer(i), size});
    sums_[first + i] = crc32c(0, buffer(i), size);
  });
  next_ += n;
  for (std::uint64_t i = first; i < next_; ++i) {
    std::uint32_t const slot = free_.back();
    std::uint64_t const end = kBlock + i * info_.chunk_bytes + chunk_size(info_, i);
    Verb const verb = end <= old_bytes_ ? Verb::write_durably : Verb::write;
    Status const s = file_->start({verb, kBlock + i * info_.chunk_bytes,
                                   buffers_.data() + std::uint64_t{slot} * info_.chunk_bytes,
                                   chunk_size(info_, i), slot});
    if (!s.ok()) return s;
    free_.pop_back();
  }
  return {};
}

bool ImageWriter::stage_ended() const {
  if (stage_ == Stage::chunks) return next_ == chunks() && free_.size() == depth_;
  return blocks_.done();
}

Status ImageWriter::begin_next_stage() {
  PERDURE_ASSERT(stage_ended() && !whole());
  stage_ = static_cast<Stage>(static_cast<std::uint8_t>(stage_) + 1);
  if (stage_ == Stage::old_header) return begin_old_header();
  if (stage_ == Stage::table) return begin_table();
  return stage_ == Stage::header ? begin_header() : Status{};
}

/// Chunks in which only the closing note has changed, which ends with a checksum of its own, have
/// the same CRC, so that the old header would vouch for a mix of both images. The magic stays: a
/// new log may replace the file.
Status ImageWriter::begin_old_header() {
  return blocks_.begin(*file_, 0, kImageMagic.data(), kImageMagic.size(), false);
}

Status ImageWriter::begin_table() {
  std::vector<std::byte> table(std::max(kBlock, table_bytes(info_)));
  std::memcpy(table.data(), sums_.data(), sums_.size() * sizeof(std::uint32_t));
  info_.table_crc = crc32c(0, table.data(), table_bytes(info_));
  return blocks_.begin(*file_, kBlock + info_.bytes, table.data(), table.size(),
                       !mutated("image_not_synced"));
}

Status ImageWriter::begin_header() {
  ImageHeader h{};
  h.magic = kImageMagic;
  h.format_version = kImageVersion;
  h.chunk_bytes = info_.chunk_bytes;
  h.pool_id = info_.pool_id;
  h.sequence = info_.sequence;
  h.lsn = info_.at.lsn;
  h.next_batch = info_.at.next_batch;
  h.bytes = info_.bytes;
  h.table_crc = info_.table_crc;
  h.crc = info_.header_crc = checksum(h);
  // With the file's new length.
  return blocks_.begin(*file_, 0, &h, sizeof h, !mutated("image_not_synced"));
}

}  // namespace perdure::wal
