// perdure_rocks_kills: starts victims (victim.hpp) on one database, kills each at a random moment,
// and judges what the next opening finds. Exit status: 0 nothing lost, 1 something was or came
// twice, 2 wrong usage.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "rocks/kills/victim.hpp"
#include "rocks/support/draws.hpp"
#include "rocks/support/transcript.hpp"

extern char** environ;

namespace perdure::test {
namespace {

constexpr auto kLongestOpening = std::chrono::seconds(30);

/// The first key of which two contents have different values, or nothing.
std::string first_difference(Expected::Content const& expected, Expected::Content const& found) {
  for (std::size_t family = 0; family < kKillFamilies; ++family) {
    std::string const of = " of family " + std::to_string(family);
    for (auto const& [key, value] : expected[family]) {
      auto const at = found[family].find(key);
      if (at == found[family].end()) return "key " + key + of + " is gone";
      if (at->second != value)
        return "key " + key + of + " is " + printable(at->second.substr(0, 60)) + " instead of " +
               printable(value.substr(0, 60));
    }
    for (auto const& [key, value] : found[family])
      if (!expected[family].contains(key)) return "nobody put key " + key + of;
  }
  return {};
}

class Judge {
 public:
  explicit Judge(Assignment const& assignment)
      : a_(assignment), page_(map_page(a_.page)), draws_(a_.seed) {
    for (std::size_t thread = 0; thread < kThreads; ++thread)
      expected_.emplace_back(a_.seed, thread);
  }

  /// What is wrong, or nothing.
  std::string kill_one() {
    if (std::string wrong = start_and_kill(false, draws_.between(5, 250)); !wrong.empty())
      return wrong;
    while (draws_.once_in(3))
      if (std::string wrong = start_and_kill(true, draws_.between(1, 120)); !wrong.empty())
        return wrong;
    return judge();
  }

  [[nodiscard]] std::uint64_t calls() const { return expected_[0].calls() + expected_[1].calls(); }
  [[nodiscard]] std::uint64_t in_flight_kept() const { return in_flight_kept_; }
  [[nodiscard]] std::uint64_t victims_that_opened() const { return page_.opened; }

 private:
  std::string start_and_kill(bool only_opens, std::uint64_t milliseconds) {
    std::vector<std::string> words{"perdure_rocks_kills",
                                   "--victim",
                                   "--seed",
                                   std::to_string(a_.seed),
                                   "--open",
                                   a_.open,
                                   "--plant",
                                   a_.plant,
                                   "--path",
                                   a_.path,
                                   "--page",
                                   a_.page};
    if (only_opens) words.emplace_back("--only-opens");
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    std::uint64_t const opened = page_.opened;
    pid_t child = 0;
    if (::posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments.data(), environ) != 0)
      return "no victim can be started";
    if (!only_opens && !draws_.once_in(4)) wait_for_opening(opened);
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    bool const killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    bool const ended = only_opens && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return killed || ended ? "" : "a victim ended by itself, status " + std::to_string(status);
  }

  /// On a busy machine most victims would die before they write.
  void wait_for_opening(std::uint64_t before) const {
    auto const end = std::chrono::steady_clock::now() + kLongestOpening;
    while (page_.opened == before && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  std::string judge() {
    rocksdb::DB* db = nullptr;
    Handles handles;
    auto const s = opener_named(a_.open, a_.seed)
                       .open(small_db_options(), a_.path, kill_families(), &handles, &db);
    if (!s.ok()) return "the database does not open: " + s.ToString();
    std::string wrong = compare(db, handles);
    for (auto* handle : handles) static_cast<void>(db->DestroyColumnFamilyHandle(handle));
    auto const closed = db->Close();
    delete db;
    if (wrong.empty() && !closed.ok()) wrong = "the database does not close: " + closed.ToString();
    return wrong;
  }

  std::string compare(rocksdb::DB* db, Handles const& handles) {
    std::uint64_t batches = 0;
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
      Expected::Content found;
      auto const s = read_content(db, handles, thread, found);
      if (!s.ok()) return "reading what is there: " + s.ToString();
      std::string const wrong = compare_thread(thread, found);
      if (!wrong.empty()) return wrong;
      batches += expected_[thread].batches();
    }
    std::string total(8, '\0');
    auto const s = db->Get({}, handles[1], kTotal, &total);
    if (!s.ok() && !s.IsNotFound()) return "reading the total: " + s.ToString();
    if (number_of(total) != batches)
      return "of " + std::to_string(batches) + " batches the total has " +
             std::to_string(number_of(total));
    return {};
  }

  /// All acknowledged calls, and of the next one all or nothing.
  std::string compare_thread(std::size_t thread, Expected::Content const& found) {
    Expected& expected = expected_[thread];
    auto& acknowledged = page_.threads[thread].acknowledged;
    while (expected.calls() < acknowledged) expected.advance();
    std::string const before = first_difference(expected.content(), found);
    if (before.empty()) return {};
    expected.advance();
    std::string const after = first_difference(expected.content(), found);
    if (!after.empty())
      return "of thread " + std::to_string(thread) + ", after its " +
             std::to_string(acknowledged.load()) + " acknowledged calls: " + before +
             "; and with the next call: " + after;
    acknowledged = expected.calls();
    ++in_flight_kept_;
    return {};
  }

  Assignment a_;
  Page& page_;
  Draws draws_;
  std::vector<Expected> expected_;
  std::uint64_t in_flight_kept_ = 0;
};

int judge_kills(Assignment const& a, std::uint64_t kills) {
  auto const begin = std::chrono::steady_clock::now();
  Judge judge(a);
  std::string wrong;
  std::uint64_t kill = 0;
  for (; kill < kills && wrong.empty(); ++kill) wrong = judge.kill_one();
  if (!wrong.empty()) {
    std::fprintf(stderr, "rocks kills: seed %llu, kill %llu, %s\n",
                 static_cast<unsigned long long>(a.seed), static_cast<unsigned long long>(kill),
                 wrong.c_str());
    return 1;
  }
  std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
  std::printf(
      "rocks kills: seed %llu, %llu kills, %llu openings, %llu calls, all there and once; "
      "%llu calls in flight were kept; %.1f s\n",
      static_cast<unsigned long long>(a.seed), static_cast<unsigned long long>(kills),
      static_cast<unsigned long long>(judge.victims_that_opened()),
      static_cast<unsigned long long>(judge.calls()),
      static_cast<unsigned long long>(judge.in_flight_kept()), took.count());
  return 0;
}

}  // namespace
}  // namespace perdure::test

int main(int argc, char** argv) {
  perdure::test::Assignment a;
  std::uint64_t kills = 200;
  bool victim = false;
  CLI::App app("Kills a process that writes through perdure::rocks, again and again");
  app.add_option("--kills", kills)->capture_default_str();
  app.add_option("--seed", a.seed)->capture_default_str();
  app.add_option("--open", a.open)->check(CLI::IsMember({"plain", "perdure", "power"}));
  app.add_option("--plant", a.plant, "a fault of the victim's")
      ->check(CLI::IsMember({"none", "early", "twice", "parts"}));
  app.add_flag("--victim", victim, "for itself alone, as all below");
  app.add_option("--path", a.path);
  app.add_option("--page", a.page);
  app.add_flag("--only-opens", a.only_opens);
  try {
    app.parse(argc, argv);
  } catch (CLI::ParseError const& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  if (victim) return perdure::test::be_victim(a);
  a.path = perdure::test::fresh_path("kills", a.open == "power" ? "/var/tmp" : "/dev/shm");
  a.page = a.path + ".page";
  int const status = perdure::test::judge_kills(a, kills);
  perdure::test::remove_database(a.path);
  std::filesystem::remove(a.page);
  return status;
}
