#include "pm/heap.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/assert.hpp"
#include "base/crc32c.hpp"
#include "base/hooks.hpp"
#include "base/prefetch.hpp"
#include "pm/host_verbs.hpp"

namespace perdure::pm {

std::uint64_t stride_for(std::uint64_t bytes) {
  std::uint64_t const step = std::max(kRecordAlign, std::bit_floor(bytes) / 8);
  std::uint64_t const stride = (bytes + step - 1) / step * step;
  PERDURE_ASSERT(stride >= bytes && stride % kStrideAlign == 0);
  return stride;
}

RecordHeap::Superblock& RecordHeap::attach(std::uint64_t index, std::uint64_t stride) {
  PERDURE_ASSERT(index > 0 && index < pool_->superblocks());
  PERDURE_ASSERT(stride > 0 && stride % kStrideAlign == 0 && shape_.capacity(stride) > 0);
  if (superblocks_.size() < pool_->superblocks()) superblocks_.resize(pool_->superblocks());
  Superblock fresh;  // whole before it counts: there may be no memory for its bitmap
  fresh.stride = stride;
  fresh.capacity = shape_.capacity(stride);
  make_bitmap(fresh);
  fresh.listed = superblocks_[index].listed;
  fresh.led_into = superblocks_[index].led_into;
  fresh.unswept = superblocks_[index].unswept;
  return superblocks_[index] = std::move(fresh);
}

void RecordHeap::make_bitmap(Superblock& s) const {
  PERDURE_ASSERT(s.capacity > 0 && s.capacity == shape_.capacity(s.stride));
  s.bitmap.assign((s.capacity + 63) / 64, 0);
  if (s.capacity % 64 != 0)
    s.bitmap.back() = ~std::uint64_t{0} << (s.capacity % 64);  // past the end: never free
}

template <class F>
void RecordHeap::for_each_found(F f) {
  superblocks_.resize(pool_->superblocks());
  for (std::uint64_t i = 1; i < pool_->superblocks(); ++i) {
    Offset const at{i * pool_->superblock_bytes()};
    SuperblockHeader header;
    read_bytes(&header, pool_->base() + at.bytes, sizeof header);
    if (is_ours(header) && pool_->is_free(at)) f(i, header.record_bytes);
  }
}

bool RecordHeap::is_ours(SuperblockHeader const& header) const {
  return header.magic == kSuperblockMagic && header.pool_id == pool_->header().pool_id &&
         header.crc == crc32c(0, &header, offsetof(SuperblockHeader, crc)) &&
         header.record_bytes % kStrideAlign == 0 && header.record_bytes > 0 &&
         header.record_bytes <= pool_->superblock_bytes() - kFirstRecord &&
         (!shape_.split() || header.record_bytes == shape_.split_stride());
}

void RecordHeap::forget() {
  for (std::uint64_t i = 1; i < superblocks_.size(); ++i)
    if (superblocks_[i].stride != 0 || superblocks_[i].kept)
      pool_->give_run(Offset{i * pool_->superblock_bytes()}, 1);
  superblocks_.clear();
  open_.clear();
  empty_ = 0;
}

std::vector<RecordHeap::Mend> RecordHeap::damaged_headers() const {
  std::vector<Mend> found;
  for (std::uint64_t i = 1; i < pool_->superblocks(); ++i) {
    Offset const at{i * pool_->superblock_bytes()};
    SuperblockHeader header;
    read_bytes(&header, pool_->base() + at.bytes, sizeof header);
    int wrong = std::popcount(header.magic ^ kSuperblockMagic);
    for (std::size_t b = 0; b < header.pool_id.size(); ++b)
      wrong +=
          std::popcount(static_cast<std::uint8_t>(header.pool_id[b] ^ pool_->header().pool_id[b]));
    if (wrong > 2 || is_ours(header) || !pool_->is_free(at)) continue;
    auto* const bytes = reinterpret_cast<std::uint8_t*>(&header);
    auto const flip = [&](std::uint32_t bit) {
      bytes[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
    };
    bool whole = false;
    for (std::uint32_t a = 0; a < sizeof header * 8 && !whole; ++a) {
      flip(a);
      whole = is_ours(header);
      for (std::uint32_t b = a + 1; b < sizeof header * 8 && !whole; ++b) {
        flip(b);
        whole = is_ours(header);
        if (!whole) flip(b);
      }
      if (!whole) flip(a);
    }
    if (whole) found.push_back({at, header});
  }
  return found;
}

void RecordHeap::mend(std::vector<Mend> const& headers) {
  for (Mend const& one : headers) {
    PERDURE_ASSERT(one.at.bytes > 0 && one.at.bytes % pool_->superblock_bytes() == 0);
    PERDURE_ASSERT(is_ours(one.header) && pool_->is_free(one.at));
    write_bytes(pool_->base() + one.at.bytes, &one.header, sizeof one.header);
  }
  order();
}

void RecordHeap::find_superblocks() {
  for_each_found([&](std::uint64_t i, std::uint64_t stride) { attach(i, stride); });
}

void RecordHeap::claim_superblocks() {
  for_each_found([&](std::uint64_t i, std::uint64_t stride) {
    Superblock& s = superblocks_[i];
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
  keep_damaged();
}

void RecordHeap::keep_damaged() {
  for (std::uint64_t i = 1; i < pool_->superblocks(); ++i) {
    Offset const at{i * pool_->superblock_bytes()};
    if (!pool_->is_free(at)) continue;
    SuperblockHeader header;
    read_bytes(&header, pool_->base() + at.bytes, sizeof header);
    if (header.magic == kSuperblockMagic || header.pool_id == pool_->header().pool_id)
      pool_->claim_run(at, 1);
  }
}

void RecordHeap::begin_sweep() {
  for (Superblock& s : superblocks_)
    if (s.unswept) s.bitmap.clear();  // made when something in it is reached, for there may be many
}

void RecordHeap::mark_reached(Offset record) {
  std::uint64_t const index = record.bytes / pool_->superblock_bytes();
  if (index >= superblocks_.size()) return;
  Superblock& s = superblocks_[index];
  if (s.unswept && s.bitmap.empty()) make_bitmap(s);
  if (s.unswept || s.stride == 0) mark(bit_to_mark(record));
}

void RecordHeap::finish_sweep() {
  for (Superblock& s : superblocks_)
    if (s.unswept && s.bitmap.empty()) make_bitmap(s);
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
    Superblock& s = superblocks_[i];
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
  Superblock& s = superblocks_[index];
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
  Superblock& s = superblocks_[i];
  Offset const at{i * pool_->superblock_bytes()};
  // Its header is damaged, its records perhaps not: nothing may overwrite them.
  if (s.stride == 0 && s.led_into != 0 && pool_->is_free(at)) {
    pool_->claim_run(at, 1);
    s.kept = true;
  }
  if (s.stride == 0) return;
  PERDURE_ASSERT(!s.unswept && s.bitmap.size() == (s.capacity + 63) / 64);
  std::uint64_t set = 0;
  for (std::uint64_t const word : s.bitmap) set += static_cast<std::uint64_t>(std::popcount(word));
  std::uint64_t const beyond = s.bitmap.size() * 64 - s.capacity;
  PERDURE_ASSERT(set >= beyond);  // places past the end are marked from the start
  s.used = set - beyond;
  PERDURE_ASSERT(s.used <= s.capacity);
  if (s.used == 0) {
    s.stride = 0;  // empty: free for any use; its header is stale and harmless
    s.bitmap.clear();
    return;
  }
  if (!mutated("recovery_forgets_superblocks")) pool_->claim_run(at, 1);
  if (s.used < s.capacity) list(i);
}

void RecordHeap::list(std::uint64_t index) {
  Superblock& s = superblocks_[index];
  PERDURE_ASSERT(s.stride != 0 && s.used < s.capacity);
  if (s.listed) return;
  PERDURE_ASSERT(!s.kept && !s.unswept);
  open_[s.stride].push_back(static_cast<std::uint32_t>(index));
  s.listed = true;
}

void RecordHeap::give_back_empty() {
  for (std::uint64_t i = 1; i < superblocks_.size() && empty_ > 0; ++i) {
    Superblock& s = superblocks_[i];
    if (s.stride == 0 || s.used > 0) continue;
    std::erase(open_[s.stride], static_cast<std::uint32_t>(i));
    s = Superblock{};
    --empty_;
    pool_->give_run(Offset{i * pool_->superblock_bytes()}, 1);
  }
}

Status RecordHeap::add_superblock(std::uint64_t stride) {
  give_back_empty();
  return take_superblock(stride);
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
  // Reached only through words published after the batch's first ordering point, which orders this
  // too.
  SuperblockHeader header{};
  header.magic = kSuperblockMagic;
  header.record_bytes = static_cast<std::uint32_t>(stride);
  header.pool_id = pool_->header().pool_id;
  header.crc = crc32c(0, &header, offsetof(SuperblockHeader, crc));
  if (!mutated("superblock_header_missing"))
    write_bytes(pool_->base() + run->bytes, &header, sizeof header);
  std::uint64_t const index = run->bytes / pool_->superblock_bytes();
  PERDURE_ASSERT(run->bytes % pool_->superblock_bytes() == 0);
  PERDURE_ASSERT(index >= superblocks_.size() || superblocks_[index].stride == 0);
  attach(index, stride);
  ++empty_;
  list(index);
  return {};
}

std::uint64_t RecordHeap::take_from(std::uint64_t index, std::uint64_t n, std::uint64_t* out) {
  PERDURE_ASSERT(index > 0 && index < superblocks_.size() && n > 0);
  Superblock& s = superblocks_[index];
  std::uint64_t const base = index * pool_->superblock_bytes();
  std::uint64_t taken = 0;
  for (; taken < n && s.hint < s.bitmap.size(); ++s.hint) {
    std::uint64_t& word = s.bitmap[s.hint];
    std::uint64_t free = ~word;
    for (; free != 0 && taken < n; free &= free - 1) {
      out[taken++] =
          base +
          shape_.place(s.stride, s.hint * 64 + static_cast<std::uint64_t>(std::countr_zero(free)));
    }
    if (!mutated("record_handed_out_twice")) word = ~free;
    if (free != 0) break;
  }
  PERDURE_ASSERT(taken <= n);
  PERDURE_ASSERT(taken == 0 || s.used > 0 || empty_ > 0);
  if (s.used == 0 && taken > 0) --empty_;
  s.used += taken;
  PERDURE_ASSERT(s.used <= s.capacity);
  return taken;
}

Status RecordHeap::reserve(std::uint64_t stride, std::uint64_t n, std::uint64_t* out) {
  PERDURE_ASSERT(stride > 0 && stride % kStrideAlign == 0);
  PERDURE_ASSERT(!shape_.split() || stride == shape_.split_stride());
  Open& open = open_[stride];
  std::uint64_t taken = 0;
  while (taken < n) {
    if (open.empty()) {
      if (Status s = add_superblock(stride); !s.ok()) {
        for (std::uint64_t i = 0; i < taken; ++i) release(Offset{out[i]});
        return s;
      }
    }
    std::uint64_t const index = open.back();
    PERDURE_ASSERT(superblocks_[index].listed && superblocks_[index].stride == stride &&
                   !superblocks_[index].unswept);
    taken += take_from(index, n - taken, out + taken);
    if (superblocks_[index].used == superblocks_[index].capacity) {
      superblocks_[index].listed = false;
      open.pop_back();
    }
  }
  PERDURE_ASSERT(taken == n);
  return {};
}

void RecordHeap::release(Offset record) {
  std::uint64_t i = 0;
  std::uint64_t const index = record.bytes / pool_->superblock_bytes();
  if (index < superblocks_.size() && superblocks_[index].unswept)
    return released_unswept_.push_back(record);
  // What a damaged pool's slots lead to need not be a record of ours.
  if (!index_of(record, i) || (superblocks_[index].bitmap[i / 64] >> (i % 64) & 1) == 0) return;
  Superblock& s = superblocks_[index];
  s.bitmap[i / 64] &= ~(std::uint64_t{1} << (i % 64));
  s.hint = std::min(s.hint, i / 64);
  PERDURE_ASSERT(s.stride != 0 && s.used > 0);
  if (--s.used == 0) ++empty_;
  list(index);
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
// Lending. A superblock that is lent counts as in use, so that it is never given back to the pool.

RecordHeap::Loan RecordHeap::lend(std::uint64_t stride) {
  if (superblocks_.size() < pool_->superblocks()) superblocks_.resize(pool_->superblocks());
  Loan loan;
  loan.shape = shape_;
  loan.stride = stride;
  loan.capacity = shape_.capacity(stride);
  loan.words_each = (loan.capacity + 63) / 64 * 2;
  loan.bits.assign(superblocks_.size() * loan.words_each, ~0u);
  loan.lent.assign(superblocks_.size(), 0);
  for (std::size_t i = 1; i < superblocks_.size(); ++i) {
    Superblock& s = superblocks_[i];
    if (s.stride != stride) continue;
    PERDURE_ASSERT(s.used > 0 || empty_ > 0);
    PERDURE_ASSERT(s.bitmap.size() * 2 <= loan.words_each && !s.unswept);
    std::memcpy(loan.bits.data() + i * loan.words_each, s.bitmap.data(),
                s.bitmap.size() * sizeof(std::uint64_t));
    loan.lent[i] = 1;
    if (s.used == 0) --empty_;
    s.used = s.capacity;
    s.listed = false;
  }
  open_[stride].clear();
  PERDURE_ASSERT(loan.bits.size() == loan.lent.size() * loan.words_each);
  return loan;
}

void RecordHeap::take_back(Loan const& loan) {
  PERDURE_ASSERT(loan.lent.size() <= superblocks_.size());
  PERDURE_ASSERT(loan.stride != 0 && loan.capacity == shape_.capacity(loan.stride));
  for (std::size_t i = 1; i < loan.lent.size(); ++i) {
    if (loan.lent[i] == 0) continue;
    Superblock& s = superblocks_[i];
    PERDURE_ASSERT(s.stride == loan.stride && s.capacity == loan.capacity && s.used == s.capacity);
    std::memcpy(s.bitmap.data(), loan.bits.data() + i * loan.words_each,
                s.bitmap.size() * sizeof(std::uint64_t));
    std::uint64_t set = 0;
    for (std::uint64_t const word : s.bitmap)
      set += static_cast<std::uint64_t>(std::popcount(word));
    PERDURE_ASSERT(set >= s.bitmap.size() * 64 - s.capacity);
    s.used = set - (s.bitmap.size() * 64 - s.capacity);
    PERDURE_ASSERT(s.used <= s.capacity);
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
