// Batches: columns of keys and values as the caller holds them, in host or device memory. Nothing
// here owns memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace perdure {

enum class Place : std::uint8_t { host, device };

/// A column of byte strings. Fixed width: element i is the `width` bytes at data + i*width, and
/// `offsets` is null. Variable width (Arrow's large-binary shape): element i is
/// data[offsets[i] .. offsets[i+1]) and `width` is 0. Contiguous in both cases.
struct Column {
  std::byte const* data = nullptr;
  std::int64_t const* offsets = nullptr;
  std::uint32_t width = 0;
  std::size_t count = 0;
  Place place = Place::host;
};

/// A caller's array that receives fixed-width values: element i goes to data + i*width. Elements
/// whose key is absent are left as they were; of a corrupt record, an element may hold anything.
struct MutableColumn {
  std::byte* data = nullptr;
  std::uint32_t width = 0;
  std::size_t count = 0;
  Place place = Place::host;
};

/// Values of varying length, owned: element i is data[offsets[i] .. offsets[i+1]); empty if absent.
struct VariableValues {
  std::vector<std::int64_t> offsets;
  std::vector<std::byte> data;
};

/// How one key of a batch fared.
enum class KeyStatus : std::uint8_t {
  ok = 0,
  not_found = 1,      // get, update and erase: no such key
  size_mismatch = 2,  // update: operand and stored value differ in length
  corrupt = 3,        // the stored record fails its checksum; it was left alone
  no_space = 4,       // put and update: the pool could not grow; the old value stands
  too_large = 5,      // key or value longer than the pool allows
  not_tried = 6,      // the call was stopped, or failed, before it came to this key
};

enum class OpKind : std::uint8_t { get = 0, put = 1, erase = 2, update = 3 };

/// Read-modify-write on values seen as arrays of one element type, element by element. Integers wrap; a NaN stays or
/// takes effect in min and max, whichever side it is on.
enum class Rmw : std::uint8_t { replace = 0, add = 1, min = 2, max = 3 };
enum class Element : std::uint8_t { u8 = 0, i32 = 1, u32 = 2, i64 = 3, u64 = 4, f32 = 5, f64 = 6 };

/// A mixed batch. Operations on one key take effect in array order; different keys are independent.
/// `values` holds the operand of every put and update (gets and erases ignore theirs).
struct MixedBatch {
  Column keys;
  std::span<OpKind const> kinds;  // one per key, host memory
  Column values;                  // may be empty when there is neither put nor update
  Rmw rmw = Rmw::replace;         // what `update` does in this batch
  Element element = Element::u8;
  MutableColumn out;              // results of the gets; fixed-width pools only
};

class Transaction;

struct CallOptions {
  void* stream = nullptr;  // cudaStream_t on which the caller's device arrays become ready
  bool atomic = false;     // writes: all of the batch or none of it, whatever happens; layout word only
  Transaction* transaction = nullptr;  // the call belongs to this one, see Store::begin
  KeyStatus* device_statuses = nullptr;  // gets: also put here, one per key, in memory of the GPU
  std::atomic<bool> const* stop = nullptr;  // once true, a large batch ends between two of its pieces: see Store
};

}  // namespace perdure
