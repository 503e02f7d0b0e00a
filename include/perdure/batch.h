// Batches: columns of keys and values as the caller holds them, in host or device memory. Nothing
// here owns memory but VariableValues.
//
// Alignment: none is asked of `data`, in host or device memory. On a GPU columns at multiples of 16
// bytes are fastest. Aliasing: a call only reads its columns, which may overlap each other. What it
// writes (a MutableColumn, statuses) overlaps nothing else of the call. Synchrony: a call is done
// when it returns, its work on the GPU included: its arrays are the caller's again, and what it
// wrote may be read on any stream. Device arrays are read and written after what the caller put on
// CallOptions::stream before the call. Nothing is put on that stream, and later work on it does not
// wait for calls. Threads: until a call returns nobody else writes the arrays that it reads, nor
// touches those that it writes.
#pragma once

#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <type_traits>
#include <vector>

struct CUstream_st;  // a cudaStream_t points to one

namespace perdure {

enum class MemorySpace : std::uint8_t { host, device };

namespace column_detail {
// A long double of x86 has ten bytes and six of padding.
template <class T>
inline constexpr bool kAllBytesCount =
    std::has_unique_object_representations_v<T> || (std::floating_point<T> && sizeof(T) <= 8);
template <class T, std::size_t N>
inline constexpr bool kAllBytesCount<T[N]> = kAllBytesCount<T>;
template <class T, std::size_t N>
inline constexpr bool kAllBytesCount<std::array<T, N>> = N > 0 && kAllBytesCount<T>;
}  // namespace column_detail

/// What a key or a value may be in C++: each of its bytes is part of what it says, for bytes are
/// what a pool holds, compares and adds up checksums of. So a struct with padding is none, nor is a
/// pointer; float and double and arrays of them are, and as keys are told apart by their bits (0.0
/// from -0.0).
template <class T>
concept FixedBytes = std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> &&
                     !std::is_member_pointer_v<T> && column_detail::kAllBytesCount<T>;

template <class R>
concept FixedBytesRange =
    std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
    std::ranges::borrowed_range<R> && FixedBytes<std::ranges::range_value_t<R>>;

/// A column of byte strings. Fixed width: element i is the `width` bytes at data + i*width, and
/// `offsets` is null. Variable width (Arrow's large-binary shape): element i is
/// data[offsets[i] .. offsets[i+1]) and `width` is 0; offsets are in host memory, `count` + 1 of
/// them. Contiguous in both cases.
struct Column {
  std::byte const* data = nullptr;
  std::int64_t const* offsets = nullptr;
  std::uint32_t width = 0;  // bytes
  std::size_t count = 0;  // elements
  MemorySpace space = MemorySpace::host;

  /// The elements of a span, an array or a vector, each sizeof(T) bytes: whether a pool has such
  /// keys or values, the Status of a call says. A range that would be gone before the column (a
  /// vector that a function returned) does not compile. Of device memory:
  /// Column::of(std::span(pointer, count), MemorySpace::device).
  template <FixedBytesRange R>
  [[nodiscard]] static Column of(R&& elements, MemorySpace space = MemorySpace::host) {
    std::span<std::ranges::range_value_t<R> const> const all(elements);
    return {std::as_bytes(all).data(), nullptr, sizeof(std::ranges::range_value_t<R>), all.size(),
            space};
  }
};

/// A caller's array that receives fixed-width values: element i goes to data + i*width. Elements
/// whose key is absent are left as they were; of a corrupt record, an element may hold anything.
struct MutableColumn {
  std::byte* data = nullptr;
  std::uint32_t width = 0;  // bytes
  std::size_t count = 0;  // elements
  MemorySpace space = MemorySpace::host;

  /// As Column::of().
  template <FixedBytesRange R>
    requires(!std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>)
  [[nodiscard]] static MutableColumn of(R&& elements, MemorySpace space = MemorySpace::host) {
    std::span<std::ranges::range_value_t<R>> const all(elements);
    return {std::as_writable_bytes(all).data(), sizeof(std::ranges::range_value_t<R>), all.size(),
            space};
  }
};

/// Values of varying length, owned: element i is data[offsets[i] .. offsets[i+1]); empty if absent.
struct VariableValues {
  std::vector<std::int64_t> offsets;
  std::vector<std::byte> data;
};

/// How one key of a batch fared.
enum class KeyStatus : std::uint8_t {
  ok = 0,
  not_found = 1,  // get, update and erase: no such key
  size_mismatch = 2,  // update and get: operand, or row, and stored value differ in length
  corrupt = 3,  // the stored record fails its checksum; it was left alone
  no_space = 4,  // put and update: the pool could not grow; the old value stands
  too_large = 5,  // key or value longer than the pool allows
  not_tried = 6,  // the call was stopped, or failed, before it came to this key
};

enum class OpKind : std::uint8_t { get = 0, put = 1, erase = 2, update = 3 };

/// Read-modify-write on values seen as arrays of one element type, element by element. Integers
/// wrap; a NaN stays or takes effect in min and max, whichever side it is on.
enum class Rmw : std::uint8_t { replace = 0, add = 1, min = 2, max = 3 };
enum class Element : std::uint8_t { u8 = 0, i32 = 1, u32 = 2, i64 = 3, u64 = 4, f32 = 5, f64 = 6 };

/// A mixed batch. Operations on one key take effect in array order; different keys are independent.
/// `values` holds the operand of every put and update (gets and erases ignore theirs).
struct MixedBatch {
  Column keys = {};
  std::span<OpKind const> kinds = {};  // one per key, host memory
  Column values = {};  // may be empty when there is neither put nor update
  Rmw rmw = Rmw::replace;  // what `update` does in this batch
  Element element = Element::u8;
  MutableColumn out = {};  // results of the gets; fixed-width pools only
};

class Transaction;

struct CallOptions {
  CUstream_st* stream = nullptr;  // a cudaStream_t: see above; null is the legacy default stream
  // writes: all of the batch or none of it, whatever happens; layouts word and log, or
  // Persist::full
  bool atomic = false;
  Transaction* transaction = nullptr;  // the call belongs to this one, see Store::begin
  KeyStatus* device_statuses = nullptr;  // gets: also put here, one per key, in memory of the GPU
  // once true, a large batch ends between two of its pieces: see Store
  std::atomic<bool> const* stop = nullptr;
};

}  // namespace perdure
