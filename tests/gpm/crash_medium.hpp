// Crashes of programs whose durable files are mapped ones: watches what simulated threads and host code do to memory,
// and at chosen ordering points copies the files as a crash could leave them. Of the words that were not durable then,
// each has one of the values that it had since it was; which, the seed says. A word's writes arrive in order, and what
// a thread persisted is there.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "exec/sim_observer.hpp"
#include "exec/sim_scheduler.hpp"

namespace perdure::test {

class CrashMedium final : public exec::SimObserver {
 public:
  /// Files whose names begin with `files` are copied at those ordering points (counted from 1) to files that begin with
  /// snapshot(point).
  CrashMedium(std::string files, std::set<std::uint64_t> points, std::uint64_t seed)
      : files_(std::move(files)), points_(std::move(points)), random_(seed * 2 + 1) {
    exec::sim_observer = this;
  }
  ~CrashMedium() override { exec::sim_observer = nullptr; }

  [[nodiscard]] std::uint64_t ordering_points() const { return passed_; }
  [[nodiscard]] static std::string snapshot(std::string const& files, std::uint64_t point) {
    return files + "-crash" + std::to_string(point);
  }

  void will_read(void const*, std::size_t) override {}
  void will_write(void const* at, std::size_t bytes) override;
  void wrote(void const* at, std::size_t bytes) override;
  void fence() override;
  void order() override;

 private:
  struct Word {
    std::uint64_t durable;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> since;  // who wrote, and the word after it
  };
  void pass();
  void crash_here();
  [[nodiscard]] std::uint64_t draw();

  std::string files_;
  std::set<std::uint64_t> points_;
  std::uint64_t random_;
  std::uint64_t passed_ = 0;
  std::unordered_map<std::uint64_t*, Word> pending_;
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t*>> written_by_;
};

/// Files that begin with `from` and a dot become those that begin with `to`, which go.
void copy_files(std::string const& from, std::string const& to);
void remove_files(std::string const& beginning);

}  // namespace perdure::test
