// The directory of Dash-EH: on PM the one that counts, and beside it the volatile copy that threads
// read. Invariants:
//
//  * Directories of each depth have a place of their own, so that writing one never touches the one
//    that counts; the root's word names that, and storing the word switches from one to the other.
//  * Whoever replaces the directory holds its lock alone; whoever reads or changes entries on PM
//    shares it. Of the volatile one only a whole directory is ever seen, and an old one goes when
//    nobody can be reading it any more.
//  * A directory has as many bits as the deepest segment at least, and one at least.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/assert.hpp"
#include "base/mutex.hpp"
#include "base/zero_words.hpp"
#include "exec/reader_writer_lock.hpp"
#include "index/dash/segmented.hpp"
#include "pm/pool.hpp"

namespace perdure::dash {

/// `Table` derives from it: a table whose segments are found through a directory.
template <class Table, class Keys, class K>
class WithDirectory : public Segmented<Table, Keys, K> {
  using Base = Segmented<Table, Keys, K>;

 protected:
  using Base::Base;
  ~WithDirectory() = default;
  using Base::base_;
  using Base::blocks_;
  using Base::memory_;
  using Base::pool_;
  using Base::root_;
  using Base::segment_at;

  static constexpr std::uint64_t kPlace = (std::uint64_t{1} << 56) - 1;
  static constexpr std::uint64_t kSmallDirectory = 1u
                                                   << 19;  // bytes; larger ones have to be worth it

  struct Directory {
    explicit Directory(std::uint32_t its_depth) : depth(its_depth), entries(size()) {
      PERDURE_ASSERT(its_depth > 0 && its_depth <= Extent::kMostDepth);
    }
    std::uint32_t depth;
    ZeroWords entries;  // places of segments; 0 = not looked up yet
    [[nodiscard]] std::size_t size() const { return std::size_t{1} << depth; }
    [[nodiscard]] std::uint64_t index(std::uint64_t hash) const { return hash >> (64 - depth); }
  };

  [[nodiscard]] Offset place_of_index() const {
    return Offset{static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(root_) - base_)};
  }
  [[nodiscard]] std::uint64_t* entries_at(Offset place) const {
    return reinterpret_cast<std::uint64_t*>(base_ + place.bytes);
  }

  template <class Host>
  PERDURE_HOT Directory& directory(Host& host) {
    return *reinterpret_cast<Directory*>(host.load(&volatile_));
  }
  template <class Host>
  Status claim(Host& host) {
    std::uint64_t const directory = host.load(&root_->directory);
    auto const depth = static_cast<std::uint32_t>(directory >> 56);
    if (depth == 0 || depth > Extent::kMostDepth ||
        !claim_directory(depth, Offset{directory & kPlace}))
      return {Code::corrupt, told("the index's directory, of ", depth, " bits, cannot lie at byte ",
                                  directory & kPlace)};
    return {};
  }
  /// Whether a directory may lie there; if so, and it has superblocks of its own, they are in use.
  bool claim_directory(std::uint32_t depth, Offset place) {
    std::uint64_t const at = kDirectories + (std::uint64_t{8} << depth),
                        superblock = pool_->superblock_bytes();
    if (at + (std::uint64_t{8} << depth) <= superblock)
      return place.bytes == place_of_index().bytes + at;
    MutexLock const lock(*memory_);
    if (!pool_->is_free_run(place, superblocks_of(depth))) return false;
    pool_->claim_run(place, superblocks_of(depth));
    return true;
  }

  template <class Host>
  void begin(Host& host) {
    auto const depth = static_cast<std::uint32_t>(host.load(&root_->directory) >> 56);
    PERDURE_ASSERT(owned_ == nullptr);
    auto directory = std::make_unique<Directory>(depth);
    host.store(&volatile_, reinterpret_cast<std::uint64_t>(directory.get()));
    owned_ = std::move(directory);
  }
  template <class Host>
  void replace_volatile(Host& host, std::unique_ptr<Directory> next) {
    PERDURE_ASSERT(owned_ != nullptr && next != nullptr);
    host.store(&volatile_, reinterpret_cast<std::uint64_t>(next.get()));
    // Others may be reading it: where there is no memory to note that it is to go, it stays.
    Directory* const old = owned_.release();
    owned_ = std::move(next);
    this->epochs().retire([old] { delete old; });
  }

  [[nodiscard]] std::uint64_t pool_bytes() const {
    MutexLock const lock(*memory_);
    return pool_->bytes();
  }
  [[nodiscard]] std::uint64_t superblocks_of(std::uint32_t depth) const {
    return ((std::uint64_t{8} << depth) + pool_->superblock_bytes() - 1) /
           pool_->superblock_bytes();
  }
  Result<Offset> directory_place(std::uint32_t depth) {
    PERDURE_ASSERT(depth > 0 && depth <= Extent::kMostDepth);
    std::uint64_t const at = kDirectories + (std::uint64_t{8} << depth);
    if (at + (std::uint64_t{8} << depth) <= pool_->superblock_bytes())
      return Offset{place_of_index().bytes + at};
    MutexLock const lock(*memory_);
    return pool_->take_run(superblocks_of(depth));
  }
  /// Writes a directory of entries[i] = of(i) and makes it the one that counts; nobody reads the
  /// old one.
  template <class Host, class Of>
  Status switch_directory(Host& host, std::uint32_t depth, Of of) {
    auto place = directory_place(depth);
    if (!place) return place.status();
    PERDURE_ASSERT(place->bytes % 8 == 0);
    std::uint64_t* const entries = entries_at(*place);
    for (std::uint64_t i = 0; i < std::uint64_t{1} << depth; ++i) host.store(entries + i, of(i));
    host.flush(entries, std::uint64_t{8} << depth);
    if (!mutated("dash_directory_not_ordered")) host.fence();
    std::uint64_t const old = host.load(&root_->directory);
    host.store(&root_->directory, std::uint64_t{depth} << 56 | place->bytes);
    host.persist(&root_->directory, sizeof root_->directory);
    if (std::uint64_t const run = old & kPlace; run % pool_->superblock_bytes() == 0) {
      MutexLock const lock(*memory_);
      pool_->give_run(Offset{run}, superblocks_of(static_cast<std::uint32_t>(old >> 56)));
    }
    return {};
  }

  /// Twice as many entries, if there are still as many as `depth` says.
  template <class Host>
  Status double_directory(Host& host, std::uint32_t depth) {
    exec::ExclusiveHold const held(host, directory_lock_);
    std::uint64_t const root = host.load(&root_->directory);
    if (root >> 56 != depth) return {};
    if (std::uint64_t const bytes = std::uint64_t{16} << depth;
        bytes > std::max(kSmallDirectory, pool_bytes() / 4))
      return {Code::no_space, "keys whose hashes are alike would take a directory of " +
                                  std::to_string(bytes) +
                                  " bytes, more than a quarter of the pool"};
    std::uint64_t const* const old = entries_at(Offset{root & kPlace});
    auto next = std::make_unique<Directory>(
        depth + 1);  // before anything is changed: there may be no memory for it
    if (Status s = switch_directory(host, depth + 1,
                                    [&](std::uint64_t i) { return host.load(old + i / 2); });
        !s.ok())
      return s;
    Directory const& now = directory(host);
    PERDURE_ASSERT(2 * now.size() == next->size());
    for (std::size_t i = 0; i < now.size(); ++i)
      next->entries[2 * i] = next->entries[2 * i + 1] = host.load(&now.entries[i]);
    replace_volatile(host, std::move(next));
    return {};
  }

  /// Half as many entries, if no segment needs more. Looks from hash `start` on, where one has just
  /// ceased to.
  template <class Host>
  void halve_directory(Host& host, std::uint64_t start) {
    exec::ExclusiveHold const held(host, directory_lock_);
    std::uint64_t const root = host.load(&root_->directory);
    auto const depth = static_cast<std::uint32_t>(root >> 56);
    std::uint64_t const* const old = entries_at(Offset{root & kPlace});
    if (depth == 1) return;
    std::uint64_t const last = (std::uint64_t{1} << depth) - 1;
    for (std::uint64_t n = 0, i = start >> (64 - depth) & ~std::uint64_t{1}; n <= last;
         n += 2, i = (i + 2) & last) {
      std::uint64_t const place = host.load(old + i);
      // Entries that a crash left behind may agree though there are two segments.
      if (place != host.load(old + i + 1) || !blocks_.is_block(Offset{place})) return;
      std::uint64_t const& extent = segment_at(place).header->extent;
      bool const two = Extent{host.load(&extent)}.depth() >= depth;
      if (two && !mutated("dash_halving_trusts_entries")) return;
      // Who merged it may not have come to that; ordered before the switch.
      if (!mutated("dash_halving_not_flushed")) host.flush(&extent, sizeof extent);
    }
    auto next = std::make_unique<Directory>(depth - 1);
    if (!switch_directory(host, depth - 1, [&](std::uint64_t i) {
           return host.load(old + 2 * i);
         }).ok())
      return;
    Directory const& now = directory(host);
    PERDURE_ASSERT(now.size() == 2 * next->size());
    for (std::size_t i = 0; i < next->size(); ++i) next->entries[i] = agreed(host, now, 2 * i);
    replace_volatile(host, std::move(next));
  }
  /// Two entries that become one lead to one segment, or are not looked up yet.
  template <class Host>
  static std::uint64_t agreed(Host& host, Directory const& directory, std::size_t i) {
    std::uint64_t const left = host.load(&directory.entries[i]),
                        right = host.load(&directory.entries[i + 1]);
    return left == right ? left : 0;
  }

  /// Entries of the hashes from `start` on that `depth` bits tell apart, or, beyond them, those
  /// that still lead to `instead_of`, lead to `place` from now on.
  template <class Host>
  void turn_entries(Host& host, std::uint64_t start, std::uint32_t depth, std::uint64_t place,
                    std::uint64_t instead_of) {
    exec::SharedHold const held(
        host, directory_lock_);  // a split has it already: who waits to be alone keeps nobody out
    std::uint64_t const root = host.load(&root_->directory);
    auto const all = static_cast<std::uint32_t>(root >> 56);
    std::uint64_t* const entries = entries_at(Offset{root & kPlace});
    PERDURE_ASSERT((depth > 0 && depth <= all) || mutated("dash_halving_beside_split"));
    std::uint64_t const first = start >> (64 - all), n = std::uint64_t{1} << (all - depth);
    std::uint64_t end = first;
    for (; end < std::uint64_t{1} << all; ++end) {
      if (end >= first + n && host.load(entries + end) != instead_of) break;
      host.store(entries + end, place);
    }
    host.persist(entries + first, (end - first) * 8);
    Directory& now = directory(host);
    for (std::uint64_t i = first; i < first + n; ++i) host.store(&now.entries[i], place);
  }

  std::uint64_t volatile_ = 0;  // a Directory, shared: read and replaced through the Host
  std::unique_ptr<Directory> owned_;  // the same
  exec::ReaderWriterLock directory_lock_{
      exec::Newcomers::enter};  // shared by who reads or changes entries on PM, alone by who
                                // replaces the directory
};

}  // namespace perdure::dash
