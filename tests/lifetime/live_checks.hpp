// What a live look goes by, on a pool that another store of this process has open: run by
// live_test.cpp, and with faults planted by tests/log/disk_mutants_test.cpp. Nothing: nothing is
// wrong.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "lifetime/lifetime_store.hpp"
#include "pm/pool_format.hpp"
#include "support/calls_stores.hpp"

namespace perdure::test {

inline OpenOptions looking() {
  OpenOptions o;
  o.threads = 1;
  o.live = true;
  return o;
}

inline std::uint64_t change_word(std::string const& path) {
  std::uint64_t word = 1;
  int const fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (::pread(fd, &word, sizeof word, pm::kChangeWordOffset) != sizeof word) word = 1;
  ::close(fd);
  return word;
}

/// What it has written is in no look before it has committed, nor after it was aborted.
inline std::optional<std::string> a_transaction_is_one_change() {
  CallsStores const here;
  PoolHome const home({"word"});
  auto store = home.create();
  if (!store) return store.status().message();
  if (Status s = put(*store, 0, 50); !s.ok()) return s.message();
  for (bool const commits : {true, false}) {
    {
      auto transaction = store->begin({64});
      if (!transaction) return transaction.status().message();
      CallOptions how;
      how.transaction = &*transaction;
      if (Status s = put(*store, 0, 50, commits ? 100 : 200, how); !s.ok()) return s.message();
      Status const look = Store::open(home.path(), looking()).status();
      if (look.code() != Code::busy)
        return "a look in the midst of a transaction: " + look.message();
      if (Status s = commits ? transaction->commit() : transaction->abort(); !s.ok())
        return s.message();
    }
    auto look = Store::open(home.path(), looking());
    if (!look) return look.status().message();
    Words values;
    if (Status s = get(*look, 0, 50, values); !s.ok()) return s.message();
    if (values != words(100, 50)) return "a look finds something else than what was committed";
  }
  return std::nullopt;
}

/// Between changes it is even; and it never is again what it was, over closings and openings.
inline std::optional<std::string> the_word_moves_on() {
  CallsStores const here;
  PoolHome const home({"word"});
  auto store = home.create();
  std::uint64_t last = 0;
  for (std::uint64_t round = 0; round < 20; ++round) {
    if (!store) return store.status().message();
    if (Status s = put(*store, round, 10); !s.ok()) return s.message();
    std::uint64_t const word = change_word(home.path());
    if (word % 2 != 0) return "the word of a pool that nobody changes is odd";
    if (word <= last) return "the word is what it was, though the pool has changed";
    last = word;
    if (round % 5 != 4) continue;
    if (Status s = store->close(); !s.ok()) return s.message();
    if (change_word(home.path()) % 2 != 0) return "the word of a closed pool is odd";
    store = home.open();
  }
  return std::nullopt;
}

}  // namespace perdure::test
