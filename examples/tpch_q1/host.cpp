// The host's machine: each thread has four copies of each group's sums, one a lane, because an
// addition to a sum waits for the one before it.
#include <array>

#include "machines.hpp"
#include "sums.hpp"

namespace perdure::q1 {
namespace {

class HostGroups {
 public:
  [[nodiscard]] std::uint32_t held(std::uint32_t slot) const { return keys_[slot]; }
  std::uint32_t claim(std::uint32_t slot, std::uint32_t key) { return keys_[slot] = key; }
  void add(std::uint32_t slot, unsigned lane, RowSums const& row) {
    RowSums& to = sums_[slot][lane];
    to.packed += row.packed;
    to.price += row.price;
    to.disc_price += row.disc_price;
    to.charge += row.charge;
  }

  void fold_into(Totals& totals) {
    for (std::uint32_t slot = 0; slot < kSlots; ++slot)
      for (RowSums const& sums : sums_[slot]) totals.add(keys_[slot], unpack(sums));
    for (RowSums const& sums : sums_[kNoSlot]) totals.add_lost(unpack(sums).count);
    sums_ = {};
  }

 private:
  std::array<std::uint32_t, kSlots> keys_{};
  std::array<std::array<RowSums, 4>, kSlots + 1> sums_{};
};

template <class Rows>
void whole(Block const& block, Query query, HostGroups& groups) {
  Rows const rows(block);
  for (std::uint32_t i = 0; i < rows.quads(); ++i) add_quad(groups, rows, i, query);
}

template <class Rows>
std::uint64_t filter(Block const& block, Query query) {
  Rows const rows(block);
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < rows.quads(); ++i) count += count_quad(rows, i, query);
  return count;
}

template <class Rows>
void run(Work const& work, BlockQueue& queue, Totals& to) {
  HostGroups groups;
  for (auto next = queue.take(1, 1); next.count > 0; next = queue.take(1, 1)) {
    Block const& block = work.blocks[next.first];
    if (work.stage == Stage::filter) {
      to.add(key_of('*', '*'), {filter<Rows>(block, work.query), 0, 0, 0, 0, 0});
      continue;
    }
    whole<Rows>(block, work.query, groups);
    groups.fold_into(to);
  }
}

}  // namespace

void run_on_host(Work const& work, BlockQueue& queue, Totals& to) {
  work.form == Form::rows ? run<RowBlock>(work, queue, to) : run<ColumnBlock>(work, queue, to);
}

}  // namespace perdure::q1
