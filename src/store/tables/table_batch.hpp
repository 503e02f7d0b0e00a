// A batch over named tables as one batch of the pool: its keys, and its rows as the pool has them
// and as the caller does. Invariant: rows of the caller lie table by table without gaps; what this
// makes of them is one value a key, in the same order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "perdure/batch.h"
#include "perdure/status.h"
#include "perdure/tables.h"

namespace perdure::tables {

/// The batch's numbers fit each other, and so do as many bytes of rows.
Status check_form(std::string const& path, TableBatch const& batch);
Status check_rows(std::string const& path, TableBatch const& batch, std::size_t bytes);

/// What fits a pool whose values have `value_bytes`, or, with 0, any length. check_form() is ok.
class PoolBatch {
 public:
  PoolBatch(TableBatch const& batch, std::uint32_t value_bytes);

  [[nodiscard]] std::size_t size() const { return batch_.ids.size(); }
  [[nodiscard]] Column keys() const;
  /// Rows of the caller as values. Bytes of its own where rows are narrower than the pool's.
  [[nodiscard]] Column values(std::span<std::byte const> rows);
  /// The caller's rows themselves, if they are as the pool's, else memory for so many values.
  [[nodiscard]] MutableColumn answers(std::span<std::byte> rows);
  /// From that memory to the caller's rows, those that were found.
  void narrow(std::span<std::byte> rows, std::span<KeyStatus const> statuses) const;
  /// The same of values of any length, for rows of several widths; a value of another length than
  /// its table's rows gets a status.
  void take(VariableValues const& values, std::span<std::byte> rows,
            std::span<KeyStatus> statuses) const;
  /// Whether the caller's rows are as the pool's values.
  [[nodiscard]] bool rows_are_values() const {
    return one_width_ != 0 && (value_bytes_ == 0 || one_width_ == value_bytes_);
  }

 private:
  /// of_row(i, its first byte among the caller's rows, its bytes), in order.
  template <class F>
  void each_row(F of_row) const;

  TableBatch const& batch_;
  std::uint32_t const value_bytes_;
  std::uint32_t one_width_ = 0;  // of all rows; 0: they differ
  std::unique_ptr<TableKey[]> keys_;
  std::unique_ptr<std::byte[]> wide_;
  std::vector<std::int64_t> ends_;
};

}  // namespace perdure::tables
