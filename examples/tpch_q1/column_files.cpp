#include "column_files.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace perdure::q1 {
namespace {

std::string file_of(std::string const& folder, ColumnKind const& kind) {
  return folder + "/" + kind.name + ".u" + std::to_string(kind.width);
}

std::uint32_t value_at(std::byte const* column, std::uint32_t width, std::uint64_t i) {
  std::uint32_t value = 0;
  std::memcpy(&value, column + i * width, width);
  return value;
}

/// Whether each value is within the bound that the sums count on.
Status check(Columns const& columns, std::string const& folder) {
  for (std::size_t c = 0; c < kColumns; ++c) {
    ColumnKind const& kind = kKinds[c];
    for (std::uint64_t i = 0; i < columns.rows; ++i) {
      std::uint32_t const value = value_at(columns.data[c].data(), kind.width, i);
      if (value <= kind.most) continue;
      return {Code::invalid_argument,
              file_of(folder, kind) + ": row " + std::to_string(i) + " has " +
                  std::to_string(value) + ", and at most " + std::to_string(kind.most) +
                  " can be added up; are decimals in hundredths, and dates in days since 1970?"};
    }
  }
  return {};
}

Result<std::uint64_t> rows_of(std::string const& folder) {
  std::uint64_t rows = 0;
  for (ColumnKind const& kind : kKinds) {
    std::error_code error;
    std::string const file = file_of(folder, kind);
    std::uint64_t const bytes = std::filesystem::file_size(file, error);
    if (error)
      return Status{Code::not_found, file + ": " + error.message() +
                                         "; make the columns with generate, or with lineitem.py"};
    std::uint64_t const here = bytes / kind.width;
    if (bytes % kind.width != 0 || (&kind != &kKinds[0] && here != rows))
      return Status{Code::corrupt, file + " has " + std::to_string(bytes) +
                                       " bytes, and its folder's first column " +
                                       std::to_string(rows) + " rows; make the columns anew"};
    rows = here;
  }
  return rows;
}

}  // namespace

std::uint64_t padded_bytes(std::uint64_t rows, std::uint32_t width) {
  return (rows + kRecordBytes - 1) / kRecordBytes * kRecordBytes * width;
}

Columns Columns::of(std::uint64_t rows) {
  Columns columns;
  columns.rows = rows;
  for (std::size_t c = 0; c < kColumns; ++c)
    columns.data[c] = Bytes(padded_bytes(rows, kKinds[c].width));
  std::uint64_t const all = padded_bytes(rows, 1);
  std::fill(columns.as<std::uint16_t>(Name::shipdate) + rows,
            columns.as<std::uint16_t>(Name::shipdate) + all, kNoDay);
  return columns;
}

Result<Columns> read_folder(std::string const& folder) {
  auto rows = rows_of(folder);
  if (!rows) return rows.status();
  Columns columns = Columns::of(rows.value());
  for (std::size_t c = 0; c < kColumns; ++c) {
    std::string const file = file_of(folder, kKinds[c]);
    std::ifstream in(file, std::ios::binary);
    auto const bytes = static_cast<std::streamsize>(columns.rows * kKinds[c].width);
    if (!in.read(reinterpret_cast<char*>(columns.data[c].data()), bytes))
      return Status{Code::io_error, file + " cannot be read; look at its permissions"};
  }
  if (Status s = check(columns, folder); !s.ok()) return s;
  return columns;
}

Status write_folder(std::string const& folder, Columns const& columns) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return {Code::io_error, folder + ": " + error.message()};
  for (std::size_t c = 0; c < kColumns; ++c) {
    std::string const file = file_of(folder, kKinds[c]);
    std::ofstream out(file, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<char const*>(columns.data[c].data()),
              static_cast<std::streamsize>(columns.rows * kKinds[c].width));
    out.flush();
    if (!out) return {Code::io_error, file + " cannot be written; is there room on its disk?"};
  }
  return {};
}

}  // namespace perdure::q1
