// A pool's identity and birthday, which are no part of a seed. Invariant: pools of explored runs
// have those of all others.
#pragma once

#include <array>
#include <cstring>

#include "base/crc32c.hpp"
#include "explore/sim_arena.hpp"
#include "pm/pool.hpp"
#include "pm/pool_format.hpp"

namespace perdure::explore {

inline void without_chance(Arena& a) {
  pm::PoolHeader header;
  std::memcpy(&header, a.data() + pm::kHeaderOffset, sizeof header);
  header.pool_id.fill(0xa7);  // as unlike an address as a real one
  header.created_unix_s = 0;
  header.crc = crc32c(0, &header, offsetof(pm::PoolHeader, crc));
  std::array<std::uint64_t, sizeof header / 8> words;
  std::memcpy(words.data(), &header, sizeof header);
  for (std::uint32_t w = 0; w < words.size(); ++w) a.set(pm::kHeaderOffset / 8 + w, words[w]);
}

/// A new pool in the arena, opened since its identity was taken away.
inline Result<pm::Pool> make_without_chance(Arena& a, pm::PoolHeader const& header,
                                            std::uint64_t superblocks) {
  auto made = pm::Pool::create(kArenaPath, header, superblocks, {}, {});
  if (!made) return made;
  made->close();
  without_chance(a);
  return pm::Pool::open(kArenaPath, {});
}

}  // namespace perdure::explore
