// What the targets share: small valid pools, damages that an input's bytes describe, and a store
// that is used in every way. Invariant: a pool's bytes follow from its kind alone, so that an input
// does the same damage every time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../crash/pool_file.hpp"
#include "targets.hpp"

namespace perdure::test {

/// Four bytes of an input: what it hits, where, and what it makes of a byte.
struct Damage {
  std::uint8_t target = 0;
  std::uint16_t where = 0;
  std::uint8_t value = 0;
  bool replaces = false;  // else the byte is changed by exclusive or
  void put(std::byte& byte) const;
};
[[nodiscard]] std::vector<Damage> damages_in(std::uint8_t const* data, std::size_t size);

/// Of an input's first byte: checksums are made right again, for else nothing beyond them would be
/// reached.
[[nodiscard]] constexpr bool keeps_sums(std::uint8_t byte) { return (byte & 0x40) == 0; }
[[nodiscard]] std::size_t kind_of(std::uint8_t byte);

/// Of a kind: the pool as a kill left it, what it holds, where a damage falls, and its checksums
/// made right.
[[nodiscard]] Image const& image_of(std::size_t kind);
[[nodiscard]] Contents const& contents_of(std::size_t kind);
[[nodiscard]] std::uint64_t place_in(std::size_t kind, std::uint8_t target, std::uint16_t where);
void mend(std::size_t kind, Image& image);

[[nodiscard]] OpenOptions one_thread();
/// Reads, looks through, checks, writes and closes; errors are welcome, crashes are not.
void use(Store& store);

/// Ends the program: what must not be was found, or the setup failed, which would make every input
/// pass.
[[noreturn]] void fault(std::string const& what);
void must(Status const& status);

}  // namespace perdure::test
