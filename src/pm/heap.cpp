#include "pm/heap.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "base/prefetch.hpp"
#include "pm/sequenced_record.hpp"

namespace perdure::pm {

std::uint64_t stride_for(std::uint64_t bytes) {
  std::uint64_t const step = std::max(kRecordAlign, std::bit_floor(bytes) / 8);
  std::uint64_t const stride = (bytes + step - 1) / step * step;
  PERDURE_ASSERT(stride >= bytes && stride % kStrideAlign == 0);
  return stride;
}

SuperblockMap& RecordHeap::attach(std::uint64_t index, std::uint64_t stride) {
  PERDURE_ASSERT(index > 0 && index < pool_->superblocks());
  PERDURE_ASSERT(stride > 0 && stride % kStrideAlign == 0 && shape_.capacity(stride) > 0);
  if (superblocks_.size() < pool_->superblocks()) superblocks_.resize(pool_->superblocks());
  SuperblockMap fresh;  // whole before it counts: there may be no memory for its bitmap
  fresh.stride = stride;
  fresh.capacity = shape_.capacity(stride);
  fresh.make_bitmap(shape_);
  fresh.listed = superblocks_[index].listed;
  fresh.led_into = superblocks_[index].led_into;
  fresh.unswept = superblocks_[index].unswept;
  fresh.changed = superblocks_[index].changed;
  return superblocks_[index] = std::move(fresh);
}

void RecordHeap::forget() {
  for (std::uint64_t i = 1; i < superblocks_.size(); ++i)
    if (superblocks_[i].stride != 0 || superblocks_[i].kept)
      pool_->give_run(Offset{i * pool_->superblock_bytes()}, 1);
  superblocks_.clear();
  open_.clear();
  changed_.clear();
  held_.clear();
  hold_from_ = kHoldsNothing;
  empty_ = 0;
}

void RecordHeap::load_superblocks() {
  PERDURE_ASSERT(shape_.maps);
  superblocks_.resize(pool_->superblocks());
  headers_.for_each_found([&](std::uint64_t i, std::uint64_t stride) {
    std::byte const* const map =
        pool_->base() + i * pool_->superblock_bytes() + shape_.map_address(stride);
    attach(i, stride).load_bitmap(shape_, map);
  });
  finish_recovery();
  headers_.keep_damaged();
}

void RecordHeap::maps_written() {
  for (std::uint32_t const index : changed_) {
    SuperblockMap& s = superblocks_[index];
    s.changed = false;
    std::ranges::fill(s.changed_lines, 0);
  }
  changed_.clear();
}

void RecordHeap::find_superblocks() {
  superblocks_.resize(pool_->superblocks());
  headers_.for_each_found([&](std::uint64_t i, std::uint64_t stride) { attach(i, stride); });
}

void RecordHeap::claim_superblocks() {
  superblocks_.resize(pool_->superblocks());
  headers_.for_each_found([&](std::uint64_t i, std::uint64_t stride) {
    SuperblockMap& s = superblocks_[i];
    PERDURE_ASSERT(s.stride == 0 && !s.unswept && s.used == 0);  // nobody has it yet
    s.stride = stride;
    s.capacity = shape_.capacity(stride);
    s.used = s.capacity;
    s.unswept = true;
    pool_->claim_run(Offset{i * pool_->superblock_bytes()}, 1);
    if (mutated("unswept_handed_out")) {
      s.unswept = false;
      attach(i, stride);
      list(i);
    }
  });
  headers_.keep_damaged();
}

void RecordHeap::begin_sweep() {
  for (SuperblockMap& s : superblocks_)
    if (s.unswept) s.bitmap.clear();  // made when something in it is reached, for there may be many
}

void RecordHeap::mark_reached(Offset record) {
  std::uint64_t const index = record.bytes / pool_->superblock_bytes();
  if (index >= superblocks_.size()) return;
  SuperblockMap& s = superblocks_[index];
  if (s.unswept && s.bitmap.empty()) s.make_bitmap(shape_);
  if (s.unswept || s.stride == 0) mark(bit_to_mark(record));
}

void RecordHeap::finish_sweep() {
  for (SuperblockMap& s : superblocks_)
    if (s.unswept && s.bitmap.empty()) s.make_bitmap(shape_);
  for (Offset const record : released_unswept_) {
    PERDURE_ASSERT(record.bytes / pool_->superblock_bytes() < superblocks_.size());
    PERDURE_ASSERT(superblocks_[record.bytes / pool_->superblock_bytes()].unswept);
    std::uint64_t i = 0;
    if (index_of(record, i) && !mutated("sweep_forgets_released"))
      superblocks_[record.bytes / pool_->superblock_bytes()].bitmap[i / 64] &=
          ~(std::uint64_t{1} << (i % 64));
  }
  released_unswept_.clear();
  for (std::uint64_t i = 1; i < superblocks_.size(); ++i) {
    SuperblockMap& s = superblocks_[i];
    if (s.stride != 0 && !s.unswept && mutated("sweep_frees_new_records")) attach(i, s.stride);
    if (s.stride != 0 && !s.unswept) continue;
    bool const claimed = s.unswept;
    s.unswept = false;
    complete(i);
    if (claimed && s.stride == 0) pool_->give_run(Offset{i * pool_->superblock_bytes()}, 1);
  }
}

void RecordHeap::guard_superblocks(bool on) {
  if (on) find_superblocks();
  for (std::uint64_t i = 1; i < superblocks_.size(); ++i) {
    if (superblocks_[i].stride == 0) continue;
    Offset const at{i * pool_->superblock_bytes()};
    on ? pool_->claim_run(at, 1) : pool_->give_run(at, 1);
  }
  if (!on) superblocks_.clear();
}

RecordHeap::MarkBit RecordHeap::bit_to_mark(Offset record) {
  std::uint64_t const index = record.bytes / pool_->superblock_bytes();
  if (index >= superblocks_.size()) return {};
  SuperblockMap& s = superblocks_[index];
  if (s.stride == 0) __atomic_store_n(&s.led_into, 1, __ATOMIC_RELAXED);
  std::uint64_t i = 0;
  if (!index_of(record, i)) return {};
  PERDURE_ASSERT(!kCostlyAssertions || i / 64 < s.bitmap.size());
  MarkBit const address{&s.bitmap[i / 64], std::uint64_t{1} << (i % 64)};
  prefetch_line(address.word);
  return address;
}

RecordHeap::Mark RecordHeap::mark(MarkBit address) {
  if (address.word == nullptr) return Mark::invalid;
  return (__atomic_fetch_or(address.word, address.bit, __ATOMIC_RELAXED) & address.bit) != 0
             ? Mark::again
             : Mark::first;
}

void RecordHeap::finish_recovery() {
  for (std::uint64_t i = 1; i < superblocks_.size(); ++i) complete(i);
}

/// Counts what is marked of a superblock; an empty one is none of the heap's any more.
void RecordHeap::complete(std::uint64_t i) {
  PERDURE_ASSERT(i > 0 && i < superblocks_.size());  // the first one is the pool's head
  SuperblockMap& s = superblocks_[i];
  Offset const at{i * pool_->superblock_bytes()};
  // Its header is damaged, its records perhaps not: nothing may overwrite them.
  if (s.stride == 0 && s.led_into != 0 && pool_->is_free(at)) {
    pool_->claim_run(at, 1);
    s.kept = true;
  }
  if (s.stride == 0) return;
  PERDURE_ASSERT(!s.unswept && s.bitmap.size() == s.words(shape_));
  s.count_used();
  if (s.used == 0) {
    s.stride = 0;  // empty: free for any use; its header is stale and harmless
    s.bitmap.clear();
    return;
  }
  if (!mutated("recovery_forgets_superblocks")) pool_->claim_run(at, 1);
  if (s.used < s.capacity) list(i);
}

void RecordHeap::list(std::uint64_t index) {
  SuperblockMap& s = superblocks_[index];
  PERDURE_ASSERT(s.stride != 0 && s.used < s.capacity);
  if (s.listed) return;
  PERDURE_ASSERT(!s.kept && !s.unswept);
  auto const listed = static_cast<std::uint32_t>(index);
  Open& open = open_[s.stride];
  // Where a commit writes the lines of maps that changed, records come from one superblock until
  // it is full: else each would come from where one was given back, and change a line of its own.
  shape_.maps ? open.push_front(listed) : open.push_back(listed);
  s.listed = true;
}

void RecordHeap::give_back_empty() {
  for (std::uint64_t i = 1; i < superblocks_.size() && empty_ > 0; ++i) {
    SuperblockMap& s = superblocks_[i];
    if (s.stride == 0 || s.used > 0) continue;
    std::erase(open_[s.stride], static_cast<std::uint32_t>(i));
    bool const changed = s.changed;  // it stands in that list
    s = SuperblockMap{};
    s.changed = changed;
    --empty_;
    pool_->give_run(Offset{i * pool_->superblock_bytes()}, 1);
  }
}

Status RecordHeap::add_superblocks(std::uint64_t stride, std::uint64_t n, std::uint64_t more) {
  give_back_empty();
  for (std::uint64_t i = 0; i < n + more; ++i) {
    if (i >= n && pool_->superblocks_in_use() == pool_->superblocks()) break;
    if (Status s = take_superblock(stride); !s.ok()) return s;
  }
  return {};
}

Status RecordHeap::take_superblock(std::uint64_t stride) {
  auto run = pool_->take_run(1);
  if (!run) return run.status();
  if (shape_.maps)
    write_empty_map(run->bytes, stride);
  else if (pool_->header().records_alone() && !mutated("btree_stale_records_kept"))
    free_all_records(pool_->base() + run->bytes, shape_, stride);
  // Reached only through words published after the batch's first ordering point, which orders this
  // too.
  headers_.write(*run, stride);
  std::uint64_t const index = run->bytes / pool_->superblock_bytes();
  PERDURE_ASSERT(run->bytes % pool_->superblock_bytes() == 0);
  PERDURE_ASSERT(index >= superblocks_.size() || superblocks_[index].stride == 0);
  attach(index, stride);
  ++empty_;
  list(index);
  return {};
}

/// Ordered before the header, so that no superblock of the heap has a map of another stride.
void RecordHeap::write_empty_map(std::uint64_t superblock, std::uint64_t stride) const {
  SuperblockMap empty;
  empty.stride = stride;
  empty.capacity = shape_.capacity(stride);
  empty.make_bitmap(shape_);
  write_bytes(pool_->base() + superblock + shape_.map_address(stride),
              reinterpret_cast<std::byte const*>(empty.bitmap.data()),
              empty.bitmap.size() * sizeof empty.bitmap[0]);
  order();
}

Status RecordHeap::reserve(std::uint64_t stride, std::uint64_t n, std::uint64_t* out) {
  PERDURE_ASSERT(stride > 0 && stride % kStrideAlign == 0);
  PERDURE_ASSERT(!shape_.split() || stride == shape_.split_stride());
  Open& open = open_[stride];
  std::uint64_t taken = 0;
  while (taken < n) {
    if (open.empty()) {
      if (Status s = add_superblocks(stride, 1, 0); !s.ok()) {
        for (std::uint64_t i = 0; i < taken; ++i) free(Offset{out[i]});
        return s;
      }
    }
    std::uint64_t const index = open.back();
    PERDURE_ASSERT(index > 0 && index < superblocks_.size());
    SuperblockMap& s = superblocks_[index];
    PERDURE_ASSERT(s.listed && s.stride == stride && !s.unswept);
    bool const was_empty = s.used == 0;
    note_changed(index, s);
    taken += s.take(shape_, index * pool_->superblock_bytes(), n - taken, out + taken);
    PERDURE_ASSERT(!was_empty || s.used == 0 || empty_ > 0);
    if (was_empty && s.used > 0) --empty_;
    if (s.used == s.capacity) {
      s.listed = false;
      open.pop_back();
    }
  }
  PERDURE_ASSERT(taken == n);
  return {};
}

void RecordHeap::release(Offset record) {
  std::uint64_t const index = record.bytes / pool_->superblock_bytes();
  if (index < hold_from_) return free(record);
  if (!mutated("released_while_copied")) return held_[index].push_back(record);
  free(record);
}

void RecordHeap::hold_from(std::uint64_t first) {
  hold_from_ = first;
  while (!held_.empty() && held_.begin()->first < first) {
    auto const passed = held_.extract(held_.begin());
    for (Offset const record : passed.mapped()) free(record);
  }
}

void RecordHeap::free(Offset record) {
  std::uint64_t i = 0;
  std::uint64_t const index = record.bytes / pool_->superblock_bytes();
  if (index < superblocks_.size() && superblocks_[index].unswept)
    return released_unswept_.push_back(record);
  // What a damaged pool's slots lead to need not be a record of ours.
  if (!index_of(record, i) || (superblocks_[index].bitmap[i / 64] >> (i % 64) & 1) == 0) return;
  SuperblockMap& s = superblocks_[index];
  s.bitmap[i / 64] &= ~(std::uint64_t{1} << (i % 64));
  s.hint = std::min(s.hint, i / 64);
  note_changed(index, s);
  s.note_changed(i / 64);
  PERDURE_ASSERT(s.stride != 0 && s.used > 0);
  if (--s.used == 0) ++empty_;
  list(index);
}

void RecordHeap::take_back(Offset record) {
  std::uint64_t i = 0;
  bool const is_free = index_of(record, i) && !in_use(record);
  PERDURE_ASSERT(is_free);
  std::uint64_t const index = record.bytes / pool_->superblock_bytes();
  SuperblockMap& s = superblocks_[index];
  s.bitmap[i / 64] |= std::uint64_t{1} << (i % 64);
  note_changed(index, s);
  s.note_changed(i / 64);
  if (s.used++ == 0) --empty_;
}

/// Its superblock has been given up if no slot leads there. The header is still what it was.
bool RecordHeap::keep_unreached(Offset record) {
  std::uint64_t const index = record.bytes / pool_->superblock_bytes();
  std::uint64_t const given_up = room(record) == 0 ? headers_.room(record) : 0;
  if (given_up != 0) {
    pool_->claim_run(Offset{index * pool_->superblock_bytes()}, 1);
    attach(index, given_up);
    ++empty_;
    list(index);
  }
  if (!is_record(record) || in_use(record)) return false;
  take_back(record);
  return true;
}

std::vector<RecordHeap::Superblock> RecordHeap::superblocks() const {
  std::vector<Superblock> all;
  for (std::uint64_t i = 1; i < superblocks_.size(); ++i)
    if (superblocks_[i].stride != 0)
      all.push_back({i * pool_->superblock_bytes(), superblocks_[i].stride});
  return all;
}

std::uint64_t RecordHeap::room(Offset record) const {
  std::uint64_t const index = record.bytes / pool_->superblock_bytes();
  return index < superblocks_.size() ? superblocks_[index].stride : 0;
}

bool RecordHeap::in_use(Offset record) const {
  std::uint64_t i = 0;
  if (!index_of(record, i)) return false;
  if (superblocks_[record.bytes / pool_->superblock_bytes()].unswept) return true;
  return (superblocks_[record.bytes / pool_->superblock_bytes()].bitmap[i / 64] >> (i % 64) & 1) !=
         0;
}

bool RecordHeap::is_record(Offset at) const {
  std::uint64_t i = 0;
  return index_of(at, i);
}

/// Which record of its superblock that is; false: it is none of ours.
bool RecordHeap::index_of(Offset record, std::uint64_t& i) const {
  std::uint64_t const index = record.bytes / pool_->superblock_bytes();
  if (index >= superblocks_.size() || superblocks_[index].stride == 0) return false;
  return shape_.index(superblocks_[index].stride, record.bytes % pool_->superblock_bytes(), i);
}

// ------------------------------------------------------------------------------------------------
// Leases. A superblock that is leased counts as in use, so that it is never given back to the pool.

RecordHeap::Lease RecordHeap::empty_lease(std::uint64_t stride) const {
  Lease lease;
  lease.shape = shape_;
  lease.stride = stride;
  lease.capacity = shape_.capacity(stride);
  lease.words_each = (lease.capacity + 63) / 64 * 2;
  lease.bits.assign(superblocks_.size() * lease.words_each, ~0u);
  lease.leased.assign(superblocks_.size(), 0);
  return lease;
}

void RecordHeap::copy_bitmap(Lease& lease, std::size_t superblock) const {
  SuperblockMap const& s = superblocks_[superblock];
  PERDURE_ASSERT(s.bitmap.size() * 2 <= lease.words_each && !s.unswept);
  std::memcpy(lease.bits.data() + superblock * lease.words_each, s.bitmap.data(),
              s.bitmap.size() * sizeof(std::uint64_t));
  lease.leased[superblock] = 1;
}

RecordHeap::Lease RecordHeap::maps_to_mark(std::uint64_t stride) const {
  Lease maps = empty_lease(stride);
  for (std::size_t i = 1; i < superblocks_.size(); ++i)
    if (superblocks_[i].stride == stride) copy_bitmap(maps, i);
  return maps;
}

void RecordHeap::take_marks(Lease const& maps) {
  PERDURE_ASSERT(maps.leased.size() == superblocks_.size());
  for (std::size_t i = 1; i < maps.leased.size(); ++i) {
    if (maps.leased[i] == 0) continue;
    SuperblockMap& s = superblocks_[i];
    PERDURE_ASSERT(s.stride == maps.stride && s.used == 0);
    std::memcpy(s.bitmap.data(), maps.bits.data() + i * maps.words_each,
                s.bitmap.size() * sizeof(std::uint64_t));
  }
}

RecordHeap::Lease RecordHeap::lease_out(std::uint64_t stride) {
  if (superblocks_.size() < pool_->superblocks()) superblocks_.resize(pool_->superblocks());
  Lease lease = empty_lease(stride);
  for (std::size_t i = 1; i < superblocks_.size(); ++i) {
    SuperblockMap& s = superblocks_[i];
    if (s.stride != stride) continue;
    PERDURE_ASSERT(s.used > 0 || empty_ > 0);
    copy_bitmap(lease, i);
    if (s.used == 0) --empty_;
    s.used = s.capacity;
    s.listed = false;
  }
  open_[stride].clear();
  PERDURE_ASSERT(lease.bits.size() == lease.leased.size() * lease.words_each);
  return lease;
}

void RecordHeap::end_lease(Lease const& lease) {
  PERDURE_ASSERT(lease.leased.size() <= superblocks_.size());
  PERDURE_ASSERT(lease.stride != 0 && lease.capacity == shape_.capacity(lease.stride));
  for (std::size_t i = 1; i < lease.leased.size(); ++i) {
    if (lease.leased[i] == 0) continue;
    SuperblockMap& s = superblocks_[i];
    PERDURE_ASSERT(s.stride == lease.stride && s.capacity == lease.capacity &&
                   s.used == s.capacity);
    std::memcpy(s.bitmap.data(), lease.bits.data() + i * lease.words_each,
                s.bitmap.size() * sizeof(std::uint64_t));
    s.count_used();
    s.hint = 0;
    if (s.used == 0) ++empty_;
    if (s.used < s.capacity) list(i);
  }
}

std::uint64_t RecordHeap::records_in_use() const {
  std::uint64_t used = 0;
  for (auto const& s : superblocks_) used += s.used;
  return used;
}

}  // namespace perdure::pm
