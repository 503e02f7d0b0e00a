#include "store/checks.hpp"

#include <algorithm>
#include <iterator>

#include "base/assert.hpp"
#include "pm/record.hpp"

namespace perdure {
namespace {

constexpr std::uint64_t kManyRecords = 1u
                                       << 20;  // variable sizes: from here on superblocks of 4 MiB
constexpr std::uint32_t kMaxFixedKey = 128;
constexpr std::uint32_t kMaxVariableKey = 64u << 10;

/// Sizes an element of that kind may have.
bool is_size_of(ValueKind kind, std::uint8_t bytes) {
  switch (kind) {
    case ValueKind::bytes: return bytes == 0;
    case ValueKind::boolean: return bytes == 1;
    case ValueKind::signed_integer:
    case ValueKind::unsigned_integer: return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
    case ValueKind::floating: return bytes == 2 || bytes == 4 || bytes == 8;
    case ValueKind::bfloat: return bytes == 2;
    case ValueKind::complex: return bytes == 8 || bytes == 16;
  }
  return false;
}

/// The type of values into the header, and their size, which follows from it.
Status set_type(pm::PoolHeader& h, ValueType const& type) {
  if (!is_size_of(type.kind, type.element_bytes))
    return bad_argument("value_type: kind " + std::to_string(static_cast<int>(type.kind)) +
                        " has no elements of " + std::to_string(type.element_bytes) + " bytes");
  if (type.kind == ValueKind::bytes) return {};
  if (type.rank > ValueType::kMostExtents)
    return bad_argument("value_type: a value has " + std::to_string(type.rank) +
                        " extents; at most " + std::to_string(ValueType::kMostExtents) +
                        " are kept");
  std::uint64_t bytes = type.element_bytes;
  for (std::uint32_t i = 0; i < type.rank; ++i) {
    if (type.extents[i] == 0)
      return bad_argument("value_type: extent " + std::to_string(i) +
                          " is 0; it has to be 1 at least");
    bytes *= type.extents[i];
    if (bytes > pm::kMaxSuperblock)
      return bad_argument("value_type: a value of more than " + std::to_string(pm::kMaxSuperblock) +
                          " bytes");
    h.extents[i] = type.extents[i];
  }
  if (h.value_bytes != 0 && h.value_bytes != bytes)
    return bad_argument("value_bytes " + std::to_string(h.value_bytes) +
                        ": a value of the type given has " + std::to_string(bytes) +
                        " bytes; leave value_bytes out");
  h.value_kind = static_cast<std::uint8_t>(type.kind);
  h.element_bytes = type.element_bytes;
  h.value_rank = type.rank;
  PERDURE_ASSERT(bytes > 0 && bytes <= pm::kMaxSuperblock);
  h.value_bytes = static_cast<std::uint32_t>(bytes);
  return {};
}

}  // namespace

ValueType value_type_of(pm::PoolHeader const& h) {
  ValueType type{static_cast<ValueKind>(h.value_kind), h.element_bytes, h.value_rank, {}};
  static_assert(sizeof type.extents == sizeof h.extents);
  std::copy(std::begin(h.extents), std::end(h.extents), type.extents);
  return type;
}

Status set_sizes(pm::PoolHeader& h, CreateOptions const& o) {
  if (o.key_bytes > kMaxFixedKey)
    return bad_argument("key_bytes " + std::to_string(o.key_bytes) +
                        ": fixed keys have 1 to 128 bytes; 0 makes them variable");
  h.key_bytes = o.key_bytes;
  h.value_bytes = o.value_bytes;
  if (Status s = set_type(h, o.value_type); !s.ok()) return s;
  h.max_bytes = o.max_bytes;
  std::uint64_t const fixed = pm::record_bytes(o.key_bytes, h.value_bytes);
  bool const variable = o.key_bytes == 0 || h.value_bytes == 0;
  bool const small =
      variable ? o.expected_records < kManyRecords
               : fixed * o.expected_records < (256u << 20) && fixed <= pm::kMinSuperblock / 8;
  h.superblock_bytes = small ? pm::kMinSuperblock : pm::kMaxSuperblock;
  std::uint64_t const most = h.superblock_bytes / 4 - sizeof(pm::RecordHeader);
  h.max_key_bytes = o.key_bytes != 0 ? o.key_bytes : kMaxVariableKey;
  if (h.value_bytes > most - h.max_key_bytes) {
    return bad_argument("value_bytes " + std::to_string(h.value_bytes) +
                        ": with these keys a value has at most " +
                        std::to_string(most - h.max_key_bytes) + " bytes");
  }
  h.max_value_bytes =
      h.value_bytes != 0 ? h.value_bytes : static_cast<std::uint32_t>(most - h.max_key_bytes);
  PERDURE_ASSERT(h.max_key_bytes > 0 && h.max_value_bytes > 0);
  // Several records of any size fit in a superblock.
  PERDURE_ASSERT(pm::record_bytes(h.max_key_bytes, h.max_value_bytes) <= h.superblock_bytes / 4);
  return {};
}

Status check_expected(std::string const& path, OpenOptions const& options,
                      pm::PoolHeader const& h) {
  auto const expect = [&](char const* what, std::uint32_t expected, std::uint32_t found) -> Status {
    if (expected == 0 || expected == found) return {};
    return bad_argument("pool " + path + " was made with " + what + " " +
                        (found == 0 ? "variable" : std::to_string(found)) + ", not " +
                        std::to_string(expected));
  };
  if (Status s = expect("key_bytes", options.expect.key_bytes, h.key_bytes); !s.ok()) return s;
  return expect("value_bytes", options.expect.value_bytes, h.value_bytes);
}

Status check_no_value_log(std::string const& path, ValueLogOptions const& options) {
  ValueLogOptions const usual;
  if (options.collectors == usual.collectors && options.most_queued == usual.most_queued) return {};
  return {Code::unsupported,
          "pool " + path +
              " has its values in the heap, where nothing is collected; leave collectors "
              "and most_queued out, or make a pool of index btree with values log"};
}

Status check_batch(std::string const& path, pm::PoolHeader const& h, Call const& call,
                   std::span<KeyStatus> statuses) {
  std::size_t const n = call.keys.count;
  PERDURE_ASSERT(call.kinds.empty() || call.kinds.size() == n);  // its maker has seen to it
  auto const width = [](std::uint32_t w) {
    return w == 0 ? std::string("variable") : std::to_string(w) + " bytes";
  };
  if (!statuses.empty() && statuses.size() != n)
    return bad_argument("statuses has " + std::to_string(statuses.size()) + " entries for " +
                        std::to_string(n) + " keys");
  if (n >= (std::size_t{1} << 31))
    return bad_argument("a batch has at most 2^31-1 operations; split it");
  if (call.keys.data == nullptr && n > 0) return bad_argument("keys is null");
  if ((call.keys.offsets == nullptr) != (call.keys.width != 0) && n > 0)
    return bad_argument("keys: set either a width or offsets");
  if (h.key_bytes != 0 && call.keys.width != h.key_bytes) {
    return bad_argument("keys are " + width(call.keys.width) + " wide; pool " + path +
                        " has keys of " + width(h.key_bytes));
  }
  if (call.keys.space == MemorySpace::device && call.keys.offsets != nullptr)
    return bad_argument("variable-length keys must lie in host memory");
  if (call.out.data != nullptr) {
    std::uint32_t const needed = h.value_bytes != 0 ? h.value_bytes : call.out.width;
    if (call.out.width != needed || needed == 0 || call.out.count != n)
      return bad_argument("the output holds " + std::to_string(call.out.count) + " values of " +
                          width(call.out.width) + "; needed are " + std::to_string(n) + " of " +
                          (needed == 0 ? "one width, of at least 1 byte" : width(needed)));
  }
  bool const writes_values = call.kinds.empty()
                                 ? call.kind == OpKind::put || call.kind == OpKind::update
                                 : call.values.count > 0;
  if (!writes_values) return {};
  if (call.values.count != n)
    return bad_argument(std::to_string(call.values.count) + " values for " + std::to_string(n) +
                        " keys");
  if (call.values.data == nullptr && n > 0) return bad_argument("values is null");
  if (h.value_bytes != 0 && call.values.width != h.value_bytes) {
    return bad_argument("values are " + width(call.values.width) + " wide; pool " + path +
                        " has values of " + width(h.value_bytes));
  }
  if (call.values.space == MemorySpace::device && call.values.offsets != nullptr)
    return bad_argument("variable-length values must lie in host memory");
  return {};
}

Result<std::vector<std::uint8_t>> first_statuses(pm::PoolHeader const& h, Call const& call) {
  std::size_t const n = call.keys.count;
  std::vector<std::uint8_t> status(n, kPending);
  auto const counts = [&](std::size_t i, bool values) {  // gets and erases ignore their values
    return !values || call.kinds.empty() || call.kinds[i] == OpKind::put ||
           call.kinds[i] == OpKind::update;
  };
  auto const check = [&](Column const& column, std::uint32_t most, char const* what) -> Status {
    if (column.data == nullptr) return {};
    if (column.offsets == nullptr) {
      if (column.width > most)
        return bad_argument(std::string(what) + " of " + std::to_string(column.width) +
                            " bytes; the pool allows " + std::to_string(most));
      return {};
    }
    if (n > 0 && column.offsets[0] < 0)
      return bad_argument(std::string(what) + ": offsets begin before the data");
    for (std::size_t i = 0; i < n; ++i) {
      std::int64_t const size = column.offsets[i + 1] - column.offsets[i];
      if (size < 0)
        return bad_argument(std::string(what) + ": offsets decrease at " + std::to_string(i));
      if (size > most && counts(i, &column == &call.values))
        status[i] = static_cast<std::uint8_t>(KeyStatus::too_large);
    }
    return {};
  };
  if (Status s = check(call.keys, h.max_key_bytes, "keys"); !s.ok()) return s;
  if (Status s = check(call.values, h.max_value_bytes, "values"); !s.ok()) return s;
  PERDURE_ASSERT(!kCostlyAssertions || std::ranges::all_of(status, [](std::uint8_t s) {
    return s == kPending || s == static_cast<std::uint8_t>(KeyStatus::too_large);
  }));
  return status;
}

Status check_log_dir(std::string const& path, Durability durability, std::string const& log_dir) {
  bool const power = durability == Durability::power;
  if (power && path.starts_with("memfd:")) {
    return {
        Code::unsupported,
        "pool " + path +
            " goes with its process and cannot be opened by that name again, so it has no "
            "durability "
            "power; give the pool a path, for example in /dev/shm, or choose durability process"};
  }
  if (power && log_dir.empty()) {
    return {Code::unsupported,
            "durability power needs a log_dir, a directory on a disk: no pool by itself keeps its "
            "promise through "
            "a power loss; or choose process (what survives then: kernel abort, process kill, GPU "
            "reset)"};
  }
  if (!power && !log_dir.empty())
    return {Code::invalid_argument, "log_dir " + log_dir + " needs durability power"};
  return {};
}

}  // namespace perdure
