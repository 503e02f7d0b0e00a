// What natively persistent applications share (GPM section 5.4): their kernels persist results as
// they compute them, with words that say which ones are done, and resume in the middle. Here: their
// file, of a header and regions.
//
// Invariants: the header's word names the problem, and is durable only after the initial state; so
// a file without it is begun anew, and one of another problem is refused. A file is made of zeros,
// and zero means "not done" in every word.
#pragma once

#include <string>
#include <vector>

#include "app.hpp"

namespace perdure::bench::gpm {

using perdure::gpm::NoShared;
using perdure::gpm::NoState;
using perdure::gpm::Persist;

/// n elements at an offset of the file.
template <class T>
struct Region {
  std::uint64_t from;
  std::uint64_t n;
};

/// Where a file's regions lie: in the order in which they are added, behind the header's line.
class NativeLayout {
 public:
  template <class T>
  Region<T> add(std::uint64_t n) {
    Region<T> const region{bytes_, n};
    bytes_ += (n * sizeof(T) + kLine - 1) / kLine * kLine;
    return region;
  }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  static constexpr std::uint64_t kLine = 128;
  std::uint64_t bytes_ = kLine;
};

/// True for one thread of a launch: that of the block that comes last. One thread of each block
/// asks, in a phase after the block's threads persisted; so all that the launch stored is durable
/// then. `arrived`: machine memory, 0 before and after.
template <class T>
PERDURE_FN bool last_of_blocks(T& thread, std::uint32_t* arrived) {
  thread.local_fence();
  if (thread.add(arrived, 1) + 1 != thread.blocks()) return false;
  thread.local_fence();
  thread.exchange(arrived, 0);
  return true;
}

template <class Grid>
class NativeFile {
 public:
  /// What is there if it is to be resumed and holds anything; else made anew. `problem`: of the
  /// options and the input; what is durable when also depends on whether kernels persist, so those
  /// files are another problem's.
  NativeFile(Grid& grid, AppOptions const& options, char const* what, NativeLayout const& layout,
             std::uint64_t problem)
      : grid_(&grid),
        problem_(
            nth_hash(problem, perdure::gpm::persist_on(options.path) == Persist::here ? 1 : 2) | 1),
        memory_(open(grid, options, file_of(options, what), layout.bytes())) {
    std::uint64_t const found = get(kHeader, 0, 1)[0];
    if (found != 0 && found != problem_)
      throw Failure(file_of(options, what) +
                    " holds another problem's results; resume with its options, or begin anew");
    goes_on_ = found == problem_;
  }

  /// Whether the initial state is durable.
  [[nodiscard]] bool goes_on() const { return goes_on_; }
  /// Whether kernels persist; if not, marks of what is done must wait for commit().
  [[nodiscard]] bool kernels_persist() const { return memory_.persist() == Persist::here; }
  [[nodiscard]] Persist persist() const { return memory_.persist(); }

  template <class T>
  [[nodiscard]] T* data(Region<T> region) const {
    return reinterpret_cast<T*>(memory_.data() + region.from);
  }

  /// The initial state is durable.
  void begin() { publish(data(kHeader), kHeader, 0, problem_); }

  /// Makes durable what kernels stored, where they do not persist themselves.
  template <class T>
  void commit(Region<T> region, std::uint64_t first, std::uint64_t n) {
    if (kernels_persist() || n == 0) return;
    require(grid_->order(), "kernels");
    Stopwatch watch;
    require(memory_.commit(region.from + first * sizeof(T), n * sizeof(T)),
            "making results durable");
    durable_s_ += watch.lap();
  }
  template <class T>
  void commit(Region<T> region) {
    commit(region, 0, region.n);
  }

  /// A word, durable after all that was before.
  template <class T>
  void publish(Region<T> region, std::uint64_t i, std::type_identity_t<T> value) {
    publish(data(region), region, i, value);
  }

  /// Elements for the host.
  template <class T>
  [[nodiscard]] std::vector<T> get(Region<T> region, std::uint64_t first, std::uint64_t n) {
    require(grid_->order(), "kernels");
    return host_copy<Grid, T>(*grid_, memory_, data(region) + first, n);
  }
  template <class T>
  [[nodiscard]] std::vector<T> get(Region<T> region) {
    return get(region, 0, region.n);
  }
  /// Elements, from the beginning, for kernels to read often: into machine memory.
  template <class T>
  void upload(Array<Grid, T> const& to, Region<T> region, std::uint64_t n) {
    require(grid_->copy(to.data(), data(region), n), "reading results");
  }

  void report(AppReport& report) const {
    report.durable_s = durable_s_;
    report.durable_bytes = memory_.made_durable();
  }

 private:
  static constexpr Region<std::uint64_t> kHeader{0, 1};
  using Memory = perdure::gpm::Memory<Grid>;

  template <class T>
  void publish(T* at, Region<T> region, std::uint64_t i, T value) {
    require(grid_->launch({1, 1}, StoreWord<T>{at + i, value}, persist()), "storing a word");
    commit(region, i, 1);
  }

  static Memory open(Grid& grid, AppOptions const& options, std::string const& file,
                     std::uint64_t bytes) {
    typename Memory::Options how{options.path, !options.resume, options.flush_threads};
    auto memory = Memory::open(grid, file, bytes, how);
    Code const code = memory.status().code();
    // cap-fs makes its file in place: a crash may have left a short one. Mapped ones appear whole.
    bool const none_yet =
        code == Code::not_found || (code == Code::corrupt && options.path == Path::cap_fs);
    if (!options.resume || !none_yet) return require(std::move(memory), file);
    how.create = true;
    return require(Memory::open(grid, file, bytes, how), file);
  }

  Grid* grid_;
  std::uint64_t problem_;
  Memory memory_;
  bool goes_on_ = false;
  double durable_s_ = 0;
};

}  // namespace perdure::bench::gpm
