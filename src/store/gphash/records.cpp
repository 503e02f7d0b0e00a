#include "store/gphash/records.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "pm/record.hpp"
#include "store/gphash/entries.hpp"

namespace perdure {

bool Records::can_lease() const {
  return core_.engine->lease() != nullptr && core_.fixed_stride() != 0;
}

Status Records::begin_lease() {
  if (lease_) return {};
  PERDURE_ASSERT(can_lease());
  PERDURE_ASSERT(core_.is_exclusive());
  pm::RecordHeap::Lease lease = core_.heap.lease_out(core_.fixed_stride());
  Status const begun = core_.engine->lease()->begin(lease);
  if (begun.ok())
    lease_ = std::move(lease);
  else
    core_.heap.end_lease(lease);
  PERDURE_ASSERT(!leased() || (lease_->stride == core_.fixed_stride() && lease_->capacity > 0));
  if (begun.code() != Code::no_space) return begun;
  return {begun.code(), "pool " + core_.path + ": the map of its free records: " + begun.message() +
                            "; free memory of the device, or reopen the pool with residency pm"};
}

Status Records::end_lease() {
  if (!lease_) return {};
  if (Status s = core_.engine->lease()->end(*lease_); !s.ok()) return s;
  core_.heap.end_lease(*lease_);
  lease_.reset();
  return {};
}

/// How many more to take than the batch needs, where they are to be had, so that few batches come
/// here: half as many as are in use, but half of what is free is left to the table's next level, so
/// that a batch which needs both seldom has the file grow twice. Of layout `log` all that are the
/// heap's share: the rest is what the entries of so many records may need, and there are no levels
/// to grow.
std::uint64_t Records::superblocks_ahead(std::uint64_t needed) const {
  std::uint64_t const used = core_.pool.superblocks_in_use();
  std::uint64_t const free = core_.pool.superblocks() - used;
  if (!core_.logged()) return std::min(used, free - std::min(free, needed)) / 2;
  std::uint64_t const stride = core_.fixed_stride();
  std::uint64_t const each = stride + Entries::kCellsARecord * core_.entries.cell_bytes();
  std::uint64_t const heap = core_.heap.superblocks().size();
  std::uint64_t const both = free + heap + core_.entries.segments();
  std::uint64_t const share = (both * stride + each - 1) / each;
  return share - std::min(share, heap + needed);
}

Status Records::take_leased(std::uint64_t records, std::function<Result<bool>()> const& take) {
  Status refused;
  for (;;) {
    auto enough = take();
    if (!enough) return enough.status();
    if (*enough) return {};
    if (!refused.ok()) return refused;
    PERDURE_ASSERT(lease_.has_value());
    std::uint64_t const needed = (records + lease_->capacity - 1) / lease_->capacity;
    PERDURE_ASSERT(needed > 0);  // none are always there
    std::uint64_t const more = superblocks_ahead(needed);
    if (Status s = end_lease(); !s.ok()) return s;
    PERDURE_ASSERT(!leased());  // else it could give away what is leased
    refused = core_.heap.add_superblocks(core_.fixed_stride(), needed, more);
    core_.pool_may_have_grown();
    if (Status s = begin_lease(); !s.ok()) return s;
  }
}

Status Records::reserve(Call const& call, std::span<std::uint8_t const> status,
                        std::vector<std::uint64_t>& reserved, bool& any_fits) {
  PERDURE_ASSERT(!lease_ && status.size() == call.keys.count);
  PERDURE_ASSERT(core_.is_exclusive());
  std::uint64_t const fixed = core_.fixed_stride();
  reserved.assign(call.keys.count, 0);
  any_fits =
      fixed != 0 && call.kinds.empty() && (call.kind == OpKind::put || call.kind == OpKind::update);
  Status const done = any_fits ? core_.heap.reserve(fixed, reserved.size(), reserved.data())
                               : reserve_by_size(call, status, reserved);
  PERDURE_ASSERT(!kCostlyAssertions || !done.ok() || mutated("record_handed_out_twice") ||
                 std::ranges::all_of(reserved, [&](std::uint64_t record) {
                   return record == 0 ? !any_fits : core_.heap.in_use(Offset{record});
                 }));
  if (done.ok()) core_.pool_may_have_grown();
  return done;
}

Status Records::reserve_by_size(Call const& call, std::span<std::uint8_t const> status,
                                std::vector<std::uint64_t>& reserved) {
  std::uint64_t const fixed = core_.fixed_stride();
  bool const key_in_slot = core_.in_place() && core_.pool.header().key_bytes != 0;
  auto const size = [](Column const& c, std::size_t i) {
    return c.offsets == nullptr ? std::uint64_t{c.width}
                                : static_cast<std::uint64_t>(c.offsets[i + 1] - c.offsets[i]);
  };
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> by_stride;
  for (std::size_t i = 0; i < reserved.size(); ++i) {
    OpKind const kind = call.kinds.empty() ? call.kind : call.kinds[i];
    if (status[i] != kPending || (kind != OpKind::put && kind != OpKind::update)) continue;
    std::uint64_t const stride =
        fixed != 0 ? fixed
                   : pm::stride_for(pm::record_bytes(key_in_slot ? 0 : size(call.keys, i),
                                                     size(call.values, i)));
    by_stride[stride].push_back(static_cast<std::uint32_t>(i));
  }
  std::vector<std::uint64_t> records;
  for (auto const& [stride, operations] : by_stride) {
    records.resize(operations.size());
    if (Status s = core_.heap.reserve(stride, records.size(), records.data()); !s.ok()) {
      release(reserved);
      reserved.assign(reserved.size(), 0);
      return s;
    }
    for (std::size_t k = 0; k < operations.size(); ++k) reserved[operations[k]] = records[k];
  }
  return {};
}

void Records::release(std::span<std::uint64_t const> records) {
  PERDURE_ASSERT(!lease_ && core_.is_exclusive());  // the engine's are given back by the engine
  for (std::uint64_t const record : records) {
    if (record != 0) core_.heap.release(Offset{record});
  }
}

void Records::release_unused(std::span<std::uint64_t const> records,
                             std::span<std::uint8_t const> used) {
  PERDURE_ASSERT(!lease_ && core_.is_exclusive() && records.size() == used.size());
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (records[i] != 0 && used[i] == 0) core_.heap.release(Offset{records[i]});
  }
}

Result<std::uint64_t> Records::in_use() {
  if (Status s = end_lease(); !s.ok()) return s;
  PERDURE_ASSERT(!core_.device_session);
  return core_.heap.records_in_use();
}

}  // namespace perdure
