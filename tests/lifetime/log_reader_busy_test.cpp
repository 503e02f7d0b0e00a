// Readers of layout `log` beside a writer that never stops, whose records are used again at once:
// of a key that is always there each finds a whole value, none older than what was acknowledged.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "lifetime/lifetime_store.hpp"
#include "perdure/pool_reader.h"
#include "support/sanitized.hpp"

namespace perdure::test {
namespace {

constexpr std::uint64_t kKeys = 900;
constexpr std::uint32_t kMostBytes = 1024;  // of a value
constexpr std::size_t kReaders = 4;

/// Of each key the newest number that a value was acknowledged with.
struct Acknowledged {
  std::atomic<std::uint64_t> of[kKeys];
};

/// A value says its number and its key, and its length follows from both.
std::string value_of(std::uint64_t key, std::uint64_t number) {
  std::string value(16 + (key * 7 + number * 13) % 900,
                    static_cast<char>('!' + (key + number) % 90));
  std::memcpy(value.data(), &number, 8);
  std::memcpy(value.data() + 8, &key, 8);
  return value;
}

struct Batch {
  void add(std::uint64_t key, std::uint64_t number) {
    keys.push_back(key);
    bytes += value_of(key, number);
    offsets.push_back(static_cast<std::int64_t>(bytes.size()));
  }
  [[nodiscard]] Status put_into(Store& store, CallOptions const& how = {}) const {
    Column const values{reinterpret_cast<std::byte const*>(bytes.data()), offsets.data(), 0,
                        keys.size(), MemorySpace::host};
    return store.put(column(keys), values, {}, how);
  }
  Words keys;
  std::string bytes;
  std::vector<std::int64_t> offsets{0};
};

/// Until it is killed. Every third batch is a transaction's.
[[noreturn]] void write_on(Store& store, Acknowledged& acknowledged) {
  std::mt19937_64 random(1);
  for (std::uint64_t number = 1;; ++number) {
    Batch batch;
    std::vector<bool> taken(kKeys);
    std::uint64_t const n = random() % 3 != 0 ? 1 + random() % 20 : 1 + random() % 600;
    for (std::uint64_t i = 0; i < n; ++i) {
      std::uint64_t const key = random() % kKeys;
      if (!taken[key]) batch.add(key, number);
      taken[key] = true;
    }
    Status s;
    if (number % 3 == 0) {
      auto transaction = store.begin({.max_operations = kKeys});
      s = transaction.status();
      if (s.ok()) s = batch.put_into(store, {.transaction = &*transaction});
      if (s.ok()) s = transaction->commit();
    } else {
      s = batch.put_into(store);
    }
    if (!s.ok()) {
      std::fprintf(stderr, "a writer fails: %s\n", s.message().c_str());
      ::_exit(1);
    }
    for (std::uint64_t const key : batch.keys) acknowledged.of[key] = number;
  }
}

/// What is wrong with one of some random keys, if anything is.
std::optional<std::string> look(PoolReader& reader, Acknowledged const& acknowledged,
                                std::mt19937_64& random) {
  std::size_t const n = 1 + random() % 500;
  Words keys(n), least(n);
  std::vector<char> room(n * kMostBytes);
  std::vector<PoolReader::Target> targets(n);
  std::vector<KeyStatus> statuses(n);
  std::vector<std::uint32_t> bytes(n);
  for (std::size_t i = 0; i < n; ++i) {
    keys[i] = random() % kKeys;
    least[i] = acknowledged.of[keys[i]];
    targets[i] = {reinterpret_cast<std::byte*>(room.data() + i * kMostBytes), kMostBytes};
  }
  if (Status s = reader.get(column(keys), targets, statuses, bytes); !s.ok()) return s.message();
  for (std::size_t i = 0; i < n; ++i) {
    std::string const which = "key " + std::to_string(keys[i]);
    if (statuses[i] != KeyStatus::ok)
      return which + " has status " + std::to_string(static_cast<int>(statuses[i]));
    std::uint64_t number = 0;
    std::memcpy(&number, room.data() + i * kMostBytes, sizeof number);
    if (std::string(room.data() + i * kMostBytes, bytes[i]) != value_of(keys[i], number))
      return which + " has a torn value";
    if (number < least[i]) return which + " has an older value than was acknowledged";
  }
  return std::nullopt;
}

TEST(LogReadersBesideABusyWriter, FindEveryKeyWhole) {
  ScratchDir const scratch;
  std::string const path = scratch.file("pool");
  auto* const acknowledged = static_cast<Acknowledged*>(::mmap(
      nullptr, sizeof(Acknowledged), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(acknowledged, MAP_FAILED);
  CreateOptions o;
  o.layout = Layout::log;
  {
    auto store = Store::create(path, o, {.threads = 1});
    ASSERT_TRUE(store.ok()) << store.status().message();
    Batch all;
    for (std::uint64_t key = 0; key < kKeys; ++key) all.add(key, 0);
    ASSERT_TRUE(all.put_into(*store).ok());
  }
  ::pid_t const writer = ::fork();
  ASSERT_GE(writer, 0);
  if (writer == 0) {
    auto store = Store::open(path, {.threads = 1});
    if (!store.ok()) ::_exit(2);
    write_on(*store, *acknowledged);
  }
  auto const until =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(kSanitized ? 1000 : 2500);
  std::vector<std::optional<std::string>> wrong(kReaders);
  std::vector<std::thread> readers;
  for (std::size_t r = 0; r < kReaders; ++r) {
    readers.emplace_back([&, r] {
      std::mt19937_64 random(r);
      auto reader = PoolReader::open(path, {.threads = 1});
      if (!reader.ok()) wrong[r] = reader.status().message();
      while (!wrong[r] && std::chrono::steady_clock::now() < until)
        wrong[r] = look(*reader, *acknowledged, random);
    });
  }
  for (auto& thread : readers) thread.join();
  ::kill(writer, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(writer, &status, 0), writer);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself";
  for (auto const& each : wrong) EXPECT_FALSE(each) << *each;
  ::munmap(acknowledged, sizeof(Acknowledged));
}

}  // namespace
}  // namespace perdure::test
