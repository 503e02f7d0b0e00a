// A store of durability `power` on a disk that can hold writes back and forget, for checks that
// look at what it asks of the disk, and at what waits for it; it is called from several threads.
// Include it in one source of a program.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "forgetful_disk.hpp"
#include "life_on_disk.hpp"
#include "perdure/store.h"
#include "support/asleep.hpp"
#include "support/calls_stores.hpp"
#include "support/folders.hpp"

namespace perdure::wal::test {

using What = ForgetfulDisk::Event::What;

class HeldStore {
 public:
  HeldStore() : store_(make()) {}
  ~HeldStore() { hold(false); }

  [[nodiscard]] Store& store() { return *store_; }
  /// After a power cut: what lay in memory is gone. Or not: after a kill.
  Status reopen(bool repair = false, bool pool_stays = false) {
    store_ = Status{Code::closed, "no store"};
    if (disk_.dead()) disk_.restore();  // else what is planned stays so
    if (!pool_stays) ::unlink(file("pool").c_str());
    OpenOptions open;
    open.threads = 1;
    open.log_dir = "/log";
    open.repair = repair;
    store_ = Store::open(file("pool"), open);
    return store_.status();
  }
  [[nodiscard]] ForgetfulDisk& disk() { return disk_; }
  [[nodiscard]] std::string file(char const* name) const { return scratch_.file(name); }
  void hold(bool whether, std::uint64_t passing = 0) {
    disk_.file("/log/redo.log")->hold_back(whether, passing);
  }

  Status put(std::uint64_t key, std::uint64_t value, std::size_t values = 1) {
    CallsStores const here;
    std::vector<std::uint64_t> keys(values), words(values * kWords, value);
    for (std::size_t i = 0; i < values; ++i) keys[i] = key + i;
    return store().put(
        {reinterpret_cast<std::byte const*>(keys.data()), nullptr, 8, values, MemorySpace::host},
        {reinterpret_cast<std::byte const*>(words.data()), nullptr, kWords * 8, values,
         MemorySpace::host});
  }
  /// The value, or nothing.
  std::optional<std::uint64_t> get(std::uint64_t key) {
    CallsStores const here;
    std::array<std::uint64_t, kWords> value{};
    std::array<KeyStatus, 1> status{};
    Status const s = store().get(
        {reinterpret_cast<std::byte const*>(&key), nullptr, 8, 1, MemorySpace::host},
        {reinterpret_cast<std::byte*>(value.data()), kWords * 8, 1, MemorySpace::host}, status);
    if (!s.ok() || status[0] != KeyStatus::ok) return std::nullopt;
    return value[0];
  }
  Status commit(std::uint64_t key, std::uint64_t value) {
    CallsStores const here;
    auto transaction = store().begin({4});
    if (!transaction) return transaction.status();
    CallOptions how;
    how.transaction = &*transaction;
    std::vector<std::uint64_t> const words(kWords, value);
    if (Status s = store().put(
            {reinterpret_cast<std::byte const*>(&key), nullptr, 8, 1, MemorySpace::host},
            {reinterpret_cast<std::byte const*>(words.data()), nullptr, kWords * 8, 1,
             MemorySpace::host},
            {}, how);
        !s.ok())
      return s;
    return transaction->commit();
  }
  template <class Doing>
  auto aside(Doing doing, std::atomic<pid_t>* number = nullptr) {  // of its thread
    return std::async(std::launch::async, [doing, number] {
      if (number != nullptr) *number = perdure::test::thread_number();
      CallsStores const here;
      return doing();
    });
  }
  [[nodiscard]] std::size_t asked(What what, std::string const& begins) const {
    auto const events = disk_.events();
    return static_cast<std::size_t>(std::count_if(events.begin(), events.end(), [&](auto const& e) {
      return e.what == what && e.name.starts_with(begins);
    }));
  }
  /// A write of the log is under way that was not before.
  [[nodiscard]] bool writes_to_log(std::size_t before) const {
    return comes([&] { return log_writes() > before; });
  }
  /// Whoever takes note of the log's writes has done so, and no other may end.
  [[nodiscard]] bool notes_what_passed() const {
    auto const file = disk_.file("/log/redo.log");
    return comes([&] { return file->waited_in_vain(); });
  }
  [[nodiscard]] std::size_t log_writes() const {
    return asked(What::write, "redo.log") + asked(What::write_durably, "redo.log");
  }
  [[nodiscard]] std::size_t image_writes() const {
    return asked(What::write, "image") + asked(What::write_durably, "image") +
           asked(What::write_durably, "checkpoint");
  }

  static constexpr std::size_t kWords = 256;  // of a value: 2 KiB

 private:
  template <class Condition>
  static bool comes(Condition condition) {
    for (int i = 0; i < 20'000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  Result<Store> make() {
    CallsStores const here;
    CreateOptions o;
    o.value_bytes = kWords * 8;
    o.expected_records = 1;
    o.durability = Durability::power;
    o.log.dir = "/log";
    o.log.bytes = 1u << 20;
    OpenOptions open;
    open.threads = 1;
    return Store::create(scratch_.file("pool"), o, open);
  }

  perdure::test::ScratchDir const scratch_;
  ForgetfulDisk disk_{1};
  CallsStores const here_;
  Result<Store> store_;
};

}  // namespace perdure::wal::test
