// What the tests of stores of durability power share: stores that are made with a log directory,
// and opened from one. Invariant: open() repairs nothing unless it is told to.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "support/store_driver.hpp"

namespace perdure::test::power_stores {

inline std::string text(Layout layout) {
  return layout == Layout::word ? "word" : layout == Layout::log ? "log" : "in_place";
}

inline Config config_of(Layout layout, std::uint32_t key_bytes, std::uint32_t value_bytes) {
  Config c;
  c.name = "power";
  c.layout = layout;
  c.key_bytes = key_bytes;
  c.value_bytes = value_bytes;
  return c;
}

inline Store create(Config const& config, std::string const& pool, std::string const& log_dir,
                    std::uint64_t log_bytes = 1u << 20) {
  CreateOptions options = config.create(64);
  options.durability = Durability::power;
  options.log.dir = log_dir;
  options.log.bytes = log_bytes;
  auto store = Store::create(pool, options, config.open());
  if (!store.ok()) throw std::runtime_error(store.status().message());
  return std::move(*store);
}

inline Result<Store> open(Config const& config, std::string const& pool, std::string const& log_dir,
                          bool repair = false) {
  OpenOptions options = config.open();
  options.repair = repair;
  options.log_dir = log_dir;
  return Store::open(pool, options);
}

}  // namespace perdure::test::power_stores
