// Every application of GPMbench, on simulated threads, crashed at random ordering points: what a crash could leave is
// resumed, crashed again while it resumes, and must end with the result of a run that nothing happened to.
#include <gtest/gtest.h>
#include <unistd.h>

#include "exec/grid_sim.hpp"
#include "gpm/apps.hpp"
#include "gpm/crash_medium.hpp"

namespace perdure::test {
namespace {

using bench::gpm::AppOptions;
using bench::gpm::AppReport;
using exec::SimGrid;

constexpr std::uint64_t kCrashes = 12;  // of each application and seed

struct Outcome {
  AppReport report;
  std::uint64_t ordering_points;
};

/// Runs on the files that begin with `files`, and leaves a snapshot at each of the points.
Outcome run(std::string const& app, AppOptions const& options, std::set<std::uint64_t> points) {
  exec::SimScheduler scheduler({.seed = options.seed, .one_in = 7, .most_points = std::uint64_t{1} << 24});
  exec::sim_scheduler = &scheduler;
  CrashMedium medium(options.files, std::move(points), options.seed);
  SimGrid grid(5);
  AppReport const report = bench::gpm::run_app(grid, app, options);
  exec::sim_scheduler = nullptr;
  return {report, medium.ordering_points()};
}

std::set<std::uint64_t> some_of(std::uint64_t all, std::uint64_t seed, std::uint64_t n) {
  std::set<std::uint64_t> points;
  for (std::uint64_t i = 0; i < n; ++i) points.insert(1 + bench::gpm::random_at(seed, i) % all);
  return points;
}

class AppCrash : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  AppCrash() {
    options_.size = bench::gpm::Size::tiny;
    options_.seed = static_cast<std::uint64_t>(std::get<1>(GetParam()));
    options_.every = 3;
  }
  ~AppCrash() override {
    for (std::string const& files : made_) remove_files(files);
  }
  std::string app() const { return std::get<0>(GetParam()); }
  std::string files(std::string const& name) {
    return made_.emplace_back("/dev/shm/perdure-gpmtest-" + std::to_string(getpid()) + "-" + name);
  }
  /// Goes on with copies of what a crash left.
  Outcome resumed(std::string const& from, std::set<std::uint64_t> points) {
    AppOptions options = options_;
    options.resume = true;
    options.files = resumed_;
    copy_files(from, options.files);
    for (std::uint64_t const point : points) made_.push_back(CrashMedium::snapshot(options.files, point));
    return run(app(), options, std::move(points));
  }

  AppOptions options_;
  std::vector<std::string> made_;
  std::string resumed_ = files("resumed");
};

TEST_P(AppCrash, ResumesFromWhatACrashLeftAndEndsWithTheSameResult) {
  options_.files = files("whole");
  Outcome const whole = run(app(), options_, {});
  ASSERT_TRUE(whole.report.right);
  ASSERT_GT(whole.ordering_points, 0u);

  std::set<std::uint64_t> const points = some_of(whole.ordering_points, options_.seed, kCrashes);
  options_.files = files("crashed");
  for (std::uint64_t const point : points) made_.push_back(CrashMedium::snapshot(options_.files, point));
  ASSERT_EQ(run(app(), options_, points).report.digest, whole.report.digest);

  for (std::uint64_t const point : points) {
    SCOPED_TRACE("crashed at ordering point " + std::to_string(point) + " of " + std::to_string(whole.ordering_points));
    std::string const left = CrashMedium::snapshot(options_.files, point);
    Outcome const once = resumed(left, {});
    EXPECT_EQ(once.report.digest, whole.report.digest);
    EXPECT_TRUE(once.report.right);
    if (once.ordering_points == 0) continue;
    std::uint64_t const again = 1 + bench::gpm::random_at(options_.seed, point) % once.ordering_points;
    ASSERT_EQ(resumed(left, {again}).report.digest, whole.report.digest);
    Outcome const twice = resumed(CrashMedium::snapshot(resumed_, again), {});
    EXPECT_EQ(twice.report.digest, whole.report.digest) << "crashed again at point " << again << " of its recovery";
    EXPECT_TRUE(twice.report.right);
  }
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (auto const& app : bench::gpm::kApps<SimGrid>) all.emplace_back(app.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Gpm, AppCrash, testing::Combine(testing::ValuesIn(names()), testing::Values(1, 2, 3)),
                         [](auto const& made) {
                           std::string name = std::get<0>(made.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name + "_seed" + std::to_string(std::get<1>(made.param));
                         });

}  // namespace
}  // namespace perdure::test
