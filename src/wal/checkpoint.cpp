#include "wal/checkpoint.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/caught.hpp"
#include "base/hooks.hpp"
#include "wal/disk/pipeline.hpp"

namespace perdure::wal {
namespace {

constexpr std::uint32_t kDepth = 4;  // chunks under way
// of a checkpoint: what a batch lets begin need not have ended by the next
constexpr std::uint32_t kDepthBeside = 16;

Status corrupt_image(BlockFile const& file, std::string const& what) {
  return {Code::corrupt, "image " + file.name() + ": " + what};
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
  if (head.size() > std::min<std::uint64_t>(info.bytes, info.chunk_bytes))
    return {Code::invalid_argument,
            "image " + file.name() + ": its head is longer than its first chunk"};
  auto writer = ImageWriter::begin(file, info, kDepth, false);
  if (!writer) return writer.status();
  auto const source = [&](std::uint64_t at, std::span<std::byte> into) {
    std::memcpy(into.data(), bytes.data() + at, into.size());
    if (at == 0 && !head.empty()) std::memcpy(into.data(), head.data(), head.size());
  };
  if (Status s = (*writer)->finish(source, one_after_another); !s.ok()) return s;
  info = (*writer)->info();
  return {};
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

Status Checkpoints::begin_record() {
  ImageInfo const& image = running_->image->info();
  PERDURE_ASSERT(running_->which <= 1 && image.sequence > sequence_ && image.pool_id == pool_id_);
  CheckpointRecord r{};
  r.magic = kCheckpointMagic;
  r.format_version = kImageVersion;
  r.image = running_->which;
  r.pool_id = pool_id_;
  r.sequence = image.sequence;
  r.lsn = image.at.lsn;
  r.next_batch = image.at.next_batch;
  r.image_crc = image.header_crc;
  r.crc = checksum(r);
  return running_->record.emplace().begin(*files_.record, r.sequence % 2 * kBlock, &r, sizeof r);
}

Status Checkpoints::format() {
  if (Status s = write_no_header(*files_.record, kCheckpointMagic); !s.ok()) return s;
  for (auto const& image : files_.image)
    if (Status s = write_no_header(*image, kImageMagic); !s.ok()) return s;
  return {};
}

Status Checkpoints::begin(std::uint64_t bytes, LogPosition at) {
  ImageInfo image;
  image.pool_id = pool_id_;
  image.sequence = sequence_ + 1;
  image.at = at;
  image.bytes = bytes;
  PERDURE_ASSERT(!running() && at.lsn % kBlock == 0 && at.lsn >= newest_.lsn && active_ <= 1);
  bool const first = sequence_ == 0;
  auto next = std::make_unique<Running>();
  next->which = mutated("image_overwrites_what_counts") && !first ? active_ : 1 - active_;
  PERDURE_ASSERT(first || next->which != active_ || mutated("image_overwrites_what_counts"));
  older_.reset();  // from here on the inactive image is half written
  auto writer = ImageWriter::begin(*files_.image[next->which], image, kDepthBeside, true);
  if (!writer) return writer.status();
  next->image = std::move(*writer);
  running_ = std::move(next);
  return {};
}

Status Checkpoints::go_on(std::uint64_t most, ImageSource const& source, ForEach const& each) {
  PERDURE_ASSERT(running());
  Status const s = caught([&]() -> Status {
    if (Status step = running_->image->go_on(most, source, each); !step.ok()) return step;
    if (!running_->image->whole()) return {};
    if (!running_->record) {
      if (Status step = begin_record(); !step.ok()) return step;
    }
    return running_->record->go_on(false);
  });
  if (!s.ok()) give_up();
  if (s.ok() && running_->record && running_->record->done()) take_over();
  return s;
}

/// It is whole, and named.
void Checkpoints::take_over() {
  ImageInfo const& image = running_->image->info();
  PERDURE_ASSERT(image.sequence > sequence_);
  if (sequence_ != 0) older_ = newest_.lsn;
  newest_ = image.at;
  active_ = running_->which;
  sequence_ = image.sequence;
  running_.reset();
}

Status Checkpoints::write(std::span<std::byte const> bytes, LogPosition at) {
  if (Status s = begin(bytes.size(), at); !s.ok()) return s;
  auto const source = [&](std::uint64_t from, std::span<std::byte> into) {
    std::memcpy(into.data(), bytes.data() + from, into.size());
  };
  return finish(source, one_after_another);
}

Status Checkpoints::finish(ImageSource const& source, ForEach const& each) {
  Status s = caught([&] { return running_->image->finish(source, each); });
  if (s.ok() && !running_->record) s = caught([&] { return begin_record(); });
  if (s.ok()) s = caught([&] { return running_->record->go_on(true); });
  s.ok() ? take_over() : give_up();
  return s;
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
