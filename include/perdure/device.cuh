// A store inside your own kernels: warps find, put, update, modify and erase keys, each operation
// durable when it returns. For nvcc; compile with the target perdure::device, which brings the
// engine's headers that this one includes.
//
//   __global__ void count(__grid_constant__ perdure::DeviceTable const table, ...) {
//     // all 32 threads of a warp, with the same key
//     ... table.find(key, value) == perdure::KeyStatus::ok ...
//   }
//   auto session = store.device_session({.records = 1 << 20});  // see Store::device_session
//   count<<<blocks, 256>>>(session->table(), ...);
//   perdure::Status const s = session->end();
//
// A warp's 32 threads call together, with the same arguments; blocks have one dimension, a multiple
// of 32 threads. Different warps may do anything at once, on the same keys too: each operation
// takes effect at one moment between its call and its return, and whoever finds a value finds one
// that is durable. What survives which event is the store's `survives()`.
#pragma once

#include "exec/cuda/cuda_warp.cuh"
#include "index/gphash/ops.hpp"
#include "perdure/batch.h"
#include "pm/memory.hpp"
#include "store/gphash/kernels/device_table.hpp"

namespace perdure {

/// Keys and values are those of the pool: key_bytes and value_bytes each, in memory that all
/// threads of the warp can read (global or shared, not a thread's own variables). Fastest at
/// multiples of 8 bytes, 8-byte aligned.
class DeviceTable {
  // Of layout `log`, too: what it needs of them is the same there.
  using Ops = gphash::WordOps<gphash::Shape228, true>;

 public:
  DeviceTable(DeviceView const& view) : view_(view), memory_(view.base) {}

  /// ok: the key's value stands at `value`, unless that is null. not_found. corrupt: the record
  /// fails its checksum; `value` holds anything.
  __device__ KeyStatus find(void const* key, void* value) const {
    exec::CudaWarp warp;
    pm::Memory memory = memory_;
    return WarpTable<Ops>(view_).find(warp, memory, bytes(key), static_cast<std::byte*>(value));
  }

  /// Inserts the key, or replaces its value. ok, or no_space: the session has used up its records,
  /// or all slots of the key are taken; then nothing has changed.
  __device__ KeyStatus put(void const* key, void const* value) const {
    exec::CudaWarp warp;
    pm::Memory memory = memory_;
    return WarpTable<Ops>(view_).put(warp, memory, bytes(key), bytes(value));
  }

  /// Replaces the value of a key that is there. ok, not_found or no_space.
  __device__ KeyStatus update(void const* key, void const* value) const {
    exec::CudaWarp warp;
    pm::Memory memory = memory_;
    return WarpTable<Ops>(view_).update(warp, memory, bytes(key), bytes(value));
  }

  /// Read, change, write, as one operation. The key's value is copied to `value`, memory of this
  /// warp's own; then every thread calls change(bool was_there), which makes of it what shall be
  /// stored; a key that was not there is inserted. `change` must not use the table. ok, no_space,
  /// or corrupt: the stored value is damaged and stays.
  template <class F>
  __device__ KeyStatus modify(void const* key, void* value, F change) const {
    exec::CudaWarp warp;
    pm::Memory memory = memory_;
    return WarpTable<Ops>(view_).modify(warp, memory, bytes(key), static_cast<std::byte*>(value),
                                        change);
  }

  /// ok or not_found; layout `log`: or no_space, where the session has done all the erases it was
  /// opened for, and the key stays.
  __device__ KeyStatus erase(void const* key) const {
    exec::CudaWarp warp;
    pm::Memory memory = memory_;
    return WarpTable<Ops>(view_).erase(warp, memory, bytes(key));
  }

 private:
  static __device__ std::byte const* bytes(void const* at) {
    return static_cast<std::byte const*>(at);
  }

  DeviceView view_;
  pm::Memory memory_;
};

}  // namespace perdure
