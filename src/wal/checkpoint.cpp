#include "wal/checkpoint.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "wal/disk/pipeline.hpp"

namespace perdure::wal {
namespace {

constexpr std::uint32_t kDepth = 4;  // chunks under way

Status corrupt_image(BlockFile const& file, std::string const& what) {
  return {Code::corrupt, "image " + file.name() + ": " + what};
}

std::uint64_t chunks_of(ImageInfo const& info) {
  return (info.bytes + info.chunk_bytes - 1) / info.chunk_bytes;
}
std::uint64_t table_bytes(ImageInfo const& info) {
  return round_up(chunks_of(info) * sizeof(std::uint32_t));
}
std::uint64_t chunk_size(ImageInfo const& info, std::uint64_t chunk) {
  PERDURE_ASSERT(chunk < chunks_of(info));
  return std::min<std::uint64_t>(info.chunk_bytes, info.bytes - chunk * info.chunk_bytes);
}

/// Why no image serves. Where one could not be had for another reason than its damage, that one has
/// a way out.
Status neither(Status const& first, Status const& other) {
  if (first.message() == other.message()) return first;  // the path is open elsewhere, for one
  bool const damaged = first.code() == Code::corrupt && other.code() == Code::corrupt;
  return {first.code() == Code::corrupt ? other.code() : first.code(),
          "no image can be used: " + first.message() + "; " + other.message() +
              (damaged ? "; restore a snapshot" : "")};
}

Status write_block(BlockFile& file, std::uint64_t offset, void const* record, std::size_t bytes) {
  auto block = AlignedBuffer::make(kBlock);
  if (!block) return block.status();
  PERDURE_ASSERT(bytes > 0 && bytes <= kBlock && offset % kBlock == 0);
  std::memcpy(block->data(), record, bytes);
  return file.write_durably(offset, block->span());
}

/// The chunks, through buffers of our own, so that what is summed is what is written.
Status write_chunks(BlockFile& file, ImageInfo const& info, std::span<std::byte const> bytes,
                    std::span<std::byte const> head, std::vector<std::uint32_t>& sums) {
  PERDURE_ASSERT(sums.size() == chunks_of(info) && bytes.size() == info.bytes);
  auto buffers = AlignedBuffer::make(kDepth * std::uint64_t{info.chunk_bytes});
  if (!buffers) return buffers.status();
  Pipeline pipeline(file, kDepth);
  auto const begin = [&](std::uint64_t i, std::uint32_t slot) {
    std::byte* const buffer = buffers->data() + std::uint64_t{slot} * info.chunk_bytes;
    std::uint64_t const size = chunk_size(info, i);
    std::memcpy(buffer, bytes.data() + i * info.chunk_bytes, size);
    PERDURE_ASSERT(slot < kDepth);
    if (i == 0 && !head.empty()) std::memcpy(buffer, head.data(), head.size());
    sums[i] = crc32c(0, buffer, size);
    return file.start(
        {Verb::write, kBlock + i * info.chunk_bytes, buffer, size, pipeline.tag(i, slot)});
  };
  return pipeline.run(chunks_of(info), begin,
                      [](std::uint64_t, std::uint32_t, std::uint64_t) { return Status{}; });
}

Result<std::vector<std::uint32_t>> read_table(BlockFile& file, ImageInfo const& info) {
  std::vector<std::uint32_t> sums(chunks_of(info));
  if (sums.empty()) return sums;
  auto table = AlignedBuffer::make(table_bytes(info));
  if (!table) return table.status();
  auto read = file.read(kBlock + info.bytes, table->span());
  if (!read) return read.status();
  if (*read < table->size()) return corrupt_image(file, "truncated: its checksums are missing");
  std::memcpy(sums.data(), table->data(), sums.size() * sizeof sums[0]);
  if (crc32c(0, table->data(), table->size()) != info.table_crc)
    return corrupt_image(file, "the list of its checksums is damaged");
  return sums;
}

/// The magic alone, which no checksum vouches for: nothing counts in the file, but it is one of a
/// log directory, which a new log may replace.
template <class Magic>
Status write_no_header(BlockFile& file, Magic const& magic) {
  return write_block(file, 0, magic.data(), magic.size());
}

}  // namespace

std::uint64_t image_file_bytes(ImageInfo const& info) {
  return kBlock + info.bytes + std::max(kBlock, table_bytes(info));
}

Status write_image(BlockFile& file, ImageInfo& info, std::span<std::byte const> bytes,
                   std::span<std::byte const> head) {
  info.bytes = bytes.size();
  info.chunk_bytes = kChunkBytes;
  if (info.bytes % kBlock != 0)
    return {Code::invalid_argument,
            "image " + file.name() + ": its size must be a multiple of 4096 bytes"};
  if (head.size() > std::min<std::uint64_t>(info.bytes, info.chunk_bytes))
    return {Code::invalid_argument,
            "image " + file.name() + ": its head is longer than its first chunk"};
  std::vector<std::uint32_t> sums(chunks_of(info));
  if (Status s = write_chunks(file, info, bytes, head, sums); !s.ok()) return s;
  auto table = AlignedBuffer::make(std::max(kBlock, table_bytes(info)));
  if (!table) return table.status();
  std::memcpy(table->data(), sums.data(), sums.size() * sizeof(std::uint32_t));
  info.table_crc = crc32c(0, table->data(), table_bytes(info));
  if (Status s = file.write_durably(kBlock + info.bytes, table->span()); !s.ok()) return s;
  if (Status s = mutated("image_not_synced") ? Status{} : file.sync(); !s.ok()) return s;
  // Only now: a header that is valid stands for bytes that are there.
  ImageHeader h{};
  h.magic = kImageMagic;
  h.format_version = kImageVersion;
  h.chunk_bytes = info.chunk_bytes;
  h.pool_id = info.pool_id;
  h.sequence = info.sequence;
  h.lsn = info.at.lsn;
  h.next_batch = info.at.next_batch;
  h.bytes = info.bytes;
  h.table_crc = info.table_crc;
  h.crc = info.header_crc = checksum(h);
  if (Status s = write_block(file, 0, &h, sizeof h); !s.ok()) return s;
  return mutated("image_not_synced") ? Status{} : file.sync();  // the file's new length too
}

Result<ImageInfo> read_image_info(BlockFile& file) {
  auto block = AlignedBuffer::make(kBlock);
  if (!block) return block.status();
  auto read = file.read(0, block->span());
  if (!read) return read.status();
  ImageHeader h;
  std::memcpy(&h, block->data(), sizeof h);
  bool const none = h.format_version == 0 && h.crc == 0;  // it is being written
  if (*read < sizeof h || h.magic != kImageMagic || none)
    return corrupt_image(file, "not an image of a Perdure pool, or never completed");
  if (h.format_version != kImageVersion && h.crc == checksum(h)) {
    return corrupt_image(file, "it has image format version " + std::to_string(h.format_version) +
                                   "; this build reads version " + std::to_string(kImageVersion) +
                                   ": open it with the build that made it");
  }
  if (h.crc != checksum(h)) return corrupt_image(file, "its header is damaged");
  bool const sane = h.chunk_bytes >= kBlock && h.chunk_bytes % kBlock == 0 &&
                    h.chunk_bytes <= (64u << 20) && h.bytes % kBlock == 0 &&
                    h.bytes < (std::uint64_t{1} << 48) && h.lsn % kBlock == 0;
  if (!sane) return corrupt_image(file, "its header describes an impossible image");
  return ImageInfo{h.pool_id,   h.sequence, {h.lsn, h.next_batch}, h.bytes, h.chunk_bytes,
                   h.table_crc, h.crc};
}

Status load_image(BlockFile& file, ImageInfo const& info, std::span<std::byte> into) {
  if (into.size() != info.bytes)
    return {Code::invalid_argument,
            "image " + file.name() + ": room of another size than the image"};
  auto sums = read_table(file, info);
  if (!sums) return sums.status();
  // Straight to where they belong: chunks begin on pages there, as in the file.
  Pipeline pipeline(file, kDepth);
  auto const begin = [&](std::uint64_t i, std::uint32_t slot) {
    std::uint64_t const at = i * info.chunk_bytes;
    return file.start(
        {Verb::read, kBlock + at, into.data() + at, chunk_size(info, i), pipeline.tag(i, slot)});
  };
  auto const end = [&](std::uint64_t i, std::uint32_t /*slot*/, std::uint64_t bytes) -> Status {
    std::uint64_t const at = i * info.chunk_bytes;
    if (bytes == chunk_size(info, i) && crc32c(0, into.data() + at, bytes) == sums.value()[i])
      return {};
    return corrupt_image(file, "chunk " + std::to_string(i) + " (bytes " +
                                   std::to_string(kBlock + at) + " to " +
                                   std::to_string(kBlock + at + chunk_size(info, i)) + ") is " +
                                   (bytes < chunk_size(info, i) ? "missing" : "damaged"));
  };
  return pipeline.run(chunks_of(info), begin, end);
}

// ------------------------------------------------------------------------------------------------
// A and B

Status Checkpoints::write_record(ImageInfo const& image, std::uint32_t which) {
  PERDURE_ASSERT(which <= 1 && image.sequence > sequence_ && image.pool_id == pool_id_);
  CheckpointRecord r{};
  r.magic = kCheckpointMagic;
  r.format_version = kImageVersion;
  r.image = which;
  r.pool_id = pool_id_;
  r.sequence = image.sequence;
  r.lsn = image.at.lsn;
  r.next_batch = image.at.next_batch;
  r.image_crc = image.header_crc;
  r.crc = checksum(r);
  if (Status s = write_block(*files_.record, r.sequence % 2 * kBlock, &r, sizeof r); !s.ok())
    return s;
  return files_.record->sync();
}

Status Checkpoints::format() {
  if (Status s = write_no_header(*files_.record, kCheckpointMagic); !s.ok()) return s;
  for (auto const& image : files_.image)
    if (Status s = write_no_header(*image, kImageMagic); !s.ok()) return s;
  return {};
}

Status Checkpoints::write(std::span<std::byte const> bytes, LogPosition at) {
  ImageInfo image;
  image.pool_id = pool_id_;
  image.sequence = sequence_ + 1;
  image.at = at;
  PERDURE_ASSERT(at.lsn % kBlock == 0 && at.lsn >= newest_.lsn && active_ <= 1);
  std::uint32_t const which =
      mutated("image_overwrites_what_counts") && sequence_ > 0 ? active_ : 1 - active_;
  bool const first = sequence_ == 0;
  PERDURE_ASSERT(first || which != active_ || mutated("image_overwrites_what_counts"));
  older_.reset();  // from here on the inactive image is half written
  // And says so: chunks in which only the closing note has changed, which ends with a checksum of
  // its own, have the same CRC, so that the old header would vouch for a mix of both images.
  if (Status s = write_no_header(*files_.image[which], kImageMagic); !s.ok()) return s;
  if (Status s = write_image(*files_.image[which], image, bytes); !s.ok()) return s;
  if (Status s = write_record(image, which); !s.ok()) return s;
  PERDURE_ASSERT(image.sequence > sequence_);
  if (!first) older_ = newest_.lsn;
  newest_ = at;
  active_ = which;
  sequence_ = image.sequence;
  return {};
}

Lsn Checkpoints::keep_from() const {
  Lsn const from = older_ ? std::min(*older_, newest_.lsn) : newest_.lsn;
  PERDURE_ASSERT(from <= newest_.lsn && from % kBlock == 0);
  return from;
}

/// The valid copy with the higher sequence; none if neither is valid.
Result<std::optional<CheckpointRecord>> Checkpoints::read_record(std::string& report) {
  auto blocks = AlignedBuffer::make(2 * kBlock);
  if (!blocks) return blocks.status();
  auto read = files_.record->read(0, blocks->span());
  if (!read) return read.status();
  std::optional<CheckpointRecord> best;
  for (std::uint64_t copy = 0; copy < 2; ++copy) {
    CheckpointRecord r;
    std::memcpy(&r, blocks->data() + copy * kBlock, sizeof r);
    if (r.magic != kCheckpointMagic || r.crc != checksum(r) || r.image > 1) continue;
    if (r.format_version != kImageVersion)
      return corrupt_image(*files_.record, "it has version " + std::to_string(r.format_version) +
                                               "; this build reads version " +
                                               std::to_string(kImageVersion) +
                                               ": open it with the build that made it");
    if (r.pool_id != pool_id_) return corrupt_image(*files_.record, "it belongs to another pool");
    if (!best || r.sequence > best->sequence) best = r;
  }
  if (!best)
    report = "neither copy of the checkpoint record " + files_.record->name() +
             " is valid; the images' own headers decided; ";
  return best;
}

/// The image's header, and whether it can be true: nothing is had for an image that is not there.
Result<ImageInfo> Checkpoints::read_image(std::uint32_t which) {
  BlockFile& file = *files_.image[which];
  auto info = read_image_info(file);
  if (!info) return info;
  if (info->pool_id != pool_id_) return corrupt_image(file, "it belongs to another pool");
  // Its next batch may be one that is in no log, and was not acknowledged if its record was not
  // written.
  seen_.lsn = std::max(seen_.lsn, info->at.lsn);
  std::uint64_t const whole = image_file_bytes(*info);
  if (file.bytes() < whole)
    return corrupt_image(file, "truncated: the file has " + std::to_string(file.bytes()) +
                                   " bytes, the whole image " + std::to_string(whole));
  return info;
}

Result<Loaded> Checkpoints::load(MakeRoom const& make_room) {
  Loaded loaded;
  auto record = read_record(loaded.report);
  if (!record) return record.status();
  std::optional<ImageInfo> found[2];
  Status why[2];
  for (std::uint32_t i = 0; i < 2; ++i) {
    auto info = read_image(i);
    why[i] = info.status();
    if (!info) continue;
    found[i] = *info;
    sequence_ = std::max(sequence_, info->sequence);
  }
  std::uint32_t first = found[1] && (!found[0] || found[1]->sequence > found[0]->sequence) ? 1 : 0;
  if (record->has_value()) {
    first = (*record)->image;
    sequence_ = std::max(sequence_, (*record)->sequence);
    seen_ = {std::max(seen_.lsn, (*record)->lsn), (*record)->next_batch};
    // An image newer than its record was durable in full when the power went; its record was not.
    if (found[first] && found[first]->header_crc != (*record)->image_crc &&
        found[first]->sequence <= (*record)->sequence)
      why[first] =
          corrupt_image(*files_.image[first], "it is not the one that the checkpoint record names");
  }
  for (std::uint32_t const i : {first, 1 - first}) {
    if (!why[i].ok()) continue;
    auto room = make_room(*found[i]);
    why[i] = room ? load_image(*files_.image[i], *found[i], *room) : room.status();
    if (!why[i].ok()) continue;
    loaded.image = *found[i];
    loaded.which = i == 0 ? 'A' : 'B';
    if (i != first) loaded.report += why[first].message() + "; the other image was used";
    active_ = i;
    newest_ = loaded.image.at;
    PERDURE_ASSERT(newest_.lsn <= seen_.lsn && loaded.image.pool_id == pool_id_);
    std::uint32_t const other = 1 - i;
    older_.reset();
    if (i == first && found[other] && found[other]->sequence < found[i]->sequence)
      older_ = found[other]->at.lsn;
    return loaded;
  }
  return neither(why[first], why[1 - first]);
}

}  // namespace perdure::wal
