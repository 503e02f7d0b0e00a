// A reader beside the writer of a pool. Invariant: what is answered was checked after it had been
// copied, or summed as it was copied: key, sizes and checksum. So every word and byte that leads to
// a record may be of any moment, or none; it only has to lie in the file.
#include "perdure/pool_reader.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/assert.hpp"
#include "base/caught.hpp"
#include "base/crc32c.hpp"
#include "exec/workers.hpp"
#include "index/gphash/candidates.hpp"
#include "index/gphash/root_levels.hpp"
#include "pm/followed_file.hpp"
#include "pm/pool.hpp"
#include "pm/record.hpp"
#include "pm/root.hpp"

namespace perdure {
namespace {

using Where = gphash::Candidates<gphash::ShapeAny>;

constexpr std::uint32_t kMostKey = 128;  // bytes of a fixed key
constexpr int kLooks = 4;  // at a key that changes while it is looked up
constexpr std::uint64_t kReadAChunk = 64u << 10;  // of values, for a thread at a time
constexpr std::size_t kMostKeysRead = 256;

std::uint64_t load(std::byte const* at) {
  auto* const word = reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(at));
  return std::atomic_ref<std::uint64_t>(*word).load(std::memory_order_acquire);
}

Status refuse(std::string const& path, std::string const& why) {
  return {Code::unsupported, "pool " + path + ": it is read beside its writer only with " + why +
                                 "; look at it live (live=True), or open it"};
}

Status check_kind(std::string const& path, pm::PoolHeader const& h) {
  if (h.index != 0 || h.in_place() || h.logged())
    return refuse(path, "index gphash of layout word");
  if (h.key_bytes == 0 || h.value_bytes == 0) return refuse(path, "keys and values of fixed sizes");
  if (h.durability == static_cast<std::uint8_t>(Durability::power))
    return refuse(path, "durability none or process");
  return {};
}

/// The table as a root names it: each level as if it were a live one, for what retires is searched
/// like the others.
Result<gphash::TableView> table_of(std::string const& path, pm::PoolHeader const& h,
                                   pm::Root const& root, std::uint64_t mapped) {
  auto found = gphash::read_levels(root, h.levels);
  if (!found)
    return Status{found.status().code(), "pool " + path + ": " + found.status().message()};
  gphash::TableView t{};
  t.records = pm::RecordShape(h);
  t.pool_bytes = std::min(mapped, root.superblocks * h.superblock_bytes);
  t.hashes = h.hashes;
  t.slots = h.slots;
  t.key_bytes = h.key_bytes;
  t.value_bytes = h.value_bytes;
  t.max_record = static_cast<std::uint32_t>(pm::record_bytes(h.key_bytes, h.value_bytes));
  for (gphash::Level const& level : found->levels) {
    std::uint64_t const bytes =
        gphash::level_bytes(false, h.key_bytes, h.slots, level.log2_buckets);
    if (level.base.bytes % 8 != 0 || level.base.bytes > t.pool_bytes ||
        bytes > t.pool_bytes - level.base.bytes)
      return Status{Code::corrupt, "pool " + path + ": its root names levels that are not in it"};
    t.level[t.levels++] = level;
  }
  return t;
}

/// What one search for a key met.
struct Met {
  std::optional<KeyStatus> answer;
  Offset slot;  // of the record that has the key, and fails its checksum; else none
  std::uint64_t word = 0;
};

/// One look at a pool: its levels, and everything in them as it is meanwhile.
class Look {
 public:
  Look(std::byte const* base, gphash::TableView const& table) : base_(base), table_(table) {}

  [[nodiscard]] KeyStatus at(std::byte const* key, PoolReader::Target const& target) const {
    std::uint64_t const hash = hash_bytes(key, table_.key_bytes);
    Where const where(table_, hash);
    KeyStatus status = KeyStatus::not_found;
    for (int look = 0; look < kLooks; ++look) {
      if (look > 0) std::this_thread::yield();
      std::uint64_t const before = changes();
      Met const met = search(where, hash, key, target);
      if (met.answer) return *met.answer;
      bool const damaged = met.slot && load(base_ + met.slot.bytes) == met.word;
      status = damaged ? KeyStatus::corrupt : KeyStatus::not_found;
      if (!damaged && before % 2 == 0 && changes() == before) break;
    }
    return status;
  }

 private:
  [[nodiscard]] std::uint64_t changes() const { return load(base_ + pm::kChangeWordOffset); }

  [[nodiscard]] Met search(Where const& where, std::uint64_t hash, std::byte const* key,
                           PoolReader::Target const& target) const {
    Met met;
    std::uint32_t const groups = table_.levels * table_.hashes;
    for (std::uint32_t lane = 0; lane < groups * table_.slots; ++lane) {
      Offset const slot = where.slot(table_, lane);
      std::uint64_t const word = load(base_ + slot.bytes);
      if ((word & ~gphash::word::kAddressMask) != gphash::word::fingerprint(hash)) continue;
      auto const whole = copied(gphash::word::record(word), key, target);
      if (!whole) continue;
      if (*whole) {
        met.answer = KeyStatus::ok;
        return met;
      }
      met.slot = slot, met.word = word;
    }
    return met;
  }

  /// None: the record there has another key, or none is there. Else whether it is whole.
  [[nodiscard]] std::optional<bool> copied(Offset at, std::byte const* key,
                                           PoolReader::Target const& target) const {
    if (!table_.may_hold_all(at)) return std::nullopt;
    pm::RecordView const r = pm::view_record(base_, table_.records, at, table_.room(at));
    if (r.header.key_bytes != table_.key_bytes || r.header.value_bytes != table_.value_bytes)
      return std::nullopt;
    std::uint32_t const before = pm::summed_before_key(r.split);
    std::array<std::byte, sizeof(pm::RecordHeader) + kMostKey> front;
    PERDURE_ASSERT(before + std::size_t{r.header.key_bytes} <= front.size());
    std::memcpy(front.data(), r.key - before, before + r.header.key_bytes);
    bool const same = std::memcmp(front.data() + before, key, r.header.key_bytes) == 0;
    if (!same) return std::nullopt;
    std::uint32_t sum = crc32c(0, front.data(), before + r.header.key_bytes);
    sum = copy_value(sum, r.value, target);
    return sum == r.header.crc;
  }

  /// Continues the sum over all of the value.
  [[nodiscard]] std::uint32_t copy_value(std::uint32_t sum, std::byte const* value,
                                         PoolReader::Target const& target) const {
    std::uint32_t const bytes = std::min(target.bytes, table_.value_bytes);
    if (bytes >= pm::kLongValue) {
      sum = copy_crc32c(sum, target.to, value, bytes);
    } else if (bytes != 0) {
      std::memcpy(target.to, value, bytes);
      sum = crc32c(sum, target.to, bytes);  // of what the caller gets
    }
    return bytes == table_.value_bytes ? sum
                                       : crc32c(sum, value + bytes, table_.value_bytes - bytes);
  }

  std::byte const* base_;
  gphash::TableView const& table_;
};

}  // namespace

struct PoolReader::State {
  State(std::string pool_path, pm::FollowedFile followed, std::uint32_t threads)
      : path(std::move(pool_path)), file(std::move(followed)), workers(threads) {}

  std::string path;
  pm::FollowedFile file;
  pm::PoolHeader header{};
  exec::Workers workers;
  std::mutex mutex;  // guards the file's size and what follows
  std::uint64_t sequence = 0;  // of the root that `table` is of
  gphash::TableView table{};

  Status read_header() {
    if (file.size() < pm::kHeadBytes)
      return {Code::corrupt, "pool " + path + " is truncated; restore it from a copy"};
    auto const read = pm::Pool::header_in(path, file.data());
    if (!read) return read.status();
    header = read.value();
    return check_kind(path, header);
  }

  /// The table as it is now. While the writer writes a root, or has mended one that was torn, the
  /// one before it still leads to nearly everything.
  Result<gphash::TableView> now() {
    std::lock_guard const lock(mutex);
    auto const root = pm::newest_root(file.data());
    if (root && root->sequence != sequence) {
      if (Status s = file.follow(); !s.ok()) return s;
      auto next = table_of(path, header, *root, file.size());
      if (!next && sequence == 0) return next.status();
      if (next) table = *next, sequence = root->sequence;
    }
    if (sequence != 0) return table;
    return Status{Code::corrupt,
                  "pool " + path + ": neither copy of the root has a valid checksum; restore it"};
  }
};

PoolReader::PoolReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
PoolReader::PoolReader(PoolReader&&) noexcept = default;
PoolReader& PoolReader::operator=(PoolReader&&) noexcept = default;
PoolReader::~PoolReader() = default;

std::uint32_t PoolReader::key_bytes() const { return state_->header.key_bytes; }
std::uint32_t PoolReader::value_bytes() const { return state_->header.value_bytes; }
bool PoolReader::replaced() const { return !state_->file.has_its_name(); }

Result<PoolReader> PoolReader::open(std::string const& path, PoolReaderOptions const& options) {
  return caught([&]() -> Result<PoolReader> {
    auto file = pm::FollowedFile::open(path);
    if (!file) return file.status();
    std::uint32_t const threads =
        options.threads != 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
    auto state = std::make_unique<State>(path, std::move(*file), threads);
    if (Status s = state->read_header(); !s.ok()) return s;
    if (auto const table = state->now(); !table) return table.status();
    return PoolReader(std::move(state));
  });
}

Status PoolReader::get(Column const& keys, std::span<Target const> targets,
                       std::span<KeyStatus> statuses) {
  State& s = *state_;
  if (keys.offsets != nullptr || keys.width != s.header.key_bytes ||
      keys.space != MemorySpace::host)
    return {Code::invalid_argument, "pool " + s.path + ": its keys have " +
                                        std::to_string(s.header.key_bytes) +
                                        " bytes each, in host memory"};
  if (targets.size() != keys.count || statuses.size() != keys.count)
    return {Code::invalid_argument,
            "pool " + s.path + ": a get has a target and a status for each key"};
  return caught([&]() -> Status {
    auto table = s.now();
    if (!table) return table.status();
    Look const look(s.file.data(), *table);
    std::size_t const chunk =
        std::clamp<std::size_t>(kReadAChunk / s.header.value_bytes, 1, kMostKeysRead);
    s.workers.for_chunks(keys.count, chunk, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i)
        statuses[i] = look.at(keys.data + i * keys.width, targets[i]);
    });
    return {};
  });
}

}  // namespace perdure
