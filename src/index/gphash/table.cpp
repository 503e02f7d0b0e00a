#include "index/gphash/table.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/crc32c.hpp"
#include "base/hooks.hpp"
#include "exec/bits.hpp"
#include "index/gphash/root_levels.hpp"
#include "pm/host_verbs.hpp"
#include "pm/record.hpp"

namespace perdure::gphash {

std::uint64_t slots_under(Shape shape, std::uint32_t top) {
  PERDURE_ASSERT(top + 1 >= shape.levels && top <= kMaxTop);  // each level has a bucket
  std::uint64_t buckets = 0;
  for (std::uint32_t i = 0; i < shape.levels; ++i) buckets += std::uint64_t{1} << (top - i);
  return buckets * shape.slots;
}

std::uint32_t top_level_for(Shape shape, std::uint64_t records, double load) {
  PERDURE_ASSERT(shape.levels > 0 && shape.slots > 0);
  std::uint32_t top = shape.levels - 1;
  while (top < kMaxTop &&
         static_cast<double>(slots_under(shape, top)) * load < static_cast<double>(records))
    ++top;
  return top;
}

std::uint64_t Table::run_of(std::uint32_t log2_buckets) const {
  PERDURE_ASSERT(log2_buckets <= kMaxTop);
  std::uint64_t const bytes = level_bytes(in_place_, view_.key_bytes, view_.slots, log2_buckets);
  return (bytes + pool_->superblock_bytes() - 1) / pool_->superblock_bytes();
}

std::uint64_t Table::usable_slots() const {
  std::uint64_t slots = 0;
  for (std::uint32_t i = 0; i < view_.levels; ++i)
    slots += in_place::level_slots(view_.level[i], view_.slots);
  return slots;
}

std::uint64_t Table::bytes() const {
  std::uint64_t superblocks = 0;
  for (std::uint32_t i = 0; i < view_.all_levels() && !logged_; ++i)
    superblocks += run_of(view_.level[i].log2_buckets);
  return superblocks * pool_->superblock_bytes();
}

void Table::renumber() {
  slots_ = 0;
  for (std::uint32_t i = 0; i < view_.all_levels(); ++i) {
    PERDURE_ASSERT(i == 0 || view_.level[i].log2_buckets < view_.level[i - 1].log2_buckets);
    view_.level[i].first_slot = slots_;
    // Whole claim words a level, so that a row's bits never straddle two.
    slots_ += (in_place::level_slots(view_.level[i], view_.slots) + 31) / 32 * 32;
  }
  std::uint32_t const lowest = view_.level[view_.all_levels() - 1].log2_buckets;
  view_.unit_bits = lowest - std::min(lowest, window_bits());
  view_.pool_bytes = pool_->bytes();
  PERDURE_ASSERT(slots_ % 32 == 0 && view_.unit_bits <= lowest);
}

Result<Level> Table::new_level(std::uint32_t log2_buckets, exec::Workers& workers) {
  if (log2_buckets > kMaxTop)
    return Status{Code::no_space, "the table cannot grow beyond 2^40 buckets a level"};
  if (logged_) return Level{Offset{}, 0, log2_buckets};
  heap_->give_back_empty();
  auto run = pool_->take_run(run_of(log2_buckets));
  if (!run) return run.status();
  // Zero is EMPTY in both layouts. publish_root orders this before the root that names the level.
  if (!mutated("level_not_zeroed")) {
    constexpr std::size_t kPiece = 1u << 20;
    std::byte* const base = pool_->base() + run->bytes;
    workers.for_chunks(
        level_bytes(in_place_, view_.key_bytes, view_.slots, log2_buckets), kPiece,
        [&](std::size_t begin, std::size_t end) { pm::zero_bytes(base + begin, end - begin); });
  }
  PERDURE_ASSERT(run->bytes % pool_->superblock_bytes() == 0);
  return Level{*run, 0, log2_buckets};
}

Status Table::create(std::uint32_t top_level, exec::Workers& workers) {
  PERDURE_ASSERT(top_level + 1 >= view_.levels && slots_ == 0);
  for (std::uint32_t i = 0; i < view_.levels; ++i) {
    auto level = new_level(top_level - i, workers);
    if (!level) return level.status();
    view_.level[i] = *level;
  }
  publish_levels({view_.level, view_.levels}, false);
  renumber();
  return {};
}

/// In place of those that the root names now.
void Table::publish_levels(std::span<Level const> levels, bool retires) {
  if (pool_->read_only()) {  // an opening puts entries into a table in memory
    PERDURE_ASSERT(logged_);
    return;
  }
  pm::Root root = pool_->root();  // taking their runs may have grown the file
  put_levels(root, levels, retires);
  pool_->publish_root(root);
}

/// Whether a level that the root names lies in the pool and on nothing else.
bool Table::may_hold(Level const& l) const {
  if (std::uint64_t{view_.slots} << l.log2_buckets > pool_->bytes() / 8)
    return false;  // so that run_of cannot wrap
  return pool_->is_free_run(l.base, run_of(l.log2_buckets));
}

Status Table::attach() {
  auto named = read_levels(pool_->root(), view_.levels);
  if (!named) return named.status();
  if (logged_) {  // to be filled: no level retires
    std::ranges::copy(std::span(named->levels).first(view_.levels), view_.level);
    retire(false);
    return {};
  }
  for (std::size_t i = 0; i < named->levels.size(); ++i) {
    Level const& level = named->levels[i];
    if (!may_hold(level)) {
      return {Code::corrupt,
              "the root names a level that cannot be there (size, place or overlap); restore it "
              "from a copy"};
    }
    pool_->claim_run(level.base, run_of(level.log2_buckets));
    view_.level[i] = level;
  }
  retire(named->retires);
  return {};
}

}  // namespace perdure::gphash
