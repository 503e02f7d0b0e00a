// What the victims of perdure_rocks_kills write, and what must then be there. Two threads make
// calls, each on keys of its own; call n of a thread is the same in every process, so the judge
// knows what n calls leave.
//
// Invariant: a call is one write of RocksDB's interface. After a kill all calls that were
// acknowledged are there, and of the next one everything or nothing.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <string>

#include "rocks/support/openers.hpp"

namespace perdure::test {

inline constexpr std::size_t kThreads = 2;
inline constexpr std::size_t kKillFamilies = 3;  // default, counts (uint64add), appends

/// In memory that the judge shares with its victims.
struct Page {
  struct Thread {
    std::atomic<std::uint64_t> acknowledged;  // calls, from the first victim on
  };
  std::array<Thread, kThreads> threads;
  std::atomic<std::uint64_t> opened;  // victims that came so far
};

/// Call number n of a thread, as a batch. Where it has one write, that is made by itself; where it
/// has many, all of one family, they are arrays to a database that takes these.
rocksdb::WriteBatch make_call(std::uint64_t seed, std::size_t thread, std::uint64_t number,
                              Handles const& handles);

/// What a thread's first calls leave.
class Expected {
 public:
  Expected(std::uint64_t seed, std::size_t thread) : seed_(seed), thread_(thread) {}

  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  /// Of those, batches: each adds 1 to the total.
  [[nodiscard]] std::uint64_t batches() const { return batches_; }
  /// One call more.
  void advance();
  /// Family by family, key by key.
  using Content = std::array<std::map<std::string, std::string>, kKillFamilies>;
  [[nodiscard]] Content const& content() const { return content_; }

 private:
  std::uint64_t seed_;
  std::size_t thread_;
  std::uint64_t calls_ = 0;
  std::uint64_t batches_ = 0;
  Content content_;
};

/// What a database has of a thread's keys.
rocksdb::Status read_content(rocksdb::DB* db, Handles const& handles, std::size_t thread,
                             Expected::Content& content);

Families kill_families();

/// The count that both threads add 1 to in each batch.
inline constexpr char kTotal[] = "total";
std::uint64_t number_of(std::string const& value);

}  // namespace perdure::test
