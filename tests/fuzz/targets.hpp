// The fuzzers' targets. Each takes any bytes and never crashes or hangs: byte 0 picks what is
// damaged and how checksums are treated, each four bytes after it are one damage (pools.hpp). Where
// checksums are left as they were, a target aborts if something is answered that was never written.
#pragma once

#include <cstddef>
#include <cstdint>

namespace perdure::test {

/// A pool that is opened, and used in every way.
void fuzz_pool(std::uint8_t const* data, std::size_t size);
/// The redo log of a store of durability power, which is opened from it.
void fuzz_log(std::uint8_t const* data, std::size_t size);
/// Its images, and the record that says which counts.
void fuzz_image(std::uint8_t const* data, std::size_t size);
/// A snapshot that is restored.
void fuzz_snapshot(std::uint8_t const* data, std::size_t size);
/// A server's clients, who send these bytes. Here byte 0 says how they are cut into pieces and
/// which client sends each, and what else there is: a password, a pool that is soon full, RESP3,
/// time that passes. All that follows is sent.
void fuzz_server(std::uint8_t const* data, std::size_t size);

}  // namespace perdure::test
