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
#include <cmath>

#include "dnn_digits.hpp"
#include "dnn_network.hpp"

namespace perdure::bench::gpm {

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
