// One input of the fuzzer: damages done to a small valid pool, then whatever opens is used in every way.
#pragma once

#include <cstddef>
#include <cstdint>

namespace perdure::test {

/// Never crashes, never hangs, whatever the bytes. Byte 0 picks the pool and how checksums are treated;
/// each four bytes after it are one damage: what it hits, where, how.
void fuzz_one(std::uint8_t const* data, std::size_t size);

}  // namespace perdure::test
