// LeNet over a grid: its layers' arrays, and the kernels in their order; and the same network in
// plain loops.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "dnn_kernels.hpp"

namespace perdure::bench::gpm {

/// What a batch makes of a network's layers, forwards.
template <class Grid>
struct Activations {
  Activations(Grid& grid, LeNet const& net)
      : input(grid, net.pixels(1, net.side)),
        labels(grid, net.batch),
        conv1(grid, net.pixels(net.maps1, net.conv1())),
        pool1(grid, net.pixels(net.maps1, net.pool1())),
        conv2(grid, net.pixels(net.maps2, net.conv2())),
        pool2(grid, net.pixels(net.maps2, net.pool2())),
        hidden(grid, std::size_t{net.batch} * net.hidden),
        scores(grid, std::size_t{net.batch} * kClasses),
        loss(grid, net.batch),
        which1(grid, pool1.size()),
        which2(grid, pool2.size()) {}

  Array<Grid, float> input;
  Array<Grid, std::uint32_t> labels;
  Array<Grid, float> conv1, pool1, conv2, pool2, hidden, scores, loss;
  Array<Grid, std::uint8_t> which1, which2;  // that the pools took
};

/// Gradients of the batch's mean loss by what the layers made.
template <class Grid>
struct Changes {
  static constexpr std::uint32_t kBorder = kTap - 1;

  Changes(Grid& grid, LeNet const& net)
      : scores(grid, std::size_t{net.batch} * kClasses),
        hidden(grid, std::size_t{net.batch} * net.hidden),
        pool2(grid, net.pixels(net.maps2, net.pool2())),
        conv2(grid, net.pixels(net.maps2, net.conv2() + 2 * kBorder)),
        pool1(grid, net.pixels(net.maps1, net.pool1())),
        conv1(grid, net.pixels(net.maps1, net.conv1())) {
    conv2.fill(0);  // its border stays so
  }

  Array<Grid, float> scores, hidden, pool2, conv2, pool1, conv1;
};

/// The network on a machine, without its parameters: what a batch makes of them, forwards and
/// backwards.
template <class Grid>
class Network {
 public:
  Network(Grid& grid, LeNet const& net)
      : grid_(&grid),
        net_(net),
        layers_(layers_of(net)),
        made_(grid, net),
        changes_(grid, net),
        gradient_(grid, layers_.back().gradient +
                            std::size_t{layers_.back().parts} * layers_.back().size()) {}

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
    which.to = made_.input.data();
    which.labels = made_.labels.data();
    launch(which, static_cast<std::uint32_t>(made_.input.size()));
  }
  void forward(float const* parameters) {
    convolve(0, parameters, made_.input, 1, net_.side, made_.conv1);
    launch(Pool{made_.conv1.data(), net_.pool1(), made_.pool1.data(), made_.which1.data()},
           count(made_.pool1));
    convolve(1, parameters, made_.pool1, net_.maps1, net_.pool1(), made_.conv2);
    launch(Pool{made_.conv2.data(), net_.pool2(), made_.pool2.data(), made_.which2.data()},
           count(made_.pool2));
    connect(2, parameters, made_.pool2, true, made_.hidden);
    connect(3, parameters, made_.hidden, false, made_.scores);
    launch(Score{made_.scores.data(), made_.labels.data(), 1.0f / static_cast<float>(net_.batch),
                 made_.loss.data(), changes_.scores.data()},
           net_.batch);
  }
  /// After forward(), with the same parameters.
  void backward(float const* parameters) {
    connect_gradient(3, changes_.scores, made_.hidden);
    connect_back(3, parameters, changes_.scores, made_.hidden.data(), changes_.hidden);
    connect_gradient(2, changes_.hidden, made_.pool2);
    connect_back(2, parameters, changes_.hidden, nullptr, changes_.pool2);
    launch(Unpool{changes_.pool2.data(), made_.which2.data(), net_.pool2(), Changes<Grid>::kBorder,
                  changes_.conv2.data()},
           count(made_.pool2));
    convolve_gradient(1, changes_.conv2, Changes<Grid>::kBorder, made_.pool1, net_.maps1,
                      net_.pool1());
    Convolve const back{
        changes_.conv2.data(),         net_.maps2,      net_.conv2() + 2 * Changes<Grid>::kBorder,
        parameters + layers_[1].first, nullptr,         kTap * kTap,
        net_.maps1 * kTap * kTap,      kTap * kTap - 1, -1,
        changes_.pool1.data(),         net_.maps1};
    launch(back, back.items(net_.batch));
    launch(
        Unpool{changes_.pool1.data(), made_.which1.data(), net_.pool1(), 0, changes_.conv1.data()},
        count(made_.pool1));
    convolve_gradient(0, changes_.conv1, 0, made_.input, 1, net_.side);
  }
  /// After backward().
  void update(float* parameters, float* momentum, float rate, float keeps) {
    Update kernel{{}, gradient_.data(), parameters, momentum, rate, keeps};
    std::copy(layers_.begin(), layers_.end(), kernel.layers);
    launch(kernel, this->parameters());
  }

  [[nodiscard]] std::vector<float> losses() const { return made_.loss.get(); }
  [[nodiscard]] std::vector<float> scores() const { return made_.scores.get(); }
  [[nodiscard]] std::vector<std::uint32_t> labels() const { return made_.labels.get(); }
  [[nodiscard]] std::vector<float> input() const { return made_.input.get(); }

 private:
  using Floats = Array<Grid, float>;
  static constexpr std::uint32_t kImages2 = 8;  // of a part of the second convolution's gradient

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
  Activations<Grid> made_;
  Changes<Grid> changes_;
  Floats gradient_;  // by the parameters, in parts
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

}  // namespace perdure::bench::gpm
