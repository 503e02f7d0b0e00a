// A store of durability power is opened from a log directory whose redo log, or whose images, are
// damaged. Without checksums made right again it holds what it held after some batch (a damaged log
// ends there), or after the last one (images), or it is refused.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "../support/memory_disk.hpp"
#include "pools.hpp"
#include "wal/checkpoint.hpp"
#include "wal/log_format.hpp"

namespace perdure::test {
namespace {

using wal::CheckpointRecord;
using wal::GroupHeader;
using wal::ImageHeader;
using wal::kBlock;
using wal::kChunkBytes;
using wal::kRingOffset;
using wal::LogHeader;

struct PowerKind {
  Layout layout;
  bool variable;
};
constexpr PowerKind kKinds[] = {{Layout::word, false},
                                {Layout::word, true},
                                {Layout::in_place, false},
                                {Layout::in_place, true}};
// of an input's first byte: the store is written to, which waits for the disk
constexpr std::uint8_t kUses = 0x08;
constexpr char const* kFiles[] = {"redo.log", "checkpoint", "image-a", "image-b"};

using Directory = std::map<std::string, Bytes>;

/// What a power loss left, and what the store held after each batch.
struct Whole {
  Directory files;
  std::vector<Contents> after;
  std::vector<std::uint64_t> groups;  // where they begin in the log
};

std::string key_of(PowerKind const& kind, std::uint64_t n) {
  return kind.variable ? "key-" + std::to_string(n * n) : u64_text(n);
}
std::string value_of(PowerKind const& kind, std::uint64_t n, char letter) {
  return std::string(kind.variable ? n % 60 : 16, letter);
}

/// Batches of every kind, on the store and on a map.
class Writer {
 public:
  Writer(PowerKind kind, Whole& whole) : kind_(kind), whole_(&whole) { whole.after.emplace_back(); }

  void put(Store& store, std::uint64_t from, std::uint64_t to, char letter) {
    Contents batch;
    for (std::uint64_t n = from; n < to; ++n) batch[key_of(kind_, n)] = value_of(kind_, n, letter);
    must(put_all(store, batch));
    Contents after = whole_->after.back();
    for (auto const& [key, value] : batch) after[key] = value;
    whole_->after.push_back(std::move(after));
  }
  void erase(Store& store, std::uint64_t from, std::uint64_t to) {
    Strings keys(kind_.variable ? 0 : 8);
    Contents after = whole_->after.back();
    for (std::uint64_t n = from; n < to; ++n) {
      keys.add(key_of(kind_, n));
      after.erase(key_of(kind_, n));
    }
    must(store.erase(keys.column()));
    whole_->after.push_back(std::move(after));
  }
  void mix(Store& store, std::uint64_t from, std::uint64_t to) {
    Strings keys(kind_.variable ? 0 : 8), values(kind_.variable ? 0 : 16);
    std::vector<OpKind> kinds;
    Contents after = whole_->after.back();
    for (std::uint64_t n = from; n < to; ++n) {
      kinds.push_back(n % 3 == 0 ? OpKind::erase : OpKind::put);
      keys.add(key_of(kind_, n));
      values.add(value_of(kind_, n, 'm'));
      if (n % 3 == 0) after.erase(key_of(kind_, n));
      if (n % 3 != 0) after[key_of(kind_, n)] = value_of(kind_, n, 'm');
    }
    MixedBatch batch;
    batch.kinds = kinds;
    batch.keys = keys.column();
    batch.values = values.column();
    must(store.apply(batch));
    whole_->after.push_back(std::move(after));
  }

 private:
  PowerKind kind_;
  Whole* whole_;
};

constexpr char const* kDirectory = "/disk/log";
std::string name_in(std::string const& file) { return std::string(kDirectory) + "/" + file; }

Directory read_all(MemoryDisk const& disk) {
  Directory files;
  for (char const* const name : kFiles) files[name] = disk.bytes_of(name_in(name));
  return files;
}

std::vector<std::uint64_t> groups_in(Bytes const& log) {
  Image const image(log);
  std::vector<std::uint64_t> groups;
  for (std::uint64_t at = kRingOffset; at + kBlock <= log.size();) {
    auto const header = image.at<GroupHeader>(at);
    if (header.magic != wal::kGroupMagic) break;
    groups.push_back(at);
    at += wal::group_bytes(header.payload_bytes);
  }
  return groups;
}

/// Two images, and batches before, between and after them.
Whole make(PowerKind const& kind) {
  Whole whole;
  PoolPath pool;
  MemoryDisk const disk;
  CreateOptions create;
  create.key_bytes = kind.variable ? 0 : 8;
  create.value_bytes = kind.variable ? 0 : 16;
  create.layout = kind.layout;
  create.expected_records = 64;
  create.durability = Durability::power;
  create.log.dir = kDirectory;
  create.log.bytes = 1u << 20;
  create.max_bytes = 24u << 20;
  OpenOptions options = one_thread();
  options.log_dir = kDirectory;
  Writer writer(kind, whole);
  auto store = Store::create(pool.str(), create, one_thread());
  must(store.status());
  writer.put(*store, 0, 40, 'a');
  writer.erase(*store, 10, 15);
  must(store->close());
  store = Store::open(pool.str(), options);
  must(store.status());
  writer.put(*store, 30, 60, 'b');
  writer.mix(*store, 20, 50);
  writer.erase(*store, 0, 4);
  writer.put(*store, 2, 3, 'c');
  whole.files = read_all(disk);
  whole.groups = groups_in(whole.files["redo.log"]);
  return whole;
}

Whole const& whole_of(std::size_t kind) {
  static std::optional<Whole> all[std::size(kKinds)];
  if (!all[kind]) all[kind] = make(kKinds[kind]);
  return *all[kind];
}

// --- The log
// -------------------------------------------------------------------------------------------------

std::uint64_t place_in_log(Whole const& whole, Damage const& d) {
  std::size_t const groups = whole.groups.size();
  std::uint64_t const group = whole.groups[d.where % groups], inside = d.where / groups;
  switch (d.target % 8) {
    case 0: return d.where % sizeof(LogHeader);
    case 1: return kBlock + d.where % sizeof(LogHeader);
    case 2:
    case 3: return group + inside % sizeof(GroupHeader);
    case 4:
    case 5: return group + sizeof(GroupHeader) + inside % 40;  // the batch's header
    case 6: return group + sizeof(GroupHeader) + inside % 2048;
    default: return kRingOffset + d.where % (whole.groups.back() + kBlock - kRingOffset);
  }
}

void seal_log(Whole const& whole, Bytes& log) {
  Image image(std::move(log));
  image.seal<LogHeader>(0);
  image.seal<LogHeader>(kBlock);
  for (std::uint64_t const at : whole.groups) {
    auto const header = image.at<GroupHeader>(at);
    std::uint64_t const bytes = wal::group_bytes(header.payload_bytes);
    if (at + bytes > image.bytes.size()) continue;
    image.set(at + offsetof(GroupHeader, sum),
              wal::payload_sum(image.bytes.data() + at + sizeof header, header.payload_bytes));
    image.set(at + offsetof(GroupHeader, crc), wal::group_crc(image.bytes.data() + at, bytes));
  }
  log = std::move(image.bytes);
}

// --- Images
// -------------------------------------------------------------------------------------------------

struct Place {
  std::string file;
  std::uint64_t at = 0;
};

/// Of a root with two levels and a lease, and one entry more.
constexpr std::uint64_t kRootBytes = pm::kRootHead + 4 * sizeof(pm::RootEntry);

Place place_in_images(Whole const& whole, Damage const& d) {
  std::string const image = d.target / 8 % 2 == 0 ? "image-a" : "image-b";
  Bytes const& bytes = whole.files.at(image);
  std::uint64_t const pool = Image(bytes).at<ImageHeader>(0).bytes;
  switch (d.target % 8) {
    case 0:
    case 1: return {"checkpoint", d.target % 2 * kBlock + d.where % sizeof(CheckpointRecord)};
    case 2:
    case 3: return {image, d.where % sizeof(ImageHeader)};
    case 4: return {image, kBlock + pool + d.where % 64};
    case 5: return {image, kBlock + d.where % sizeof(pm::PoolHeader)};
    case 6: return {image, kBlock + pm::kRootOffset[d.where % 2] + d.where / 2 % kRootBytes};
    default: return {image, d.where * std::uint64_t{257} % bytes.size()};
  }
}

/// Chunks, their list, the header, and the record that names the image by its checksum.
void seal_images(Directory& files) {
  for (char const* const name : {"image-a", "image-b"}) {
    Image image(std::move(files[name]));
    auto header = image.at<ImageHeader>(0);
    std::uint64_t const pool = image.bytes.size() - 2 * kBlock,
                        chunks = (pool + kChunkBytes - 1) / kChunkBytes;
    for (std::uint64_t i = 0; i < chunks; ++i) {
      std::uint64_t const at = kBlock + i * kChunkBytes,
                          size = std::min<std::uint64_t>(kChunkBytes, kBlock + pool - at);
      image.set(kBlock + pool + 4 * i, crc32c(0, image.bytes.data() + at, size));
    }
    header.table_crc = crc32c(0, image.bytes.data() + kBlock + pool, kBlock);
    header.crc = wal::checksum(header);
    image.set(0, header);
    files[name] = std::move(image.bytes);
  }
  Image record(std::move(files["checkpoint"]));
  for (std::uint64_t const at : {std::uint64_t{0}, kBlock}) {
    auto copy = record.at<CheckpointRecord>(at);
    if (copy.image <= 1)
      copy.image_crc = Image(files[copy.image == 0 ? "image-a" : "image-b"]).at<ImageHeader>(0).crc;
    copy.crc = wal::checksum(copy);
    record.set(at, copy);
  }
  files["checkpoint"] = std::move(record.bytes);
}

/// Opens the store that these files leave.
Result<Store> open(Directory const& files, std::string const& pool, MemoryDisk& disk) {
  for (auto const& [name, bytes] : files) disk.lay(name_in(name), bytes);
  OpenOptions options = one_thread();
  options.log_dir = kDirectory;
  return Store::open(pool, options);
}

}  // namespace

void fuzz_log(std::uint8_t const* data, std::size_t size) {
  if (size == 0) return;
  Whole const& whole = whole_of(data[0] % std::size(kKinds));
  Directory files = whole.files;
  Bytes& log = files["redo.log"];
  for (Damage const& d : damages_in(data, size)) d.put(log[place_in_log(whole, d)]);
  if (keeps_sums(data[0])) seal_log(whole, log);
  if ((data[0] & 0x30) == 0x30 && size > 1) log.resize(log.size() / 256 * data[1]);
  PoolPath pool;
  MemoryDisk disk;
  auto store = open(files, pool.str(), disk);
  if (!store) return;
  auto const held = scan_all(*store);
  if (!keeps_sums(data[0]) &&
      std::find(whole.after.begin(), whole.after.end(), held) == whole.after.end())
    fault("a damaged log was replayed to what never was");
  if ((data[0] & kUses) != 0) use(*store);
}

void fuzz_image(std::uint8_t const* data, std::size_t size) {
  if (size == 0) return;
  Whole const& whole = whole_of(data[0] % std::size(kKinds));
  Directory files = whole.files;
  for (Damage const& d : damages_in(data, size)) {
    Place const place = place_in_images(whole, d);
    d.put(files[place.file][place.at]);
  }
  if (keeps_sums(data[0])) seal_images(files);
  if ((data[0] & 0x30) == 0x30 && size > 1) {
    Bytes& cut = files[kFiles[1 + data[1] % 3]];
    cut.resize(cut.size() / 256 * data[1]);
  }
  PoolPath pool;
  MemoryDisk disk;
  auto store = open(files, pool.str(), disk);
  if (!store) return;
  if (!keeps_sums(data[0]) && scan_all(*store) != whole.after.back())
    fault("a damaged image was taken for a whole one");
  if ((data[0] & kUses) != 0) use(*store);
}

}  // namespace perdure::test
