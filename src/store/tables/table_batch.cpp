#include "store/tables/table_batch.hpp"

#include <algorithm>
#include <cstring>

#include "store/checks.hpp"

namespace perdure::tables {
namespace {

std::size_t begin_of(TableBatch const& batch, std::size_t t) {
  return batch.offsets.empty() ? 0 : static_cast<std::size_t>(batch.offsets[t]);
}
std::size_t end_of(TableBatch const& batch, std::size_t t) {
  return batch.offsets.empty() ? batch.ids.size() : static_cast<std::size_t>(batch.offsets[t + 1]);
}

}  // namespace

Status check_form(std::string const& path, TableBatch const& batch) {
  std::size_t const tables = batch.tables.size(), n = batch.ids.size();
  bool fits = batch.offsets.empty() ? tables == 1 : batch.offsets.size() == tables + 1;
  if (fits && !batch.offsets.empty())
    fits = batch.offsets.front() == 0 && std::ranges::is_sorted(batch.offsets) &&
           batch.offsets.back() == static_cast<std::int64_t>(n);
  if (fits) return {};
  return bad_argument("pool " + path + ": offsets: for " + std::to_string(tables) + " tables and " +
                      std::to_string(n) + " ids pass " + std::to_string(tables + 1) +
                      " numbers that rise from 0 to " + std::to_string(n));
}

Status check_rows(std::string const& path, TableBatch const& batch, std::size_t bytes) {
  std::size_t needed = 0;
  for (std::size_t t = 0; t < batch.tables.size(); ++t)
    needed += (end_of(batch, t) - begin_of(batch, t)) * batch.tables[t].row_bytes;
  if (bytes == needed) return {};
  return bad_argument("pool " + path + ": rows have " + std::to_string(bytes) +
                      " bytes; those of these ids have " + std::to_string(needed));
}

PoolBatch::PoolBatch(TableBatch const& batch, std::uint32_t value_bytes)
    : batch_(batch),
      value_bytes_(value_bytes),
      keys_(std::make_unique_for_overwrite<TableKey[]>(batch.ids.size())) {
  if (!batch.tables.empty()) one_width_ = batch.tables.front().row_bytes;
  for (std::size_t t = 0; t < batch.tables.size(); ++t) {
    if (batch.tables[t].row_bytes != one_width_) one_width_ = 0;
    for (std::size_t i = begin_of(batch, t); i < end_of(batch, t); ++i)
      keys_[i] = {batch.ids[i], batch.tables[t].number};
  }
}

template <class F>
void PoolBatch::each_row(F of_row) const {
  std::size_t at = 0;
  for (std::size_t t = 0; t < batch_.tables.size(); ++t) {
    std::size_t const width = batch_.tables[t].row_bytes;
    for (std::size_t i = begin_of(batch_, t); i < end_of(batch_, t); ++i, at += width)
      of_row(i, at, width);
  }
}

Column PoolBatch::keys() const { return Column::of(std::span(keys_.get(), size())); }

Column PoolBatch::values(std::span<std::byte const> rows) {
  if (rows_are_values()) return {rows.data(), nullptr, one_width_, size(), MemorySpace::host};
  if (value_bytes_ == 0) {
    ends_.resize(size() + 1);
    each_row([&](std::size_t i, std::size_t at, std::size_t width) {
      ends_[i + 1] = static_cast<std::int64_t>(at + width);
    });
    return {rows.data(), ends_.data(), 0, size(), MemorySpace::host};
  }
  wide_ = std::make_unique_for_overwrite<std::byte[]>(size() * value_bytes_);
  each_row([&](std::size_t i, std::size_t at, std::size_t width) {
    std::byte* const to = wide_.get() + i * value_bytes_;
    std::memcpy(to, rows.data() + at, width);
    std::memset(to + width, 0, value_bytes_ - width);
  });
  return {wide_.get(), nullptr, value_bytes_, size(), MemorySpace::host};
}

MutableColumn PoolBatch::answers(std::span<std::byte> rows) {
  if (rows_are_values()) return {rows.data(), one_width_, size(), MemorySpace::host};
  wide_ = std::make_unique_for_overwrite<std::byte[]>(size() * value_bytes_);
  return {wide_.get(), value_bytes_, size(), MemorySpace::host};
}

void PoolBatch::narrow(std::span<std::byte> rows, std::span<KeyStatus const> statuses) const {
  each_row([&](std::size_t i, std::size_t at, std::size_t width) {
    if (statuses[i] == KeyStatus::ok)
      std::memcpy(rows.data() + at, wide_.get() + i * value_bytes_, width);
  });
}

void PoolBatch::take(VariableValues const& values, std::span<std::byte> rows,
                     std::span<KeyStatus> statuses) const {
  each_row([&](std::size_t i, std::size_t at, std::size_t width) {
    if (statuses[i] != KeyStatus::ok) return;
    auto const begin = static_cast<std::size_t>(values.offsets[i]);
    if (static_cast<std::size_t>(values.offsets[i + 1]) - begin != width)
      statuses[i] = KeyStatus::size_mismatch;
    else
      std::memcpy(rows.data() + at, values.data.data() + begin, width);
  });
}

}  // namespace perdure::tables
