// The bench behind `perdure-bench hetero`: its sizes, its tables and keys, and a function a mode.
// Invariant: one table of the largest size lies in host memory at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hetero_crew.hpp"

namespace perdure::bench::shared {

struct Options {
  std::uint64_t keys = 1 << 20;
  std::uint32_t threads = 0;
  std::vector<std::string> modes{"all"};
  std::vector<std::uint64_t> batches{256, 1024, 4096, 16384, 65536, 100'000, 262'144, 1'048'576};
  std::vector<std::string> dists{"uniform", "zipf"};
  double theta = 0.99;
  double seconds = 0.2;
  double mode_seconds = 15;  // 0 = no limit
  std::string device = "cpu";
  std::string json;
};

inline constexpr std::uint64_t kHanded =
    100'000;  // keys of a batch that a thread hands over (4.3.3.1)
inline constexpr std::uint32_t kAhead = 20;  // Figure 4.21

class Bench {
 public:
  explicit Bench(Options const& o)
      : o_(o),
        sides_(require(hetero::open_sides(device_named(o.device), o.threads), "the sides")),
        threads_(sides_->threads()) {
    std::size_t const largest = *std::max_element(o.batches.begin(), o.batches.end());
    std::size_t const n = std::clamp<std::size_t>(4 * o.keys, 1 << 16, 1 << 24);
    pool_keys_ = std::max({n, 4 * largest, 4 * kHanded});
    for (std::string const& dist : o.dists)
      pools_.push_back(
          std::make_unique<Pool>(sides_, pool_keys_, o.keys, dist == "zipf" ? o.theta : 0));
  }

  int run();

 private:
  using Table = hetero::Table;
  [[nodiscard]] bool asked(std::string const& mode) const {
    return std::find_if(o_.modes.begin(), o_.modes.end(), [&](std::string const& one) {
             return one == mode || one == "all";
           }) != o_.modes.end();
  }
  /// A mode begins; it is to end when in_time() says no, which is told and written down.
  void begin(std::string const& mode);
  [[nodiscard]] bool in_time();
  std::unique_ptr<Table> loaded(hetero::Where where, std::uint64_t keys);
  void write() const;
  void add(Json row, Rates const& rates);
  Rates crew(std::vector<Member> const& members) { return run_crew(sides_, members, o_.seconds); }
  [[nodiscard]] std::vector<std::uint32_t> steps(std::uint32_t from) const;

  void cpu(Table& table);
  void prefetch(Table& table);
  void gpu_gets(Table& table);
  void gpu_puts(Table& table);
  void handed(Table& table, std::string const& mode, Role role, bool both);
  void ahead(Table& table);
  void hot_set(Table& table);
  void put_twice(Table& table);
  void split(Table& table, std::string const& memory);
  void split_batch(Table& table, std::string const& memory, std::size_t dist, std::size_t batch);
  void check(hetero::Keys keys, Rates& rates) const;
  void hot_cold();
  void hot_cold_by(hetero::HotCold& tables, std::size_t dist, std::string const& how);

  Options o_;
  std::shared_ptr<hetero::Sides> sides_;
  std::uint32_t threads_;
  std::size_t pool_keys_ = 0;
  std::vector<std::unique_ptr<Pool>> pools_;  // of each distribution
  std::unique_ptr<hetero::Words> answers_;
  Json rows_ = Json::array(), cut_short_ = Json::array();
  std::string mode_;  // under way
  Clock::time_point begun_;
  std::uint64_t checked_ = 0, faults_ = 0;
};

}  // namespace perdure::bench::shared
