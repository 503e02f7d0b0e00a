// Files that segments are made of, mapped as they are: those of retired segments, and one that is
// made beforehand, beside whoever writes. To use one costs nothing, and to make one a page fault
// for each of its pages.
//
// Invariants: a spare has a name that no recovery reads, and what a crash leaves is removed. There
// are as many as asked for at most, those among them that are still in use; the one that is being
// made comes on top where none of these is free. Of one
// that cannot be made nothing is said: who needs a file makes it, and hears why that fails.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.hpp"
#include "pm/mapping.hpp"

namespace perdure::lsm {

class GwalSpares {
 public:
  struct Spare {
    std::string path;
    pm::Mapping mapping;
  };
  /// `made`: the name of the one that is made beforehand. None is smaller than `usual_bytes`, for
  /// most that are asked for have these, nor twice as large.
  GwalSpares(std::string made, std::uint32_t most, std::uint64_t usual_bytes);
  ~GwalSpares();
  GwalSpares(GwalSpares const&) = delete;
  GwalSpares& operator=(GwalSpares const&) = delete;

  /// False in a child that was forked.
  [[nodiscard]] bool ours() const;
  /// Whether a file of that size that goes is to become one; then put() follows when it is free.
  bool wants(std::uint64_t bytes) PERDURE_EXCLUDES(mutex_);
  void wants_no_more() PERDURE_EXCLUDES(mutex_);
  void put(Spare spare) PERDURE_EXCLUDES(mutex_);
  /// Begins to make one, where there is none yet.
  void prepare(std::uint64_t bytes) PERDURE_EXCLUDES(making_mutex_, mutex_);
  /// One that is free; or the one that is being made, for which it waits.
  std::optional<Spare> take(std::uint64_t bytes) PERDURE_EXCLUDES(making_mutex_, mutex_);
  /// Of those that are free `left` stay.
  void trim(std::size_t left) PERDURE_EXCLUDES(mutex_);
  /// All that are free go, and the one that is being made. Whether there were any, so that there
  /// may be more room now.
  bool clear() PERDURE_EXCLUDES(making_mutex_, mutex_);

 private:
  struct Making;
  [[nodiscard]] bool is_making() PERDURE_EXCLUDES(making_mutex_);
  std::optional<Spare> take_free(std::uint64_t bytes) PERDURE_EXCLUDES(mutex_);
  std::optional<Spare> take_made(std::uint64_t bytes) PERDURE_EXCLUDES(making_mutex_, mutex_);

  std::string const made_;
  std::uint32_t const most_;
  std::uint64_t const least_bytes_, most_bytes_;
  std::uint64_t const process_;
  Mutex making_mutex_;  // taken before the other, which nobody holds while he waits
  std::unique_ptr<Making> making_ PERDURE_GUARDED_BY(making_mutex_);  // and until it is taken
  Mutex mutex_;
  std::vector<Spare> free_ PERDURE_GUARDED_BY(mutex_);
  std::uint32_t named_ PERDURE_GUARDED_BY(mutex_) = 0;  // all of them
};

}  // namespace perdure::lsm
