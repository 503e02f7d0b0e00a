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
#include <vector>

#include "base/annotate.hpp"
#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "base/mutex.hpp"
#include "base/zero_words.hpp"
#include "exec/epochs.hpp"
#include "exec/reader_writer_lock.hpp"
#include "index/dash/damage.hpp"
#include "index/dash/table_core.hpp"
#include "pm/pool.hpp"

namespace perdure::dash {

/// The copy that threads read.
struct VolatileDirectory {
  explicit VolatileDirectory(std::uint32_t its_depth) : depth(its_depth), entries(size()) {
    PERDURE_ASSERT(its_depth > 0 && its_depth <= Extent::kMostDepth);
  }
  std::uint32_t depth;
  ZeroWords entries;  // places of segments; 0 = not looked up yet
  [[nodiscard]] std::size_t size() const { return std::size_t{1} << depth; }
  [[nodiscard]] std::uint64_t index(std::uint64_t hash) const { return hash >> (64 - depth); }
};

template <class Core>
class Directory {
 public:
  /// What it replaces goes by `epochs`.
  Directory(Core& core, exec::Epochs& epochs) : core_(core), epochs_(epochs) {}

  /// The one on PM. The caller shares the lock, or nobody else is there.
  struct Entries {
    std::uint32_t depth;
    std::uint64_t* at;
    [[nodiscard]] std::uint64_t size() const { return std::uint64_t{1} << depth; }
  };
  template <class Host>
  [[nodiscard]] Entries on_pm(Host& host) const {
    std::uint64_t const root = host.load(&core_.root->directory);
    return {static_cast<std::uint32_t>(root >> 56), entries_at(Offset{root & kPlace})};
  }
  template <class Host>
  PERDURE_HOT VolatileDirectory& now(Host& host) {
    return *reinterpret_cast<VolatileDirectory*>(host.load(&volatile_));
  }

  // --- Making and opening a table
  // -----------------------------------------------------------------------------------------------

  /// At open: where it lies is in use.
  template <class Host>
  Status claim(Host& host) {
    std::uint64_t const directory = host.load(&core_.root->directory);
    auto const depth = static_cast<std::uint32_t>(directory >> 56);
    if (depth == 0 || depth > Extent::kMostDepth || !claim_at(depth, Offset{directory & kPlace}))
      return {Code::corrupt, told("the index's directory, of ", depth, " bits, cannot lie at byte ",
                                  directory & kPlace)};
    return {};
  }
  /// Writes the first one. Answers the root's word for it, which the caller stores.
  template <class Host>
  Result<std::uint64_t> create(Host& host, std::uint32_t depth,
                               std::vector<Offset> const& segments) {
    PERDURE_ASSERT(segments.size() == std::size_t{1} << depth);
    auto address = address_for(depth);
    if (!address) return address.status();
    for (std::uint64_t i = 0; i < segments.size(); ++i)
      host.store(entries_at(*address) + i, segments[i].bytes);
    host.flush(entries_at(*address), segments.size() * 8);
    return std::uint64_t{depth} << 56 | address->bytes;
  }
  /// The volatile copy, empty.
  template <class Host>
  void begin(Host& host) {
    auto const depth = static_cast<std::uint32_t>(host.load(&core_.root->directory) >> 56);
    PERDURE_ASSERT(owned_ == nullptr);
    auto directory = std::make_unique<VolatileDirectory>(depth);
    host.store(&volatile_, reinterpret_cast<std::uint64_t>(directory.get()));
    owned_ = std::move(directory);
  }

  // --- Changing it
  // -----------------------------------------------------------------------------------------------

  /// Shared by who reads or changes entries on PM, alone by who replaces the directory.
  [[nodiscard]] exec::ReaderWriterLock& lock() { return directory_lock_; }

  /// Entries of the hashes from `start` on that `depth` bits tell apart, or, beyond them, those
  /// that still lead to `instead_of`, lead to `place` from now on.
  template <class Host>
  void turn_entries(Host& host, std::uint64_t start, std::uint32_t depth, std::uint64_t address,
                    std::uint64_t instead_of) {
    exec::SharedHold const held(
        host, directory_lock_);  // a split has it already: who waits to be alone keeps nobody out
    Entries const entries = on_pm(host);
    PERDURE_ASSERT((depth > 0 && depth <= entries.depth) || mutated("dash_halving_beside_split"));
    std::uint64_t const first = start >> (64 - entries.depth),
                        n = std::uint64_t{1} << (entries.depth - depth);
    std::uint64_t end = first;
    for (; end < entries.size(); ++end) {
      if (end >= first + n && host.load(entries.at + end) != instead_of) break;
      host.store(entries.at + end, address);
    }
    host.persist(entries.at + first, (end - first) * 8);
    VolatileDirectory& current = now(host);
    for (std::uint64_t i = first; i < first + n; ++i) host.store(&current.entries[i], address);
  }

  /// Twice as many entries, if there are still as many as `depth` says.
  template <class Host>
  Status double_from(Host& host, std::uint32_t depth) {
    exec::ExclusiveHold const held(host, directory_lock_);
    Entries const old = on_pm(host);
    if (old.depth != depth) return {};
    if (std::uint64_t const bytes = std::uint64_t{16} << depth;
        bytes > std::max(kSmallDirectory, pool_bytes() / 4))
      return {Code::no_space, "keys whose hashes are alike would take a directory of " +
                                  std::to_string(bytes) +
                                  " bytes, more than a quarter of the pool"};
    auto next = std::make_unique<VolatileDirectory>(
        depth + 1);  // before anything is changed: there may be no memory for it
    if (Status s =
            switch_to(host, depth + 1, [&](std::uint64_t i) { return host.load(old.at + i / 2); });
        !s.ok())
      return s;
    VolatileDirectory const& current = now(host);
    PERDURE_ASSERT(2 * current.size() == next->size());
    for (std::size_t i = 0; i < current.size(); ++i)
      next->entries[2 * i] = next->entries[2 * i + 1] = host.load(&current.entries[i]);
    replace_volatile(host, std::move(next));
    return {};
  }

  /// Half as many entries, if no segment needs more. Looks from hash `start` on, where one has just
  /// ceased to.
  template <class Host>
  void halve(Host& host, std::uint64_t start) {
    exec::ExclusiveHold const held(host, directory_lock_);
    Entries const old = on_pm(host);
    std::uint32_t const depth = old.depth;
    if (depth == 1) return;
    std::uint64_t const last = old.size() - 1;
    for (std::uint64_t n = 0, i = start >> (64 - depth) & ~std::uint64_t{1}; n <= last;
         n += 2, i = (i + 2) & last) {
      std::uint64_t const address = host.load(old.at + i);
      // Entries that a crash left behind may agree though there are two segments.
      if (address != host.load(old.at + i + 1) || !core_.blocks.is_block(Offset{address})) return;
      std::uint64_t const& extent = core_.segment_at(address).header->extent;
      bool const two = Extent{host.load(&extent)}.depth() >= depth;
      if (two && !mutated("dash_halving_trusts_entries")) return;
      // Who merged it may not have come to that; ordered before the switch.
      if (!mutated("dash_halving_not_flushed")) host.flush(&extent, sizeof extent);
    }
    auto next = std::make_unique<VolatileDirectory>(depth - 1);
    if (!switch_to(host, depth - 1, [&](std::uint64_t i) {
           return host.load(old.at + 2 * i);
         }).ok())
      return;
    VolatileDirectory const& current = now(host);
    PERDURE_ASSERT(current.size() == 2 * next->size());
    for (std::size_t i = 0; i < next->size(); ++i) next->entries[i] = agreed(host, current, 2 * i);
    replace_volatile(host, std::move(next));
  }

 private:
  static constexpr std::uint64_t kPlace = (std::uint64_t{1} << 56) - 1;
  // bytes; larger ones have to be worth it
  static constexpr std::uint64_t kSmallDirectory = 1u << 19;

  [[nodiscard]] std::uint64_t* entries_at(Offset address) const {
    return reinterpret_cast<std::uint64_t*>(core_.base + address.bytes);
  }
  /// Whether a directory may lie there; if so, and it has superblocks of its own, they are in use.
  bool claim_at(std::uint32_t depth, Offset address) {
    std::uint64_t const at = kDirectories + (std::uint64_t{8} << depth),
                        superblock = core_.pool->superblock_bytes();
    if (at + (std::uint64_t{8} << depth) <= superblock)
      return address.bytes == core_.address_of_root().bytes + at;
    MutexLock const lock(*core_.memory);
    if (!core_.pool->is_free_run(address, superblocks_of(depth))) return false;
    core_.pool->claim_run(address, superblocks_of(depth));
    return true;
  }
  Result<Offset> address_for(std::uint32_t depth) {
    PERDURE_ASSERT(depth > 0 && depth <= Extent::kMostDepth);
    std::uint64_t const at = kDirectories + (std::uint64_t{8} << depth);
    if (at + (std::uint64_t{8} << depth) <= core_.pool->superblock_bytes())
      return Offset{core_.address_of_root().bytes + at};
    MutexLock const lock(*core_.memory);
    return core_.pool->take_run(superblocks_of(depth));
  }
  [[nodiscard]] std::uint64_t pool_bytes() const {
    MutexLock const lock(*core_.memory);
    return core_.pool->bytes();
  }
  [[nodiscard]] std::uint64_t superblocks_of(std::uint32_t depth) const {
    return ((std::uint64_t{8} << depth) + core_.pool->superblock_bytes() - 1) /
           core_.pool->superblock_bytes();
  }
  /// Writes a directory of entries[i] = of(i) and makes it the one that counts; nobody reads the
  /// old one.
  template <class Host, class Of>
  Status switch_to(Host& host, std::uint32_t depth, Of of) {
    auto address = address_for(depth);
    if (!address) return address.status();
    PERDURE_ASSERT(address->bytes % 8 == 0);
    std::uint64_t* const entries = entries_at(*address);
    for (std::uint64_t i = 0; i < std::uint64_t{1} << depth; ++i) host.store(entries + i, of(i));
    host.flush(entries, std::uint64_t{8} << depth);
    if (!mutated("dash_directory_not_ordered")) host.fence();
    std::uint64_t const old = host.load(&core_.root->directory);
    host.store(&core_.root->directory, std::uint64_t{depth} << 56 | address->bytes);
    host.persist(&core_.root->directory, sizeof core_.root->directory);
    if (std::uint64_t const run = old & kPlace; run % core_.pool->superblock_bytes() == 0) {
      MutexLock const lock(*core_.memory);
      core_.pool->give_run(Offset{run}, superblocks_of(static_cast<std::uint32_t>(old >> 56)));
    }
    return {};
  }
  template <class Host>
  void replace_volatile(Host& host, std::unique_ptr<VolatileDirectory> next) {
    PERDURE_ASSERT(owned_ != nullptr && next != nullptr);
    host.store(&volatile_, reinterpret_cast<std::uint64_t>(next.get()));
    // Others may be reading it: where there is no memory to note that it is to go, it stays.
    VolatileDirectory* const old = owned_.release();
    owned_ = std::move(next);
    epochs_.retire([old] { delete old; });
  }
  /// Two entries that become one lead to one segment, or are not looked up yet.
  template <class Host>
  static std::uint64_t agreed(Host& host, VolatileDirectory const& directory, std::size_t i) {
    std::uint64_t const left = host.load(&directory.entries[i]),
                        right = host.load(&directory.entries[i + 1]);
    return left == right ? left : 0;
  }

  Core& core_;
  exec::Epochs& epochs_;
  std::uint64_t volatile_ = 0;  // a VolatileDirectory, shared: read and replaced through the Host
  std::unique_ptr<VolatileDirectory> owned_;  // the same
  exec::ReaderWriterLock directory_lock_{exec::Newcomers::enter};
};

}  // namespace perdure::dash
