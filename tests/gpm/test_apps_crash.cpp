// Every application of GPMbench on every path, on simulated threads, crashed at random ordering
// points: what a crash could leave is resumed, crashed again while it resumes, and must end with
// the result of a run that nothing happened to. On paths where the host flushes, or syncs, a crash
// leaves nothing else for sure; faults planted there must show.
#include <gtest/gtest.h>
#include <unistd.h>

#include "exec/sim/grid_sim.hpp"
#include "gpm/apps.hpp"
#include "gpm/crash_medium.hpp"

namespace perdure::test {
namespace {

using bench::gpm::AppOptions;
using bench::gpm::AppReport;
using bench::gpm::Path;
using exec::SimGrid;

constexpr std::uint64_t kCrashes = 12;  // of each application and seed

struct Outcome {
  AppReport report;
  std::uint64_t ordering_points;
};

/// The scheduler of this thread, for as long as this stands.
class Scheduled {
 public:
  explicit Scheduled(exec::SimScheduler& scheduler) { exec::sim_scheduler = &scheduler; }
  Scheduled(Scheduled const&) = delete;
  Scheduled& operator=(Scheduled const&) = delete;
  ~Scheduled() { exec::sim_scheduler = nullptr; }
};

/// With eADR caches outlive a crash; where kernels persist they do so themselves.
Keeps keeps_on(Path path) {
  bool const flushes = path == Path::ndp || path == Path::cap_mm || path == Path::cap_fs;
  return flushes ? Keeps::what_was_flushed : Keeps::what_was_ordered;
}

/// Runs on the files that begin with `files`, and leaves a snapshot at each of the points.
Outcome run(std::string const& app, AppOptions const& options, std::set<std::uint64_t> points) {
  exec::SimScheduler scheduler(
      {.seed = options.seed, .one_in = 7, .most_points = std::uint64_t{1} << 24});
  Scheduled const scheduled(scheduler);
  CrashMedium medium(options.files, std::move(points), options.seed, keeps_on(options.path));
  SimGrid grid(5);
  AppReport const report = bench::gpm::run_app(grid, app, options);
  return {report, medium.ordering_points()};
}

std::set<std::uint64_t> some_of(std::uint64_t all, std::uint64_t seed, std::uint64_t n) {
  std::set<std::uint64_t> points;
  for (std::uint64_t i = 0; i < n; ++i) points.insert(1 + bench::gpm::random_at(seed, i) % all);
  return points;
}

/// A program, a path, a seed; runs of it, crashed.
class Crashed {
 public:
  Crashed(std::string app, Path path, std::uint64_t seed) : app_(std::move(app)) {
    options_.size = bench::gpm::Size::tiny;
    options_.path = path;
    options_.seed = seed;
    options_.every = 3;
    options_.files = files("crashed");
  }
  ~Crashed() {
    for (std::string const& files : made_) remove_files(files);
  }

  /// Each crash that is not resumed to the result of a run that nothing happened to, by what
  /// happened.
  std::vector<std::string> wrong() {
    AppOptions undisturbed = options_;
    undisturbed.files = files("whole");
    Outcome const whole = run(app_, undisturbed, {});
    if (!whole.report.right || whole.ordering_points == 0)
      return {"a run that nothing happens to is wrong"};
    std::set<std::uint64_t> const points = some_of(whole.ordering_points, options_.seed, kCrashes);
    for (std::uint64_t const point : points)
      made_.push_back(CrashMedium::snapshot(options_.files, point));
    std::vector<std::string> wrong;
    auto const judge = [&](Outcome const& outcome, std::string const& what) {
      bool const right = outcome.report.right && outcome.report.digest == whole.report.digest;
      if (!right) wrong.push_back(what);
    };
    judge(run(app_, options_, points), "watched");
    for (std::uint64_t const point : points) {
      std::string const what = "crashed at ordering point " + std::to_string(point) + " of " +
                               std::to_string(whole.ordering_points);
      std::string const left = CrashMedium::snapshot(options_.files, point);
      Outcome const once = resumed(left, {}, what, wrong);
      judge(once, what);
      if (once.ordering_points == 0) continue;
      std::uint64_t const again =
          1 + bench::gpm::random_at(options_.seed, point) % once.ordering_points;
      std::string const twice =
          what + ", again at point " + std::to_string(again) + " of its recovery";
      judge(resumed(left, {again}, what, wrong), what);
      judge(resumed(CrashMedium::snapshot(resumed_, again), {}, twice, wrong), twice);
    }
    return wrong;
  }

 private:
  std::string files(std::string const& name) {
    return made_.emplace_back("/dev/shm/perdure-gpmtest-" + std::to_string(getpid()) + "-" + name);
  }
  /// Goes on with copies of what a crash left; that it refuses to is wrong, too.
  Outcome resumed(std::string const& from, std::set<std::uint64_t> points, std::string const& what,
                  std::vector<std::string>& wrong) {
    AppOptions options = options_;
    options.resume = true;
    options.files = resumed_;
    copy_files(from, options.files);
    for (std::uint64_t const point : points)
      made_.push_back(CrashMedium::snapshot(options.files, point));
    try {
      return run(app_, options, std::move(points));
    } catch (bench::Failure const& failure) {
      wrong.push_back(what + ": " + failure.what());
      return {};
    }
  }

  std::string app_;
  AppOptions options_;
  std::vector<std::string> made_;
  std::string resumed_ = files("resumed");
};

std::string text_of(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class AppCrash : public testing::TestWithParam<std::tuple<std::string, Path, int>> {};

TEST_P(AppCrash, ResumesFromWhatACrashLeftAndEndsWithTheSameResult) {
  auto const& [app, path, seed] = GetParam();
  std::string all;
  for (std::string const& wrong : Crashed(app, path, static_cast<std::uint64_t>(seed)).wrong())
    all += wrong + "\n";
  EXPECT_EQ(all, "");
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (auto const& app : bench::gpm::kApps<SimGrid>) all.emplace_back(app.name);
  return all;
}

std::string name_of(testing::TestParamInfo<AppCrash::ParamType> const& made) {
  auto const& [app, path, seed] = made.param;
  return text_of(app + "_on_" + std::string(gpm::name(path)) + "_seed" + std::to_string(seed));
}

INSTANTIATE_TEST_SUITE_P(Gpm, AppCrash,
                         testing::Combine(testing::ValuesIn(names()), testing::Values(Path::gpm),
                                          testing::Values(1, 2, 3)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(OtherPaths, AppCrash,
                         testing::Combine(testing::ValuesIn(names()),
                                          testing::Values(Path::gpm_eadr, Path::ndp, Path::cap_mm,
                                                          Path::cap_eadr, Path::cap_fs),
                                          testing::Values(4)),
                         name_of);

/// Another seed's inputs would make neither the one result nor the other.
TEST(AppResume, RefusesWhatWasMadeWithAnotherSeed) {
  for (std::string const& app : names()) {
    AppOptions options;
    options.size = bench::gpm::Size::tiny;
    options.files = "/dev/shm/perdure-gpmtest-" + std::to_string(getpid()) + "-seed";
    run(app, options, {});
    options.resume = true;
    options.seed = 2;
    EXPECT_THROW(run(app, options, {}), bench::Failure) << app;
    remove_files(options.files);
  }
}

struct Planted {
  Mutant mutant;
  char const* name;
  char const* app;
  Path path;
};

class PathMutant : public testing::TestWithParam<Planted> {};

TEST_P(PathMutant, IsFoundByACrash) {
  planted = GetParam().mutant;
  std::vector<std::string> wrong;
  for (std::uint64_t seed = 1; seed <= 3 && wrong.empty(); ++seed)
    wrong = Crashed(GetParam().app, GetParam().path, seed).wrong();
  planted = "none";
  EXPECT_FALSE(wrong.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Gpm, PathMutant,
    testing::Values(Planted{"gpm_commit_not_flushed", "commit_not_flushed", "db-insert", Path::ndp},
                    Planted{"gpm_commit_not_flushed", "commit_not_flushed", "bfs", Path::cap_mm},
                    Planted{"gpm_copy_not_flushed", "copy_not_flushed", "hotspot", Path::ndp},
                    Planted{"gpm_copy_not_flushed", "copy_not_flushed", "hotspot", Path::cap_mm},
                    Planted{"gpm_header_not_flushed", "header_not_flushed", "hotspot",
                            Path::cap_mm},
                    Planted{"gpm_clear_not_synced", "clear_not_synced", "db-update", Path::cap_mm},
                    Planted{"gpm_file_not_synced", "file_not_synced", "hotspot", Path::cap_fs},
                    Planted{"gpm_file_not_synced", "file_not_synced", "srad", Path::cap_fs}),
    [](auto const& made) {
      return text_of(std::string(made.param.name) + "_" + made.param.app + "_on_" +
                     std::string(gpm::name(made.param.path)));
    });

}  // namespace
}  // namespace perdure::test
