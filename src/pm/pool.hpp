// A pool: a mapped file with its header, its root, and its superblocks. Invariants: the header
// never changes; the root changes as a whole; a superblock belongs to the index (named by the
// root), to the heap (it says so itself), or to nobody, and which of them is volatile knowledge
// rebuilt at open, or later: nothing is taken before it is known; the root counts every superblock
// that is in use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/offset.hpp"
#include "perdure/status.h"
#include "pm/mapping.hpp"
#include "pm/pool_format.hpp"

namespace perdure::pm {

class Pool {
 public:
  /// `shape` carries the caller's fields; magic, version, id, time and checksum are filled in here.
  /// What is there is replaced only if it is a pool, of whatever version, unless `make` says
  /// otherwise.
  static Result<Pool> create(std::string const& path, PoolHeader shape, std::uint64_t superblocks,
                             MakeOptions const& make, MapOptions const& options);
  /// Checks header, root and size; refuses what it does not understand. The root's entries are for
  /// their owners to check.
  static Result<Pool> open(std::string const& path, MapOptions const& options);

  /// As it is in the file, of which only the first bytes have been looked at.
  static Result<PoolHeader> header_of(std::string const& path);
  /// What the first bytes of a file, kHeadBytes, say is looked at as open() looks at it. `bytes`:
  /// of the whole file.
  static Result<PoolHeader> header_in(std::string const& path, std::byte const* head);
  static Result<Root> root_in(std::string const& path, std::byte const* head,
                              PoolHeader const& header, std::uint64_t bytes);

  /// The same of an image of a pool, which has been read into a file that has no name yet; `path`
  /// is for what it refuses. One that an older build wrote becomes one of this format.
  static Result<Pool> of_image(std::string const& path, Mapping mapping);

  /// Makes a pool file of `bytes` that `fill` brings: the image of another pool, with its identity.
  static Result<Pool> create_from(std::string const& path, std::uint64_t bytes,
                                  MakeOptions const& make, MapOptions const& options,
                                  std::function<Status(std::span<std::byte>)> const& fill);
  /// Makes such a pool one of its own: a new id in the header and in all heap superblocks. Call it
  /// when index and undo log have claimed their runs, in which keys may look like superblocks, and
  /// before the heap is recovered.
  void take_identity(std::uint8_t durability);
  /// The first blocks of the file, up to kHeadBytes, as an orderly close with this note would leave
  /// them now.
  [[nodiscard]] std::vector<std::byte> closed_head(std::optional<ClosingNote> note) const;

  /// Gives a created pool its name, in place of any it replaces; before that, closing removes it.
  Status keep() { return mapping_.keep(); }
  void take_away() { mapping_.take_away(); }
  /// Unmaps the pool; header() and root() stay readable, nothing else does.
  void close() { mapping_.close(); }
  /// The same, but that whoever gets the mapping unmaps it.
  [[nodiscard]] Mapping close_but_for_mapping() {
    mapping_.prepare_no_more();
    return std::move(mapping_);
  }

  [[nodiscard]] PoolHeader const& header() const { return header_; }
  [[nodiscard]] Root const& root() const { return root_; }
  [[nodiscard]] std::byte* base() const { return mapping_.data(); }
  [[nodiscard]] std::uint64_t bytes() const { return mapping_.size(); }
  /// Its addresses, those that it can grow into among them.
  [[nodiscard]] std::span<std::byte const> addresses() const {
    return {mapping_.data(), mapping_.reserved()};
  }
  [[nodiscard]] Medium medium() const { return mapping_.medium(); }
  [[nodiscard]] bool read_only() const { return mapping_.read_only(); }
  /// From here on it is as if it had been opened read-only.
  void end_writing() { mapping_.end_writing(); }
  [[nodiscard]] std::uint64_t superblock_bytes() const { return header_.superblock_bytes; }
  [[nodiscard]] std::uint64_t superblocks() const { return in_use_.size(); }
  [[nodiscard]] std::uint64_t superblocks_in_use();

  /// Makes `next` the root, durably and as a whole, in both copies: an ordering point before and
  /// after each.
  void publish_root(Root next);
  /// Marks the pool as closed in order. The caller's fields of `note` say what the next opening is
  /// to find; without one it has nothing to compare.
  void publish_clean(std::optional<ClosingNote> note);
  /// Of a pool that was closed in order: what that close noted, if it noted anything.
  /// Code::corrupt: that is damaged.
  [[nodiscard]] Result<std::optional<ClosingNote>> closing_note() const {
    return closing_note_in(base(), root_);
  }
  /// How far the log of the pool in that file is known to have been durable, by its last close or
  /// by its log word, whatever has happened to it since; 0: not known.
  [[nodiscard]] static std::uint64_t noted_lsn(int fd);
  /// The same of the first bytes of a file, kHeadBytes, with this root.
  [[nodiscard]] static Result<std::optional<ClosingNote>> closing_note_in(std::byte const* head,
                                                                          Root const& root);

  /// At open: `find` claims superblocks by what each begins with, which takes time for each; so it
  /// is called when the answer is first needed: by what follows, save claim_run() and
  /// is_free(_run)(), and whoever calls find_owners(). Several are called in the order in which
  /// they came. What `find` refers to is there until then.
  void find_owners_later(std::function<void()> find) { find_owners_.push_back(std::move(find)); }
  void find_owners();

  /// A run of adjacent free superblocks; grows the file where there is none. Where it has grown,
  /// and little is free again, a thread prepares the next growth meanwhile.
  Result<Offset> take_run(std::uint64_t superblocks);
  void give_run(Offset first, std::uint64_t superblocks);
  /// Recovery: this run is in use.
  void claim_run(Offset first, std::uint64_t superblocks);
  [[nodiscard]] bool is_free(Offset superblock) const {
    return !in_use_[superblock.bytes / superblock_bytes()];
  }
  /// Whether what a damaged word may name is a run of the pool's superblocks, and all of them are
  /// free.
  [[nodiscard]] bool is_free_run(Offset first, std::uint64_t superblocks) const;

 private:
  explicit Pool(Mapping mapping) : mapping_(std::move(mapping)) {}
  static Result<Pool> of(std::string const& path, Mapping mapping);
  Status check(std::string const& path);
  [[nodiscard]] ClosingNote for_next_root(ClosingNote note) const;
  Status grow(std::uint64_t missing);
  void prepare_growth();
  void mark(std::uint64_t superblock, bool in_use);

  Mapping mapping_;
  PoolHeader header_{};
  Root root_{};
  std::vector<bool> in_use_;
  std::uint64_t used_ = 0;  // of them
  std::uint64_t first_free_ = 1;  // no superblock below it is free
  bool prepares_ = false;  // the last growth found room for more than was needed
  std::vector<std::function<void()>> find_owners_;
};

}  // namespace perdure::pm
