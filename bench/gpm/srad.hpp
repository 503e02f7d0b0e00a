// Speckle-reducing anisotropic diffusion (SRAD; Yu and Acton, after Rodinia's description): smooths
// an image within its regions and not across their edges. An iteration takes the image's mean and
// variance, then each pixel's diffusion coefficient from its neighbours, then diffuses. Durable:
// the coefficients, the image, and how far both are. GPM table 1: 128K x 1K pixels. Input:
// srad_image.pgm, repeated for larger images; else generated.
//
// Invariants: iteration i reads image i % 2 and writes the other one, so what it reads stays whole
// until the next one begins, after the word `iteration` says i + 1. A tile of coefficients or of
// the image has a word that becomes i + 1 when the tile is durable; so an iteration that was under
// way goes on with the tiles whose words are not i + 1.
#pragma once

#include <algorithm>
#include <cmath>
#include <fstream>

#include "native.hpp"

namespace perdure::bench::gpm {

struct SradShape {
  std::uint32_t rows;
  std::uint32_t columns;
  std::uint32_t threads;
  std::uint32_t each;  // pixels of a thread; a tile has threads * each, one after the other
  [[nodiscard]] PERDURE_FN std::uint32_t tile() const { return threads * each; }
  [[nodiscard]] PERDURE_FN std::uint64_t pixels() const { return std::uint64_t{rows} * columns; }
  [[nodiscard]] std::uint32_t tiles() const {
    return static_cast<std::uint32_t>((pixels() + tile() - 1) / tile());
  }
};

inline constexpr std::uint32_t kSradThreads = 256;
inline constexpr float kSradLambda = 0.5f;

[[nodiscard]] inline SradShape srad_shape(Size size) {
  if (size == Size::tiny) return {16, 24, 8, 4};
  return {size == Size::small ? 1024u : 131072u, size == Size::small ? 768u : 1024u, kSradThreads,
          8};
}

/// A plain PGM, repeated; values from 0 to 1.
[[nodiscard]] inline std::vector<float> srad_file(std::string const& file, SradShape const& shape) {
  std::ifstream in(file);
  std::string magic;
  std::uint32_t width = 0, height = 0, most = 0;
  in >> magic >> width >> height >> most;
  if (!in || magic != "P2" || width == 0 || height == 0 || most == 0 ||
      std::uint64_t{width} * height > 1u << 28)
    throw Failure("srad: " + file + " is not there, or no plain PGM");
  std::vector<float> once(std::size_t{width} * height), all(shape.pixels());
  for (float& pixel : once) {
    in >> pixel;
    pixel /= static_cast<float>(most);
  }
  if (!in) throw Failure("srad: " + file + " ends too early");
  for (std::uint32_t y = 0; y < shape.rows; ++y)
    for (std::uint32_t x = 0; x < shape.columns; ++x)
      all[std::size_t{y} * shape.columns + x] = once[std::size_t{y % height} * width + x % width];
  return all;
}

/// The image as the filter takes it: speckle multiplies, so it works on exponentials.
[[nodiscard]] inline std::vector<float> srad_input(AppOptions const& options,
                                                   SradShape const& shape) {
  std::vector<float> image(shape.pixels());
  if (!options.data.empty()) {
    image = srad_file(options.data + "/srad_image.pgm", shape);
  } else {
    for (std::size_t i = 0; i < image.size(); ++i) {  // bright and dark squares under speckle
      bool const bright = (i / shape.columns / 32 + i % shape.columns / 32) % 2 == 0;
      image[i] =
          (bright ? 0.6f : 0.2f) + static_cast<float>(random_at(options.seed, i) % 256) / 1024.0f;
    }
  }
  for (float& pixel : image) pixel = std::exp(pixel);
  return image;
}

/// Sums of a tile's pixels and of their squares; then of the tiles. In the same order every time.
struct SradSums {
  double sum;
  double squares;
  PERDURE_FN void add(SradSums const& other) {
    sum += other.sum;
    squares += other.squares;
  }
};

/// Each block a tile's.
struct SradTileSums {
  static constexpr int kPhases = 2;
  struct Shared {
    SradSums of[kSradThreads];
  };
  using State = NoState;
  SradShape shape;
  float const* image;
  SradSums* sums;

  template <int kPhase, class T>
  PERDURE_FN void run(T& thread, Shared& shared, State&) const {
    std::uint32_t const t = thread.thread();
    if constexpr (kPhase == 0) {
      SradSums mine{0, 0};
      std::uint64_t const first = std::uint64_t{thread.block()} * shape.tile();
      for (std::uint64_t i = first + t; i < first + shape.tile() && i < shape.pixels();
           i += shape.threads) {
        double const pixel = image[i];
        mine.add({pixel, pixel * pixel});
      }
      shared.of[t] = mine;
    } else if (t == 0) {
      SradSums all{0, 0};
      for (std::uint32_t other = 0; other < shape.threads; ++other) all.add(shared.of[other]);
      sums[thread.block()] = all;
    }
  }
};

/// One block: the image's speckle, its variance over its squared mean.
struct SradSpeckle {
  static constexpr int kPhases = 2;
  using Shared = SradTileSums::Shared;
  using State = NoState;
  SradShape shape;
  SradSums const* sums;
  std::uint32_t tiles;
  float* speckle;

  template <int kPhase, class T>
  PERDURE_FN void run(T& thread, Shared& shared, State&) const {
    std::uint32_t const t = thread.thread();
    if constexpr (kPhase == 0) {
      SradSums mine{0, 0};
      for (std::uint32_t i = t; i < tiles; i += shape.threads) mine.add(sums[i]);
      shared.of[t] = mine;
    } else if (t == 0) {
      SradSums all{0, 0};
      for (std::uint32_t other = 0; other < shape.threads; ++other) all.add(shared.of[other]);
      double const n = static_cast<double>(shape.pixels()), mean = all.sum / n;
      double const found = (all.squares / n - mean * mean) / (mean * mean);
      *speckle = static_cast<float>(
          found > 1e-9 ? found : 1e-9);  // an even image: what divides by it stays finite
    }
  }
};

/// What an iteration's kernels read, and where a tile's results go. `known`: the tiles' words as
/// they were when the run began, in machine memory.
struct SradTo {
  float* durable;
  float* near;  // the results once more, in machine memory, where the other kernels read them
  std::uint32_t* words;  // durable; null where the host must make the results durable first
  std::uint32_t const* known;
};

/// Of a thread: its tile was durable before the launch.
struct SradState {
  bool done;
};

/// A tile, pixel by pixel, and its word. Pixel is what computes one; neighbouring threads have
/// neighbouring pixels.
template <int kPhase, class T, class Pixel>
PERDURE_FN void srad_tile(T& thread, SradState& state, SradShape const& shape, SradTo const& to,
                          std::uint32_t epoch, Pixel pixel) {
  std::uint64_t const first = std::uint64_t{thread.block()} * shape.tile();
  if constexpr (kPhase == 0) {
    state.done = to.known[thread.block()] == epoch;
    for (std::uint64_t i = first + thread.thread(); i < first + shape.tile() && i < shape.pixels();
         i += shape.threads) {
      to.near[i] = state.done ? thread.load(&to.durable[i]) : pixel(i);
      if (!state.done) thread.store(&to.durable[i], to.near[i]);
    }
    if (!state.done) thread.persist();
  } else if (thread.thread() == 0 && !state.done && to.words != nullptr) {
    thread.store(&to.words[thread.block()], epoch);
    thread.persist();
  }
}

/// A pixel and its neighbours' differences from it; beyond the image's edge there is the pixel
/// itself.
struct SradPixel {
  float here, north, south, west, east;

  PERDURE_FN static SradPixel at(float const* image, SradShape const& shape, std::uint64_t i) {
    auto const index = static_cast<std::uint32_t>(i);  // there are fewer than 2^32 pixels
    std::uint32_t const row = index / shape.columns, column = index % shape.columns;
    float const here = image[i];
    return {here, row > 0 ? image[i - shape.columns] - here : 0,
            row + 1 < shape.rows ? image[i + shape.columns] - here : 0,
            column > 0 ? image[i - 1] - here : 0,
            column + 1 < shape.columns ? image[i + 1] - here : 0};
  }
};

/// The diffusion coefficients: 1 within even regions, near 0 where there is more than the image's
/// speckle.
struct SradCoefficients {
  static constexpr int kPhases = 2;
  using Shared = NoShared;
  using State = SradState;
  SradShape shape;
  float const* image;
  float const* speckle;
  SradTo to;
  std::uint32_t epoch;

  template <int kPhase, class T>
  PERDURE_FN void run(T& thread, Shared&, State& state) const {
    srad_tile<kPhase>(thread, state, shape, to, epoch,
                      [this](std::uint64_t i) { return coefficient(i); });
  }

 private:
  PERDURE_FN float coefficient(std::uint64_t i) const {
    SradPixel const p = SradPixel::at(image, shape, i);
    float const gradient =
        (p.north * p.north + p.south * p.south + p.west * p.west + p.east * p.east) /
        (p.here * p.here);
    float const laplacian = (p.north + p.south + p.west + p.east) / p.here;
    float const scale = 1.0f + 0.25f * laplacian;
    float const variation = (0.5f * gradient - laplacian * laplacian / 16.0f) / (scale * scale);
    float const whole = *speckle;
    float const c = 1.0f / (1.0f + (variation - whole) / (whole * (1.0f + whole)));
    return c < 0.0f ? 0.0f : c > 1.0f ? 1.0f : c;
  }
};

/// The next image. Where kernels persist, the last block ends the iteration.
struct SradDiffuse {
  static constexpr int kPhases = 3;
  using Shared = NoShared;
  using State = SradState;
  SradShape shape;
  float const* image;
  float const* coefficients;
  SradTo to;
  std::uint32_t epoch;
  std::uint32_t* iteration;  // durable; null where the host ends it
  std::uint32_t* arrived;

  template <int kPhase, class T>
  PERDURE_FN void run(T& thread, Shared&, State& state) const {
    if constexpr (kPhase < 2) {
      srad_tile<kPhase>(thread, state, shape, to, epoch,
                        [this](std::uint64_t i) { return diffused(i); });
    } else if (iteration != nullptr && thread.thread() == 0 && last_of_blocks(thread, arrived)) {
      thread.store(iteration, epoch);
      thread.persist();
    }
  }

 private:
  PERDURE_FN float diffused(std::uint64_t i) const {
    SradPixel const p = SradPixel::at(image, shape, i);
    float const here = coefficients[i];
    float const south = i + shape.columns < shape.pixels() ? coefficients[i + shape.columns] : here;
    float const east = static_cast<std::uint32_t>(i) % shape.columns + 1 < shape.columns
                           ? coefficients[i + 1]
                           : here;
    float const divergence = here * p.north + south * p.south + here * p.west + east * p.east;
    return p.here + 0.25f * kSradLambda * divergence;
  }
};

/// Plain loops in double precision, from `image` on.
[[nodiscard]] inline std::vector<double> srad_plainly(SradShape const& shape,
                                                      std::vector<float> const& image,
                                                      std::uint32_t iterations,
                                                      exec::Workers& workers) {
  std::vector<double> j(image.begin(), image.end()), c(j.size()), next(j.size());
  auto const at = [&](std::vector<double> const& v, std::int64_t y, std::int64_t x) {
    y = std::clamp<std::int64_t>(y, 0, shape.rows - 1);
    x = std::clamp<std::int64_t>(x, 0, shape.columns - 1);
    return v[static_cast<std::size_t>(y * shape.columns + x)];
  };
  auto const every = [&](std::vector<double>& to, auto value) {
    workers.for_chunks(shape.rows, 16, [&](std::size_t begin, std::size_t end) {
      for (std::size_t y = begin, i = begin * shape.columns; y < end; ++y)
        for (std::int64_t x = 0; x < shape.columns; ++x, ++i)
          to[i] = value(static_cast<std::int64_t>(y), x);
    });
  };
  for (std::uint32_t step = 0; step < iterations; ++step) {
    double sum = 0, squares = 0;
    for (double const pixel : j) {
      sum += pixel;
      squares += pixel * pixel;
    }
    double const mean = sum / static_cast<double>(j.size());
    double const q0 =
        std::max((squares / static_cast<double>(j.size()) - mean * mean) / (mean * mean), 1e-9);
    every(c, [&](std::int64_t y, std::int64_t x) {
      double const here = at(j, y, x);
      double g2 = 0, l = 0;
      for (double const near :
           {at(j, y - 1, x), at(j, y + 1, x), at(j, y, x - 1), at(j, y, x + 1)}) {
        g2 += (near - here) * (near - here) / (here * here);
        l += (near - here) / here;
      }
      double const q = (g2 / 2 - l * l / 16) / ((1 + l / 4) * (1 + l / 4));
      return std::clamp(1 / (1 + (q - q0) / (q0 * (1 + q0))), 0.0, 1.0);
    });
    every(next, [&](std::int64_t y, std::int64_t x) {
      double const here = at(j, y, x), own = at(c, y, x);
      double const flow =
          own * (at(j, y - 1, x) - here) + at(c, y + 1, x) * (at(j, y + 1, x) - here) +
          own * (at(j, y, x - 1) - here) + at(c, y, x + 1) * (at(j, y, x + 1) - here);
      return here + kSradLambda / 4 * flow;
    });
    j.swap(next);
  }
  return j;
}

template <class Grid>
class Srad {
 public:
  Srad(Grid& grid, AppOptions const& options)
      : grid_(grid),
        shape_(srad_shape(options.size)),
        iterations_(options.iterations != 0      ? options.iterations
                    : options.size == Size::tiny ? 4
                                                 : 50),
        checks_all_(options.size != Size::paper),
        input_(srad_input(options, shape_)),
        file_(grid, options, "srad", layout_, problem()),
        images_{Array<Grid, float>(grid, input_), Array<Grid, float>(grid, shape_.pixels())},
        coefficients_(grid, shape_.pixels()),
        speckle_(grid, 1),
        sums_(grid, shape_.tiles()),
        known_coefficients_(grid, shape_.tiles()),
        known_image_(grid, shape_.tiles()),
        arrived_(grid, 1) {
    arrived_.fill(0);
    require(grid.order(), "machine memory");
  }

  AppReport run() {
    AppReport report;
    Stopwatch watch;
    if (!file_.goes_on()) file_.begin();
    std::uint32_t const from = resume(report);
    if (file_.goes_on()) report.recovery_s = watch.lap();

    watch.lap();
    for (std::uint32_t i = from; i < iterations_; ++i) iterate(i);
    require(grid_.order(), "diffusing");
    report.run_s = watch.lap();
    report.began_at = from;
    report.steps = iterations_ - from;
    report.operations = report.steps * shape_.pixels();
    file_.report(report);

    auto const image = file_.get(durable_images_[iterations_ % 2]);
    report.digest = digest_of(image, digest_of(file_.get(durable_coefficients_)));
    report.right = right(image);
    return report;
  }

 private:
  [[nodiscard]] std::uint64_t problem() const {
    return digest_of(
        input_, digest_of(std::vector<std::uint32_t>{shape_.rows, shape_.columns, shape_.threads,
                                                     shape_.each, iterations_}));
  }

  /// The iteration to go on with; what it reads is in machine memory, and which of its tiles are
  /// done.
  std::uint32_t resume(AppReport& report) {
    std::uint32_t const from = file_.get(iteration_)[0];
    if (from > iterations_) throw Failure("srad: its file is damaged");
    if (from > 0) file_.upload(images_[from % 2], durable_images_[from % 2], shape_.pixels());
    file_.upload(known_coefficients_, coefficient_words_, coefficient_words_.n);
    file_.upload(known_image_, image_words_, image_words_.n);
    double found = 0;
    for (auto const* words : {&known_coefficients_, &known_image_})
      for (std::uint32_t const word : words->get()) found += word == from + 1 ? 1 : 0;
    report.more.emplace_back("tiles_found", found);
    return from;
  }

  void iterate(std::uint32_t i) {
    GridShape const tiles{shape_.tiles(), shape_.threads};
    float const* const image = images_[i % 2].data();
    std::uint32_t const epoch = i + 1, to = epoch % 2;
    require(grid_.launch(tiles, SradTileSums{shape_, image, sums_.data()}), "sums");
    require(grid_.launch({1, shape_.threads},
                         SradSpeckle{shape_, sums_.data(), shape_.tiles(), speckle_.data()}),
            "sums");
    SradCoefficients const coefficients{
        shape_, image, speckle_.data(),
        results(durable_coefficients_, coefficients_, coefficient_words_, known_coefficients_),
        epoch};
    require(grid_.launch(tiles, coefficients, file_.persist()), "coefficients");
    bool const persists = file_.kernels_persist();
    SradDiffuse const diffuse{shape_,
                              image,
                              coefficients_.data(),
                              results(durable_images_[to], images_[to], image_words_, known_image_),
                              epoch,
                              persists ? file_.data(iteration_) : nullptr,
                              arrived_.data()};
    file_.commit(durable_coefficients_);
    require(grid_.launch(tiles, diffuse, file_.persist()), "diffusing");
    if (persists) return;
    file_.commit(durable_images_[to]);
    file_.publish(iteration_, 0, epoch);
  }

  SradTo results(Region<float> durable, Array<Grid, float> const& near, Region<std::uint32_t> words,
                 Array<Grid, std::uint32_t> const& known) const {
    return {file_.data(durable), near.data(), file_.kernels_persist() ? file_.data(words) : nullptr,
            known.data()};
  }

  /// Against plain loops: all iterations; of very large images the last one.
  bool right(std::vector<float> const& image) {
    std::uint32_t const checked = checks_all_ ? iterations_ : 1;
    auto const before =
        checked == iterations_ ? input_ : file_.get(durable_images_[(iterations_ - 1) % 2]);
    exec::Workers workers(grid_.host_threads());
    std::vector<double> const expected = srad_plainly(shape_, before, checked, workers);
    for (std::size_t i = 0; i < image.size(); ++i)
      if (!(std::abs(image[i] - expected[i]) <= 1e-3 * expected[i])) return false;
    return true;
  }

  Grid& grid_;
  SradShape shape_;
  std::uint32_t iterations_;
  bool checks_all_;
  std::vector<float> input_;
  NativeLayout layout_;
  Region<std::uint32_t> iteration_ = layout_.add<std::uint32_t>(1);
  Region<float> durable_coefficients_ = layout_.add<float>(shape_.pixels());
  Region<float> durable_images_[2] = {layout_.add<float>(shape_.pixels()),
                                      layout_.add<float>(shape_.pixels())};
  Region<std::uint32_t> coefficient_words_ = layout_.add<std::uint32_t>(shape_.tiles());
  Region<std::uint32_t> image_words_ = layout_.add<std::uint32_t>(shape_.tiles());
  NativeFile<Grid> file_;
  Array<Grid, float> images_[2];
  Array<Grid, float> coefficients_, speckle_;
  Array<Grid, SradSums> sums_;
  Array<Grid, std::uint32_t> known_coefficients_, known_image_, arrived_;
};

template <class Grid>
AppReport run_srad(Grid& grid, AppOptions const& options) {
  return Srad<Grid>(grid, options).run();
}

}  // namespace perdure::bench::gpm
