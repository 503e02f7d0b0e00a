// Readers of pools of layout `log` beside their writer (store/gphash/log_follower.hpp): after each
// step they answer what a plain model says, and beside a writer that never stops what a key had, in
// the order in which it had it.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>

#include "base/hash.hpp"
#include "lifetime/lifetime_store.hpp"
#include "perdure/pool_reader.h"
#include "support/sanitized.hpp"

namespace perdure::test {
namespace {

constexpr std::uint64_t kKeys = 400;

struct LogShape {
  std::uint32_t key_bytes;  // 0: of any length
  std::uint32_t value_bytes;  // 0: of any length
};
void PrintTo(LogShape const& shape, std::ostream* out) {
  *out << "keys_" << shape.key_bytes << "_values_" << shape.value_bytes;
}

/// A key's number, in as many bytes as keys have. Every third key of more than 32 bytes, or of any
/// length, has one hash: its first 8 bytes multiply by zero (base/hash.hpp).
struct LogKeys {
  LogKeys(std::vector<std::uint64_t> const& keys, std::uint32_t width) {
    for (std::uint64_t const number : keys) add(number, width);
    column = {bytes.data(), width == 0 ? ends.data() : nullptr, width, keys.size()};
  }
  void add(std::uint64_t number, std::uint32_t width) {
    bool const alike = (width == 0 || width > 32) && number % 3 == 0 && number < kAlikeBelow;
    std::size_t const n = width != 0 ? width : alike ? 17 : 9 + number % 50;
    std::size_t const at = bytes.size();
    bytes.resize(at + n);
    std::uint64_t const words[] = {alike ? hash_detail::k1 : number, alike ? number : 0};
    std::memcpy(&bytes[at], words, std::min(n, sizeof words));
    if (!alike && n > 8) std::memcpy(&bytes[at + n - 2], &number, 2);
    ends.push_back(static_cast<std::int64_t>(bytes.size()));
  }
  static constexpr std::uint64_t kAlikeBelow = 75;  // so that they find room
  std::vector<std::byte> bytes;
  std::vector<std::int64_t> ends{0};
  Column column;
};

/// Of version v of key k: words that say both.
std::uint64_t word_of(std::uint64_t key, std::uint64_t version) { return version << 16 | key; }

struct LogValues {
  LogValues(std::vector<std::uint64_t> const& keys, std::uint64_t version, std::uint32_t width) {
    std::vector<std::uint64_t> words;
    for (std::uint64_t const key : keys) {
      words.insert(words.end(), words_of(key, version, width), word_of(key, version));
      ends.push_back(static_cast<std::int64_t>(8 * words.size()));
    }
    bytes.resize(8 * words.size());
    std::memcpy(bytes.data(), words.data(), bytes.size());
    column = {bytes.data(), width == 0 ? ends.data() : nullptr, width, keys.size()};
  }
  static std::uint64_t words_of(std::uint64_t key, std::uint64_t version, std::uint32_t width) {
    return width != 0 ? width / 8 : 1 + (key + version) % 40;
  }
  std::vector<std::byte> bytes;
  std::vector<std::int64_t> ends{0};
  Column column;
};

using Model = std::map<std::uint64_t, std::uint64_t>;  // key to version

Result<Store> make_log_pool(std::string const& path, LogShape const& shape) {
  CreateOptions o;
  o.layout = Layout::log;
  o.key_bytes = shape.key_bytes;
  o.value_bytes = shape.value_bytes;
  o.expected_records = 64;
  o.file.overwrite = true;
  return Store::create(path, o, {.threads = 1});
}

/// The versions that a reader finds under these keys; each value must be whole.
std::optional<std::string> read_versions(PoolReader& reader, LogShape const& shape,
                                         std::vector<std::uint64_t> const& keys,
                                         std::vector<std::optional<std::uint64_t>>& versions) {
  LogKeys const asked(keys, shape.key_bytes);
  std::size_t const width = shape.value_bytes != 0 ? shape.value_bytes : 8 * 41;
  std::vector<std::byte> values(keys.size() * width);
  std::vector<PoolReader::Target> targets;
  for (std::size_t i = 0; i < keys.size(); ++i)
    targets.push_back({&values[i * width], static_cast<std::uint32_t>(width)});
  std::vector<KeyStatus> statuses(keys.size());
  std::vector<std::uint32_t> lengths(keys.size());
  if (Status s = reader.get(asked.column, targets, statuses, lengths); !s.ok()) return s.message();
  versions.assign(keys.size(), std::nullopt);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (statuses[i] == KeyStatus::not_found) continue;
    auto const of_key = "key " + std::to_string(keys[i]);
    if (statuses[i] != KeyStatus::ok) return of_key + " is damaged";
    std::uint64_t first = 0;
    std::memcpy(&first, &values[i * width], sizeof first);
    std::uint64_t const version = first >> 16;
    LogValues const expected({keys[i]}, version, shape.value_bytes);
    if (lengths[i] != expected.bytes.size() || (first & 0xffff) != keys[i] ||
        std::memcmp(&values[i * width], expected.bytes.data(), lengths[i]) != 0)
      return of_key + " has a value that is none";
    versions[i] = version;
  }
  return std::nullopt;
}

std::optional<std::string> differs(PoolReader& reader, LogShape const& shape, Model const& model) {
  std::vector<std::optional<std::uint64_t>> found;
  auto const keys = words(1, kKeys);
  if (auto wrong = read_versions(reader, shape, keys, found)) return wrong;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    auto const is = model.find(keys[i]);
    std::optional<std::uint64_t> const expected =
        is == model.end() ? std::optional<std::uint64_t>{} : is->second;
    if (found[i] != expected)
      return "key " + std::to_string(keys[i]) + " is of version " +
             std::to_string(found[i].value_or(0)) + ", not " + std::to_string(expected.value_or(0));
  }
  return std::nullopt;
}

// ------------------------------------------------------------------------------------------------
// Generated sequences

/// A writer of generated steps, with the model of what it wrote.
class LogWriter {
 public:
  LogWriter(std::string path, LogShape const& shape, std::uint32_t seed)
      : path_(std::move(path)), shape_(shape), random_(seed) {
    auto made = make_log_pool(path_, shape_);
    EXPECT_TRUE(made.ok()) << made.status().message();
    store_.emplace(std::move(*made));
  }
  [[nodiscard]] Model const& model() const { return model_; }
  [[nodiscard]] std::string const& last() const { return last_; }

  /// `shows`: what the reader must answer in the middle of a step.
  Status step(std::function<void()> const& shows) {
    std::uint32_t const kind = random_() % 16;
    if (kind < 5) return named("batch", batch(model_, {}));
    if (kind < 7) return named("atomic batch", batch(model_, {.atomic = true}));
    if (kind < 13) return named("transaction", transaction(kind, shows));
    if (kind == 13) return named("many updates", many_updates());
    if (kind == 14) return named("growth", grow());
    return named("reopening", reopen());
  }

 private:
  Status named(char const* what, Status s) {
    last_ = what;
    return s;
  }

  std::vector<std::uint64_t> some_keys(std::size_t most) {
    std::vector<std::uint64_t> keys(1 + random_() % most);
    for (auto& key : keys) key = 1 + random_() % kKeys;
    return keys;
  }

  Status batch(Model& model, CallOptions const& how) {
    auto const keys = some_keys(40);
    LogKeys const column(keys, shape_.key_bytes);
    ++version_;
    if (random_() % 4 == 0) {
      for (auto const key : keys) model.erase(key);
      return store_->erase(column.column, {}, how);
    }
    LogValues const values(keys, version_, shape_.value_bytes);
    for (auto const key : keys) model[key] = version_;
    return store_->put(column.column, values.column, {}, how);
  }

  /// Commits, aborts, or commits and is taken back; before and in between, nothing of it shows.
  Status transaction(std::uint32_t kind, std::function<void()> const& shows) {
    Model after = model_;
    auto tx = store_->begin({.max_operations = 400, .revertible = kind >= 11});
    if (!tx.ok()) return tx.status();
    for (std::uint32_t n = random_() % 4; n > 0; --n) {
      if (Status s = batch(after, {.transaction = &*tx}); !s.ok()) return s;
      if (random_() % 2 == 0) shows();
    }
    if (kind < 9) return tx->abort();
    if (Status s = tx->commit(); !s.ok()) return s;
    std::swap(model_, after);
    if (random_() % 2 == 0) shows();
    auto const can = store_->can_revert();
    if (kind != 12 || !can.ok() || !can.value()) return {};
    if (random_() % 4 == 0) {
      if (Status s = reopen(); !s.ok()) return s;
      shows();
    }
    std::swap(model_, after);
    return store_->revert();
  }

  /// So that the log is written anew now and then.
  Status many_updates() {
    std::vector<std::uint64_t> keys;
    for (std::size_t i = 0; i < 12'000; ++i) keys.push_back(1 + i % 20);
    LogKeys const column(keys, shape_.key_bytes);
    LogValues const values(keys, ++version_, shape_.value_bytes);
    for (auto const key : keys) model_[key] = version_;
    return store_->put(column.column, values.column);
  }

  Status grow() {
    std::vector<std::uint64_t> const keys = words(kKeys + 1 + random_() % 20'000, 3000);
    LogKeys const column(keys, shape_.key_bytes);
    LogValues const values(keys, ++version_, shape_.value_bytes);
    return store_->put(column.column, values.column);
  }

  Status reopen() {
    if (Status s = store_->close(); !s.ok()) return s;
    store_.reset();
    auto opened = Store::open(path_, {.threads = 1});
    if (!opened.ok()) return opened.status();
    store_.emplace(std::move(*opened));
    return {};
  }

  std::string path_;
  LogShape shape_;
  std::minstd_rand random_;
  std::optional<Store> store_;
  Model model_;
  std::uint64_t version_ = 0;
  std::string last_;
};

class LogReaders : public testing::TestWithParam<LogShape> {
 protected:
  [[nodiscard]] std::string path() const { return scratch_.file("pool"); }
  ScratchDir scratch_;
};
INSTANTIATE_TEST_SUITE_P(Shapes, LogReaders,
                         testing::Values(LogShape{8, 8}, LogShape{8, 0}, LogShape{3, 128},
                                         LogShape{24, 128}, LogShape{32, 0}, LogShape{40, 16},
                                         LogShape{0, 0}),
                         testing::PrintToStringParamName());

TEST_P(LogReaders, AnswerAsAModelAfterEachStepOfItsWriter) {
  for (std::uint32_t seed = 1; seed <= (kSanitized ? 2 : 4); ++seed) {
    LogWriter writer(path(), GetParam(), seed);
    auto follows = PoolReader::open(path(), {.threads = 1});
    ASSERT_TRUE(follows.ok()) << follows.status().message();
    for (int n = 0; n < 120; ++n) {
      auto const shows = [&] {
        auto const wrong = differs(*follows, GetParam(), writer.model());
        EXPECT_FALSE(wrong) << *wrong << ", in the middle of step " << n << " of seed " << seed;
      };
      Status const done = writer.step(shows);
      ASSERT_TRUE(done.ok()) << done.message();
      if (n % 3 == 1) continue;  // several steps at once
      auto const wrong = differs(*follows, GetParam(), writer.model());
      ASSERT_FALSE(wrong) << *wrong << ", after step " << n << " of seed " << seed << ", a "
                          << writer.last();
      if (n % 8 != 0) continue;
      auto anew = PoolReader::open(path(), {.threads = 1});
      ASSERT_TRUE(anew.ok()) << anew.status().message();
      auto const other = differs(*anew, GetParam(), writer.model());
      ASSERT_FALSE(other) << *other << ", anew after step " << n << " of seed " << seed;
    }
    ASSERT_FALSE(HasFailure());
  }
}

// ------------------------------------------------------------------------------------------------
// Beside a writer that never stops

constexpr std::uint64_t kHotKeys = 24, kAlwaysThere = 4;  // the first of them are never erased
// Of versions: bit 0, of a commit that is taken back at once; bit 1, of one that aborts.
constexpr std::uint64_t kTakenBack = 1, kAborted = 2, kNextVersion = 4;

struct HotWriter {
  Store store;
  LogShape shape;
  std::uint64_t version;
  std::minstd_rand random{7};

  std::vector<std::uint64_t> some_keys() {
    return words(1 + random() % kHotKeys, 1 + random() % 6);
  }
  Status put(std::uint64_t flags, CallOptions const& how = {}) {
    auto const keys = some_keys();
    LogKeys const column(keys, shape.key_bytes);
    LogValues const values(keys, (version += kNextVersion) | flags, shape.value_bytes);
    return store.put(column.column, values.column, {}, how);
  }
  Status erase() {
    auto const keys = words(kAlwaysThere + 1 + random() % kHotKeys, 3);
    return store.erase(LogKeys(keys, shape.key_bytes).column);
  }
  Status in_a_transaction(std::uint64_t flags) {
    auto tx = store.begin({.revertible = flags == kTakenBack});
    if (!tx.ok()) return tx.status();
    for (int n = 0; n < 3; ++n)
      if (Status s = put(flags, {.transaction = &*tx}); !s.ok()) return s;
    if (flags == kAborted) return tx->abort();
    if (Status s = tx->commit(); !s.ok() || flags == 0) return s;
    return store.revert();
  }
  Status step() {
    switch (random() % 8) {
      case 0: return erase();
      case 1: return put(0, {.atomic = true});
      case 2: return in_a_transaction(0);
      case 3: return in_a_transaction(kTakenBack);
      case 4: return in_a_transaction(kAborted);
      default: return put(0);
    }
  }
};

/// A child, until it is killed.
[[noreturn]] void write_log_for_ever(std::string const& path, LogShape const& shape,
                                     std::uint64_t version) {
  auto opened = Store::open(path, {.threads = 1});
  if (!opened.ok()) ::_exit(1);
  for (HotWriter writer{std::move(*opened), shape, version};;)
    if (!writer.step().ok()) ::_exit(2);
}

/// What one reader has seen of each key.
struct Watched {
  std::vector<std::uint64_t> newest = std::vector<std::uint64_t>(kHotKeys + 8);
  std::uint64_t found = 0, missed = 0, taken_back = 0;

  std::optional<std::string> look(PoolReader& reader, LogShape const& shape) {
    auto const keys = words(1, kHotKeys + 7);
    std::vector<std::optional<std::uint64_t>> versions;
    if (auto wrong = read_versions(reader, shape, keys, versions)) return wrong;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      auto const of_key = "key " + std::to_string(keys[i]);
      found += versions[i].has_value(), missed += !versions[i].has_value();
      if (!versions[i] && keys[i] <= kAlwaysThere) return of_key + " is missed";
      if (!versions[i]) continue;
      if ((*versions[i] & kAborted) != 0) return of_key + " is of a transaction that aborted";
      taken_back += *versions[i] & kTakenBack;
      if ((*versions[i] & kTakenBack) != 0) continue;
      if (*versions[i] < newest[keys[i]]) return of_key + " went back";
      newest[keys[i]] = *versions[i];
    }
    return std::nullopt;
  }
};

TEST_P(LogReaders, SeeEachKeyGoForwardWhileWritersAreKilledAndFollowed) {
  {
    auto store = make_log_pool(path(), GetParam());
    ASSERT_TRUE(store.ok()) << store.status().message();
    HotWriter writer{std::move(*store), GetParam(), kNextVersion};
    auto const keys = words(1, kAlwaysThere);
    LogValues const values(keys, kNextVersion, GetParam().value_bytes);
    ASSERT_TRUE(writer.store.put(LogKeys(keys, GetParam().key_bytes).column, values.column).ok());
  }
  auto reader = PoolReader::open(path(), {.threads = 2});
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  Watched watched;
  for (std::uint64_t n = 1; n <= 6; ++n) {
    pid_t const writer = ::fork();
    if (writer == 0) write_log_for_ever(path(), GetParam(), n << 28);
    std::optional<std::string> wrong;
    auto const end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    while (std::chrono::steady_clock::now() < end && !wrong)
      wrong = watched.look(*reader, GetParam());
    ::kill(writer, SIGKILL);
    int status = 0;
    ::waitpid(writer, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer failed: " << WEXITSTATUS(status);
    if (!wrong) wrong = watched.look(*reader, GetParam());
    ASSERT_FALSE(wrong) << *wrong << ", beside writer " << n;
  }
  EXPECT_GT(watched.found, 0u);
  EXPECT_GT(watched.missed, 0u);
}

}  // namespace
}  // namespace perdure::test
