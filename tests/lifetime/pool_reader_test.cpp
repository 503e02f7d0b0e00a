// Readers of a pool beside its writer: they answer what it holds, whole, and nothing else.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <random>
#include <thread>

#include "index/gphash/root_levels.hpp"
#include "lifetime/lifetime_store.hpp"
#include "perdure/pool_reader.h"
#include "pm/pool.hpp"

namespace perdure::test {
namespace {

struct Read {
  std::vector<KeyStatus> statuses;
  std::vector<std::byte> values;
  std::uint32_t width = 0;

  [[nodiscard]] std::span<std::byte const> value(std::size_t i) const {
    return std::span(values).subspan(i * width, width);
  }
  [[nodiscard]] std::uint64_t word(std::size_t i, std::size_t at = 0) const {
    std::uint64_t word = 0;
    std::memcpy(&word, value(i).data() + at * sizeof word, sizeof word);
    return word;
  }
};

/// The first `width` bytes of each value; 0: all of them.
Read read(PoolReader& reader, Words const& keys, std::uint32_t width = 0) {
  Read r;
  r.width = width != 0 ? width : reader.value_bytes();
  r.statuses.resize(keys.size());
  r.values.resize(keys.size() * r.width);
  std::vector<PoolReader::Target> targets;
  for (std::size_t i = 0; i < keys.size(); ++i)
    targets.push_back({r.values.data() + i * r.width, r.width});
  Status const answered = reader.get(column(keys), targets, r.statuses);
  EXPECT_TRUE(answered.ok()) << answered.message();
  return r;
}

Result<Store> make_pool(std::string const& path, std::uint32_t value_bytes, std::uint64_t records,
                        Layout layout = Layout::word) {
  CreateOptions o;
  o.layout = layout;
  o.value_bytes = value_bytes;
  o.expected_records = records;
  o.file.overwrite = true;
  return Store::create(path, o);
}

/// Values whose words are all the same, so that one that is of two moments shows.
std::vector<std::byte> rows(Words const& keys, std::uint32_t value_bytes, std::uint64_t times) {
  std::vector<std::byte> bytes(keys.size() * value_bytes);
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    std::uint64_t const word = keys[at / value_bytes] * times;
    std::memcpy(bytes.data() + at, &word, 8);
  }
  return bytes;
}

Status put_rows(Store& store, Words const& keys, std::uint32_t value_bytes, std::uint64_t times) {
  auto const bytes = rows(keys, value_bytes, times);
  return store.put(column(keys), {bytes.data(), nullptr, value_bytes, keys.size()});
}

struct Shape {
  Layout layout;
  std::uint32_t value_bytes;
};
void PrintTo(Shape const& shape, std::ostream* out) {
  *out << (shape.layout == Layout::log ? "log_" : "word_") << shape.value_bytes;
}

class PoolReaders : public testing::TestWithParam<Shape> {
 protected:
  [[nodiscard]] std::uint32_t bytes() const { return GetParam().value_bytes; }
  [[nodiscard]] Result<Store> create(std::uint64_t records) const {
    return make_pool(path(), bytes(), records, GetParam().layout);
  }
  [[nodiscard]] std::string path() const { return scratch_.file("pool"); }
  ScratchDir scratch_;
};
// Records that lie split, whole ones, and those with long values.
INSTANTIATE_TEST_SUITE_P(Values, PoolReaders,
                         testing::Values(Shape{Layout::word, 8}, Shape{Layout::word, 2048},
                                         Shape{Layout::word, 65'536}, Shape{Layout::word, 262'144},
                                         Shape{Layout::log, 8}, Shape{Layout::log, 2048},
                                         Shape{Layout::log, 65'536}, Shape{Layout::log, 262'144}),
                         testing::PrintToStringParamName());

TEST_P(PoolReaders, AnswerWhatTheWriterHasAndNothingElse) {
  auto store = create(32);
  ASSERT_TRUE(store.ok()) << store.status().message();
  ASSERT_TRUE(put_rows(*store, words(1, 20), bytes(), 3).ok());
  auto reader = PoolReader::open(path());
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  ASSERT_TRUE(store->erase(column(words(5, 1))).ok());
  ASSERT_TRUE(put_rows(*store, words(21, 2), bytes(), 3).ok());
  auto const all = read(*reader, words(1, 30));
  auto const expected = rows(words(1, 30), bytes(), 3);
  for (std::size_t i = 0; i < 30; ++i) {
    bool const there = i < 22 && i != 4;
    ASSERT_EQ(all.statuses[i], there ? KeyStatus::ok : KeyStatus::not_found) << i;
    if (there) {
      EXPECT_EQ(std::memcmp(all.value(i).data(), &expected[i * bytes()], bytes()), 0) << i;
    }
  }
}

TEST_P(PoolReaders, TakeTheFirstBytesOfAValueAndVerifyTheRest) {
  auto store = create(32);
  ASSERT_TRUE(store.ok());
  ASSERT_TRUE(put_rows(*store, words(1, 4), bytes(), 3).ok());
  auto reader = PoolReader::open(path(), {.threads = 1});
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(read(*reader, words(1, 4), 8).word(2), 9u);
  {
    auto shown = store->view(column(words(2, 1)));
    ASSERT_TRUE(shown.ok());
    auto* const last = const_cast<std::byte*>((*shown)[0].data()) + bytes() - 1;
    *last ^= std::byte{4};
  }
  auto const hurt = read(*reader, words(1, 4), 8);
  EXPECT_EQ(hurt.statuses,
            (std::vector{KeyStatus::ok, KeyStatus::corrupt, KeyStatus::ok, KeyStatus::ok}));
}

TEST_P(PoolReaders, FollowAGrowingPool) {
  std::uint64_t const records = std::min<std::uint64_t>(20'000, (64u << 20) / bytes());
  auto store = create(16);
  ASSERT_TRUE(store.ok());
  auto reader = PoolReader::open(path());
  ASSERT_TRUE(reader.ok());
  for (std::uint64_t from = 0; from < records; from += records / 8) {
    ASSERT_TRUE(put_rows(*store, words(1 + from, records / 8), bytes(), 3).ok());
    Words const keys = words(1, from + records / 8);
    auto const all = read(*reader, keys, 8);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      ASSERT_EQ(all.statuses[i], KeyStatus::ok) << i;
      ASSERT_EQ(all.word(i), keys[i] * 3);
    }
  }
  EXPECT_FALSE(reader->replaced());
  std::filesystem::rename(path(), path() + ".moved");
  EXPECT_TRUE(reader->replaced());
}

/// Puts, puts anew and erases the same few keys for ever; its parent kills it.
[[noreturn]] void write_for_ever(std::string const& path, std::uint32_t bytes) {
  auto store = Store::open(path, {.threads = 1});
  if (!store.ok()) ::_exit(1);
  std::minstd_rand random(7);
  for (std::uint64_t times = 1;; ++times) {
    Words const keys = words(1 + random() % 24, 1 + random() % 8);
    Status const done =
        random() % 4 == 0 ? store->erase(column(keys)) : put_rows(*store, keys, bytes, times);
    if (!done.ok()) ::_exit(2);
  }
}

TEST_P(PoolReaders, SeeEachValueWholeWhileAWriterWorksAndAfterItIsKilled) {
  ASSERT_TRUE(create(64).ok());
  pid_t const writer = ::fork();
  if (writer == 0) write_for_ever(path(), bytes());
  auto reader = PoolReader::open(path(), {.threads = 2});
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  Words const keys = words(1, 32);
  std::uint64_t found = 0, missed = 0;
  auto const end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  for (bool alive = true; alive || missed == 0;) {  // the writer may be slow to begin
    if (found > 0 && std::chrono::steady_clock::now() > end && alive) {
      ::kill(writer, SIGKILL);
      ::waitpid(writer, nullptr, 0);
      alive = false;
    }
    ASSERT_TRUE(!alive || ::waitpid(writer, nullptr, WNOHANG) == 0) << "the writer ended";
    auto const all = read(*reader, keys);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      ASSERT_NE(all.statuses[i], KeyStatus::corrupt) << i;
      missed += all.statuses[i] == KeyStatus::not_found;
      if (all.statuses[i] != KeyStatus::ok) continue;
      ++found;
      ASSERT_EQ(all.word(i) % keys[i], 0u);
      for (std::size_t at = 0; at < bytes() / 8; ++at) ASSERT_EQ(all.word(i, at), all.word(i));
    }
  }
  EXPECT_GT(found, 0u);
}

// --- Values of any length

constexpr std::uint64_t kLengths = 61;  // of 8 words more each

/// So many words, all the same: the number of times that the key was put, and the key.
std::size_t words_of(std::uint64_t times) { return 1 + 8 * (times % kLengths); }

Status put_of_any_length(Store& store, Words const& keys, std::uint64_t times) {
  std::vector<std::int64_t> ends{0};
  std::vector<std::uint64_t> values;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    values.insert(values.end(), words_of(times + i), (times + i) << 8 | keys[i]);
    ends.push_back(static_cast<std::int64_t>(8 * values.size()));
  }
  return store.put(column(keys), {reinterpret_cast<std::byte const*>(values.data()), ends.data(), 0,
                                  keys.size()});
}

[[noreturn]] void write_any_lengths_for_ever(std::string const& path) {
  auto store = Store::open(path, {.threads = 1});
  if (!store.ok()) ::_exit(1);
  std::minstd_rand random(7);
  for (std::uint64_t times = 1;; times += 8) {
    Words const keys = words(1 + random() % 24, 1 + random() % 8);
    Status const done =
        random() % 4 == 0 ? store->erase(column(keys)) : put_of_any_length(*store, keys, times);
    if (!done.ok()) ::_exit(2);
  }
}

/// How many keys were found; each value is whole, as long as it says, and its key's.
std::uint64_t check_any_lengths(PoolReader& reader, Words const& keys, std::size_t most_words) {
  std::vector<std::uint64_t> values(keys.size() * most_words);
  std::vector<PoolReader::Target> targets;
  for (std::size_t i = 0; i < keys.size(); ++i)
    targets.push_back({reinterpret_cast<std::byte*>(&values[i * most_words]),
                       static_cast<std::uint32_t>(8 * most_words)});
  std::vector<KeyStatus> statuses(keys.size());
  std::vector<std::uint32_t> lengths(keys.size(), 77);
  Status const answered = reader.get(column(keys), targets, statuses, lengths);
  EXPECT_TRUE(answered.ok()) << answered.message();
  std::uint64_t found = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    EXPECT_NE(statuses[i], KeyStatus::corrupt) << keys[i];
    if (statuses[i] != KeyStatus::ok) continue;
    ++found;
    std::uint64_t const* const value = &values[i * most_words];
    EXPECT_EQ(value[0] & 255, keys[i]);
    EXPECT_EQ(lengths[i], 8 * words_of(value[0] >> 8));
    std::size_t const shown = std::min<std::size_t>(lengths[i] / 8, most_words);
    for (std::size_t at = 0; at < shown; ++at) EXPECT_EQ(value[at], value[0]) << at;
  }
  return found;
}

class PoolReadersOfAnyLength : public testing::TestWithParam<Layout> {};
INSTANTIATE_TEST_SUITE_P(Layouts, PoolReadersOfAnyLength,
                         testing::Values(Layout::word, Layout::log), [](auto const& layout) {
                           return layout.param == Layout::log ? "log" : "word";
                         });

TEST_P(PoolReadersOfAnyLength, SeeEachValueWholeWhileAWriterWorksAndAfterItIsKilled) {
  ScratchDir const scratch;
  std::string const path = scratch.file("pool");
  ASSERT_TRUE(make_pool(path, 0, 64, GetParam()).ok());
  pid_t const writer = ::fork();
  if (writer == 0) write_any_lengths_for_ever(path);
  auto reader = PoolReader::open(path, {.threads = 2});
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_EQ(reader->value_bytes(), 0u);
  std::uint64_t found = 0;
  auto const end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  while ((found == 0 || std::chrono::steady_clock::now() < end) && !HasFailure()) {
    ASSERT_EQ(::waitpid(writer, nullptr, WNOHANG), 0) << "the writer ended";
    found += check_any_lengths(*reader, words(1, 32), words_of(kLengths - 1));
    found += check_any_lengths(*reader, words(1, 32), 3);  // the first bytes of most
  }
  ::kill(writer, SIGKILL);
  ::waitpid(writer, nullptr, 0);
  found += check_any_lengths(*reader, words(1, 32), words_of(kLengths - 1));
  EXPECT_GT(found, 0u);
}

TEST_P(PoolReadersOfAnyLength, FindTablesWhoseNamesAreLong) {
  ScratchDir const scratch;
  CreateOptions o;
  o.layout = GetParam();
  o.key_bytes = sizeof(TableKey);
  o.value_bytes = 0;
  auto store = Store::create(scratch.file("pool"), o);
  ASSERT_TRUE(store.ok()) << store.status().message();
  std::string const name(5000, 'n');
  auto reader = PoolReader::open(scratch.file("pool"));
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_EQ(reader->table(name).status().code(), Code::not_found);
  ASSERT_TRUE(store->table("first", 24).ok());
  ASSERT_TRUE(store->table(name, 16).ok());
  auto found = reader->table(name);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->row_bytes, 16u);
  EXPECT_EQ(reader->tables()->size(), 2u);
}

/// Keys of 1 to 300 bytes, a column of them.
struct TextKeys {
  explicit TextKeys(Words const& numbers) {
    for (std::uint64_t const n : numbers) {
      std::string const key = std::to_string(n) + std::string(n % 7 == 0 ? 297 : n % 40, 'k');
      std::ranges::copy(std::as_bytes(std::span(key)), std::back_inserter(bytes));
      ends.push_back(static_cast<std::int64_t>(bytes.size()));
    }
  }
  [[nodiscard]] Column column() const { return {bytes.data(), ends.data(), 0, ends.size() - 1}; }
  std::vector<std::byte> bytes;
  std::vector<std::int64_t> ends{0};
};

Result<Store> make_pool_of_any_keys(std::string const& path, Layout layout) {
  CreateOptions o;
  o.layout = layout;
  o.key_bytes = 0;
  o.value_bytes = 8;
  o.expected_records = 16;
  return Store::create(path, o, {.threads = 1});
}

TEST_P(PoolReadersOfAnyLength, TakeKeysOfAnyLengthToo) {
  ScratchDir const scratch;
  auto store = make_pool_of_any_keys(scratch.file("pool"), GetParam());
  ASSERT_TRUE(store.ok()) << store.status().message();
  auto reader = PoolReader::open(scratch.file("pool"), {.threads = 2});
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  EXPECT_EQ(reader->key_bytes(), 0u);
  Words const all = words(1, 800);
  for (std::uint64_t step = 1; step <= 4; ++step) {
    Words const some = words(1, 200 * step);
    ASSERT_TRUE(store->put(TextKeys(some).column(), column(Words(some.size(), step))).ok());
    ASSERT_TRUE(store->erase(TextKeys(words(step, 1)).column()).ok());
    Words values(all.size());
    std::vector<PoolReader::Target> targets;
    for (auto& value : values) targets.push_back({reinterpret_cast<std::byte*>(&value), 8});
    std::vector<KeyStatus> statuses(all.size());
    Status const s = reader->get(TextKeys(all).column(), targets, statuses);
    ASSERT_TRUE(s.ok()) << s.message();
    for (std::size_t i = 0; i < all.size(); ++i) {
      bool const there = i < some.size() && all[i] != step;
      ASSERT_EQ(statuses[i], there ? KeyStatus::ok : KeyStatus::not_found) << all[i];
      EXPECT_EQ(values[i], there ? step : 0);
    }
  }
}

TEST_P(PoolReadersOfAnyLength, RefuseKeysWhoseOffsetsAreNone) {
  ScratchDir const scratch;
  auto store = make_pool_of_any_keys(scratch.file("pool"), GetParam());
  ASSERT_TRUE(store.ok()) << store.status().message();
  auto reader = PoolReader::open(scratch.file("pool"));
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  std::byte const data[16]{};
  std::int64_t const falls[] = {0, 8, 4}, before[] = {-1, 4, 8};
  Column const columns[] = {
      {data, nullptr, 8, 2}, {data, falls, 0, 2}, {data, before, 0, 2}, {data, falls, 8, 2}};
  std::vector<PoolReader::Target> const targets(2);
  std::vector<KeyStatus> statuses(2);
  for (Column const& keys : columns) {
    Status const s = reader->get(keys, targets, statuses);
    EXPECT_EQ(s.code(), Code::invalid_argument);
    EXPECT_NE(s.message().find("its keys"), std::string::npos) << s.message();
  }
  EXPECT_TRUE(reader->get({}, {}, {}).ok()) << "no keys need no offsets";
}

TEST(PoolReaderOf, OtherKindsIsRefusedByName) {
  for (Kind const& kind : kinds()) {
    PoolHome const home(kind);
    auto store = home.create();
    ASSERT_TRUE(store.ok()) << kind.name;
    auto reader = PoolReader::open(store->path());
    if (std::string_view(kind.name) == "word") {
      EXPECT_TRUE(reader.ok()) << reader.status().message();
      continue;
    }
    EXPECT_EQ(reader.status().code(), Code::unsupported) << kind.name;
    EXPECT_NE(reader.status().message().find("live=True"), std::string::npos);
  }
}

TEST(PoolReaderOf, NothingIsNotFoundAndWrongKeysAreRefused) {
  ScratchDir const scratch;
  EXPECT_EQ(PoolReader::open(scratch.file("none")).status().code(), Code::not_found);
  auto store = make_pool(scratch.file("pool"), 8, 16);
  ASSERT_TRUE(store.ok());
  auto reader = PoolReader::open(scratch.file("pool"));
  ASSERT_TRUE(reader.ok());
  Words const keys = words(1, 2);
  std::vector<PoolReader::Target> targets(2);
  std::vector<KeyStatus> one(1), two(2);
  EXPECT_EQ(reader->get(column(keys), targets, one).code(), Code::invalid_argument);
  Column narrow = column(keys);
  narrow.width = 4;
  EXPECT_EQ(reader->get(narrow, targets, two).code(), Code::invalid_argument);
  EXPECT_TRUE(reader->get(column(keys), targets, two).ok());
}

/// A file longer than its root says, whose end is a hole that nothing backs: reading there ends a
/// process. In a child, therefore.
int read_where_words_lead_behind_the_root(std::string const& path) {
  Words const keys = words(1, 1000);
  std::uint64_t bytes = 0;
  {
    auto store = make_pool(path, 64, 2000);
    if (!store.ok() || !put_rows(*store, keys, 64, 3).ok() || !store->close().ok()) return 1;
    bytes = std::filesystem::file_size(path);
    std::filesystem::resize_file(path, bytes + (8u << 20));  // as a writer that prepares its growth
  }
  auto reader = PoolReader::open(path);
  if (!reader.ok()) return 2;
  auto pool = pm::Pool::open(path, {});
  if (!pool.ok()) return 3;
  // Each slot keeps its fingerprint, and leads behind the root's end.
  auto const levels = gphash::read_levels(pool->root(), pool->header().levels);
  if (!levels.ok()) return 5;
  std::uint64_t changed = 0;
  for (auto const& level : levels.value().levels) {
    auto* const slots = reinterpret_cast<std::uint64_t*>(pool->base() + level.base.bytes);
    std::uint64_t const n = std::uint64_t{pool->header().slots} << level.log2_buckets;
    for (std::uint64_t i = 0; i < n; ++i) {
      if (slots[i] == 0) continue;
      slots[i] = slots[i] >> gphash::word::kAddressBits << gphash::word::kAddressBits |
                 (bytes + (4u << 20)) / 16;
      ++changed;
    }
  }
  pool->close();
  std::filesystem::resize_file(path, bytes);  // it closes, and gives back what it had prepared
  auto const found = read(*reader, keys);
  for (KeyStatus const status : found.statuses)
    if (status == KeyStatus::ok) return 4;
  return changed == keys.size() ? 0 : 6;
}

TEST(PoolReaderOf, APoolWhoseWriterPreparesToGrowReadsNothingOfThat) {
  ScratchDir const scratch;
  EXPECT_EQ(in_child([&] { return read_where_words_lead_behind_the_root(scratch.file("pool")); }),
            0)
      << "1007: SIGBUS";
}

}  // namespace
}  // namespace perdure::test
