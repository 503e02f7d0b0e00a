// Black-Scholes (BLK): prices of call and put options by the closed form, as the market moves.
// Checkpoints both arrays of prices. GPM table 1: 2^28 options, 1,024 iterations. Inputs are
// generated.
//
// Invariant: an iteration prices options anew, in a market that its number decides: at table 1's
// size all of them, as CUDA's sample does; at the sizes of tests the i-th sixteenth, so that prices
// outlive several checkpoints, and one that a resumed run forgot, or left to an older market,
// shows.
#pragma once

#include <algorithm>
#include <cmath>

#include "iterate.hpp"

namespace perdure::bench::gpm {

struct Option {
  float spot, strike, years;
};

/// Ranges that keep every price above a cent or so: relative errors of cheaper ones say nothing of
/// the formula.
PERDURE_FN Option option_at(std::uint64_t seed, std::uint64_t i) {
  std::uint64_t const bits = random_at(seed, i);
  auto const share = [bits](int from) {
    return static_cast<float>(bits >> from & 0xfffff) / 1048576.0f;
  };
  return {20.0f + 10.0f * share(0), 18.0f + 14.0f * share(20), 1.0f + 9.0f * share(40)};
}

struct Market {
  float level;  // of all spot prices, against their own
  float rate, volatility;
};

[[nodiscard]] inline Market market_at(std::uint64_t seed, std::uint64_t iteration) {
  Option const drawn = option_at(seed + 1, iteration);  // three numbers, within known ranges
  return {0.04f * drawn.spot, 0.001f * drawn.strike, 0.3f + 0.01f * drawn.years};
}

/// The normal distribution function, by the polynomial of Abramowitz and Stegun 26.2.17:
/// within 7.5e-8.
PERDURE_FN float normal_up_to(float d) {
  float const k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
  float const sum =
      k * (0.31938153f +
           k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f))));
  float const above = 0.39894228f * expf(-0.5f * d * d) * sum;
  return d > 0 ? 1.0f - above : above;
}

struct MakeOptions {
  static constexpr int kPhases = 1;
  using Shared = perdure::gpm::NoShared;
  using State = perdure::gpm::NoState;

  Option* options;
  std::uint64_t count;
  std::uint64_t seed;

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    for (std::uint64_t i = thread.global(); i < count; i += thread.total())
      options[i] = option_at(seed, i);
  }
};

struct PriceOptions {
  static constexpr int kPhases = 1;
  using Shared = perdure::gpm::NoShared;
  using State = perdure::gpm::NoState;

  Option const* options;
  float* call;
  float* put;
  std::uint64_t begin, end;
  Market market;

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    for (std::uint64_t i = begin + thread.global(); i < end; i += thread.total()) {
      Option const option = options[i];
      float const spot = option.spot * market.level;
      float const spread = market.volatility * sqrtf(option.years);
      float const d1 =
          (logf(spot / option.strike) +
           (market.rate + 0.5f * market.volatility * market.volatility) * option.years) /
          spread;
      float const d2 = d1 - spread;
      float const strike_now = option.strike * expf(-market.rate * option.years);
      call[i] = spot * normal_up_to(d1) - strike_now * normal_up_to(d2);
      put[i] = strike_now * normal_up_to(-d2) - spot * normal_up_to(-d1);
    }
  }
};

/// What an option's prices should be after `done` iterations, and whether they are.
class PriceCheck {
 public:
  PriceCheck(AppOptions const& options, std::uint64_t share, std::uint64_t shares,
             std::uint64_t done)
      : seed_(options.seed), share_(share), shares_(shares), done_(done) {}

  [[nodiscard]] bool right(std::uint64_t i, float call, float put) {
    std::uint64_t const first = i / share_;
    if (done_ <= first) return call == 0 && put == 0;  // no iteration came to it yet
    Market const market = market_at(seed_, first + (done_ - 1 - first) / shares_ * shares_);
    Option const option = option_at(seed_, i);
    double const spot = double{option.spot} * double{market.level}, years = option.years;
    double const spread = double{market.volatility} * std::sqrt(years);
    double const d1 = std::log(spot / double{option.strike}) / spread +
                      double{market.rate} * years / spread + spread / 2;
    double const strike_now = double{option.strike} * std::exp(-double{market.rate} * years);
    double const exact_call = spot * normal(d1) - strike_now * normal(d1 - spread);
    double const exact_put = strike_now * normal(spread - d1) - spot * normal(-d1);
    double const parity = std::fabs(double{call} - double{put} - (spot - strike_now)) / spot;
    worst_ = std::max(
        {worst_, std::fabs(double{call} / exact_call - 1), std::fabs(double{put} / exact_put - 1)});
    worst_parity_ = std::max(worst_parity_, parity);
    return worst_ < 1e-4 && worst_parity_ < 1e-5;
  }
  [[nodiscard]] double worst() const { return worst_; }

 private:
  static double normal(double d) { return 0.5 * std::erfc(-d / std::sqrt(2.0)); }

  std::uint64_t seed_, share_, shares_, done_;
  double worst_ = 0, worst_parity_ = 0;
};

template <class Grid>
AppReport run_black_scholes(Grid& grid, AppOptions const& options) {
  std::uint64_t const shares = options.size == Size::paper ? 1 : 16;
  std::size_t const count = std::size_t{1} << (options.size == Size::tiny    ? 12
                                               : options.size == Size::small ? 20
                                                                             : 28);
  std::uint32_t const iterations = options.iterations != 0      ? options.iterations
                                   : options.size == Size::tiny ? 18
                                                                : 1024;
  std::size_t const share = count / shares;
  GridShape const shape =
      perdure::gpm::grid_of(std::min<std::size_t>(share, std::size_t{1} << 22), 256);
  Array<Grid, Option> contracts(grid, count);
  Array<Grid, float> call(grid, count), put(grid, count);
  require(grid.launch(shape, MakeOptions{contracts.data(), count, options.seed}), "black-scholes");
  call.fill(0);
  put.fill(0);

  AppReport report = iterate(
      grid, options, iterations, {{call.data(), call.bytes()}, {put.data(), put.bytes()}},
      [&](std::uint32_t i) {
        std::uint64_t const begin = i % shares * share;
        require(grid.launch(shape, PriceOptions{contracts.data(), call.data(), put.data(), begin,
                                                begin + share, market_at(options.seed, i)}),
                "black-scholes");
      });
  report.operations = report.steps * share;
  std::vector<float> const calls = call.get(), puts = put.get();
  PriceCheck check(options, share, shares, report.began_at + report.steps);
  for (std::size_t i = 0; i < count; i += std::max<std::size_t>(1, count >> 16))
    report.right = check.right(i, calls[i], puts[i]) && report.right;
  report.more.emplace_back("worst_relative_error", check.worst());
  report.digest = digest_of(puts, digest_of(calls));
  return report;
}

}  // namespace perdure::bench::gpm
