#include "wal/batch_record.hpp"

#include <cstring>
#include <string>

#include "base/assert.hpp"

namespace perdure::wal {
namespace {

constexpr std::uint64_t kAlign = 8;
constexpr std::byte kZeros[kAlign]{};

Status corrupt(std::string const& what) { return {Code::corrupt, "a batch of the log: " + what}; }

/// Hands out the columns one after the other.
class Cursor {
 public:
  explicit Cursor(std::span<std::byte const> bytes) : rest_(bytes) {}
  /// Null if there are not that many.
  std::byte const* take(std::uint64_t bytes) {
    if (bytes > rest_.size()) return nullptr;
    std::uint64_t const padded = (bytes + kAlign - 1) / kAlign * kAlign;
    if (padded > rest_.size()) return nullptr;
    std::byte const* const at = rest_.data();
    rest_ = rest_.subspan(padded);
    return at;
  }
  [[nodiscard]] std::span<std::byte const> rest() const { return rest_; }

 private:
  std::span<std::byte const> rest_;
};

Status take_column(Cursor& cursor, std::uint64_t count, std::uint32_t width, std::uint64_t bytes,
                   Column& column, std::vector<std::int64_t>& offsets) {
  column.width = width;
  column.count = count;
  if (width == 0) {
    auto const* const lengths = cursor.take(count * sizeof(std::uint32_t));
    if (lengths == nullptr) return corrupt("its lengths are missing");
    offsets.resize(count + 1);
    std::int64_t sum = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint32_t length = 0;
      std::memcpy(&length, lengths + i * sizeof length, sizeof length);
      offsets[i] = sum;
      sum += length;
    }
    offsets[count] = sum;
    if (static_cast<std::uint64_t>(sum) != bytes)
      return corrupt("its lengths and its bytes disagree");
  } else if (count * width != bytes) {
    return corrupt("its width and its bytes disagree");
  }
  column.data = cursor.take(bytes);
  return column.data == nullptr ? corrupt("a column is cut off") : Status{};
}

constexpr std::uint64_t effects_bytes(std::uint64_t operations) { return (operations + 7) / 8; }

}  // namespace

void KeptColumn::take(Column const& from, std::span<std::size_t const> which) {
  PERDURE_ASSERT(from.space == MemorySpace::host && data_.empty() && offsets_.empty());
  bool const variable = from.offsets != nullptr;
  count_ = which.size();
  data_.reserve(1);  // a column of no bytes is still one
  if (variable) offsets_.push_back(0);
  for (std::size_t const i : which) {
    std::size_t const begin = variable ? static_cast<std::size_t>(from.offsets[i]) : i * from.width;
    std::size_t const end =
        variable ? static_cast<std::size_t>(from.offsets[i + 1]) : begin + from.width;
    PERDURE_ASSERT(!kCostlyAssertions || (i < from.count && begin <= end));
    data_.insert(data_.end(), from.data + begin, from.data + end);
    if (variable) offsets_.push_back(static_cast<std::int64_t>(data_.size()));
  }
}

void KeptColumn::stand_in_for(Column& column) const {
  column.data = data_.data();
  column.offsets = offsets_.empty() ? nullptr : offsets_.data();
  column.count = count_;
}

void EncodedBatch::add(void const* data, std::uint64_t bytes) {
  PERDURE_ASSERT(data != nullptr || bytes == 0);
  PERDURE_ASSERT(bytes_ % kAlign == 0);
  pieces_.emplace_back(static_cast<std::byte const*>(data), bytes);
  std::uint64_t const padding = (kAlign - bytes % kAlign) % kAlign;
  if (padding > 0) pieces_.emplace_back(kZeros, padding);
  bytes_ += bytes + padding;
}

std::uint64_t bytes_of(Column const& column) {
  if (column.data == nullptr) return 0;
  if (column.offsets == nullptr) return std::uint64_t{column.width} * column.count;
  PERDURE_ASSERT(column.offsets[column.count] >= column.offsets[0]);
  return static_cast<std::uint64_t>(column.offsets[column.count] - column.offsets[0]);
}

/// Returns the bytes of the column's elements.
std::uint64_t EncodedBatch::add_column(Column const& column, std::vector<std::uint32_t>& lengths) {
  std::uint64_t const bytes = bytes_of(column);
  if (column.offsets == nullptr) {
    add(column.data, bytes);
    return bytes;
  }
  lengths.resize(column.count);
  for (std::size_t i = 0; i < column.count; ++i)
    lengths[i] = static_cast<std::uint32_t>(column.offsets[i + 1] - column.offsets[i]);
  add(lengths.data(), lengths.size() * sizeof(std::uint32_t));
  add(column.data + column.offsets[0], bytes);
  return bytes;
}

EncodedBatch::EncodedBatch(BatchOps const& ops, bool effects) {
  PERDURE_ASSERT(ops.kinds.empty() || ops.kinds.size() == ops.keys.count);
  add(&record_, sizeof record_);  // filled in below
  if (!ops.kinds.empty()) add(ops.kinds.data(), ops.kinds.size());
  record_.version = effects ? kBatchWithEffects : kBatchVersion;
  record_.kind = ops.kinds.empty() ? static_cast<std::uint8_t>(ops.kind) : kMixed;
  record_.rmw = static_cast<std::uint8_t>(ops.rmw);
  record_.element = static_cast<std::uint8_t>(ops.element);
  record_.count = ops.keys.count;
  record_.key_width = ops.keys.width;
  record_.keys_bytes = add_column(ops.keys, key_lengths_);
  if (ops.values.data != nullptr) {
    record_.has_values = 1;
    record_.value_width = ops.values.width;
    record_.values_bytes = add_column(ops.values, value_lengths_);
  }
  if (!effects) return;
  effects_.resize((effects_bytes(ops.keys.count) + kAlign - 1) / kAlign * kAlign);
  if (!effects_.empty()) add(effects_.data(), effects_.size());
}

Result<DecodedBatch> DecodedBatch::take(std::span<std::byte const>& bytes) {
  Cursor cursor(bytes);
  auto const* const head = cursor.take(sizeof(BatchRecord));
  if (head == nullptr) return corrupt("it is shorter than its header");
  BatchRecord r;
  std::memcpy(&r, head, sizeof r);
  if (r.version != kBatchVersion && r.version != kBatchWithEffects) {
    return corrupt("it has version " + std::to_string(r.version) + "; this build reads versions " +
                   std::to_string(kBatchVersion) + " and " + std::to_string(kBatchWithEffects) +
                   ": open it with the build that made it");
  }
  auto const changes = [](OpKind kind) {
    return kind > OpKind::get && kind <= OpKind::update;
  };  // gets are not logged
  bool const sane = (changes(static_cast<OpKind>(r.kind)) || r.kind == kMixed) &&
                    r.rmw <= static_cast<std::uint8_t>(Rmw::max) &&
                    r.element <= static_cast<std::uint8_t>(Element::f64) && r.has_values <= 1 &&
                    r.count < (std::uint64_t{1} << 31);
  if (!sane) return corrupt("its header describes no batch");
  DecodedBatch out;
  out.ops_.rmw = static_cast<Rmw>(r.rmw);
  out.ops_.element = static_cast<Element>(r.element);
  if (r.kind == kMixed) {
    auto const* const kinds = cursor.take(r.count);
    if (kinds == nullptr) return corrupt("its kinds are cut off");
    out.ops_.kinds = {reinterpret_cast<OpKind const*>(kinds), r.count};
  } else {
    out.ops_.kind = static_cast<OpKind>(r.kind);
  }
  if (Status s =
          take_column(cursor, r.count, r.key_width, r.keys_bytes, out.ops_.keys, out.key_offsets_);
      !s.ok())
    return s;
  if (r.has_values == 1) {
    if (Status s = take_column(cursor, r.count, r.value_width, r.values_bytes, out.ops_.values,
                               out.value_offsets_);
        !s.ok())
      return s;
  }
  if (r.version == kBatchWithEffects) {
    auto const* const effects = cursor.take(effects_bytes(r.count));
    if (effects == nullptr) return corrupt("it does not say what took effect");
    out.keep_effective(effects);
  }
  // Only now: a large mixed batch is there with its gets, which have no effect.
  for (OpKind const kind : out.ops().kinds) {
    if (!changes(kind)) return corrupt("an operation of no kind that is logged");
  }
  bytes = cursor.rest();
  return out;
}

/// Drops the operations that had none.
void DecodedBatch::keep_effective(std::byte const* effects) {
  std::size_t const count = ops_.keys.count;
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < count; ++i)
    if (std::to_integer<unsigned>(effects[i / 8] >> (i % 8)) & 1u) which.push_back(i);
  if (which.size() == count) return;
  BatchOps const all = ops();
  kept_keys_.take(all.keys, which);
  if (all.values.data != nullptr) kept_values_.take(all.values, which);
  if (!all.kinds.empty())
    for (std::size_t const i : which) kept_kinds_.push_back(all.kinds[i]);
  own_ = true;
}

Result<DecodedBatch> DecodedBatch::decode(std::span<std::byte const> bytes) {
  auto batch = take(bytes);
  if (batch && !bytes.empty()) return corrupt("bytes follow its last column");
  return batch;
}

BatchOps DecodedBatch::ops() const {
  BatchOps ops = ops_;
  if (own_) {
    kept_keys_.stand_in_for(ops.keys);
    if (ops.values.data != nullptr) kept_values_.stand_in_for(ops.values);
    ops.kinds = kept_kinds_;
    return ops;
  }
  if (ops.keys.width == 0) ops.keys.offsets = key_offsets_.data();
  if (ops.values.data != nullptr && ops.values.width == 0)
    ops.values.offsets = value_offsets_.data();
  return ops;
}

}  // namespace perdure::wal
