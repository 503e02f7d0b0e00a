// Pool files as the crash, format and fuzz tests handle them: whole files read into memory, edited
// by hand as docs/format.md has it, and written back. Invariant: every file made here is unlinked
// again.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/crc32c.hpp"
#include "index/dash/root.hpp"
#include "index/gphash/root_levels.hpp"
#include "perdure/store.h"
#include "pm/pool_format.hpp"
#include "pm/record_shape.hpp"

namespace perdure::test {

using Contents = std::map<std::string, std::string>;

/// A path in /dev/shm that nobody else uses, and no file there once this goes.
class PoolPath {
 public:
  PoolPath() {
    static int made = 0;
    path_ = "/dev/shm/perdure-test-" + std::to_string(::getpid()) + "-" + std::to_string(made++);
  }
  PoolPath(PoolPath const&) = delete;
  PoolPath& operator=(PoolPath const&) = delete;
  ~PoolPath() { ::unlink(path_.c_str()); }
  [[nodiscard]] std::string const& str() const { return path_; }

 private:
  std::string path_;
};

using Bytes = std::vector<std::byte>;

inline Bytes read_file(std::string const& path) {
  std::ifstream in(path, std::ios::binary);
  Bytes bytes(std::filesystem::file_size(path));
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!in) throw std::runtime_error("cannot read " + path);
  return bytes;
}

inline void write_file(std::string const& path, std::span<std::byte const> bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<char const*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

/// Strings as the column a batch takes: of one width, or of Arrow's shape.
class Strings {
 public:
  explicit Strings(std::uint32_t width) : width_(width), offsets_{0} {}
  void add(std::string_view text) {
    auto const* const from = reinterpret_cast<std::byte const*>(text.data());
    data_.insert(data_.end(), from, from + text.size());
    offsets_.push_back(static_cast<std::int64_t>(data_.size()));
  }
  [[nodiscard]] std::size_t count() const { return offsets_.size() - 1; }
  [[nodiscard]] Column column() {
    data_.reserve(1);  // a column of empty strings has an address, too
    return {data_.data(), width_ == 0 ? offsets_.data() : nullptr, width_, count(),
            MemorySpace::host};
  }

 private:
  std::uint32_t width_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::byte> data_;
};

inline std::string text_at(VariableValues const& values, std::size_t i) {
  auto const begin = static_cast<std::size_t>(values.offsets[i]);
  auto const end = static_cast<std::size_t>(values.offsets[i + 1]);
  return {reinterpret_cast<char const*>(values.data.data()) + begin, end - begin};
}

inline Status put_all(Store& store, Contents const& contents) {
  Stats const stats = store.stats();
  Strings keys(stats.key_bytes);
  Strings values(stats.value_bytes);
  for (auto const& [key, value] : contents) {
    keys.add(key);
    values.add(value);
  }
  return store.put(keys.column(), values.column());
}

struct Got {
  KeyStatus status = KeyStatus::not_found;
  std::string value;
};

/// What `get` says of each key, by get_variable, which serves every shape of pool.
inline std::vector<Got> get_all(Store& store, std::vector<std::string> const& keys) {
  Strings column(store.stats().key_bytes);
  for (auto const& key : keys) column.add(key);
  std::vector<KeyStatus> statuses(keys.size());
  auto values = store.get_variable(column.column(), statuses);
  if (!values) throw std::runtime_error(values.status().message());
  std::vector<Got> got;
  for (std::size_t i = 0; i < keys.size(); ++i) got.push_back({statuses[i], text_at(*values, i)});
  return got;
}

/// Everything a scan finds; nothing if a key comes twice.
inline std::optional<Contents> scan_all(Store& store) {
  Contents found;
  ScanCursor cursor;
  while (!cursor.done) {
    auto page = store.scan(cursor, 1000);
    if (!page) return std::nullopt;
    for (std::size_t i = 0; i + 1 < page->keys.offsets.size(); ++i) {
      if (!found.emplace(text_at(page->keys, i), text_at(page->values, i)).second)
        return std::nullopt;
    }
    cursor = page->next;
  }
  return found;
}

inline std::string u64_text(std::uint64_t n) {
  std::string text(sizeof n, '\0');
  std::memcpy(text.data(), &n, sizeof n);
  return text;
}

/// A pool's bytes, to be looked at and spoilt.
class Image {
 public:
  explicit Image(Bytes read) : bytes(std::move(read)) {}

  template <class T>
  [[nodiscard]] T at(std::uint64_t offset) const {
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
  }
  template <class T>
  void set(std::uint64_t offset, T const& value) {
    std::memcpy(bytes.data() + offset, &value, sizeof value);
  }
  void flip(std::uint64_t offset, unsigned bit = 0) {
    bytes[offset] ^= static_cast<std::byte>(1u << bit);
  }

  [[nodiscard]] pm::PoolHeader header() const { return at<pm::PoolHeader>(pm::kHeaderOffset); }
  void seal_header() { seal<pm::PoolHeader>(pm::kHeaderOffset); }

  [[nodiscard]] std::uint64_t root_offset() const {
    bool const a_is_newer =
        at<std::uint64_t>(pm::kRootOffset[0]) > at<std::uint64_t>(pm::kRootOffset[1]);
    return pm::kRootOffset[a_is_newer ? 0 : 1];
  }
  /// The newer copy; of a damaged one, as many entries as a root can have.
  [[nodiscard]] pm::Root root() const { return root_at(root_offset()); }
  [[nodiscard]] pm::Root root_at(std::uint64_t offset) const {
    auto root = at<pm::Root>(offset);
    root.entries = std::min(root.entries, pm::kMaxRootEntries);
    std::fill(std::begin(root.entry) + root.entries, std::end(root.entry), pm::RootEntry{});
    return root;
  }
  /// Bytes of that copy that are in use.
  [[nodiscard]] std::uint64_t root_bytes(std::uint64_t offset) const {
    return root_at(offset).bytes();
  }
  /// Puts `root` where it would have been written next, valid.
  void publish(pm::Root root) {
    ++root.sequence;
    std::uint64_t const offset = pm::kRootOffset[root.sequence % 2];
    root.crc = root.checksum();
    set(offset, root);
  }
  /// Makes its checksum right again, whatever it says.
  void seal_root(std::uint64_t offset) {
    set(offset + offsetof(pm::Root, crc), root_at(offset).checksum());
  }
  template <class T>
  void seal(std::uint64_t offset) {
    set(offset + offsetof(T, crc), crc32c(0, bytes.data() + offset, offsetof(T, crc)));
  }

  /// Of a Dash pool: its index superblock.
  [[nodiscard]] std::uint64_t dash_index() const {
    pm::Root const r = root();
    pm::RootEntry const* const index = r.find(dash::kIndexName);
    if (index == nullptr) throw std::runtime_error("the root names no Dash index");
    return index->offset;
  }

  [[nodiscard]] bool in_place() const { return header().in_place(); }

  struct Slot {
    std::uint64_t level_offset, number, level_slots;
    std::uint64_t word_offset;   // of its word or state
    std::uint64_t address_offset;  // of what leads to its record (the word itself in layout word)
    std::uint64_t key_offset;  // of its inline key, 0 if there is none
    friend bool operator==(Slot const& a, Slot const& b) { return a.word_offset == b.word_offset; }
  };
  [[nodiscard]] Slot slot(gphash::Level const& level, std::uint64_t number) const {
    std::uint64_t const slots = std::uint64_t{header().slots} << level.log2_buckets;
    std::uint64_t const key_stride = (std::uint64_t{header().key_bytes} + 7) / 8 * 8;
    std::uint64_t const at_level = level.base.bytes;
    Slot s{at_level, number, slots, at_level + number * 8, at_level + number * 8, 0};
    if (in_place()) {
      s.address_offset = at_level + slots * (8 + key_stride) + number * 8;
      if (key_stride != 0) s.key_offset = at_level + slots * 8 + number * key_stride;
    }
    return s;
  }
  /// That the root names, highest first; one that retires is the last.
  [[nodiscard]] gphash::RootLevels levels() const {
    auto found = gphash::read_levels(root(), header().levels);
    if (!found) throw std::runtime_error(found.status().message());
    return *found;
  }
  /// Slots of the levels the root names, live ones and a retiring one, in file order of the root.
  [[nodiscard]] std::vector<Slot> slots() const {
    std::vector<Slot> all;
    for (gphash::Level const& level : levels().levels) {
      std::uint64_t const n = std::uint64_t{header().slots} << level.log2_buckets;
      for (std::uint64_t k = 0; k < n; ++k) all.push_back(slot(level, k));
    }
    return all;
  }
  [[nodiscard]] bool taken(Slot const& s) const { return at<std::uint64_t>(s.word_offset) != 0; }
  [[nodiscard]] std::uint64_t record(Slot const& s) const {
    auto const word = at<std::uint64_t>(s.address_offset);
    return in_place() ? word : (word & ((std::uint64_t{1} << 40) - 1)) * 16;
  }
  [[nodiscard]] std::string key(Slot const& s) const {
    if (s.key_offset != 0) return text(s.key_offset, header().key_bytes);
    pm::RecordShape const shape(header());
    std::uint64_t const at_record = record(s);
    if (shape.split())
      return text(shape.head(Offset{at_record}).bytes + sizeof(pm::RecordHead), shape.key_bytes);
    return text(at_record + sizeof(pm::RecordHeader), at<pm::RecordHeader>(at_record).key_bytes);
  }
  /// Where a record's value begins.
  [[nodiscard]] std::uint64_t value_offset(Slot const& s) const {
    if (pm::RecordShape(header()).split()) return record(s);
    return record(s) + sizeof(pm::RecordHeader) + at<pm::RecordHeader>(record(s)).key_bytes;
  }
  [[nodiscard]] Slot slot_of(std::string const& sought) const {
    for (Slot const& s : slots())
      if (taken(s) && key(s) == sought) return s;
    throw std::runtime_error("no slot holds the key");
  }
  /// The slots a key may stand in, in the order in which the first valid one counts.
  [[nodiscard]] std::vector<Slot> candidates(std::string const& sought) const {
    pm::PoolHeader const h = header();
    auto const all = levels().levels;
    std::vector<std::uint64_t> hashes;
    std::uint64_t const hash =
        hash_bytes(reinterpret_cast<std::byte const*>(sought.data()), sought.size());
    for (std::uint32_t n = 0; n < h.hashes; ++n) hashes.push_back(nth_hash(hash, n));
    std::vector<Slot> found;
    for (std::uint32_t i = 0; i < h.levels; ++i) {
      std::uint32_t const bits = all[i].log2_buckets;
      for (std::uint64_t const one : hashes) {
        constexpr std::uint32_t kWindow = 15;
        std::uint64_t bucket = bits == 0 ? 0 : one >> (64 - bits);
        if (bits > kWindow && one != hash)
          bucket = (hash >> (64 - bits) >> kWindow << kWindow) + (one >> (64 - kWindow));
        for (std::uint32_t s = 0; s < h.slots; ++s)
          found.push_back(slot(all[i], bucket * h.slots + s));
      }
    }
    return found;
  }
  /// Says of slot `to` what slot `from` says, as a displacement or a resize does.
  void copy_slot(Slot const& from, Slot const& to) {
    set(to.word_offset, at<std::uint64_t>(from.word_offset));
    set(to.address_offset, at<std::uint64_t>(from.address_offset));
    if (from.key_offset == 0) return;
    std::string const key_text = text(from.key_offset, header().key_bytes);
    std::memcpy(bytes.data() + to.key_offset, key_text.data(), key_text.size());
  }
  /// Makes the checksum of a record right again, whatever its bytes say; of none that runs past the
  /// end.
  void seal_record(std::uint64_t record) {
    pm::RecordShape const shape(header());
    if (shape.split()) {
      std::uint64_t const head = shape.head(Offset{record}).bytes;
      if (record + shape.value_bytes > bytes.size()) return;
      std::uint32_t const front = crc32c(0, bytes.data() + head + 4, 4 + shape.key_bytes);
      return set(head, crc32c(front, bytes.data() + record, shape.value_bytes));
    }
    auto const header = at<pm::RecordHeader>(record);
    std::uint64_t const length =
        sizeof header + std::uint64_t{header.key_bytes} + header.value_bytes;
    if (length <= bytes.size() - record)
      set(record, crc32c(0, bytes.data() + record + 4, length - 4));
  }
  void clear_slot(Slot const& s) { set(s.word_offset, std::uint64_t{0}); }

  [[nodiscard]] std::string text(std::uint64_t offset, std::uint64_t length) const {
    return {reinterpret_cast<char const*>(bytes.data()) + offset, length};
  }

  Bytes bytes;
};

}  // namespace perdure::test
