// Where the words of a Dash pool's index lie, found as docs/format.md has it, of a pool that is
// whole.
#pragma once

#include "../crash/pool_file.hpp"
#include "index/dash/layout.hpp"

namespace perdure::test {

struct DashWords {
  std::vector<std::uint64_t> index;      // of the superblock: directory, version, first, counted
  std::vector<std::uint64_t> directory;  // entries; of linear, places of arrays
  std::vector<std::uint64_t> headers;    // of segments: extent, start, version, chain
  std::vector<std::uint64_t> states;     // of buckets
  std::vector<std::uint64_t> links;      // of chained buckets, to the next
  std::vector<std::uint64_t> hints;      // fingerprints and hints
  std::vector<std::uint64_t> slots;      // both words of those in use
  std::vector<std::uint64_t> records;    // first words of records and of what stands before them
  std::vector<std::uint64_t> addresses;     // of records
  std::vector<std::uint64_t> blocks;     // headers of superblocks of blocks and of records

  explicit DashWords(Image const& image) : image_(image), at_(image.dash_index()) {
    for (std::uint64_t w = 64; w < 96; w += 8) index.push_back(at_ + w);
    image.header().index == 1 ? find_extendible() : find_linear();
    for (std::uint64_t at = superblock_; at < image.bytes.size(); at += superblock_) {
      auto const magic = image.at<std::uint32_t>(at);
      if (magic != pm::kBlocksMagic && magic != pm::kSuperblockMagic) continue;
      for (std::uint64_t w = 0; w < 64; w += 8) blocks.push_back(at + w);
    }
  }

 private:
  static constexpr std::uint64_t kPlace = (std::uint64_t{1} << 56) - 1;
  [[nodiscard]] std::uint64_t word(std::uint64_t at) const { return image_.at<std::uint64_t>(at); }

  void find_extendible() {
    std::uint64_t const depth = word(at_ + 64) >> 56, address = word(at_ + 64) & kPlace;
    for (std::uint64_t i = 0; i < std::uint64_t{1} << depth; ++i)
      directory.push_back(address + 8 * i);
    for (std::uint64_t s = word(at_ + 80); s != 0; s = word(s) & kPlace) add_segment(s);
  }
  void find_linear() {
    std::uint64_t const first = word(at_ + 80),
                        all = (first << (word(at_ + 64) >> 32)) + (word(at_ + 64) & 0xffffffff);
    dash::SegmentShape const shape{image_.at<std::uint32_t>(at_ + 8),
                                   image_.at<std::uint32_t>(at_ + 12)};
    std::uint64_t i = 0;
    for (std::uint64_t a = 0; i < all; ++a) {
      directory.push_back(at_ + dash::kDirectories + 8 * a);
      std::uint64_t const n = (superblock_ << a / 8) / shape.bytes();
      for (std::uint64_t k = 0; k < n && i < all; ++k, ++i) {
        std::uint64_t const s = word(directory.back()) + k * shape.bytes();
        if (i == 0 || word(s + 8) != 0) add_segment(s);  // else it is not split off yet
      }
    }
  }
  void add_segment(std::uint64_t s) {
    for (std::uint64_t w = 0; w < 32; w += 8) headers.push_back(s + w);
    for (std::uint64_t b = 0; b < 66; ++b) {
      add_bucket(s + 256 + 256 * b);
      hints.push_back(s + 256 + 256 * b + 24);
    }
    if (image_.header().index == 1) return;
    for (std::uint64_t at = word(s + 24); at != 0; at = word(at + 24)) {
      add_bucket(at);
      links.push_back(at + 24);
    }
  }
  void add_bucket(std::uint64_t b) {
    states.push_back(b);
    hints.push_back(b + 8);
    hints.push_back(b + 16);
    for (std::uint64_t i = 0; i < 14; ++i) {
      if ((word(b) >> i & 1) == 0) continue;
      slots.push_back(b + 32 + 16 * i);
      slots.push_back(b + 40 + 16 * i);
      if (image_.at<std::uint32_t>(at_ + 16) != 0) add_record(word(b + 32 + 16 * i));
    }
  }
  void add_record(std::uint64_t address) {
    pm::RecordShape const shape(image_.header());
    addresses.push_back(address);
    for (std::uint64_t w = 0; w < 24; w += 8) {
      records.push_back(address + w);
      if (shape.split()) records.push_back(shape.head(Offset{address}).bytes + w % 16);
    }
  }

  Image const& image_;
  std::uint64_t at_;
  std::uint64_t superblock_ = pm::kMinSuperblock;
};

}  // namespace perdure::test
