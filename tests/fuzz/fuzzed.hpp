// What is kept in corpus/, and changes of it from a fixed seed, for a few seconds under a
// sanitizer, which sees more, and for one without: what ctest can run with any compiler. The input
// under way lies in a file, which stays if the program dies of it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "support/sanitized.hpp"

namespace perdure::test {

namespace fs = std::filesystem;
using Input = std::vector<std::uint8_t>;

class Fuzzed {
 public:
  Fuzzed(std::string name, void (*target)(std::uint8_t const*, std::size_t))
      : under_way_("fuzz-" + name + "-input"), target_(target) {
    std::vector<fs::path> files;
    for (auto const& file : fs::directory_iterator(fs::path(PERDURE_FUZZ_CORPUS) / name))
      files.push_back(file.path());
    std::sort(files.begin(), files.end());
    for (fs::path const& file : files) {
      std::ifstream in(file, std::ios::binary);
      corpus_.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    }
  }
  ~Fuzzed() { fs::remove(under_way_); }
  Fuzzed(Fuzzed const&) = delete;
  Fuzzed& operator=(Fuzzed const&) = delete;

  void replay() {
    ASSERT_FALSE(corpus_.empty());
    for (Input const& input : corpus_) run(input);
  }
  /// Changes of the corpus, and inputs of its own; as many as there is time for, and some on a
  /// machine that has none.
  void mutate(std::chrono::seconds time) {
    auto const deadline = std::chrono::steady_clock::now() + time;
    for (std::size_t inputs = 0;
         inputs < kLeastInputs || std::chrono::steady_clock::now() < deadline; ++inputs)
      run(random_() % 4 == 0 ? fresh() : changed());
  }

 private:
  static constexpr std::size_t kLeastInputs = 11;

  Input fresh() {
    Input input(1 + 4 * (random_() % 8));
    for (auto& byte : input) byte = static_cast<std::uint8_t>(random_());
    return input;
  }
  Input changed() {
    Input input = corpus_[random_() % corpus_.size()];
    for (std::uint32_t n = random_() % 4; n > 0 && !input.empty(); --n)
      input[random_() % input.size()] = static_cast<std::uint8_t>(random_());
    Input const more = fresh();
    if (random_() % 2 == 0) input.insert(input.end(), more.begin() + 1, more.end());
    return input;
  }
  void run(Input const& input) {
    std::ofstream(under_way_, std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<char const*>(input.data()),
               static_cast<std::streamsize>(input.size()));
    target_(input.data(), input.size());
  }

  std::string under_way_;
  void (*target_)(std::uint8_t const*, std::size_t);
  std::vector<Input> corpus_;
  std::mt19937 random_{20261121};
};

inline void fuzz(char const* name, void (*target)(std::uint8_t const*, std::size_t)) {
  Fuzzed fuzzed(name, target);
  fuzzed.replay();
  fuzzed.mutate(std::chrono::seconds(kSanitized ? 5 : 1));
}

}  // namespace perdure::test
