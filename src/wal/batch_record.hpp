// A batch of operations as the log keeps it: columns, as the store was given them, so that a batch
// of fixed-size host columns is copied once and replay hands the log's own bytes to the store.
//
//   BatchRecord | kinds (mixed batches) | key lengths | keys | value lengths | values | effects
//
// Each column begins at a multiple of 8 bytes. Lengths (u32 each) are there for variable sizes
// only. Effects, a bit an operation, are there in version 2 only: of a batch whose columns went
// into the log before it was known which of its operations would take effect. Invariant: decoding
// checks every size against the bytes there are; it trusts nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "perdure/batch.h"
#include "perdure/status.h"

namespace perdure::wal {

inline constexpr std::uint16_t kBatchVersion = 1;
inline constexpr std::uint16_t kBatchWithEffects = 2;
inline constexpr std::uint8_t kMixed = 0xff;  // BatchRecord::kind: each operation has its own

struct BatchRecord {             // bytes
  std::uint16_t version;         //   0
  std::uint8_t kind;             //   2  OpKind, or kMixed
  std::uint8_t rmw;              //   3  what updates do
  std::uint8_t element;          //   4
  std::uint8_t has_values;       //   5  0 or 1
  std::uint8_t reserved[2];      //   6  zero
  std::uint64_t count;           //   8  operations
  std::uint32_t key_width;       //  16  0 = variable
  std::uint32_t value_width;     //  20  0 = variable, or no values
  std::uint64_t keys_bytes;      //  24
  std::uint64_t values_bytes;    //  32
};
static_assert(offsetof(BatchRecord, version) == 0 && offsetof(BatchRecord, kind) == 2 &&
              offsetof(BatchRecord, rmw) == 3 && offsetof(BatchRecord, element) == 4 &&
              offsetof(BatchRecord, has_values) == 5 && offsetof(BatchRecord, reserved) == 6 &&
              offsetof(BatchRecord, count) == 8 && offsetof(BatchRecord, key_width) == 16 &&
              offsetof(BatchRecord, value_width) == 20 && offsetof(BatchRecord, keys_bytes) == 24 &&
              offsetof(BatchRecord, values_bytes) == 32);
static_assert(sizeof(BatchRecord) == 40);
static_assert(std::has_unique_object_representations_v<BatchRecord>);

/// Operations of one batch; host memory.
struct BatchOps {
  OpKind kind = OpKind::put;
  std::span<OpKind const> kinds;  // empty = all `kind`
  Rmw rmw = Rmw::replace;
  Element element = Element::u8;
  Column keys;
  Column values;                  // data null = none
};

/// Bytes of a column's elements; host memory, none where it has no data.
std::uint64_t bytes_of(Column const& column);

/// Some elements of a column, by themselves.
class KeptColumn {
 public:
  void take(Column const& from, std::span<std::size_t const> which);
  /// In the place of the column that they were taken from.
  void stand_in_for(Column& column) const;

 private:
  std::vector<std::byte> data_;
  std::vector<std::int64_t> offsets_;
  std::size_t count_ = 0;
};

/// The pieces to append, in order. They refer to the batch's columns and to this object.
class EncodedBatch {
 public:
  /// `effects`: the last piece says which of the operations took effect, once set_effects() has
  /// been called.
  explicit EncodedBatch(BatchOps const& ops, bool effects = false);
  /// f(i): operation i took effect.
  template <class F>
  void set_effects(F const& f) {
    for (std::size_t i = 0; i < record_.count; ++i)
      if (f(i)) effects_[i / 8] |= static_cast<std::uint8_t>(1u << (i % 8));
  }
  /// Without the effects.
  [[nodiscard]] std::uint64_t column_bytes() const { return bytes_ - effects_.size(); }
  EncodedBatch(EncodedBatch const&) = delete;
  EncodedBatch& operator=(EncodedBatch const&) = delete;
  [[nodiscard]] std::span<std::span<std::byte const> const> pieces() const { return pieces_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  void add(void const* data, std::uint64_t bytes);
  std::uint64_t add_column(Column const& column, std::vector<std::uint32_t>& lengths);

  BatchRecord record_{};
  std::vector<std::uint32_t> key_lengths_, value_lengths_;
  std::vector<std::uint8_t> effects_;
  std::vector<std::span<std::byte const>> pieces_;
  std::uint64_t bytes_ = 0;
};

/// Columns that point into the bytes it was decoded from, which must stay. Operations without
/// effect are none of it: where there were any, it has columns of its own.
class DecodedBatch {
 public:
  /// The batch that `bytes` begin with; leaves there what follows it.
  static Result<DecodedBatch> take(std::span<std::byte const>& bytes);
  /// The batch that `bytes` are.
  static Result<DecodedBatch> decode(std::span<std::byte const> bytes);
  /// Valid while this object stays where it is.
  [[nodiscard]] BatchOps ops() const;

 private:
  void keep_effective(std::byte const* effects);

  BatchOps ops_;
  std::vector<std::int64_t> key_offsets_, value_offsets_;
  bool own_ = false;  // columns: the kept ones
  std::vector<OpKind> kept_kinds_;
  KeptColumn kept_keys_, kept_values_;
};

}  // namespace perdure::wal
