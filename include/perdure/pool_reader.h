// Reads a pool in place while another process writes it. Several readers and one writer: nobody
// locks, waits for, or notices anybody, and no byte is copied but the values that are asked for.
//
// A reader trusts nothing that it finds. Of layout word it follows the slot words of the table as
// they are at that moment, and answers a value only if the record has the very key that was asked
// for, and its CRC-32C is that of the bytes which the caller got. So whatever the writer does
// meanwhile, whether it is killed, and whatever has become of the pool's bytes: an answer is a
// value that the pool held under this key, whole. What a reader may miss is a key that the writer
// moves, or has put in, while it is looked up: such a key is looked up again a few times, and then
// counts as absent.
//
// Of layout log it follows the log of entries, and keeps an index of its own, of some 20 to 32
// bytes a key (one of 9 to 32 bytes: 40 to 90), which opening it makes. Each answer is what the key
// had at some moment of the get, for as long as the key does not change at each of 64 looks; then
// it counts as absent.
//
// Two keys of a batch may be answered from before and after one of the writer's batches. Of layout
// word that goes for transactions as well: what an open one has written is seen, also if it is
// taken back later; of layout log a transaction is seen once it has been committed. This is what a
// cache needs. Who must see batches whole looks at a copy: OpenOptions::live.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "perdure/batch.h"
#include "perdure/export.h"
#include "perdure/status.h"
#include "perdure/tables.h"

namespace perdure {

struct PoolReaderOptions {
  std::uint32_t threads = 0;  // that look up the keys of a call; 0 = one a core
};

/// Any number of threads may use one; so may a child that was forked, by one thread a call.
class PERDURE_API PoolReader {
 public:
  struct PERDURE_INTERNAL State;  // the library's own
  /// Index gphash, layout word or log, durability none or process.
  static Result<PoolReader> open(std::string const& path, PoolReaderOptions const& options = {});
  PoolReader(PoolReader&&) noexcept;
  PoolReader& operator=(PoolReader&&) noexcept;
  ~PoolReader();

  /// Where a value goes, in host memory: its first `bytes` bytes. The whole record is verified,
  /// whatever they are.
  struct Target {
    std::byte* to = nullptr;
    std::uint32_t bytes = 0;
  };

  /// Keys as Store::get takes them, in host memory. Answers key i with statuses[i]: ok and its
  /// value in targets[i]; not_found; or corrupt, where a record of this key fails its checksum and
  /// nobody changes it. Of a key that is not ok, its target may hold anything, and so may what lies
  /// behind a value shorter than its target: bytes of a value that changed while it was read.
  /// `value_bytes`, one for each key or none: how long the value of a key that is ok is, which may
  /// be more than its target takes, or less where the pool's values have any length.
  Status get(Column const& keys, std::span<Target const> targets, std::span<KeyStatus> statuses,
             std::span<std::uint32_t> value_bytes = {});

  /// The pool's named tables (perdure/tables.h), by name or by their numbers; those that the writer
  /// makes are found as soon as they count. Their rows are got by keys: a TableKey each. With
  /// `row_bytes` the table's rows must have that many, and it must be there, else
  /// Code::invalid_argument; without, a table that is not there is Code::not_found.
  Result<Table> table(std::string_view name, std::uint32_t row_bytes = 0);
  Result<std::vector<Table>> tables();

  [[nodiscard]] std::uint32_t key_bytes() const;  // 0: of any length
  [[nodiscard]] std::uint32_t value_bytes() const;  // 0: of any length
  [[nodiscard]] std::uint32_t most_value_bytes() const;
  /// The path leads to another file by now, or to none: what is read here is what was there before.
  [[nodiscard]] bool replaced() const;

 private:
  explicit PoolReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace perdure
