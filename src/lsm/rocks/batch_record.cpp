#include "lsm/rocks/batch_record.hpp"

#include <cstring>
#include <string>

namespace perdure::lsm {

namespace {

constexpr std::uint32_t kBatches = 1;

struct RecordHead {
  std::uint32_t kind;
  std::uint32_t batches;
};
static_assert(sizeof(RecordHead) == 8);

constexpr std::uint64_t padded(std::uint64_t bytes) { return (bytes + 7) / 8 * 8; }

}  // namespace

std::uint64_t record_bytes(std::span<rocksdb::WriteBatch const* const> batches) {
  std::uint64_t bytes = sizeof(RecordHead);
  for (rocksdb::WriteBatch const* const batch : batches)
    bytes += sizeof(std::uint64_t) + padded(batch->GetDataSize());
  return bytes;
}

void write_record(std::span<rocksdb::WriteBatch const* const> batches, std::span<std::byte> room,
                  std::function<void(rocksdb::WriteBatch const&, std::byte const*)> const& copied) {
  std::byte* at = room.data();
  RecordHead const head{kBatches, static_cast<std::uint32_t>(batches.size())};
  std::memcpy(at, &head, sizeof head);
  at += sizeof head;
  for (rocksdb::WriteBatch const* const batch : batches) {
    std::uint64_t const bytes = batch->GetDataSize();
    std::memcpy(at, &bytes, sizeof bytes);
    at += sizeof bytes;
    std::memcpy(at, batch->Data().data(), bytes);
    std::memset(at + bytes, 0, padded(bytes) - bytes);
    copied(*batch, at);
    at += padded(bytes);
  }
}

Status read_record(
    std::span<std::byte const> record,
    std::function<Status(rocksdb::WriteBatch const&, std::byte const*)> const& read) {
  Status const damaged{Code::corrupt,
                       "a record of the G-WAL passes its checksum and holds no batches: it was "
                       "written by another version of Perdure; open the database with that one"};
  RecordHead head{};
  if (record.size() < sizeof head) return damaged;
  std::memcpy(&head, record.data(), sizeof head);
  if (head.kind != kBatches) return damaged;
  std::span<std::byte const> rest = record.subspan(sizeof head);
  for (std::uint32_t i = 0; i < head.batches; ++i) {
    std::uint64_t bytes = 0;
    if (rest.size() < sizeof bytes) return damaged;
    std::memcpy(&bytes, rest.data(), sizeof bytes);
    rest = rest.subspan(sizeof bytes);
    if (bytes > rest.size() || padded(bytes) > rest.size()) return damaged;
    rocksdb::WriteBatch const batch(std::string(reinterpret_cast<char const*>(rest.data()), bytes));
    if (Status s = read(batch, rest.data()); !s.ok()) return s;
    rest = rest.subspan(padded(bytes));
  }
  return {};
}

}  // namespace perdure::lsm
