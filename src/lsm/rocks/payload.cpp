#include "lsm/rocks/payload.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "base/assert.hpp"

namespace perdure::lsm {

namespace {

constexpr std::uint32_t kBatches = 1, kColumns = 2, kSeveralColumns = 3;

struct PayloadHead {  // bytes
  std::uint32_t kind;  // 0
  std::uint32_t number;  // 4  of batches; of the family
};
static_assert(sizeof(PayloadHead) == 8 && offsetof(PayloadHead, number) == 4);

struct ColumnsHead {  // bytes
  std::uint32_t family;  // 0
  std::uint32_t zero;  // 4
};
static_assert(sizeof(ColumnsHead) == 8 && offsetof(ColumnsHead, zero) == 4);

Status damaged() {
  return {Code::corrupt,
          "a record of the G-WAL passes its checksum and holds no batches: it was written by "
          "another version of Perdure; open the database with that one"};
}

constexpr std::uint64_t padded(std::uint64_t bytes) { return (bytes + 7) / 8 * 8; }

}  // namespace

std::uint64_t payload_bytes(std::span<rocksdb::WriteBatch const* const> batches) {
  std::uint64_t bytes = sizeof(PayloadHead);
  for (rocksdb::WriteBatch const* const batch : batches)
    bytes += sizeof(std::uint64_t) + padded(batch->GetDataSize());
  return bytes;
}

std::uint64_t payload_bytes(std::span<ColumnsToWrite const> columns) {
  if (columns.size() == 1) return sizeof(PayloadHead) + columns.front().encoded->bytes();
  std::uint64_t bytes = sizeof(PayloadHead);
  for (ColumnsToWrite const& one : columns)
    bytes += sizeof(ColumnsHead) + padded(one.encoded->bytes());
  return bytes;
}

PayloadLayout lay_out_payload(std::span<rocksdb::WriteBatch const* const> batches,
                              std::span<std::byte> room) {
  PayloadLayout layout;
  std::byte* at = room.data();
  PayloadHead const head{kBatches, static_cast<std::uint32_t>(batches.size())};
  std::memcpy(at, &head, sizeof head);
  at += sizeof head;
  for (rocksdb::WriteBatch const* const batch : batches) {
    std::uint64_t const bytes = batch->GetDataSize();
    std::memcpy(at, &bytes, sizeof bytes);
    at += sizeof bytes;
    std::memset(at + bytes, 0, padded(bytes) - bytes);
    layout.places.push_back(at);
    auto const* const data = reinterpret_cast<std::byte const*>(batch->Data().data());
    layout.pieces.push_back({at, {data, bytes}});
    at += padded(bytes);
  }
  return layout;
}

namespace {

void lay_out(ColumnsToWrite const& columns, std::byte* to, PayloadLayout& layout) {
  layout.places.push_back(to);
  for (std::span<std::byte const> const piece : columns.encoded->pieces()) {
    layout.pieces.push_back({to, piece});
    to += piece.size();
  }
}

}  // namespace

PayloadLayout lay_out_payload(std::span<ColumnsToWrite const> columns, std::span<std::byte> room) {
  PayloadLayout layout;
  bool const alone = columns.size() == 1;
  PayloadHead const head{
      alone ? kColumns : kSeveralColumns,
      alone ? columns.front().family : static_cast<std::uint32_t>(columns.size())};
  std::byte* at = room.data();
  std::memcpy(at, &head, sizeof head);
  at += sizeof head;
  if (alone) {
    lay_out(columns.front(), at, layout);
    return layout;
  }
  for (ColumnsToWrite const& one : columns) {
    ColumnsHead const of_one{one.family, 0};
    std::memcpy(at, &of_one, sizeof of_one);
    at += sizeof of_one;
    std::uint64_t const bytes = one.encoded->bytes();
    std::memset(at + bytes, 0, padded(bytes) - bytes);
    lay_out(one, at, layout);
    at += padded(bytes);
  }
  return layout;
}

namespace {

/// What of the pieces goes to [begin, end).
void copy_part(std::span<PayloadLayout::Piece const> pieces, std::byte* begin,
               std::byte const* end) {
  auto const ends_before = [&](PayloadLayout::Piece const& piece) {
    return piece.to + piece.from.size() <= begin;
  };
  auto piece = std::partition_point(pieces.begin(), pieces.end(), ends_before);
  for (; piece != pieces.end() && piece->to < end; ++piece) {
    std::size_t const from = begin > piece->to ? static_cast<std::size_t>(begin - piece->to) : 0;
    std::size_t const until =
        std::min(piece->from.size(), static_cast<std::size_t>(end - piece->to));
    std::memcpy(piece->to + from, piece->from.data() + from, until - from);
  }
}

bool begins_at_its_data(Column const& column) {
  return column.offsets == nullptr || column.offsets[0] == 0;
}

/// The column with its bytes where the pieces lie one behind the other. A piece that has the same
/// bytes holds the same.
Column moved(Column column, std::span<std::span<std::byte const> const> pieces,
             std::byte const* to) {
  std::size_t const bytes = column.offsets == nullptr
                                ? column.width * column.count
                                : static_cast<std::size_t>(column.offsets[column.count]);
  for (std::span<std::byte const> const piece : pieces) {
    if (piece.data() == column.data && piece.size() == bytes) {
      column.data = to;
      return column;
    }
    to += piece.size();
  }
  PERDURE_ASSERT(column.data == nullptr);  // there are no values
  return column;
}

}  // namespace

void copy_payload(exec::Workers& workers, std::span<PayloadLayout::Piece const> pieces,
                  std::span<std::byte> room, GwalPayloadSum* sum) {
  std::size_t const chunks = (room.size() + kGwalChunk - 1) / kGwalChunk;
  workers.for_chunks(chunks, 1, [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      std::size_t const begin = i * kGwalChunk;
      std::size_t const end = std::min<std::size_t>(room.size(), begin + kGwalChunk);
      copy_part(pieces, room.data() + begin, room.data() + end);
      if (sum != nullptr) sum->sum_chunk(i);
    }
  });
}

WrittenColumns written_columns(ColumnsToWrite const& write, std::byte* to) {
  wal::BatchOps const& ops = *write.ops;
  wal::EncodedBatch const& columns = *write.encoded;
  if (begins_at_its_data(ops.keys) && begins_at_its_data(ops.values)) {
    wal::BatchOps there = ops;
    there.keys = moved(ops.keys, columns.pieces(), to);
    there.values = moved(ops.values, columns.pieces(), to);
    return WrittenColumns(there);
  }
  auto there = wal::DecodedBatch::decode({to, columns.bytes()});
  PERDURE_ASSERT(there.ok());
  return WrittenColumns(std::move(*there));
}

namespace {

Status read_batches(std::span<std::byte const> rest, std::uint32_t batches,
                    PayloadReader const& reader) {
  for (std::uint32_t i = 0; i < batches; ++i) {
    std::uint64_t bytes = 0;
    if (rest.size() < sizeof bytes) return damaged();
    std::memcpy(&bytes, rest.data(), sizeof bytes);
    rest = rest.subspan(sizeof bytes);
    if (bytes > rest.size() || padded(bytes) > rest.size()) return damaged();
    if (Status s = reader.batch(rest.first(bytes)); !s.ok()) return s;
    rest = rest.subspan(padded(bytes));
  }
  return {};
}

Status read_several_columns(std::span<std::byte const> rest, std::uint32_t batches,
                            PayloadReader const& reader) {
  for (std::uint32_t i = 0; i < batches; ++i) {
    ColumnsHead head{};
    if (rest.size() < sizeof head) return damaged();
    std::memcpy(&head, rest.data(), sizeof head);
    rest = rest.subspan(sizeof head);
    std::span<std::byte const> behind = rest;
    auto columns = wal::DecodedBatch::take(behind);
    if (!columns) return columns.status();
    std::uint64_t const bytes = padded(rest.size() - behind.size());
    if (head.zero != 0 || bytes > rest.size()) return damaged();
    if (Status s = reader.columns(head.family, *columns); !s.ok()) return s;
    rest = rest.subspan(bytes);
  }
  return {};
}

}  // namespace

Status read_payload(std::span<std::byte const> record, PayloadReader const& reader) {
  PayloadHead head{};
  if (record.size() < sizeof head) return damaged();
  std::memcpy(&head, record.data(), sizeof head);
  std::span<std::byte const> rest = record.subspan(sizeof head);
  if (head.kind == kBatches) return read_batches(rest, head.number, reader);
  if (head.kind == kSeveralColumns) return read_several_columns(rest, head.number, reader);
  if (head.kind != kColumns) return damaged();
  auto columns = wal::DecodedBatch::take(rest);
  return columns ? reader.columns(head.number, *columns) : columns.status();
}

}  // namespace perdure::lsm
