#include "support/store_driver.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>

#include "support/sanitized.hpp"

namespace perdure::test {
namespace {

namespace fs = std::filesystem;

constexpr std::byte kUntouched{0xee};

std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// `bytes` bytes that begin with n (as far as it fits) and go on arbitrarily.
Bytes counted_bytes(std::uint64_t n, std::uint64_t salt, std::size_t bytes) {
  Bytes out(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) {
    std::uint64_t const word = i < 8 ? n : mix(n ^ mix(salt + i / 8));
    out[i] = static_cast<char>(word >> (i % 8 * 8) & 0xff);
  }
  return out;
}

template <class T>
Bytes combine_as(Rmw rmw, Bytes const& stored, Bytes const& operand) {
  Bytes out = stored;  // bytes past the last whole element stay
  for (std::size_t at = 0; at + sizeof(T) <= stored.size(); at += sizeof(T)) {
    T a, b;
    std::memcpy(&a, stored.data() + at, sizeof(T));
    std::memcpy(&b, operand.data() + at, sizeof(T));
    T result = a;
    if (rmw == Rmw::add) {
      if constexpr (std::is_floating_point_v<T>) {
        result = a + b;
      } else {
        using U = std::make_unsigned_t<T>;
        result = static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
      }
    } else if (rmw == Rmw::min || rmw == Rmw::max) {
      result = rmw == Rmw::min ? std::min(a, b) : std::max(a, b);
      if constexpr (std::is_floating_point_v<T>) {
        if (std::isnan(a) || std::isnan(b)) result = std::isnan(b) ? b : a;
      }
    }
    std::memcpy(out.data() + at, &result, sizeof(T));
  }
  return out;
}

std::vector<KeyStatus> unset(std::size_t n) {
  return std::vector<KeyStatus>(n, static_cast<KeyStatus>(0xdd));
}

}  // namespace

ScratchDir::ScratchDir() {
  std::string base = "/dev/shm";
  std::error_code error;
  if (!fs::is_directory(base, error) || ::access(base.c_str(), W_OK) != 0)
    base = fs::temp_directory_path();
  std::string pattern = base + "/perdure-test-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr)
    throw std::runtime_error("no scratch directory under " + base);
  path_ = pattern;
}

ScratchDir::~ScratchDir() {
  std::error_code error;
  fs::remove_all(path_, error);
}

std::string ScratchDir::file(std::string_view name) const {
  return path_ + "/" + std::string(name);
}

Packed::Packed(std::vector<Bytes> const& items, std::uint32_t width)
    : width_(width), count_(items.size()) {
  data_.reserve(1);  // never null, so that an empty batch still names an array
  offsets_.push_back(0);
  for (Bytes const& item : items) {
    if (width != 0 && item.size() != width)
      throw std::logic_error("an item has another length than its column");
    auto const bytes = std::as_bytes(std::span(item));
    data_.insert(data_.end(), bytes.begin(), bytes.end());
    offsets_.push_back(static_cast<std::int64_t>(data_.size()));
  }
}

Column Packed::column() const {
  return {data_.data(), width_ == 0 ? offsets_.data() : nullptr, width_, count_, MemorySpace::host};
}

std::vector<Bytes> unpack(VariableValues const& values) {
  std::vector<Bytes> out;
  for (std::size_t i = 0; i + 1 < values.offsets.size(); ++i) {
    auto const* const data = reinterpret_cast<char const*>(values.data.data());
    out.emplace_back(data + values.offsets[i],
                     static_cast<std::size_t>(values.offsets[i + 1] - values.offsets[i]));
  }
  return out;
}

std::vector<Bytes> unpack(std::span<std::byte const> data, std::uint32_t width) {
  std::vector<Bytes> out;
  for (std::size_t at = 0; at + width <= data.size(); at += width) {
    out.emplace_back(reinterpret_cast<char const*>(data.data()) + at, width);
  }
  return out;
}

Bytes combine_plainly(Rmw rmw, Element element, Bytes const& stored, Bytes const& operand) {
  if (rmw == Rmw::replace) return operand;
  switch (element) {
    case Element::u8: return combine_as<std::uint8_t>(rmw, stored, operand);
    case Element::i32: return combine_as<std::int32_t>(rmw, stored, operand);
    case Element::u32: return combine_as<std::uint32_t>(rmw, stored, operand);
    case Element::i64: return combine_as<std::int64_t>(rmw, stored, operand);
    case Element::u64: return combine_as<std::uint64_t>(rmw, stored, operand);
    case Element::f32: return combine_as<float>(rmw, stored, operand);
    case Element::f64: return combine_as<double>(rmw, stored, operand);
  }
  throw std::logic_error("an element type this test does not know");
}

Answer Model::apply(Op const& op, Rmw rmw, Element element) {
  auto const there = held.find(op.key);
  if (op.kind == OpKind::put) {
    held[op.key] = op.value;
    return {};
  }
  if (there == held.end()) return {KeyStatus::not_found, {}};
  switch (op.kind) {
    case OpKind::get: return {KeyStatus::ok, there->second};
    case OpKind::erase: held.erase(there); return {};
    default: break;
  }
  if (rmw != Rmw::replace && op.value.size() != there->second.size())
    return {KeyStatus::size_mismatch, {}};
  there->second = combine_plainly(rmw, element, there->second, op.value);
  return {};
}

CreateOptions Config::create(std::uint64_t expected_records) const {
  CreateOptions o;
  o.key_bytes = key_bytes;
  o.value_bytes = value_bytes;
  o.expected_records = expected_records;
  o.layout = layout;
  o.shape = shape;
  o.index = index;
  o.values = values;
  return o;
}

OpenOptions Config::open() const {
  OpenOptions o;
  o.device = device;
  o.threads = threads;
  o.count_accesses = count_accesses;
  o.memory.residency = residency;
  o.memory.gather = gather;
  o.gets_by = gets_by;
  return o;
}

Bytes Config::key(std::uint64_t n) const {
  if (key_bytes != 0) return counted_bytes(n, 1, key_bytes);
  return counted_bytes(n, 2, 8 + mix(n) % 53);
}

Bytes Config::value(std::uint64_t n, std::uint64_t version) const {
  std::uint64_t const which = n * 1000003 + version;
  return counted_bytes(which, 3 + version, value_bytes != 0 ? value_bytes : mix(which) % 200);
}

void PrintTo(Config const& config, std::ostream* out) { *out << config.name; }

Status Driver::put(std::vector<Bytes> const& keys, std::vector<Bytes> const& values,
                   std::vector<KeyStatus>& statuses) {
  statuses = unset(keys.size());
  Packed const k(keys, config_.key_bytes), v(values, config_.value_bytes);
  return store_.put(k.column(), v.column(), statuses, how);
}

Status Driver::erase(std::vector<Bytes> const& keys, std::vector<KeyStatus>& statuses) {
  statuses = unset(keys.size());
  Packed const k(keys, config_.key_bytes);
  return store_.erase(k.column(), statuses, how);
}

Status Driver::update(std::vector<Bytes> const& keys, std::vector<Bytes> const& operands, Rmw rmw,
                      Element element, std::vector<KeyStatus>& statuses) {
  statuses = unset(keys.size());
  Packed const k(keys, config_.key_bytes), v(operands, config_.value_bytes);
  return store_.update(k.column(), v.column(), rmw, element, statuses, how);
}

Status Driver::get(std::vector<Bytes> const& keys, std::vector<Answer>& answers) {
  std::vector<KeyStatus> statuses = unset(keys.size());
  Packed const k(keys, config_.key_bytes);
  std::vector<Bytes> values;
  if (config_.value_bytes != 0) {
    std::vector<std::byte> out(keys.size() * config_.value_bytes + 1, kUntouched);
    Status const s = store_.get(
        k.column(), {out.data(), config_.value_bytes, keys.size(), MemorySpace::host}, statuses);
    if (!s.ok()) return s;
    values = unpack({out.data(), keys.size() * config_.value_bytes}, config_.value_bytes);
    EXPECT_EQ(out.back(), kUntouched) << "a get wrote past its output";
    // With a mirror, or by address once all keys are found, a value is copied and its checksum made
    // of it at once: what is corrupt got there.
    bool const copied_first =
        config_.residency == Residency::mirrored ||
        (config_.layout == Layout::in_place && config_.gather == Gather::in_order);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (statuses[i] == KeyStatus::ok || (copied_first && statuses[i] == KeyStatus::corrupt))
        continue;
      EXPECT_EQ(values[i], Bytes(config_.value_bytes, static_cast<char>(kUntouched)))
          << "a get without an answer touched its output";
    }
  } else {
    auto found = store_.get_variable(k.column(), statuses);
    if (!found) return found.status();
    values = unpack(*found);
    EXPECT_EQ(values.size(), keys.size());
  }
  answers.clear();
  for (std::size_t i = 0; i < keys.size(); ++i)
    answers.push_back({statuses[i], statuses[i] == KeyStatus::ok ? values[i] : Bytes{}});
  return {};
}

Status Driver::mixed(std::vector<Op> const& ops, Rmw rmw, Element element,
                     std::vector<Answer>& answers) {
  std::vector<Bytes> keys, values;
  std::vector<OpKind> kinds;
  for (Op const& op : ops) {
    keys.push_back(op.key);
    bool const filler =
        config_.value_bytes != 0 && (op.kind == OpKind::get || op.kind == OpKind::erase);
    values.push_back(filler ? Bytes(config_.value_bytes, '\x5a') : op.value);
    kinds.push_back(op.kind);
  }
  Packed const k(keys, config_.key_bytes), v(values, config_.value_bytes);
  std::vector<std::byte> out(ops.size() * config_.value_bytes + 1, kUntouched);
  std::vector<KeyStatus> statuses = unset(ops.size());
  MixedBatch batch;
  batch.keys = k.column();
  batch.kinds = kinds;
  batch.values = v.column();
  batch.rmw = rmw;
  batch.element = element;
  if (config_.value_bytes != 0)
    batch.out = {out.data(), config_.value_bytes, ops.size(), MemorySpace::host};
  Status const s = store_.apply(batch, statuses, how);
  answers.clear();
  for (std::size_t i = 0; i < ops.size(); ++i) {
    bool const got = ops[i].kind == OpKind::get && statuses[i] == KeyStatus::ok;
    auto const* const at = reinterpret_cast<char const*>(out.data()) + i * config_.value_bytes;
    answers.push_back({statuses[i], got ? Bytes(at, config_.value_bytes) : Bytes{}});
    // what a get of a damaged record leaves is not said
    if (got || config_.value_bytes == 0 || statuses[i] == KeyStatus::corrupt) continue;
    EXPECT_EQ(Bytes(at, config_.value_bytes),
              Bytes(config_.value_bytes, static_cast<char>(kUntouched)))
        << "operation " << i << " is no get that found something, yet its output changed";
  }
  return s;
}

void Driver::run_mixed(std::vector<Op> const& ops, Rmw rmw, Element element) {
  std::vector<Answer> answers;
  Status const s = mixed(ops, rmw, element, answers);
  ASSERT_TRUE(s.ok()) << s.message();
  for (std::size_t i = 0; i < ops.size(); ++i) {
    Answer const expected = model.apply(ops[i], rmw, element);
    ASSERT_EQ(answers[i].status, expected.status)
        << "operation " << i << " of " << ops.size() << ", kind " << static_cast<int>(ops[i].kind)
        << ", key " << to_hex(ops[i].key);
    ASSERT_TRUE(answers[i].value == expected.value)
        << "operation " << i << ", key " << to_hex(ops[i].key) << ": " << to_hex(answers[i].value)
        << " instead of " << to_hex(expected.value);
  }
}

void Driver::run_put(std::vector<Bytes> const& keys, std::vector<Bytes> const& values) {
  std::vector<KeyStatus> statuses;
  Status const s = put(keys, values, statuses);
  ASSERT_TRUE(s.ok()) << s.message();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(statuses[i], KeyStatus::ok) << "key " << to_hex(keys[i]);
    model.held[keys[i]] = values[i];
  }
}

void Driver::run_erase(std::vector<Bytes> const& keys) {
  std::vector<KeyStatus> statuses;
  Status const s = erase(keys, statuses);
  ASSERT_TRUE(s.ok()) << s.message();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    bool const was_there = model.held.erase(keys[i]) == 1;
    ASSERT_EQ(statuses[i], was_there ? KeyStatus::ok : KeyStatus::not_found)
        << "key " << to_hex(keys[i]);
  }
}

void Driver::check_held() {
  std::vector<Bytes> keys;
  for (auto const& [key, value] : model.held) keys.push_back(key);
  std::vector<Answer> answers;
  Status const s = get(keys, answers);
  ASSERT_TRUE(s.ok()) << s.message();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(answers[i].status, KeyStatus::ok) << "key " << to_hex(keys[i]) << " is lost";
    Bytes const& held = model.held[keys[i]];
    ASSERT_TRUE(answers[i].value == held)
        << "key " << to_hex(keys[i]) << ": " << to_hex(answers[i].value) << " instead of "
        << to_hex(held);
  }
}

void Driver::check_all() {
  ASSERT_NO_FATAL_FAILURE(check_held());
  EXPECT_EQ(store_.stats().records, model.held.size());
  auto const scanned = scan_all(store_, 1000);
  EXPECT_EQ(scanned.size(), model.held.size());
  EXPECT_TRUE(scanned == model.held) << "a scan returns other records than gets do";
  auto const verified = store_.verify();
  ASSERT_TRUE(verified.ok()) << verified.status().message();
  EXPECT_EQ(verified.value().records, model.held.size());
  EXPECT_EQ(verified.value().fault_count, 0u)
      << (verified.value().faults.empty() ? "" : verified.value().faults[0]);
}

std::map<Bytes, Bytes> scan_all(Store& store, std::size_t page) {
  std::map<Bytes, Bytes> found;
  ScanCursor cursor;
  while (!cursor.done) {
    auto const got = store.scan(cursor, page);
    if (!got) {
      ADD_FAILURE() << got.status().message();
      return found;
    }
    auto const keys = unpack(got.value().keys);
    auto const values = unpack(got.value().values);
    EXPECT_EQ(keys.size(), values.size());
    EXPECT_LE(keys.size(), page);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      EXPECT_TRUE(found.emplace(keys[i], values[i]).second)
          << "key " << to_hex(keys[i]) << " comes twice in a scan";
    }
    cursor = got.value().next;
  }
  return found;
}

void copy_as_if_killed(std::string const& from, std::string const& to) {
  fs::copy_file(from, to, fs::copy_options::overwrite_existing);
}

std::string to_hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (char const c : bytes) {
    auto const byte = static_cast<unsigned char>(c);
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

Bytes from_hex(std::string_view hex) {
  auto const digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  Bytes out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    out += static_cast<char>(digit(hex[i]) << 4 | digit(hex[i + 1]));
  return out;
}

std::size_t volume(std::size_t release) { return kSanitized ? release / 8 + 1 : release; }

bool available(Device device, std::string& why_not) {
  for (DeviceInfo const& info : devices()) {
    if (info.device != device) continue;
    why_not = info.why_not;
    return info.available;
  }
  why_not = "this build knows no such device";
  return false;
}

}  // namespace perdure::test
