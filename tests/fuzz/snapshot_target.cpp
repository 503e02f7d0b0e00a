// A snapshot, damaged in its header, its checksums or its pool, is restored. Without its checksums
// made right again, what comes of it is all that was saved, or nothing.
#include <algorithm>
#include <optional>

#include "../support/memory_disk.hpp"
#include "pools.hpp"
#include "wal/checkpoint.hpp"
#include "wal/log_format.hpp"

namespace perdure::test {
namespace {

using wal::ImageHeader;
using wal::kBlock;
using wal::kChunkBytes;

constexpr std::size_t kMostKinds = 16;
constexpr char const* kName = "/disk/snapshot";

/// Of the undamaged store.
Bytes const& snapshot_of(std::size_t kind) {
  static std::optional<Bytes> all[kMostKinds];
  if (all[kind]) return *all[kind];
  MemoryDisk const disk;
  PoolPath pool;
  write_file(pool.str(), image_of(kind).bytes);
  auto store = Store::open(pool.str(), one_thread());
  must(store.status());
  must(store->snapshot(kName));
  must(store->close());
  all[kind] = disk.bytes_of(kName);
  return *all[kind];
}

std::uint64_t pool_bytes(Bytes const& snapshot) { return Image(snapshot).at<ImageHeader>(0).bytes; }

std::uint64_t address_of(std::size_t kind, Bytes const& whole, Damage const& d) {
  std::uint64_t const pool = pool_bytes(whole);
  switch (d.target % 8) {
    case 0: return d.where % sizeof(ImageHeader);
    case 1: return kBlock + pool + d.where % 64;  // the checksums
    case 7: return d.where * std::uint64_t{257} % whole.size();
    default:
      return std::min(kBlock + place_in(kind, static_cast<std::uint8_t>(d.target >> 3), d.where),
                      kBlock + pool - 1);
  }
}

/// Checksums of the pool's own, then the file's; where the header says nonsense, of the header
/// alone.
void seal(std::size_t kind, Bytes& bytes) {
  Image file(std::move(bytes));
  auto header = file.at<ImageHeader>(0);
  std::uint64_t const pool = pool_bytes(snapshot_of(kind));
  Image inside(Bytes(file.bytes.begin() + kBlock,
                     file.bytes.begin() + static_cast<std::ptrdiff_t>(kBlock + pool)));
  if (inside.bytes.size() >= image_of(kind).bytes.size()) mend(kind, inside);
  std::copy(inside.bytes.begin(), inside.bytes.end(), file.bytes.begin() + kBlock);
  std::uint64_t const table = kBlock + pool, chunks = (pool + kChunkBytes - 1) / kChunkBytes;
  for (std::uint64_t i = 0; i < chunks; ++i) {
    std::uint64_t const size = std::min<std::uint64_t>(kChunkBytes, pool - i * kChunkBytes);
    file.set(table + 4 * i, crc32c(0, inside.bytes.data() + i * kChunkBytes, size));
  }
  header.table_crc =
      crc32c(0, file.bytes.data() + table, (4 * chunks + kBlock - 1) / kBlock * kBlock);
  header.crc = wal::checksum(header);
  file.set(0, header);
  bytes = std::move(file.bytes);
}

}  // namespace

void fuzz_snapshot(std::uint8_t const* data, std::size_t size) {
  if (size == 0) return;
  std::size_t const kind = kind_of(data[0]);
  Bytes bytes = snapshot_of(kind);
  for (Damage const& d : damages_in(data, size)) d.put(bytes[address_of(kind, bytes, d)]);
  if (keeps_sums(data[0])) seal(kind, bytes);
  if ((data[0] & 0x30) == 0x30 && size > 1) bytes.resize(bytes.size() / 256 * data[1]);
  MemoryDisk disk;
  PoolPath pool;
  disk.lay(kName, bytes);
  RestoreOptions options;
  options.durability = Durability::process;
  auto store = Store::restore(kName, pool.str(), options, one_thread());
  if (!store) return;
  if (!keeps_sums(data[0]) && scan_all(*store) != contents_of(kind))
    fault("a damaged snapshot was restored as if whole");
  use(*store);
}

}  // namespace perdure::test
