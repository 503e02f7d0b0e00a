// LeNet's kernels: what a layer makes, the gradients that come back through it, and the step that
// they make a parameter take.
// Invariant: a thread takes every sum in an order that depends on the network's shape alone.
#pragma once

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
  /// Of so many maps, in a batch.
  PERDURE_FN std::size_t pixels(std::uint32_t maps, std::uint32_t of_side) const {
    return std::size_t{batch} * maps * of_side * of_side;
  }
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

}  // namespace perdure::bench::gpm
