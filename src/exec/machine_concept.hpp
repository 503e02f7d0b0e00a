// What the store asks of a machine: memory of its own, columns brought there and back, launches and
// their order. CpuMachine, CudaMachine and SimMachine are checked against it where they are
// defined.
//
//   begin(stream)                 a call begins, after what the caller's stream has under way
//   begin()                       one begins whose arrays are all the host's: after nothing
//   upload, map_output            the caller's arrays, where the machine reads and writes them
//   stage, staged                 a copy of an array in the host's memory, made beside the batch
//   download_output, download_bytes
//                                 results into the caller's arrays
//   send, copy, fill, fetch       between the host's memory and the machine's; begin_fetch: there
//                                 after the next wait, or, once noted by note_fetch(), after
//                                 await_fetch()
//   threads(n, f), warps<W>(n, body, mem, counts)
//                                 launches; each sees what came before it once order() stands
//                                 between them
//   sort, sort_words, sums_before
//                                 what any batch needs, with the machine's own libraries
//   need_beside()                 what beside() will need, so that it cannot fail for want of it
//   beside(launches), rejoin()    launches that may run beside those that follow
//   order(), order_launches()     what was written before is ordered before all that is written
//                                 afterwards; or before what later launches write, without a wait
//   kChains, chain(n, steps)      several launches as one, of batches that are small enough
//   kLaunchesAhead                a wait costs more than a launch that finds nothing to do
//   wait, wait_for_all            until what was launched is done
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>

#include "exec/counts.hpp"
#include "exec/sort.hpp"
#include "exec/warp_concept.hpp"
#include "perdure/batch.h"
#include "perdure/status.h"

namespace perdure::exec {

/// Memory of the machine's; on failure resize() leaves it as it was.
template <class B, class T>
concept MachineBuffer = requires(B& buffer, B const& constant, std::size_t n) {
  { buffer.resize(n) } -> std::same_as<Status>;
  { buffer.need_twin(n) } -> std::same_as<Status>;
  { constant.data() } -> std::same_as<T*>;
  { constant.twin() } -> std::same_as<T*>;
};

template <class M>
concept MovesArrays =
    requires(M& machine, Column const& column, Column& kept, MutableColumn const& out,
             ByteColumn& here, std::byte* to, std::byte const* from, std::size_t n,
             typename M::template Buffer<std::uint64_t>& words) {
      { machine.upload(column, here, 0) } -> std::same_as<Status>;
      { machine.stage(column, 0) } -> std::same_as<Status>;
      { machine.staged(kept, 0) } -> std::same_as<Status>;
      { machine.map_output(out, to) } -> std::same_as<Status>;
      { machine.download_bytes(to, from, n) } -> std::same_as<Status>;
      { machine.room_for(to, n) } -> std::same_as<Result<std::byte*>>;
      { M::must_be_downloaded(out) } -> std::same_as<bool>;
      { machine.send(to, from, n) } -> std::same_as<Status>;
      { machine.copy(to, from, n) } -> std::same_as<Status>;
      { machine.fill(to, 0, n) } -> std::same_as<Status>;
      { machine.begin_fetch(words, n) } -> std::same_as<Status>;
      { machine.note_fetch() } -> std::same_as<Status>;
      { machine.await_fetch() } -> std::same_as<Status>;
      machine.fetch(words, n);
    };

template <class M>
concept Machine =
    Warp<typename M::Warp> && Solo<typename M::Solo> && MovesArrays<M> &&
    MachineBuffer<typename M::template Buffer<std::uint64_t>, std::uint64_t> &&
    std::constructible_from<M, typename M::Shared&> &&
    requires(M& machine, M const& constant, Sorted* items, std::uint32_t const* in,
             std::uint32_t* out, std::uint64_t* words, std::size_t n, CUstream_st* stream,
             Status (*launches)(), typename M::Shared const& shared) {
      { M::kPoolIsFar } -> std::convertible_to<bool>;
      { M::kChains } -> std::convertible_to<bool>;
      { M::kLaunchesAhead } -> std::convertible_to<bool>;
      { shared.describe() } -> std::convertible_to<std::string>;
      { machine.begin(stream) } -> std::same_as<Status>;
      { machine.begin() } -> std::same_as<Status>;
      { machine.sort(items, n) } -> std::same_as<Status>;
      { machine.sort_hashed(items, n) } -> std::same_as<Status>;
      { machine.need_room_to_sort_words(n) } -> std::same_as<Status>;
      { machine.sort_words(words, words, n, 0, 64) } -> std::same_as<Result<std::uint64_t*>>;
      { machine.sums_before(in, out, n) } -> std::same_as<Status>;
      { machine.need_beside() } -> std::same_as<Status>;
      { machine.beside(launches) } -> std::same_as<Status>;
      { machine.rejoin() } -> std::same_as<Status>;
      { machine.order() } -> std::same_as<Status>;
      { machine.order_launches() } -> std::same_as<Status>;
      { machine.wait() } -> std::same_as<Status>;
      { machine.wait_for_all() } -> std::same_as<Status>;
      { constant.free_bytes() } -> std::convertible_to<std::uint64_t>;
    };

}  // namespace perdure::exec
