// Handwritten digits: MNIST's files, or generated seven-segment ones.
#pragma once

#include <algorithm>
#include <array>
#include <fstream>

#include "dnn_kernels.hpp"

namespace perdure::bench::gpm {

/// Images and what they show, on the host.
struct Digits {
  std::uint32_t side = 0;
  std::vector<std::uint8_t> images;
  std::vector<std::uint8_t> classes;
};

/// MNIST's files: numbers of 4 bytes, the highest first, then bytes.
class MnistFiles {
 public:
  static Digits read(std::string const& folder) {
    for (char const* const which : {"/train", "/t10k"}) {
      std::ifstream images(folder + which + "-images-idx3-ubyte", std::ios::binary);
      std::ifstream labels(folder + which + "-labels-idx1-ubyte", std::ios::binary);
      if (images && labels) return read(images, labels, folder + which);
    }
    throw Failure("dnn: " + folder +
                  " holds neither train-images-idx3-ubyte and train-labels-idx1-ubyte nor t10k-*");
  }

 private:
  static Digits read(std::istream& images, std::istream& labels, std::string const& name) {
    std::uint32_t const magic = number(images), count = number(images), rows = number(images),
                        columns = number(images);
    std::uint32_t const labels_magic = number(labels), labels_count = number(labels);
    if (magic != 0x803 || labels_magic != 0x801 || count != labels_count || rows != 28 ||
        columns != 28 || count < 2000 || count > 1000000)
      throw Failure("dnn: " + name + "-* are not MNIST's images of 28 x 28 with their labels");
    Digits digits{rows, std::vector<std::uint8_t>(std::size_t{count} * rows * columns),
                  std::vector<std::uint8_t>(count)};
    images.read(reinterpret_cast<char*>(digits.images.data()),
                static_cast<std::streamsize>(digits.images.size()));
    labels.read(reinterpret_cast<char*>(digits.classes.data()),
                static_cast<std::streamsize>(digits.classes.size()));
    if (!images || !labels ||
        *std::max_element(digits.classes.begin(), digits.classes.end()) >= kClasses)
      throw Failure("dnn: " + name + "-* end early, or name classes that there are not");
    return digits;
  }
  static std::uint32_t number(std::istream& in) {
    std::array<unsigned char, 4> bytes{};
    in.read(reinterpret_cast<char*>(bytes.data()), bytes.size());
    return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
           std::uint32_t{bytes[2]} << 8 | bytes[3];
  }
};

/// Digits as pocket calculators show them, moved by up to two pixels each way, in noise.
[[nodiscard]] inline Digits segment_digits(std::uint32_t side, std::uint32_t count,
                                           std::uint64_t seed) {
  // Segments: top, upper left and right, middle, lower left and right, bottom; bit 0 is the top
  // one.
  constexpr std::array<std::uint8_t, kClasses> kLit{0x77, 0x24, 0x5d, 0x6d, 0x2e,
                                                    0x6b, 0x7b, 0x25, 0x7f, 0x6f};
  struct Box {
    std::uint32_t left, top, right,
        bottom;  // in twelfths of the image; right and bottom are beyond it
  };
  constexpr std::array<Box, 7> kSegments{{{3, 2, 9, 3},
                                          {3, 2, 4, 6},
                                          {8, 2, 9, 6},
                                          {3, 5, 9, 6},
                                          {3, 6, 4, 10},
                                          {8, 6, 9, 10},
                                          {3, 9, 9, 10}}};
  Digits digits{side, std::vector<std::uint8_t>(std::size_t{count} * side * side),
                std::vector<std::uint8_t>(count)};
  for (std::uint32_t n = 0; n < count; ++n) {
    std::uint64_t const drawn = random_at(seed, n);
    std::uint8_t const digit = digits.classes[n] = static_cast<std::uint8_t>(drawn % kClasses);
    auto const right = static_cast<std::uint32_t>(drawn >> 16 & 0xff) % 5,
               down = static_cast<std::uint32_t>(drawn >> 32 & 0xff) % 5;
    for (std::uint32_t i = 0; i < side * side; ++i) {
      // Two pixels to the left and up of where it would be, then moved by 0 to 4.
      std::uint32_t const x = (i % side + 2 + side - right) % side * 12 / side,
                          y = (i / side + 2 + side - down) % side * 12 / side;
      bool lit = false;
      for (std::size_t s = 0; s < kSegments.size(); ++s)
        lit |= (kLit[digit] >> s & 1) != 0 && x >= kSegments[s].left && x < kSegments[s].right &&
               y >= kSegments[s].top && y < kSegments[s].bottom;
      digits.images[std::size_t{n} * side * side + i] = static_cast<std::uint8_t>(
          (lit ? 160 : 0) + random_at(seed + 1, std::uint64_t{n} * side * side + i) % 96);
    }
  }
  return digits;
}

}  // namespace perdure::bench::gpm
