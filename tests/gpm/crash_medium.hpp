// Crashes of programs whose durable files are mapped, or written: watches what simulated threads
// and host code do to them, and at chosen ordering points copies the files as a crash could leave
// them. Of the words that were not durable then, each has one of the values that it had since it
// was; which, the seed says. A word's writes arrive in order, and what a thread persisted is there.
//
// What makes durable what the host orders: its ordering points alone, as on a platform whose caches
// outlive a crash (or where kernels' stores go past them); or writing back, or syncing, which an
// ordering point then only completes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exec/sim/sim_scheduler.hpp"
#include "fault/observer.hpp"

namespace perdure::test {

enum class Keeps : std::uint8_t { what_was_ordered, what_was_flushed };

class CrashMedium final : public fault::Observer {
 public:
  /// Files whose names begin with `files` are copied at those ordering points (counted from 1) to
  /// files that begin with snapshot(point).
  CrashMedium(std::string files, std::set<std::uint64_t> points, std::uint64_t seed,
              Keeps keeps = Keeps::what_was_ordered)
      : files_(std::move(files)),
        points_(std::move(points)),
        random_((seed * 2 + 1) * 0x9e3779b97f4a7c15u),
        keeps_(keeps) {
    fault::observer = this;
  }
  ~CrashMedium() override { fault::observer = nullptr; }

  [[nodiscard]] std::uint64_t ordering_points() const { return passed_; }
  [[nodiscard]] static std::string snapshot(std::string const& files, std::uint64_t point) {
    return files + "-crash" + std::to_string(point);
  }

  /// Copies the files as a crash could leave them now, to snapshot(ordering_points()).
  void crash();

  void will_read(void const*, std::size_t) override {}
  void will_write(void const* at, std::size_t bytes) override;
  void wrote(void const* at, std::size_t bytes) override;
  void fence() override;
  void order() override;
  void writes_back(void const* at, std::size_t bytes) override;
  void will_write_file(int fd, std::uint64_t from, void const* data, std::size_t bytes) override;
  void synced(int fd) override;

 private:
  /// A word of a file, whatever its name.
  struct Place {
    std::uint64_t file;  // inode
    std::uint64_t at;  // byte, a multiple of 8
    friend auto operator<=>(Place const&, Place const&) = default;
  };
  struct Word {
    std::uint64_t durable;
    // who wrote, and the word after it
    std::vector<std::pair<std::uint64_t, std::uint64_t>> since = {};
    std::size_t on_the_way = 0;  // of these: written back
  };
  struct Mapped {
    std::uintptr_t first, last;
    Place place;  // of `first`
  };
  [[nodiscard]] std::optional<Place> place_of(std::uintptr_t at);
  template <class F>
  void each_word(void const* at, std::size_t bytes, F act);
  void pass();
  [[nodiscard]] std::uint64_t draw();

  std::string files_;
  std::set<std::uint64_t> points_;
  std::uint64_t random_;
  Keeps keeps_;
  std::uint64_t passed_ = 0;
  std::map<Place, Word> pending_;
  std::map<std::uint64_t, std::vector<Place>> written_by_;
  std::vector<Place> on_the_way_;
  std::vector<Mapped> mapped_;  // as they were when a page was met that no file had
  std::set<std::uintptr_t> others_;  // pages of machine memory, since the last ordering point
};

/// Files that begin with `from` and a dot become those that begin with `to`, which go.
void copy_files(std::string const& from, std::string const& to);
void remove_files(std::string const& beginning);

}  // namespace perdure::test
