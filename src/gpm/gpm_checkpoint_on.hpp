// A libGPM checkpoint on a machine (GPM section 5.3): registered memory of kernels is copied to the
// file by a kernel (or on another of the paths of gpm_path.hpp), and back by the machine's copy.
// Invariant: a group's elements keep the order in which they were registered, which is how a
// restore knows them; a checkpoint that fails leaves the one before it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exec/grid.hpp"
#include "exec/workers.hpp"
#include "gpm/gpm_checkpoint_file.hpp"
#include "gpm/gpm_file.hpp"
#include "gpm/gpm_path.hpp"
#include "pm/flush.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::gpm {

/// Copies words from machine memory to durable memory, neighbouring threads neighbouring words.
template <class Word>
struct GpmCopyKernel {
  static constexpr int kPhases = 1;
  using Shared = exec::NoShared;
  using State = exec::NoState;
  Word* to;
  Word const* from;
  std::uint64_t words;

  template <int, class T>
  PERDURE_FN void run(T& thread, Shared&, State&) const {
    for (std::uint64_t i = thread.global(); i < words; i += thread.total())
      thread.store(&to[i], from[i]);
    if (!mutated("gpm_copy_not_ordered")) thread.persist();
  }
};

template <class Grid>
class GpmCheckpointOn {
 public:
  struct Options {
    GpmPath path = GpmPath::gpm;
    std::uint32_t flush_threads = 0;  // of the CPU, where it flushes; 0 = all
    // create(): groups more than asked for, whose copies take room once they are registered
    std::uint32_t spare = 0;
  };
  static Result<GpmCheckpointOn> create(Grid& grid, std::string const& path, std::uint64_t bytes,
                                        std::uint32_t elements, std::uint32_t groups,
                                        Options const& options = {}) {
    bool const gpu = Grid::kPinsPools && !synced(options);
    return over(grid,
                GpmCheckpointFile::create(path, bytes, elements, groups, synced(options), gpu,
                                          options.spare),
                options);
  }
  static Result<GpmCheckpointOn> open(Grid& grid, std::string const& path,
                                      Options const& options = {}) {
    return over(
        grid, GpmCheckpointFile::open(path, synced(options), Grid::kPinsPools && !synced(options)),
        options);
  }

  /// The group's next element: `bytes` at `at`, memory that kernels reach.
  Status add(void* at, std::uint64_t bytes, std::uint32_t group) {
    if (Status s = known(group); !s.ok()) return s;
    std::vector<Element>& elements = elements_[group];
    if (elements.size() == file_.header().elements) {
      return {Code::invalid_argument, name(group) + " has all its " +
                                          std::to_string(elements.size()) +
                                          " elements already; make the checkpoint for more"};
    }
    if (Status s =
            bytes == 0 ? Status{Code::invalid_argument, "no bytes"} : grid_->reaches(at, bytes);
        !s.ok()) {
      return {Code::invalid_argument,
              name(group) + ", element " + std::to_string(elements.size()) + ": " + s.message()};
    }
    std::uint64_t const room = file_.header().copy_bytes;
    if (used(elements) + gpm_lines(bytes) > room) {
      return {Code::no_space, name(group) + ", element " + std::to_string(elements.size()) + ": " +
                                  std::to_string(bytes) + " bytes are more than the " +
                                  std::to_string(room - used(elements)) +
                                  " that are left; make it larger"};
    }
    if (Status s = file_.back(group); !s.ok()) return s;
    elements.push_back({static_cast<std::byte*>(at), bytes});
    return {};
  }

  /// Durable when it returns, as far as the path makes it so, with `word`, which is the
  /// application's: its iteration, say.
  Status checkpoint(std::uint32_t group, std::uint64_t word) {
    if (Status s = registered(group); !s.ok()) return s;
    std::byte* to = file_.next_copy(group);
    std::vector<std::uint64_t> sizes;
    for (Element const& element : elements_[group]) {
      if (Status s = move_out(to, element); !s.ok()) return s;
      to += gpm_lines(element.bytes);
      sizes.push_back(element.bytes);
    }
    if (!mutated("gpm_copy_not_ordered")) {
      if (Status s = grid_->order(); !s.ok()) return s;
    }
    return file_.switch_to_next(group, word, sizes);
  }

  /// Brings the newest checkpoint back; its word.
  Result<std::uint64_t> restore(std::uint32_t group) {
    if (Status s = registered(group); !s.ok()) return s;
    auto const newest = file_.newest(group);
    if (!newest) {
      return Status{Code::not_found,
                    name(group) + " holds no checkpoint yet; start from the beginning"};
    }
    if (Status s = matches(group, newest->sizes); !s.ok()) return s;
    std::byte const* from = file_.copy(group, newest->header.copy);
    for (Element const& element : elements_[group]) {
      pm::will_read(from, element.bytes);
      if (Status s = grid_->copy(element.at, from, element.bytes); !s.ok()) return s;
      from += gpm_lines(element.bytes);
    }
    if (Status s = grid_->order(); !s.ok()) return s;
    return newest->header.word;
  }

  [[nodiscard]] GpmCheckpointFile const& file() const { return file_; }

 private:
  struct Element {
    std::byte* at;
    std::uint64_t bytes;
  };
  GpmCheckpointOn(Grid& grid, GpmCheckpointFile file, Options const& options)
      : grid_(&grid), options_(options), file_(std::move(file)), elements_(file_.header().groups) {}

  static bool synced(Options const& options) { return options.path == GpmPath::cap_fs; }
  static Result<GpmCheckpointOn> over(Grid& grid, Result<GpmCheckpointFile> file,
                                      Options const& options) {
    if (!file.ok()) return file.status();
    GpmCheckpointOn made(grid, std::move(file.value()), options);
    if (options.path == GpmPath::cap_fs) {
      auto plain = GpmFile::plain(made.file_.path(), made.file_.header().file_bytes, false);
      if (!plain.ok()) return plain.status();
      made.plain_ = std::move(plain.value());
    } else if (options.path == GpmPath::ndp || options.path == GpmPath::cap_mm) {
      made.workers_ = std::make_unique<exec::Workers>(
          options.flush_threads != 0 ? options.flush_threads : grid.host_threads());
    }
    return Result<GpmCheckpointOn>(std::move(made));
  }

  [[nodiscard]] std::string name(std::uint32_t group) const {
    return "checkpoint " + file_.path() + ", group " + std::to_string(group);
  }
  [[nodiscard]] Status known(std::uint32_t group) const {
    if (group < elements_.size()) return {};
    return {Code::invalid_argument,
            name(group) + ": there are groups 0 to " + std::to_string(elements_.size() - 1)};
  }
  [[nodiscard]] Status registered(std::uint32_t group) const {
    if (Status s = known(group); !s.ok()) return s;
    if (!elements_[group].empty()) return {};
    return {Code::invalid_argument, name(group) + " has no elements; register them first"};
  }
  static std::uint64_t used(std::vector<Element> const& elements) {
    std::uint64_t bytes = 0;
    for (Element const& element : elements) bytes += gpm_lines(element.bytes);
    return bytes;
  }
  [[nodiscard]] Status matches(std::uint32_t group, std::vector<std::uint64_t> const& sizes) const {
    std::vector<Element> const& elements = elements_[group];
    if (sizes.size() != elements.size()) {
      return {Code::invalid_argument,
              name(group) + " holds " + std::to_string(sizes.size()) + " elements, but " +
                  std::to_string(elements.size()) +
                  " are registered; register what was registered when it was written"};
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] == elements[i].bytes) continue;
      return {Code::invalid_argument,
              name(group) + ", element " + std::to_string(i) + " holds " +
                  std::to_string(sizes[i]) + " bytes, but " + std::to_string(elements[i].bytes) +
                  " are registered; register elements in the order of its writing"};
    }
    return {};
  }

  template <class Word>
  Status store_words(std::byte* to, Element const& element) {
    constexpr std::uint32_t kThreads = 256;
    constexpr std::uint64_t kMostBlocks = 1024;  // a few a multiprocessor; each takes words in turn
    std::uint64_t const words = element.bytes / sizeof(Word);
    auto const blocks = std::min<std::uint64_t>((words + kThreads - 1) / kThreads, kMostBlocks);
    return grid_->launch({static_cast<std::uint32_t>(blocks), kThreads},
                         GpmCopyKernel<Word>{reinterpret_cast<Word*>(to),
                                             reinterpret_cast<Word const*>(element.at), words},
                         persist_on(options_.path));
  }
  /// By the largest words that its address and size allow.
  Status store(std::byte* to, Element const& element) {
    std::uint64_t const odd = reinterpret_cast<std::uintptr_t>(element.at) | element.bytes;
    if (odd % 8 == 0) return store_words<std::uint64_t>(to, element);
    if (odd % 4 == 0) return store_words<std::uint32_t>(to, element);
    return store_words<std::uint8_t>(to, element);
  }

  /// To the working copy, on the path that was asked for.
  Status move_out(std::byte* to, Element const& element) {
    if (stores_directly(options_.path)) {
      if (Status s = store(to, element); !s.ok() || options_.path != GpmPath::ndp) return s;
      if (Status s = grid_->order(); !s.ok()) return s;
    } else if (options_.path == GpmPath::cap_fs) {
      bounce_.resize(element.bytes);
      if (Status s = grid_->fetch(bounce_.data(), element.at, element.bytes); !s.ok()) return s;
      return plain_.write_and_sync(file_.offset_of(to), bounce_.data(), element.bytes);
    } else {
      pm::will_write(to, element.bytes);
      if (Status s = grid_->fetch(to, element.at, element.bytes); !s.ok()) return s;
      pm::wrote(to, element.bytes);
    }
    if (options_.path != GpmPath::cap_eadr && !mutated("gpm_copy_not_flushed"))
      pm::flush(*workers_, to, element.bytes);
    return {};
  }

  Grid* grid_;
  Options options_;
  std::unique_ptr<exec::Workers> workers_;  // that flush
  GpmFile plain_;  // cap-fs: the same file, for write()
  std::vector<std::byte> bounce_;
  GpmCheckpointFile file_;
  std::vector<std::vector<Element>> elements_;
};

}  // namespace perdure::gpm
