// An undo log of lines over a superblock whose words transactions store to, for its own tests and
// for those that plant faults in it.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "base/caught.hpp"
#include "pm/host.hpp"
#include "pm/transaction/transaction_host.hpp"
#include "pm/transaction/undo_lines.hpp"
#include "units/memfd_pool.hpp"

namespace perdure::pm {

inline constexpr std::uint64_t kWords = kMinSuperblock / 8;

/// A superblock whose words transactions store to.
class Driven {
 public:
  explicit Driven(Pool& pool) : pool_(pool), log_(std::make_unique<UndoLines>(pool, memory_)) {
    if (!log_->create().ok()) throw std::runtime_error("no log");
    words_ = reinterpret_cast<std::uint64_t*>(pool.base() + pool.take_run(1)->bytes);
    log_room_ = pool.root().find(kUndoLines)->offset;
  }
  UndoLines& log() { return *log_; }
  std::uint64_t* words() { return words_; }
  void store(std::uint64_t word, std::uint64_t value) {
    TransactionHost<OrderedHost> host(*log_);
    host.store(&words_[word], value);
  }
  /// So many words from this one on, by one announcement.
  void store_announced(std::uint64_t word, std::uint64_t n, std::uint64_t value) {
    TransactionHost<OrderedHost> host(*log_);
    will_store(host, {{&words_[word], n * 8}, {&words_[word + 300], 8}});
    for (std::uint64_t i = 0; i < n; ++i) host.store(&words_[word + i], value + i);
    host.store(&words_[word + 300], value);
  }
  [[nodiscard]] std::vector<std::uint64_t> copy() const { return {words_, words_ + kWords}; }
  /// As the next opening finds it.
  void crash() {
    log_.reset();
    for (std::uint64_t i = 1; i < pool_.superblocks(); ++i)
      pool_.give_run(Offset{i * kMinSuperblock}, 1);
    log_ = std::make_unique<UndoLines>(pool_, memory_);
    if (!log_->attach().ok()) throw std::runtime_error("the log is lost");
    pool_.claim_run(Offset{log_->offset_of(words_)}, 1);
  }
  std::byte* entry(std::uint64_t n) {
    return pool_.base() + log_room_ + kFirstChunk + n * sizeof(UndoEntry);
  }
  void set_ended(std::uint64_t transaction) {
    store_word(reinterpret_cast<std::uint64_t*>(pool_.base() + kEpochOffset), transaction);
  }

 private:
  Pool& pool_;
  Mutex memory_;
  std::unique_ptr<UndoLines> log_;
  std::uint64_t* words_ = nullptr;
  std::uint64_t log_room_ = 0;
};

/// Fills the log by announcements until one finds no room, and then, as others do once its locks
/// are let go, stores to all words. How many of them undo() does not put back.
inline std::uint64_t words_lost_without_room() {
  Pool pool = make_pool(3, 3);
  Driven driven(pool);
  while (pool.take_run(1).ok()) {
  }
  auto const before = driven.copy();
  std::uint64_t refused = 0;
  auto const has_room = [&](auto store) {
    try {
      store();
      return true;
    } catch (NoRoom const&) {
      ++refused;
      return false;
    }
  };
  driven.log().begin();
  for (std::uint64_t word = 0; has_room([&] { driven.store_announced(word, 777, 1); }); word += 800)
    if (word + 2000 > kWords) throw std::runtime_error("the log had room for all");
  for (std::uint64_t word = 0; word < kWords; ++word) has_room([&] { driven.store(word, 9); });
  if (refused < 2) throw std::runtime_error("stores found room that an announcement had not");
  if (!driven.log().undo().ok()) throw std::runtime_error("nothing was undone");
  auto const after = driven.copy();
  std::uint64_t lost = 0;
  for (std::uint64_t word = 0; word < kWords; ++word) lost += after[word] != before[word] ? 1 : 0;
  return lost;
}

}  // namespace perdure::pm
