// A glance at a pool from outside, beside the process that has it open, or when nobody has.
// Invariants: it reads a bounded part of the file, whatever the pool's size; nothing is locked,
// written or waited for, and whoever has the pool open does not notice. So it sees what the file
// says by itself: counts that only the owner has, such as of gets, are not in it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "perdure/export.h"
#include "perdure/options.h"
#include "perdure/status.h"
#include "perdure/survival.h"

namespace perdure {

/// Who has a pool open, as far as the system's list of locks says: it names no process of another
/// container.
enum class PoolUse : std::uint8_t { nobody, reading, writing };

struct Glance {
  PoolUse use = PoolUse::nobody;
  std::int64_t process = 0;  // that has it; 0: none that is known of
  bool closed_in_order = false;  // while a process writes to it, false
  // Index gphash. Write batches, transactions, openings and closings since it was made; and whether
  // one is under way.
  std::optional<std::uint64_t> changes;
  bool changing = false;
  std::uint64_t transactions = 0;  // that ended, since it was made
  // Of index gphash estimated from a sample of its slots, unless the table is small; of others as
  // the last orderly close left it, and none while they are open.
  std::optional<std::uint64_t> records;
  bool estimated = false;
  std::optional<std::uint64_t> slots;  // index gphash
  std::optional<double> load_factor;  // index gphash
  bool growing = false;  // a level of the table is being emptied
  std::uint64_t pool_bytes = 0;  // of the file
  std::uint64_t max_bytes = 0;  // 0 = as the medium allows
  // At most; a part of the pool that was emptied counts until it is used for something else.
  std::uint64_t used_bytes = 0;
  std::uint64_t repairs = 0;  // lines that wait for Store::acknowledge_repair
  std::uint32_t key_bytes = 0;
  std::uint32_t value_bytes = 0;
  Index index = Index::gphash;
  Layout layout = Layout::word;
  Durability durability = Durability::process;
  std::uint64_t bytes_read = 0;  // by this glance
};

/// Code::corrupt: it is no pool, or its head is damaged. Code::busy: its head changed each time it
/// was read.
[[nodiscard]] PERDURE_API Result<Glance> glance(std::string const& path);

}  // namespace perdure
