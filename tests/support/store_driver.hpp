// What the store's tests share: keys and values as byte strings, packing them into columns, a
// sequential model of what a batch must do, and a driver that runs batches on a store and on the
// model at once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "perdure/store.h"

namespace perdure::test {

using Bytes = std::string;  // any bytes, zeros included

/// A directory on tmpfs where there is one, removed with all it holds at the end.
class ScratchDir {
 public:
  ScratchDir();
  ~ScratchDir();
  ScratchDir(ScratchDir const&) = delete;
  ScratchDir& operator=(ScratchDir const&) = delete;
  [[nodiscard]] std::string file(std::string_view name) const;
  [[nodiscard]] std::string const& path() const { return path_; }

 private:
  std::string path_;
};

/// Byte strings packed as the API takes them: side by side with a width, or with offsets (width 0).
class Packed {
 public:
  Packed(std::vector<Bytes> const& items, std::uint32_t width);
  [[nodiscard]] Column column() const;

 private:
  std::uint32_t width_;
  std::size_t count_;
  std::vector<std::byte> data_;
  std::vector<std::int64_t> offsets_;
};

[[nodiscard]] std::vector<Bytes> unpack(VariableValues const& values);
[[nodiscard]] std::vector<Bytes> unpack(std::span<std::byte const> data, std::uint32_t width);

struct Op {
  OpKind kind = OpKind::get;
  Bytes key;
  Bytes value;  // operand of put and update; in fixed-width pools gets and erases carry a filler
};

struct Answer {
  KeyStatus status = KeyStatus::ok;
  Bytes value;  // of a get that found its key
  bool operator==(Answer const&) const = default;
};

/// Element arithmetic written down once more, as plainly as C++ allows.
[[nodiscard]] Bytes combine_plainly(Rmw rmw, Element element, Bytes const& stored,
                                    Bytes const& operand);

/// What a store must hold and answer, one operation after the other.
class Model {
 public:
  Answer apply(Op const& op, Rmw rmw, Element element);
  std::map<Bytes, Bytes> held;
};

/// How a pool is made and opened; gtest prints its name.
struct Config {
  std::string name;
  Device device = Device::cpu;
  Layout layout = Layout::word;
  Shape shape;
  std::uint32_t key_bytes = 8;  // 0 = variable
  std::uint32_t value_bytes = 0;  // 0 = variable
  bool count_accesses = false;
  std::uint32_t threads = 1;
  Residency residency = Residency::automatic;
  Gather gather = Gather::automatic;
  Index index = Index::gphash;
  Values values = Values::heap;
  GetsBy gets_by = GetsBy::automatic;

  /// Its operations take effect one by one, by threads of the host.
  [[nodiscard]] bool single() const { return index != Index::gphash; }
  [[nodiscard]] CreateOptions create(std::uint64_t expected_records = 1) const;
  [[nodiscard]] OpenOptions open() const;
  /// The n-th key, and a value for it; different n, different bytes.
  [[nodiscard]] Bytes key(std::uint64_t n) const;
  [[nodiscard]] Bytes value(std::uint64_t n, std::uint64_t version = 0) const;
};
void PrintTo(Config const& config, std::ostream* out);

/// A store and its model. Batches run on both; a difference fails the current test.
class Driver {
 public:
  Driver(Config config, Store store) : config_(std::move(config)), store_(std::move(store)) {}

  Status put(std::vector<Bytes> const& keys, std::vector<Bytes> const& values,
             std::vector<KeyStatus>& statuses);
  Status get(std::vector<Bytes> const& keys, std::vector<Answer>& answers);
  Status erase(std::vector<Bytes> const& keys, std::vector<KeyStatus>& statuses);
  Status update(std::vector<Bytes> const& keys, std::vector<Bytes> const& operands, Rmw rmw,
                Element element, std::vector<KeyStatus>& statuses);
  Status mixed(std::vector<Op> const& ops, Rmw rmw, Element element, std::vector<Answer>& answers);

  /// Runs `ops` as one mixed batch and compares every answer with the model's.
  void run_mixed(std::vector<Op> const& ops, Rmw rmw = Rmw::replace, Element element = Element::u8);
  void run_put(std::vector<Bytes> const& keys, std::vector<Bytes> const& values);
  void run_erase(std::vector<Bytes> const& keys);

  /// Everything the model holds is there, and nothing else: by get, by scan, by stats and by
  /// verify.
  void check_all();
  /// Those keys of the model are there with their values.
  void check_held();

  /// Forgets the store and takes another one of the same pool.
  void replace(Store store) { store_ = std::move(store); }

  [[nodiscard]] Store& store() { return store_; }
  [[nodiscard]] Config const& config() const { return config_; }
  Model model;
  CallOptions how;  // of every write

 private:
  Config config_;
  Store store_;
};

/// All records by scan, `page` at a time; fails the test if one comes twice.
[[nodiscard]] std::map<Bytes, Bytes> scan_all(Store& store, std::size_t page);

/// As a process leaves the file when it is killed now: its bytes, copied while it is open.
void copy_as_if_killed(std::string const& from, std::string const& to);

[[nodiscard]] std::string to_hex(std::string_view bytes);
[[nodiscard]] Bytes from_hex(std::string_view hex);

/// Sanitizer builds are several times slower: tests that only want volume take less of it there.
[[nodiscard]] std::size_t volume(std::size_t release);

/// The device's store tests need is here; else says why not.
[[nodiscard]] bool available(Device device, std::string& why_not);

}  // namespace perdure::test
