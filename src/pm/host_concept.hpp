// What an algorithm over threads of the host may ask of durable memory: OrderedHost, FlushedHost,
// CountedHost, EmulatedHost and the explorer's are checked against it where they are defined.
// host.hpp says what each verb does.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace perdure::pm {

/// What a store's operation consists of (thesis, table 2.1).
enum class Part : std::uint8_t {
  index,  // keys are looked up, and entries changed
  space,  // room is found, and what is outdated noted: an allocator's or a log's functions
  value,  // records are written, or read
};

template <class H>
concept Host =
    requires(H& host, std::uint64_t const* in, std::uint64_t* word, std::uint64_t value,
             void const* at, std::byte* to, std::byte const* from, std::size_t bytes, Part part) {
      { H::kNear } -> std::convertible_to<bool>;
      { host.load(in) } -> std::same_as<std::uint64_t>;
      { host.cas(word, value, value) } -> std::same_as<bool>;
      host.store(word, value);
      host.read(at, bytes);
      host.write(to, at, bytes);
      host.stream(to, from, bytes);
      host.flush(at, bytes);
      host.persist(at, bytes);
      host.fence();
      host.prefetch(at);
      host.pause();
      host.begin();
      host.enters(part);
    };

}  // namespace perdure::pm
