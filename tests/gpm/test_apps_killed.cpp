// GPMbench as processes that really die: each application is killed at a random moment, resumed by
// another process, and must end with the result of a run that nothing happened to. On a GPU a
// kernel aborts at a random ordering point instead. PERDURE_KILLS: how often each is killed. Slow:
// applications that iterate run three times, whole, in part and resumed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "gpm/crash_medium.hpp"

namespace perdure::test {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

/// As --list names them.
std::vector<std::string> applications() {
  std::vector<std::string> names;
  std::FILE* const list = ::popen(PERDURE_GPMBENCH " --list", "r");
  char line[256], name[64], kind[64];
  while (list != nullptr && std::fgets(line, sizeof line, list) != nullptr)
    if (std::sscanf(line, "%63s %63s", name, kind) == 2 && std::string(kind) != "micro-benchmark:")
      names.push_back(name);
  if (list != nullptr) ::pclose(list);
  return names;
}

std::vector<std::string> devices() {
#if defined(PERDURE_GPMBENCH_TRAPS)
  return {"cpu", "cuda"};
#else
  return {"cpu"};
#endif
}

/// Which moments come, and which inputs: as a run of all tests says (scripts/seeds.py), or anew.
unsigned drawn() {
  char const* const given = std::getenv("PERDURE_SEED");
  return given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10))
                          : std::random_device{}();
}

class Killed : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  Killed() : random_(drawn()), seed_(static_cast<std::uint32_t>(random_() % 1000)) {}
  ~Killed() override {
    remove_files(files_);
    std::remove(json_.c_str());
  }
  bool on_gpu() const { return std::get<1>(GetParam()) == "cuda"; }

  pid_t start(std::vector<std::string> const& more) const {
    std::remove(json_.c_str());  // it is not replaced
    std::string program = PERDURE_GPMBENCH;
#if defined(PERDURE_GPMBENCH_TRAPS)
    if (on_gpu()) program = PERDURE_GPMBENCH_TRAPS;
#endif
    std::vector<std::string> all{program,
                                 std::get<0>(GetParam()),
                                 "--device",
                                 std::get<1>(GetParam()),
                                 "--keep",
                                 "--files",
                                 files_,
                                 "--json",
                                 json_,
                                 "--seed",
                                 std::to_string(seed_)};
    all.insert(all.end(), more.begin(), more.end());
    std::vector<char*> arguments;
    for (std::string& one : all) arguments.push_back(one.data());
    arguments.push_back(nullptr);
    pid_t const child = ::fork();
    if (child != 0) return child;
    if (std::freopen("/dev/null", "w", stdout) == nullptr) ::_exit(127);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  static int ended(pid_t child) {
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  Json result() const { return Json::parse(std::ifstream(json_)); }

  std::mt19937 random_;
  std::uint32_t seed_;
  std::string files_ = "/dev/shm/perdure-gpmkill-" + std::to_string(::getpid());
  std::string json_ = files_ + "-result.json";
};

TEST_P(Killed, AnotherProcessGoesOnAndEndsWithTheSameResult) {
  if (on_gpu() && std::system("nvidia-smi -L > /dev/null 2>&1") != 0) GTEST_SKIP() << "no GPU here";
  auto const began = Clock::now();
  ASSERT_EQ(ended(start({"--count"})), 0);
  auto const whole_us =
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - began).count();
  Json const whole = result();
  auto const points = whole["ordering_points"].get<double>();

  char const* const asked = std::getenv("PERDURE_KILLS");
  int const kills = asked != nullptr ? std::atoi(asked) : on_gpu() ? 3 : 1;
  for (int kill = 0; kill < kills; ++kill) {
    remove_files(files_);
    auto const part = std::uniform_real_distribution<>(0, 1)(random_);
    SCOPED_TRACE("seed " + std::to_string(seed_) + ", killed after " + std::to_string(part) +
                 " of its run");
    if (on_gpu()) {
      auto const nth = std::to_string(1 + static_cast<std::uint64_t>(part * points));
      EXPECT_NE(ended(start({"--trap", nth})), 0);
    } else {
      pid_t const child = start({});
      std::this_thread::sleep_for(std::chrono::microseconds(
          static_cast<std::int64_t>(part * static_cast<double>(whole_us))));
      ::kill(child, SIGKILL);
      ended(child);
    }
    ASSERT_EQ(ended(start({"--resume"})), 0);
    EXPECT_EQ(result()["digest"], whole["digest"]);
  }
}

INSTANTIATE_TEST_SUITE_P(Gpm, Killed,
                         testing::Combine(testing::ValuesIn(applications()),
                                          testing::ValuesIn(devices())),
                         [](auto const& made) {
                           std::string name =
                               std::get<1>(made.param) + "_" + std::get<0>(made.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace perdure::test
