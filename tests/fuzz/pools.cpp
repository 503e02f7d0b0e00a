#include "pools.hpp"

#include <cstdio>
#include <cstdlib>

#include "../dash/dash_image.hpp"
#include "base/hash.hpp"

namespace perdure::test {
namespace {

constexpr std::uint64_t kRecords = 60;
constexpr std::uint64_t kAlike = 1100;
constexpr std::size_t kDamage = 4;        // bytes of input each
constexpr std::size_t kMostDamages = 64;  // more tell no more

struct Kind {
  Layout layout;
  bool variable;
  Shape shape;
  Index index = Index::gphash;
  std::uint32_t value_bytes = 16;
  [[nodiscard]] bool dash() const { return index != Index::gphash; }
};
constexpr Kind kKinds[] = {
    {Layout::word, false, {}},
    {Layout::word, true, {}},
    {Layout::in_place, false, {}},
    {Layout::in_place, true, {}},
    {Layout::word, false, {3, 2, 4}},
    {Layout::in_place, true, {1, 1, 8}},
    {Layout::word, true, {1, 2, 16}},
    {Layout::in_place, false, {2, 1, 16}},
    {Layout::word, false, {}, Index::dash_eh, 8},
    {Layout::word, false, {}, Index::dash_eh},
    {Layout::word, true, {}, Index::dash_eh},
    {Layout::word, false, {}, Index::dash_lh, 8},
    {Layout::word, false, {}, Index::dash_lh},
    {Layout::word, true, {}, Index::dash_lh},
};

std::string key_of(Kind const& kind, std::uint64_t i) {
  return kind.variable ? std::string("key-") + std::to_string(i * i) : u64_text(i);
}

/// Keys whose hashes are alike, so that Dash's segments split, and a bucket is chained.
std::vector<std::string> alike_keys(Kind const& kind) {
  std::vector<std::string> keys;
  for (std::uint64_t i = kRecords; kind.dash() && keys.size() < kAlike; ++i) {
    std::string const key = key_of(kind, i);
    if (hash_bytes(reinterpret_cast<std::byte const*>(key.data()), key.size()) >> 61 == 5)
      keys.push_back(key);
  }
  return keys;
}

struct Made {
  Image image;
  Contents contents;
};

/// The undamaged pool, as a kill would leave it. Small and made of few pages, but not clean.
Made make(Kind const& kind) {
  PoolPath path;
  CreateOptions create;
  create.key_bytes = kind.variable ? 0 : 8;
  create.value_bytes = kind.variable ? 0 : kind.value_bytes;
  create.layout = kind.layout;
  create.index = kind.index;
  create.shape = kind.shape;
  create.expected_records = kind.dash() ? 1 : kRecords;
  create.max_bytes = 24u << 20;
  auto store = Store::create(path.str(), create, one_thread());
  must(store.status());
  Contents contents;
  for (std::uint64_t i = 0; i < kRecords; ++i)
    contents[key_of(kind, i)] =
        std::string(kind.variable ? i % 50 : kind.value_bytes, static_cast<char>('a' + i % 26));
  for (std::string const& key : alike_keys(kind))
    contents[key] = std::string(kind.value_bytes, 'l');
  must(put_all(*store, contents));
  if (kind.dash() && kind.variable)
    must(store->close());  // Dash looks at a pool that was closed otherwise
  return {Image(read_file(path.str())), contents};
}

Made const& made(std::size_t kind) {
  static std::optional<Made> all[std::size(kKinds)];
  if (!all[kind]) all[kind] = make(kKinds[kind]);
  return *all[kind];
}

DashWords const& words_of(std::size_t kind) {
  static std::optional<DashWords> words[std::size(kKinds)];
  if (!words[kind]) words[kind].emplace(image_of(kind));
  return *words[kind];
}

/// Of a Dash pool.
std::uint64_t place_in_dash(Image const& image, DashWords const& words, std::uint8_t target,
                            std::uint16_t where) {
  auto const one_of = [&](std::vector<std::uint64_t> const& some) {
    return some.empty() ? image.root_offset() + where % 64
                        : some[where / 8 % some.size()] + where % 8;
  };
  switch (target % 16) {
    case 0: return where % sizeof(pm::PoolHeader);
    case 1: return image.root_offset() + where % image.root_bytes(image.root_offset());
    case 2: return image.dash_index() + where % 64;
    case 3: return one_of(words.index);
    case 4:
    case 5: return one_of(words.directory);
    case 6:
    case 7: return one_of(words.headers);
    case 8:
    case 9: return one_of(words.states);
    case 10: return one_of(words.links);
    case 11: return one_of(words.hints);
    case 12: return one_of(words.slots);
    case 13: return one_of(words.records);
    case 14: return one_of(words.blocks);
    default: return where * std::uint64_t{257} % image.bytes.size();
  }
}

/// Where a damage falls: only where it matters, or most would hit pages of zeros.
std::uint64_t address_of(Image const& image, std::uint8_t target, std::uint16_t where) {
  pm::Root const root = image.root();
  auto const slots = image.slots();
  auto const& slot = slots[where % slots.size()];
  std::uint64_t const superblock = image.header().superblock_bytes;
  switch (target % 8) {
    case 0: return where % sizeof(pm::PoolHeader);
    case 1: return image.root_offset() + where % 64;
    case 2: return image.root_offset() + where % image.root_bytes(image.root_offset());
    case 3: return slot.word_offset + where / slots.size() % 8;
    case 4: return slot.address_offset + where / slots.size() % 8;
    case 5:
      return (1 + where % (root.superblocks - 1)) * superblock + where / root.superblocks % 64;
    case 6: {
      if (!image.taken(slot)) return slot.word_offset;
      return std::min(image.record(slot) + where / slots.size() % 24, image.bytes.size() - 1);
    }
    default: return where * std::uint64_t{257} % image.bytes.size();
  }
}

std::vector<std::uint64_t> records_of(std::size_t kind) {
  if (kKinds[kind].dash()) return words_of(kind).addresses;
  Image const& whole = image_of(kind);
  std::vector<std::uint64_t> records;
  for (auto const& slot : whole.slots())
    if (whole.taken(slot)) records.push_back(whole.record(slot));
  return records;
}

}  // namespace

void must(Status const& status) {
  if (!status.ok()) fault(status.message());
}

void fault(std::string const& what) {
  std::fprintf(stderr, "fuzz: %s\n", what.c_str());
  std::abort();
}

OpenOptions one_thread() {
  OpenOptions options;
  options.threads = 1;
  return options;
}

std::size_t kind_of(std::uint8_t byte) { return (byte & 0x0f) % std::size(kKinds); }
Image const& image_of(std::size_t kind) { return made(kind).image; }
Contents const& contents_of(std::size_t kind) { return made(kind).contents; }

std::uint64_t place_in(std::size_t kind, std::uint8_t target, std::uint16_t where) {
  Image const& whole = image_of(kind);
  return kKinds[kind].dash() ? place_in_dash(whole, words_of(kind), target, where)
                             : address_of(whole, target, where);
}

void mend(std::size_t kind, Image& image) {
  image.seal_header();
  for (std::uint64_t const offset : pm::kRootOffset) image.seal_root(offset);
  std::uint64_t constexpr superblock = pm::kMinSuperblock;
  for (std::uint64_t at = superblock; at + superblock <= image.bytes.size(); at += superblock)
    for (std::uint32_t const magic : {pm::kSuperblockMagic, pm::kBlocksMagic, dash::kIndexMagic})
      if (image.at<std::uint32_t>(at) == magic)
        image.seal<pm::SuperblockHeader>(at);  // its checksum is at 60 in each
  for (std::uint64_t const record : records_of(kind)) image.seal_record(record);
}

std::vector<Damage> damages_in(std::uint8_t const* data, std::size_t size) {
  std::vector<Damage> damages;
  for (std::size_t at = 1; at + kDamage <= size && damages.size() < kMostDamages; at += kDamage)
    damages.push_back({static_cast<std::uint8_t>(data[at] & 0x7f),
                       static_cast<std::uint16_t>(data[at + 1] | data[at + 2] << 8), data[at + 3],
                       (data[at] & 0x80) != 0});
  return damages;
}

void Damage::put(std::byte& byte) const {
  byte = replaces ? static_cast<std::byte>(value) : byte ^ static_cast<std::byte>(value);
}

namespace {

Image damaged(std::uint8_t const* data, std::size_t size) {
  std::size_t const kind = kind_of(data[0]);
  Image image = image_of(kind);
  for (Damage const& d : damages_in(data, size))
    d.put(image.bytes[place_in(kind, d.target, d.where)]);
  if (keeps_sums(data[0])) mend(kind, image);
  if ((data[0] & 0x30) == 0x30 && size > 1)
    image.bytes.resize(image.bytes.size() / 256 * data[1] / 4096 * 4096);
  return image;
}

}  // namespace

void use(Store& store) {
  Stats const stats = store.stats();
  bool const variable = stats.key_bytes == 0;
  Strings keys(stats.key_bytes);
  Strings values(stats.value_bytes);
  for (std::uint64_t i = 0; i < kRecords * 2; ++i) {
    std::string key = variable ? std::string("key-") + std::to_string(i * i) : u64_text(i);
    if (!variable) key.resize(stats.key_bytes, 'k');
    keys.add(key);
    values.add(std::string(stats.value_bytes == 0 ? i % 90 : stats.value_bytes, 'n'));
  }
  std::vector<KeyStatus> statuses(keys.count());
  auto const read = [&] {
    static_cast<void>(store.get_variable(keys.column(), statuses).ok());
    if (stats.value_bytes == 0) return;
    std::vector<std::byte> out(keys.count() * stats.value_bytes);
    static_cast<void>(
        store.get(keys.column(), {out.data(), stats.value_bytes, keys.count()}, statuses).ok());
  };
  auto const look = [&] {
    static_cast<void>(store.verify().ok());
    for (ScanCursor cursor; !cursor.done;) {
      auto page = store.scan(cursor, 100'000);
      if (!page) break;
      cursor = page->next;
    }
  };
  read();
  look();
  static_cast<void>(
      store.update(keys.column(), values.column(), Rmw::add, Element::u8, statuses).ok());
  static_cast<void>(store.put(keys.column(), values.column(), statuses).ok());
  read();
  static_cast<void>(store.erase(keys.column(), statuses).ok());
  look();
  static_cast<void>(store.close().ok());
}

void fuzz_pool(std::uint8_t const* data, std::size_t size) {
  if (size == 0) return;
  PoolPath path;
  write_file(path.str(), damaged(data, size).bytes);
  OpenOptions options = one_thread();
  for (bool const read_only : {true, false}) {
    options.read_only = read_only;
    auto store = Store::open(path.str(), options);
    if (store) use(*store);
  }
}

}  // namespace perdure::test
