// Baselines are to do no more than their authors' code does, of which times alone would tell
// nothing on a busy machine.
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "cceh.hpp"
#include "level.hpp"
#include "pm/host.hpp"
#include "pm/lines.hpp"

namespace perdure::cpu_baselines {
namespace {

/// Which lines an operation asks for before it waits for the first.
class WatchingHost : public pm::OrderedHost {
 public:
  explicit WatchingHost(pm::DurableRange range) : range_(range) {}
  std::uint64_t load(std::uint64_t const* at) {
    if (range_.has(at)) loaded_.insert(line_of(at));
    return OrderedHost::load(at);
  }
  void prefetch(void const* at) { read(at, 1); }
  void read(void const* at, std::size_t bytes) {
    pm::LineRange const lines = pm::LineRange::of(at, bytes);
    for (std::uint64_t line = lines.first; loaded_.empty() && line < lines.end; ++line)
      asked_.insert(line);
  }
  void begin() {
    asked_.clear();
    loaded_.clear();
  }
  [[nodiscard]] std::set<std::uint64_t> const& asked_at_first() const { return asked_; }
  [[nodiscard]] std::set<std::uint64_t> const& loaded() const { return loaded_; }

 private:
  static std::uint64_t line_of(void const* at) { return pm::LineRange::of(at, 1).first; }
  pm::DurableRange range_;
  std::set<std::uint64_t> asked_, loaded_;
};

struct InFile {
  InFile() {
    auto made = BaselinePool::create(path, options);
    if (!made) throw std::runtime_error(made.status().message());
    pool = std::move(*made);
  }
  InFile(InFile const&) = delete;
  InFile& operator=(InFile const&) = delete;
  ~InFile() { ::unlink(path.c_str()); }

  std::string path = "/dev/shm/perdure-baselines-" + std::to_string(::getpid());
  Options options;
  std::unique_ptr<BaselinePool> pool;
};

Key bytes_of(std::uint64_t const& key) { return std::as_bytes(std::span(&key, 1)); }

TEST(Baselines, LevelHashingAsksForItsFourBucketsTogether) {
  InFile file;
  WatchingHost host(file.pool->range());
  Level<InlineKeys> table(*file.pool, file.options);
  ASSERT_TRUE(table.create(host, file.options).ok());
  KeyLog log(*file.pool);
  for (std::uint64_t key = 1; key <= 2000; ++key) {
    host.begin();
    ASSERT_EQ(table.insert(host, log, bytes_of(key), key), Outcome::done);
  }
  for (std::uint64_t key = 2001; key <= 2100; ++key) {
    std::uint64_t value = 0;
    host.begin();
    ASSERT_EQ(table.find(host, bytes_of(key), value), Outcome::absent);
    ASSERT_EQ(host.asked_at_first(), host.loaded())
        << "a search that finds nothing reads all that it asked for";
    host.begin();
    ASSERT_EQ(table.erase(host, bytes_of(key)), Outcome::absent);
    ASSERT_EQ(host.asked_at_first(), host.loaded());
  }
}

/// How often slots are compared.
class WatchedKeys : public InlineKeys {
 public:
  using InlineKeys::InlineKeys;
  template <class Host>
  bool holds(Host& host, std::uint64_t word, Target const& key) const {
    ++compared;
    return InlineKeys::holds(host, word, key);
  }
  static inline std::uint64_t compared = 0;
};

TEST(Baselines, CcehComparesEmptySlotsAsItDoesOthers) {
  InFile file;
  pm::OrderedHost host;
  Cceh<WatchedKeys> table(*file.pool, file.options);
  ASSERT_TRUE(table.create(host, file.options).ok());
  std::uint64_t const key = 7;
  std::uint64_t value = 0;
  ASSERT_EQ(table.find(host, bytes_of(key), value), Outcome::absent);
  EXPECT_EQ(WatchedKeys::compared, 16u) << "of four lines of four slots each";
  // Nothing is asked before: of key 0, which nobody may have, an empty slot would be taken for it.
  std::uint64_t const zero = 0;
  EXPECT_TRUE(InlineKeys(*file.pool).holds(host, 0, InlineKeys::target(bytes_of(zero))));
}

}  // namespace
}  // namespace perdure::cpu_baselines
