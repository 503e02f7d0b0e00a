// DNN training (DNN): LeNet learns handwritten digits, by stochastic gradient descent with
// momentum. Checkpoints weights, biases and their momentum, with the number of the iteration. GPM
// table 1: MNIST, batches of 64; 10,000 iterations. Input: MNIST's files in `data`, train-* or else
// t10k-*; else generated seven-segment digits. The last 1,000 images are held out of training.
//
// Invariant: every sum is taken in an order that depends on the network's shape alone, and
// iteration i trains with images that its number decides; so a run that goes on from a checkpoint
// ends bit for bit like one that nothing happened to.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>

#include "iterate.hpp"

namespace perdure::bench::gpm {

inline constexpr std::uint32_t kTap = 5;  // convolutions are 5 x 5
inline constexpr std::uint32_t kClasses = 10;  // of digits
// neighbours that a thread computes together; sides are multiples of it
inline constexpr std::uint32_t kRun = 4;

/// Two convolutions, each followed by the largest of 2 x 2; a hidden layer with ReLU; a score for
/// each class.
struct LeNet {
  std::uint32_t side;  // of an image
  std::uint32_t maps1, maps2;
  std::uint32_t hidden;
  std::uint32_t batch;  // images at once
  float rate;  // of learning

  PERDURE_FN std::uint32_t conv1() const { return side - kTap + 1; }
  PERDURE_FN std::uint32_t pool1() const { return conv1() / 2; }
  PERDURE_FN std::uint32_t conv2() const { return pool1() - kTap + 1; }
  PERDURE_FN std::uint32_t pool2() const { return conv2() / 2; }
  PERDURE_FN std::uint32_t features() const { return maps2 * pool2() * pool2(); }
};

/// The parameters of a layer: weights, an output's together, then an output's bias each.
struct Layer {
  std::uint32_t first;  // of its parameters among all
  std::uint32_t outputs;
  std::uint32_t inputs;  // of an output
  std::uint32_t parts;  // that its gradient is summed up in, one after the other
  std::uint64_t gradient;  // where the first part begins
  PERDURE_FN std::uint32_t weights() const { return outputs * inputs; }
  PERDURE_FN std::uint32_t size() const { return outputs * (inputs + 1); }
};
inline constexpr std::uint32_t kLayers = 4;

// Kernels. A thread computes a few outputs, each with a loop of its own order; threads beyond them
// do nothing.

/// Kernels that do one thing for each of `items`.
template <class Kernel>
struct ForEach {
  static constexpr int kPhases = 1;
  using Shared = perdure::gpm::NoShared;
  using State = perdure::gpm::NoState;
  Kernel kernel;
  std::uint32_t items;

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    if (thread.global() < items) kernel(static_cast<std::uint32_t>(thread.global()));
  }
};

/// Images of a batch as numbers around 0, and what they show.
struct TakeImages {
  std::uint8_t const* images;
  std::uint8_t const* classes;
  std::uint32_t pixels;  // of an image
  std::uint32_t begin, count;  // which ones to choose from
  std::uint64_t seed;  // 0: one after the other, from number `first`, the last one again and again
  std::uint64_t first;
  float* to;
  std::uint32_t* labels;

  PERDURE_FN void operator()(std::uint32_t item) const {
    std::uint64_t const number = first + item / pixels;
    std::uint64_t const wraps = seed != 0        ? random_at(seed, number) % count
                                : number < count ? number
                                                 : count - 1;
    std::uint64_t const image = begin + wraps;
    to[item] = static_cast<float>(images[image * pixels + item % pixels]) * (1.0f / 255.0f) - 0.13f;
    if (item % pixels == 0) labels[item / pixels] = classes[image];
  }
};

/// to[image][o][y][x] = bias[o] + the sum, over maps and taps, of weight times input: kRun pixels
/// and two maps a thread. Its reverse, from gradients with a border of kTap - 1 zeros, is one too:
/// taps backwards, inputs and outputs exchanged.
struct Convolve {
  float const* from;
  std::uint32_t from_maps, from_side;
  float const* weights;
  float const* bias;  // null: none
  std::uint32_t by_output, by_map,
      first_tap;  // strides among the weights, and which tap comes first
  std::int32_t by_tap;
  float* to;
  std::uint32_t to_maps;

  [[nodiscard]] std::uint32_t items(std::uint32_t batch) const {
    std::uint32_t const side = from_side - kTap + 1;
    return batch * (to_maps / 2) * side * (side / kRun);
  }
  PERDURE_FN void operator()(std::uint32_t item) const {
    std::uint32_t const side = from_side - kTap + 1, runs = side / kRun;
    std::uint32_t const x = item % runs * kRun, y = item / runs % side,
                        o = item / (runs * side) % (to_maps / 2) * 2,
                        image = item / (runs * side * (to_maps / 2));
    float sums[2][kRun];
    for (std::uint32_t u = 0; u < kRun; ++u) {
      sums[0][u] = bias == nullptr ? 0.0f : bias[o];
      sums[1][u] = bias == nullptr ? 0.0f : bias[o + 1];
    }
    for (std::uint32_t c = 0; c < from_maps; ++c) {
      float const* const rows =
          from + (std::size_t{image * from_maps + c} * from_side + y) * from_side + x;
      float const* const taps = weights + (o * by_output + c * by_map + first_tap);
      for (std::uint32_t ky = 0; ky < kTap; ++ky) add_row(rows + ky * from_side, taps, ky, sums);
    }
    float* const row = to + (std::size_t{image * to_maps + o} * side + y) * side + x;
    for (std::uint32_t u = 0; u < kRun; ++u) {
      row[u] = sums[0][u];
      row[side * side + u] = sums[1][u];
    }
  }
  PERDURE_FN void add_row(float const* row, float const* taps, std::uint32_t ky,
                          float (&sums)[2][kRun]) const {
    for (std::uint32_t kx = 0; kx < kTap; ++kx) {
      float const* const tap = taps + static_cast<std::int32_t>(ky * kTap + kx) * by_tap;
      float const one = tap[0], other = tap[by_output];
      for (std::uint32_t u = 0; u < kRun; ++u) sums[0][u] += one * row[kx + u];
      for (std::uint32_t u = 0; u < kRun; ++u) sums[1][u] += other * row[kx + u];
    }
  }
};

/// A part of the weights' gradient: of some images, for a row of taps of one map and output. Sums
/// of every kRun-th pixel are taken side by side, and joined at the end.
struct ConvolveGradient {
  float const* from;  // what the convolution had
  std::uint32_t maps, from_side;
  float const* change;  // the gradient of what it made, within a border
  std::uint32_t outputs, border;
  std::uint32_t images;  // of a part
  float* to;  // parts of a layer's gradient

  [[nodiscard]] std::uint32_t items(std::uint32_t parts) const {
    return parts * outputs * maps * kTap;
  }
  PERDURE_FN void operator()(std::uint32_t item) const {
    std::uint32_t const ky = item % kTap, c = item / kTap % maps,
                        o = item / (kTap * maps) % outputs, part = item / (kTap * maps * outputs);
    std::uint32_t const side = from_side - kTap + 1, change_side = side + 2 * border;
    float sums[kTap][kRun] = {}, all[kRun] = {};
    for (std::uint32_t image = part * images; image < (part + 1) * images; ++image) {
      float const* const inputs =
          from + (std::size_t{image * maps + c} * from_side + ky) * from_side;
      float const* const changes =
          change + (std::size_t{image * outputs + o} * change_side + border) * change_side + border;
      for (std::uint32_t y = 0; y < side; ++y)
        for (std::uint32_t x = 0; x < side; x += kRun)
          add(inputs + y * from_side + x, changes + y * change_side + x, sums, all);
    }
    std::uint32_t const weights = outputs * maps * kTap * kTap;
    float* const mine = to + std::size_t{part} * (weights + outputs);
    for (std::uint32_t kx = 0; kx < kTap; ++kx)
      mine[((o * maps + c) * kTap + ky) * kTap + kx] = joined(sums[kx]);
    if (c == 0 && ky == 0) mine[weights + o] = joined(all);
  }
  PERDURE_FN static void add(float const* inputs, float const* changes, float (&sums)[kTap][kRun],
                             float (&all)[kRun]) {
    for (std::uint32_t u = 0; u < kRun; ++u) all[u] += changes[u];
    for (std::uint32_t kx = 0; kx < kTap; ++kx)
      for (std::uint32_t u = 0; u < kRun; ++u) sums[kx][u] += changes[u] * inputs[kx + u];
  }
  PERDURE_FN static float joined(float const (&sums)[kRun]) {
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
};

/// The largest of 2 x 2 numbers, and which it was: the first of equals.
struct Pool {
  float const* from;
  std::uint32_t side;  // of what it makes
  float* to;
  std::uint8_t* which;

  PERDURE_FN void operator()(std::uint32_t item) const {
    std::uint32_t const x = item % side, y = item / side % side, map = item / (side * side);
    float const* const corner = from + (std::size_t{map} * 2 * side + 2 * y) * 2 * side + 2 * x;
    float largest = corner[0];
    std::uint8_t at = 0;
    for (std::uint32_t i = 1; i < 4; ++i) {
      float const other = corner[i / 2 * 2 * side + i % 2];
      if (other <= largest) continue;
      largest = other;
      at = static_cast<std::uint8_t>(i);
    }
    to[item] = largest;
    which[item] = at;
  }
};

/// Gradients go to the one that was the largest; its neighbours get none.
struct Unpool {
  float const* from;
  std::uint8_t const* which;
  std::uint32_t side;  // of what it has
  std::uint32_t border;  // of what it makes
  float* to;

  PERDURE_FN void operator()(std::uint32_t item) const {
    std::uint32_t const x = item % side, y = item / side % side, map = item / (side * side);
    std::uint32_t const to_side = 2 * side + 2 * border;
    float* const corner =
        to + (std::size_t{map} * to_side + 2 * y + border) * to_side + 2 * x + border;
    for (std::uint32_t i = 0; i < 4; ++i)
      corner[i / 2 * to_side + i % 2] = i == which[item] ? from[item] : 0.0f;
  }
};

/// A fully connected layer: two images and two outputs a thread; sums of every kRun-th input,
/// joined at the end.
struct Connect {
  float const* from;
  std::uint32_t inputs;  // a multiple of kRun
  float const* weights;
  float const* bias;
  std::uint32_t outputs;
  bool positive;  // ReLU
  float* to;

  [[nodiscard]] std::uint32_t items(std::uint32_t batch) const { return batch / 2 * (outputs / 2); }
  PERDURE_FN void operator()(std::uint32_t item) const {
    std::uint32_t const o = item % (outputs / 2) * 2, image = item / (outputs / 2) * 2;
    float const *const x = from + std::size_t{image} * inputs, *const w = weights +
                                                                          std::size_t{o} * inputs;
    float sums[2][2][kRun] = {};
    for (std::uint32_t k = 0; k < inputs; k += kRun)
      for (std::uint32_t i = 0; i < 2; ++i)
        for (std::uint32_t j = 0; j < 2; ++j)
          for (std::uint32_t u = 0; u < kRun; ++u)
            sums[i][j][u] += x[i * inputs + k + u] * w[j * inputs + k + u];
    for (std::uint32_t i = 0; i < 2; ++i) {
      for (std::uint32_t j = 0; j < 2; ++j) {
        float const sum = bias[o + j] + ConvolveGradient::joined(sums[i][j]);
        to[std::size_t{image + i} * outputs + o + j] = positive && sum < 0 ? 0.0f : sum;
      }
    }
  }
};

/// What a fully connected layer's inputs should change: two images and kRun inputs a thread.
struct ConnectBack {
  float const* change;
  std::uint32_t outputs;
  float const* weights;
  std::uint32_t inputs;
  float const* positive;  // the inputs, where ReLU made them; null: they are no layer's with ReLU
  float* to;

  [[nodiscard]] std::uint32_t items(std::uint32_t batch) const {
    return batch / 2 * (inputs / kRun);
  }
  PERDURE_FN void operator()(std::uint32_t item) const {
    std::uint32_t const k = item % (inputs / kRun) * kRun, image = item / (inputs / kRun) * 2;
    float sums[2][kRun] = {};
    for (std::uint32_t o = 0; o < outputs; ++o) {
      float const one = change[image * outputs + o], other = change[(image + 1) * outputs + o];
      float const* const w = weights + std::size_t{o} * inputs + k;
      for (std::uint32_t u = 0; u < kRun; ++u) sums[0][u] += one * w[u];
      for (std::uint32_t u = 0; u < kRun; ++u) sums[1][u] += other * w[u];
    }
    for (std::uint32_t i = 0; i < 2; ++i) {
      for (std::uint32_t u = 0; u < kRun; ++u) {
        std::size_t const at = std::size_t{image + i} * inputs + k + u;
        to[at] = positive != nullptr && !(positive[at] > 0) ? 0.0f : sums[i][u];
      }
    }
  }
};

/// The gradient of a fully connected layer's weights: two outputs and kRun inputs a thread.
struct ConnectGradient {
  float const* change;
  std::uint32_t outputs;
  float const* from;
  std::uint32_t inputs;
  std::uint32_t batch;
  float* to;

  [[nodiscard]] std::uint32_t items() const { return outputs / 2 * (inputs / kRun); }
  PERDURE_FN void operator()(std::uint32_t item) const {
    std::uint32_t const k = item % (inputs / kRun) * kRun, o = item / (inputs / kRun) * 2;
    float sums[2][kRun] = {}, all[2] = {};
    for (std::uint32_t image = 0; image < batch; ++image) {
      float const* const x = from + std::size_t{image} * inputs + k;
      for (std::uint32_t j = 0; j < 2; ++j) {
        float const by = change[image * outputs + o + j];
        all[j] += by;
        for (std::uint32_t u = 0; u < kRun; ++u) sums[j][u] += by * x[u];
      }
    }
    for (std::uint32_t j = 0; j < 2; ++j) {
      for (std::uint32_t u = 0; u < kRun; ++u) to[std::size_t{o + j} * inputs + k + u] = sums[j][u];
      if (k == 0) to[std::size_t{outputs} * inputs + o + j] = all[j];
    }
  }
};

/// Softmax and cross entropy: an image's loss, and the gradient of the batch's mean loss by its
/// scores.
struct Score {
  float const* scores;
  std::uint32_t const* labels;
  float share;  // 1 over the batch
  float* loss;
  float* change;

  PERDURE_FN void operator()(std::uint32_t image) const {
    float const* const mine = scores + std::size_t{image} * kClasses;
    float largest = mine[0], sum = 0;
    for (std::uint32_t c = 1; c < kClasses; ++c) largest = mine[c] > largest ? mine[c] : largest;
    for (std::uint32_t c = 0; c < kClasses; ++c) sum += expf(mine[c] - largest);
    loss[image] = logf(sum) - (mine[labels[image]] - largest);
    for (std::uint32_t c = 0; c < kClasses; ++c)
      change[image * kClasses + c] =
          (expf(mine[c] - largest) / sum - (c == labels[image] ? 1.0f : 0.0f)) * share;
  }
};

/// Adds up a parameter's gradient, part by part, and moves the parameter.
struct Update {
  Layer layers[kLayers];
  float const* gradient;
  float* parameters;
  float* momentum;
  float rate, keeps;  // of learning; of momentum

  PERDURE_FN void operator()(std::uint32_t item) const {
    std::uint32_t l = kLayers - 1;
    while (item < layers[l].first) --l;
    Layer const& layer = layers[l];
    float const* mine = gradient + layer.gradient + (item - layer.first);
    float sum = 0;
    for (std::uint32_t part = 0; part < layer.parts; ++part, mine += layer.size()) sum += *mine;
    momentum[item] = keeps * momentum[item] - rate * sum;
    parameters[item] += momentum[item];
  }
};

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

/// The network on a machine, without its parameters: what a batch makes of them, forwards and
/// backwards.
template <class Grid>
class Network {
 public:
  Network(Grid& grid, LeNet const& net)
      : grid_(&grid),
        net_(net),
        layers_(layers_of(net)),
        input_(grid, std::size_t{net.batch} * net.side * net.side),
        labels_(grid, net.batch),
        conv1_(grid, maps(net.maps1, net.conv1())),
        pool1_(grid, maps(net.maps1, net.pool1())),
        conv2_(grid, maps(net.maps2, net.conv2())),
        pool2_(grid, maps(net.maps2, net.pool2())),
        hidden_(grid, std::size_t{net.batch} * net.hidden),
        scores_(grid, std::size_t{net.batch} * kClasses),
        loss_(grid, net.batch),
        which1_(grid, pool1_.size()),
        which2_(grid, pool2_.size()),
        scores_change_(grid, scores_.size()),
        hidden_change_(grid, hidden_.size()),
        pool2_change_(grid, pool2_.size()),
        conv2_change_(grid, maps(net.maps2, net.conv2() + 2 * kBorder)),
        pool1_change_(grid, pool1_.size()),
        conv1_change_(grid, conv1_.size()),
        gradient_(grid, layers_.back().gradient +
                            std::size_t{layers_.back().parts} * layers_.back().size()) {
    conv2_change_.fill(0);  // its border stays so
  }

  [[nodiscard]] static std::array<Layer, kLayers> layers_of(LeNet const& net) {
    std::array<Layer, kLayers> layers{
        {{0, net.maps1, kTap * kTap, net.batch, 0},
         {0, net.maps2, net.maps1 * kTap * kTap, net.batch / kImages2, 0},
         {0, net.hidden, net.features(), 1, 0},
         {0, kClasses, net.hidden, 1, 0}}};
    for (std::uint32_t l = 1; l < kLayers; ++l) {
      layers[l].first = layers[l - 1].first + layers[l - 1].size();
      layers[l].gradient =
          layers[l - 1].gradient + std::uint64_t{layers[l - 1].parts} * layers[l - 1].size();
    }
    return layers;
  }
  [[nodiscard]] std::array<Layer, kLayers> const& layers() const { return layers_; }
  [[nodiscard]] std::uint32_t parameters() const {
    return layers_.back().first + layers_.back().size();
  }

  /// `which` says which images, but not where to.
  void take(TakeImages which) {
    which.to = input_.data();
    which.labels = labels_.data();
    launch(which, static_cast<std::uint32_t>(input_.size()));
  }
  void forward(float const* parameters) {
    convolve(0, parameters, input_, 1, net_.side, conv1_);
    launch(Pool{conv1_.data(), net_.pool1(), pool1_.data(), which1_.data()}, count(pool1_));
    convolve(1, parameters, pool1_, net_.maps1, net_.pool1(), conv2_);
    launch(Pool{conv2_.data(), net_.pool2(), pool2_.data(), which2_.data()}, count(pool2_));
    connect(2, parameters, pool2_, true, hidden_);
    connect(3, parameters, hidden_, false, scores_);
    launch(Score{scores_.data(), labels_.data(), 1.0f / static_cast<float>(net_.batch),
                 loss_.data(), scores_change_.data()},
           net_.batch);
  }
  /// After forward(), with the same parameters.
  void backward(float const* parameters) {
    connect_gradient(3, scores_change_, hidden_);
    connect_back(3, parameters, scores_change_, hidden_.data(), hidden_change_);
    connect_gradient(2, hidden_change_, pool2_);
    connect_back(2, parameters, hidden_change_, nullptr, pool2_change_);
    launch(
        Unpool{pool2_change_.data(), which2_.data(), net_.pool2(), kBorder, conv2_change_.data()},
        count(pool2_));
    convolve_gradient(1, conv2_change_, kBorder, pool1_, net_.maps1, net_.pool1());
    Convolve const back{conv2_change_.data(),          net_.maps2,      net_.conv2() + 2 * kBorder,
                        parameters + layers_[1].first, nullptr,         kTap * kTap,
                        net_.maps1 * kTap * kTap,      kTap * kTap - 1, -1,
                        pool1_change_.data(),          net_.maps1};
    launch(back, back.items(net_.batch));
    launch(Unpool{pool1_change_.data(), which1_.data(), net_.pool1(), 0, conv1_change_.data()},
           count(pool1_));
    convolve_gradient(0, conv1_change_, 0, input_, 1, net_.side);
  }
  /// After backward().
  void update(float* parameters, float* momentum, float rate, float keeps) {
    Update kernel{{}, gradient_.data(), parameters, momentum, rate, keeps};
    std::copy(layers_.begin(), layers_.end(), kernel.layers);
    launch(kernel, this->parameters());
  }

  [[nodiscard]] std::vector<float> losses() const { return loss_.get(); }
  [[nodiscard]] std::vector<float> scores() const { return scores_.get(); }
  [[nodiscard]] std::vector<std::uint32_t> labels() const { return labels_.get(); }
  [[nodiscard]] std::vector<float> input() const { return input_.get(); }

 private:
  using Floats = Array<Grid, float>;
  static constexpr std::uint32_t kBorder = kTap - 1;
  static constexpr std::uint32_t kImages2 = 8;  // of a part of the second convolution's gradient

  [[nodiscard]] std::size_t maps(std::uint32_t n, std::uint32_t side) const {
    return std::size_t{net_.batch} * n * side * side;
  }
  static std::uint32_t count(Floats const& array) {
    return static_cast<std::uint32_t>(array.size());
  }

  template <class Kernel>
  void launch(Kernel const& kernel, std::uint32_t items) {
    require(grid_->launch(perdure::gpm::grid_of(items, 128), ForEach<Kernel>{kernel, items}),
            "dnn");
  }
  void convolve(std::size_t l, float const* parameters, Floats const& from, std::uint32_t from_maps,
                std::uint32_t from_side, Floats const& to) {
    float const* const weights = parameters + layers_[l].first;
    Convolve const kernel{
        from.data(),       from_maps,   from_side, weights, weights + layers_[l].weights(),
        layers_[l].inputs, kTap * kTap, 0,         1,       to.data(),
        layers_[l].outputs};
    launch(kernel, kernel.items(net_.batch));
  }
  void convolve_gradient(std::size_t l, Floats const& change, std::uint32_t border,
                         Floats const& from, std::uint32_t from_maps, std::uint32_t from_side) {
    ConvolveGradient const kernel{from.data(),
                                  from_maps,
                                  from_side,
                                  change.data(),
                                  layers_[l].outputs,
                                  border,
                                  net_.batch / layers_[l].parts,
                                  gradient_.data() + layers_[l].gradient};
    launch(kernel, kernel.items(layers_[l].parts));
  }
  void connect(std::size_t l, float const* parameters, Floats const& from, bool positive,
               Floats const& to) {
    float const* const weights = parameters + layers_[l].first;
    Connect const kernel{
        from.data(),        layers_[l].inputs, weights,  weights + layers_[l].weights(),
        layers_[l].outputs, positive,          to.data()};
    launch(kernel, kernel.items(net_.batch));
  }
  void connect_back(std::size_t l, float const* parameters, Floats const& change,
                    float const* positive, Floats const& to) {
    ConnectBack const kernel{change.data(),     layers_[l].outputs, parameters + layers_[l].first,
                             layers_[l].inputs, positive,           to.data()};
    launch(kernel, kernel.items(net_.batch));
  }
  void connect_gradient(std::size_t l, Floats const& change, Floats const& from) {
    ConnectGradient const kernel{change.data(), layers_[l].outputs,
                                 from.data(),   layers_[l].inputs,
                                 net_.batch,    gradient_.data() + layers_[l].gradient};
    launch(kernel, kernel.items());
  }

  Grid* grid_;
  LeNet net_;
  std::array<Layer, kLayers> layers_;
  Floats input_;
  Array<Grid, std::uint32_t> labels_;
  Floats conv1_, pool1_, conv2_, pool2_, hidden_, scores_, loss_;
  Array<Grid, std::uint8_t> which1_, which2_;
  // Gradients of the batch's mean loss: by what the layers made, and by the parameters, in parts.
  Floats scores_change_, hidden_change_, pool2_change_, conv2_change_, pool1_change_, conv1_change_;
  Floats gradient_;
};

/// The same network in plain loops and double precision: the loss of one image.
class PlainLeNet {
 public:
  explicit PlainLeNet(LeNet const& net) : net_(net) {}

  [[nodiscard]] double loss(std::vector<double> const& parameters, float const* image,
                            std::uint32_t label) const {
    double const* at = parameters.data();
    std::vector<double> const pixels(image, image + std::size_t{net_.side} * net_.side);
    std::vector<double> const one =
        pool(convolve(pixels, 1, net_.side, net_.maps1, at), net_.maps1, net_.pool1());
    std::vector<double> const two =
        pool(convolve(one, net_.maps1, net_.pool1(), net_.maps2, at), net_.maps2, net_.pool2());
    std::vector<double> hidden = connect(two, net_.hidden, at);
    for (double& value : hidden) value = std::max(value, 0.0);
    std::vector<double> const scores = connect(hidden, kClasses, at);
    double sum = 0;
    for (double const score : scores) sum += std::exp(score - scores[label]);
    return std::log(sum);
  }

 private:
  static std::vector<double> convolve(std::vector<double> const& from, std::uint32_t maps,
                                      std::uint32_t side, std::uint32_t outputs,
                                      double const*& at) {
    std::uint32_t const to_side = side - kTap + 1;
    std::vector<double> to(std::size_t{outputs} * to_side * to_side);
    double const* const bias = at + std::size_t{outputs} * maps * kTap * kTap;
    for (std::uint32_t o = 0; o < outputs; ++o) {
      double* const mine = to.data() + std::size_t{o} * to_side * to_side;
      std::fill(mine, mine + std::size_t{to_side} * to_side, bias[o]);
      for (std::uint32_t c = 0; c < maps; ++c)
        for (std::uint32_t tap = 0; tap < kTap * kTap; ++tap, ++at)
          for (std::uint32_t i = 0; i < to_side * to_side; ++i)
            mine[i] += *at * from[(std::size_t{c} * side + i / to_side + tap / kTap) * side +
                                  i % to_side + tap % kTap];
    }
    at = bias + outputs;
    return to;
  }
  static std::vector<double> pool(std::vector<double> const& from, std::uint32_t maps,
                                  std::uint32_t side) {
    std::vector<double> to(std::size_t{maps} * side * side);
    for (std::size_t i = 0; i < to.size(); ++i) {
      double const* const corner = from.data() + i / side * 4 * side + i % side * 2;
      to[i] = std::max({corner[0], corner[1], corner[2 * side], corner[2 * side + 1]});
    }
    return to;
  }
  static std::vector<double> connect(std::vector<double> const& from, std::uint32_t outputs,
                                     double const*& at) {
    std::vector<double> to(at + outputs * from.size(), at + outputs * from.size() + outputs);
    for (double& value : to)
      for (double const input : from) value += *at++ * input;
    at += outputs;
    return to;
  }

  LeNet net_;
};

/// Training, apart from who decides how long: images, parameters, momentum.
template <class Grid>
class Training {
 public:
  Training(Grid& grid, LeNet const& net, Digits const& digits, std::uint64_t seed,
           std::uint32_t held_out)
      : grid_(&grid),
        net_(net),
        seed_(seed),
        images_(grid, digits.images),
        classes_(grid, digits.classes),
        held_out_(held_out),
        learnt_(static_cast<std::uint32_t>(digits.classes.size()) - held_out),
        network_(grid, net),
        parameters_(grid, first_parameters()),
        momentum_(grid, network_.parameters()) {
    momentum_.fill(0);
  }

  void step(std::uint32_t iteration) {
    network_.take(images(0, learnt_, seed_ + 3, std::uint64_t{iteration} * net_.batch));
    network_.forward(parameters_.data());
    network_.backward(parameters_.data());
    network_.update(parameters_.data(), momentum_.data(), net_.rate, kKeeps);
  }
  [[nodiscard]] std::vector<Element> elements() const {
    return {{parameters_.data(), parameters_.bytes()}, {momentum_.data(), momentum_.bytes()}};
  }
  [[nodiscard]] std::uint64_t digest() const {
    return digest_of(momentum_.get(), digest_of(parameters_.get()));
  }

  struct Judgement {
    double loss = 0, accuracy = 0;  // means over the images that were held out
  };
  [[nodiscard]] Judgement judge() {
    Judgement judgement;
    for (std::uint32_t done = 0; done < held_out_; done += net_.batch) {
      network_.take(images(learnt_, held_out_, 0, done));
      network_.forward(parameters_.data());
      std::vector<float> const losses = network_.losses(), scores = network_.scores();
      std::vector<std::uint32_t> const labels = network_.labels();
      for (std::uint32_t i = 0; i < std::min(net_.batch, held_out_ - done); ++i) {
        auto const mine = scores.begin() + std::ptrdiff_t{i} * kClasses;
        judgement.loss += double{losses[i]} / held_out_;
        judgement.accuracy +=
            std::max_element(mine, mine + kClasses) - mine == labels[i] ? 1.0 / held_out_ : 0.0;
      }
    }
    return judgement;
  }

  /// How far the kernels' gradient of a few images is from the plain network's slopes, at most: of
  /// each layer's weights, and of its biases.
  [[nodiscard]] double gradient_error() {
    LeNet few = net_;
    few.batch = 8;
    Network<Grid> network(*grid_, few);
    Array<Grid, float> gradient(*grid_, network.parameters()),
        scratch(*grid_, network.parameters());
    gradient.fill(0);
    scratch.fill(0);
    network.take(images(learnt_, held_out_, 0, 0));
    network.forward(parameters_.data());
    network.backward(parameters_.data());
    network.update(scratch.data(), gradient.data(), -1.0f, 0.0f);  // the momentum is the gradient
    std::vector<float> const slopes = gradient.get();
    double worst = 0;
    for (Layer const& layer : network.layers()) {
      std::uint32_t const biases = layer.first + layer.weights(), end = layer.first + layer.size();
      worst = std::max({worst, slope_error(network, few, slopes, layer.first, biases),
                        slope_error(network, few, slopes, biases, end)});
    }
    return worst;
  }

 private:
  static constexpr float kKeeps = 0.9f;  // of the momentum

  /// Along the parameters' gradient, turned a little at random so that a part that is missing from
  /// it shows too.
  [[nodiscard]] double slope_error(Network<Grid> const& network, LeNet const& net,
                                   std::vector<float> const& slopes, std::uint32_t begin,
                                   std::uint32_t end) const {
    constexpr double kBy = 1e-5;
    double length = 0;
    for (std::uint32_t i = begin; i < end; ++i) length += double{slopes[i]} * double{slopes[i]};
    length = std::sqrt(length);
    std::vector<float> const parameters = parameters_.get(), input = network.input();
    std::vector<std::uint32_t> const labels = network.labels();
    std::vector<double> up(parameters.begin(), parameters.end()), down = up;
    double expected = 0, rises = 0;
    for (std::uint32_t i = begin; i < end; ++i) {
      double const turn = (random_at(seed_ + 4, i) % 2 == 0 ? 0.5 : -0.5) /
                          std::sqrt(static_cast<double>(end - begin));
      double const way = (length > 0 ? double{slopes[i]} / length : 0) + turn;
      expected += way * double{slopes[i]};
      up[i] += kBy * way;
      down[i] -= kBy * way;
    }
    PlainLeNet const plain(net);
    for (std::uint32_t i = 0; i < net.batch; ++i) {
      float const* const image = input.data() + std::size_t{i} * net.side * net.side;
      rises += (plain.loss(up, image, labels[i]) - plain.loss(down, image, labels[i])) /
               (2 * kBy * net.batch);
    }
    return std::fabs(rises - expected) / std::max({std::fabs(rises), std::fabs(expected), 1e-6});
  }

  [[nodiscard]] TakeImages images(std::uint32_t begin, std::uint32_t count, std::uint64_t seed,
                                  std::uint64_t first) const {
    return {images_.data(), classes_.data(), net_.side * net_.side, begin, count, seed, first,
            nullptr,        nullptr};
  }
  /// Weights within the square root of 3 over an output's inputs; biases zero.
  [[nodiscard]] std::vector<float> first_parameters() const {
    std::vector<float> parameters(network_.parameters(), 0.0f);
    for (Layer const& layer : network_.layers()) {
      float const most = std::sqrt(3.0f / static_cast<float>(layer.inputs));
      for (std::uint32_t i = layer.first; i < layer.first + layer.weights(); ++i)
        parameters[i] =
            most * (static_cast<float>(random_at(seed_ + 2, i) % 65536) / 32768.0f - 1.0f);
    }
    return parameters;
  }

  Grid* grid_;
  LeNet net_;
  std::uint64_t seed_;
  Array<Grid, std::uint8_t> images_, classes_;
  std::uint32_t held_out_, learnt_;  // images: the last ones; those before them
  Network<Grid> network_;
  Array<Grid, float> parameters_, momentum_;
};

template <class Grid>
AppReport run_dnn(Grid& grid, AppOptions const& options) {
  bool const tiny = options.size == Size::tiny, real = !tiny && !options.data.empty();
  LeNet const net = tiny ? LeNet{20, 4, 4, 16, 16, 0.05f} : LeNet{28, 20, 50, 500, 64, 0.02f};
  std::uint32_t const own = options.size == Size::paper   ? 10000
                            : options.size == Size::small ? 80
                                                          : 36;
  std::uint32_t const iterations = options.iterations != 0 ? options.iterations : own;
  std::uint32_t const held_out = tiny ? 64 : 1000;
  Digits const digits = real ? MnistFiles::read(options.data)
                             : segment_digits(net.side,
                                              tiny                          ? 320
                                              : options.size == Size::small ? 10000
                                                                            : 60000,
                                              options.seed);
  Training<Grid> training(grid, net, digits, options.seed, held_out);
  auto const before = training.judge();
  double const gradient_error = training.gradient_error();
  AppReport report = iterate(grid, options, iterations, training.elements(),
                             [&](std::uint32_t i) { training.step(i); });
  auto const after = training.judge();
  report.operations = report.steps * net.batch;
  report.right = gradient_error < 1e-2;
  if (iterations >= own)  // fewer need not have learnt anything
    report.right = report.right && after.loss < before.loss && (tiny || after.accuracy > 0.85);
  report.more = {{"loss_at_first", before.loss},
                 {"loss", after.loss},
                 {"accuracy", after.accuracy},
                 {"gradient_error", gradient_error}};
  report.digest = training.digest();
  return report;
}

}  // namespace perdure::bench::gpm
