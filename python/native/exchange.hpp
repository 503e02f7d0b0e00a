// Arrays of libraries that lend them through C functions of DLPack 1.3
// (`__dlpack_c_exchange_api__`), as PyTorch does from 2.10 on. `__dlpack__` and the question for
// the current stream run Python's code instead, which takes longer than a small batch. Invariant:
// what is lent so is ready on the stream that was asked for, as with `__dlpack__`.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>

namespace perdure::python {

namespace nb = nanobind;

/// The CUDA stream that an array's library works on, 0 for an array in host memory. Nothing: its
/// library has no such functions, or does not lend this array through them.
std::optional<std::uintptr_t> work_stream(nb::handle array);

/// A DLPack capsule over the array, or None where `__dlpack__` has to be asked: as above, and where
/// the array's library works on another stream than `stream`.
nb::object exchanged(nb::handle array, std::uintptr_t stream);

void bind_exchange(nb::module_& module);

}  // namespace perdure::python
