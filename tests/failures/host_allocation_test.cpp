// Memory of the host that is not to be had: the n-th `operator new` of a public call fails, for
// every n that the call comes to, and nothing else in the process does. A program of its own, for
// it replaces operator new. Each time the call answers a Status; what it was to do has not
// happened, or (a batch that is not atomic) has for some of its keys, or the store refuses
// everything until it is opened anew. Whatever was acknowledged before and afterwards is there when
// the process is killed then.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/store_driver.hpp"
#include "wal/disk/disk.hpp"

namespace {

thread_local std::uint64_t allocations_left = 0;  // of this thread, until one fails; 0: none does
thread_local bool struck = false;
std::atomic<std::uint64_t> all_threads_left = 0;  // the same of all threads together

void* allocate(std::size_t bytes, std::size_t align) {
  if (allocations_left != 0 && --allocations_left == 0) {
    struck = true;
    throw std::bad_alloc();
  }
  if (all_threads_left != 0 && --all_threads_left == 0) throw std::bad_alloc();
  bytes = std::max<std::size_t>(bytes, 1);
  void* const at = align <= alignof(std::max_align_t)
                       ? std::malloc(bytes)
                       : std::aligned_alloc(align, (bytes + align - 1) / align * align);
  if (at == nullptr) throw std::bad_alloc();
  return at;
}

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) { return allocate(bytes, 1); }
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t align) {
  return allocate(bytes, static_cast<std::size_t>(align));
}
// A sanitizer's own would serve these, and not know what is freed here.
[[gnu::noinline]] void* operator new(std::size_t bytes, std::nothrow_t const&) noexcept {
  try {
    return allocate(bytes, 1);
  } catch (std::bad_alloc const&) {
    return nullptr;
  }
}
[[gnu::noinline]] void operator delete(void* at) noexcept { std::free(at); }
[[gnu::noinline]] void operator delete(void* at, std::nothrow_t const&) noexcept { std::free(at); }
[[gnu::noinline]] void operator delete(void* at, std::size_t) noexcept { std::free(at); }
[[gnu::noinline]] void operator delete(void* at, std::align_val_t) noexcept { std::free(at); }
[[gnu::noinline]] void operator delete(void* at, std::size_t, std::align_val_t) noexcept {
  std::free(at);
}

namespace perdure::test {
namespace {

namespace fs = std::filesystem;

std::uint64_t planned = 0;  // allocations of calls, until one fails

/// A call of the store's: its allocations count, and the test's own do not.
template <class F>
auto counted(F call) {
  struct Counting {
    Counting() { allocations_left = planned; }
    ~Counting() {
      planned = allocations_left;
      allocations_left = 0;
    }
  } const counting;
  return call();
}

/// What a call answers. Its allocations are counted, not those of looking at its answer.
template <class F>
Code code_of(F call) {
  auto const answer = counted(call);
  if constexpr (requires { answer.code(); })
    return answer.code();
  else
    return answer.status().code();
}

struct Value {
  std::uint64_t key, version;
  bool operator==(Value const&) const = default;
};
using Contents = std::map<std::uint64_t, Value>;
using Keys = std::vector<std::uint64_t>;

Keys keys_from(std::uint64_t first, std::uint64_t n) {
  Keys keys(n);
  for (std::uint64_t i = 0; i < n; ++i) keys[i] = first + i;
  return keys;
}
std::vector<Value> values_of(Keys const& keys, std::uint64_t version) {
  std::vector<Value> values;
  for (std::uint64_t const key : keys) values.push_back({key, version});
  return values;
}
Column column(Keys const& keys) {
  return {reinterpret_cast<std::byte const*>(keys.data()), nullptr, 8, keys.size(), Place::host};
}
Column column(std::vector<Value> const& values) {
  return {reinterpret_cast<std::byte const*>(values.data()), nullptr, sizeof(Value), values.size(),
          Place::host};
}

struct Kind {
  char const* name;
  Index index;
  Layout layout;
  bool power;
};
void PrintTo(Kind const& kind, std::ostream* out) { *out << kind.name; }

/// The system's disk, of which what lies in memory counts as lasting: no test here takes its power,
/// and nobody waits.
class LastingMemory final : public wal::Disk {
 public:
  LastingMemory() { wal::use_disk(this); }
  ~LastingMemory() override { wal::use_disk(nullptr); }
  LastingMemory(LastingMemory const&) = delete;
  LastingMemory& operator=(LastingMemory const&) = delete;
  Result<std::unique_ptr<wal::BlockDevice>> open(std::string const& path, wal::OpenMode mode,
                                                 wal::IoOptions const& options) override {
    return system_.open(path, mode, options);
  }
  Result<wal::NewDevice> make(std::string const& path, pm::MakeOptions const& how,
                              wal::IoOptions const& options) override {
    return system_.make(path, how, options);
  }
  Result<bool> make_directory(std::string const& path, mode_t mode) override {
    return system_.make_directory(path, mode);
  }
  Result<bool> forgets(std::string const& /*directory*/) override { return false; }
  Status sync_directory_of(std::string const& path) override {
    return system_.sync_directory_of(path);
  }

 private:
  wal::Disk& system_ = wal::disk();
};

/// `after`, once what a step did counts, is what the store holds.
struct Step {
  char const* name;
  bool whole;  // takes effect whole or not at all, whatever the durability
  std::function<Status(Store& store, Contents& after)> run;
};

class HostAllocation : public testing::TestWithParam<Kind> {
 protected:
  ~HostAllocation() override { planned = 0; }

  [[nodiscard]] bool gphash() const { return GetParam().index == Index::gphash; }
  [[nodiscard]] std::string path() const { return scratch_.file("pool"); }
  [[nodiscard]] static OpenOptions options(std::string const& log_dir) {
    OpenOptions o;
    o.threads = 1;
    o.log_dir = log_dir;
    return o;
  }
  [[nodiscard]] Result<Store> create() const {
    CreateOptions o;
    o.value_bytes = sizeof(Value);
    o.expected_records = 64;
    o.index = GetParam().index;
    o.layout = GetParam().layout;
    if (GetParam().power) {
      o.durability = Durability::power;
      o.log.dir = log_;
      o.log.bytes = 1u << 20;
    }
    std::string const pool = path();
    OpenOptions const plain = options("");
    return counted([&] { return Store::create(pool, o, plain); });
  }
  [[nodiscard]] Result<Store> open() const {
    std::string const pool = path();
    OpenOptions const o = options(GetParam().power ? log_ : "");
    return counted([&] { return Store::open(pool, o); });
  }

  /// The call succeeds once; then each of its allocations fails in turn: all of the first and of
  /// the last, when names are given and what was done is answered, and some of those between.
  /// `then` hears what it came to, and whether one failed.
  template <class Call, class Then>
  void with_each_failing(Call call, Then then) {
    constexpr std::uint64_t kNever = std::uint64_t{1} << 40, kLast = 8;
    // With a log each try makes and opens pools.
    std::uint64_t const first = GetParam().power ? 8 : 40, part = GetParam().power ? 2 : 8;
    std::uint64_t all = 0;  // that it comes to
    for (std::uint64_t n = kNever; n == kNever || n <= all;) {
      SCOPED_TRACE("allocation " + std::to_string(n) + " of " + std::to_string(all));
      Status const came_to = strike(n, call);
      bool const reached = struck;
      EXPECT_TRUE(reached || came_to.ok()) << came_to.message();
      ASSERT_NO_FATAL_FAILURE(then(came_to, reached));
      ASSERT_FALSE(HasFailure());
      if (n == kNever) all = kNever - left_;
      ASSERT_LT(all, 100'000u);
      std::uint64_t const last = all - std::min(all, kLast);  // from the next one on each
      n = n == kNever ? 1 : n < first || n > last ? n + 1 : std::min(n + n / part, last + 1);
    }
  }

  void make() {
    store_.reset();
    fs::remove(path());
    fs::remove_all(log_);
    auto made = create();
    ASSERT_TRUE(made.ok()) << made.status().message();
    store_ = std::make_unique<Store>(std::move(*made));
    held_.clear();
    next_ = 0;
    ASSERT_TRUE(put_new(*store_, 40, held_).ok());
  }

  /// Runs a call with its n-th allocation failing; nothing but a Status comes out of it.
  template <class F>
  Status strike(std::uint64_t n, F call) {
    struck = false;
    planned = n;
    try {
      Status s = call();
      left_ = std::exchange(planned, 0);
      return s;
    } catch (std::exception const& e) {
      planned = 0;
      ADD_FAILURE() << "an exception crossed the API: " << e.what();
      return {Code::io_error, "exception"};
    }
  }

  Status put(Store& store, Keys const& keys, std::uint64_t version, Contents& after,
             CallOptions const& how = {}) {
    auto const values = values_of(keys, version);
    Status s = counted([&] { return store.put(column(keys), column(values), {}, how); });
    for (std::size_t i = 0; i < keys.size(); ++i) after[keys[i]] = values[i];
    return s;
  }
  Status put_new(Store& store, std::uint64_t n, Contents& after, CallOptions const& how = {}) {
    Keys const keys = keys_from(next_, n);
    next_ += n;
    return put(store, keys, 0, after, how);
  }
  Status erase(Store& store, Keys const& keys, Contents& after, CallOptions const& how = {}) {
    Status s = counted([&] { return store.erase(column(keys), {}, how); });
    for (std::uint64_t const key : keys) after.erase(key);
    return s;
  }
  Status mixed(Store& store, Contents& after) {
    Keys keys;
    std::vector<OpKind> kinds;
    for (std::uint64_t i = 0; i < 24; ++i) {
      keys.push_back(i < 8 ? next_++ : i);
      kinds.push_back(i < 8 ? OpKind::put : static_cast<OpKind>(i % 4));
    }
    auto const values = values_of(keys, ++version_);
    std::vector<Value> out(keys.size());
    MixedBatch batch;
    batch.keys = column(keys);
    batch.kinds = kinds;
    batch.values = column(values);
    batch.out = {reinterpret_cast<std::byte*>(out.data()), sizeof(Value), out.size(), Place::host};
    Status s = counted([&] { return store.apply(batch); });
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (kinds[i] == OpKind::put || (kinds[i] == OpKind::update && after.contains(keys[i])))
        after[keys[i]] = values[i];
      if (kinds[i] == OpKind::erase) after.erase(keys[i]);
    }
    return s;
  }
  Status transaction(Store& store, Contents& after, bool commits) {
    auto t = counted([&] { return store.begin({256}); });
    if (!t) return t.status();
    CallOptions how;
    how.transaction = &*t;
    Contents mine = after;
    if (Status s = put(store, keys_from(0, 10), ++version_, mine, how); !s.ok()) return s;
    if (Status s = erase(store, keys_from(20, 4), mine, how); !s.ok()) return s;
    if (Status s = put_new(store, 6, mine, how); !s.ok()) return s;
    if (!commits) return counted([&] { return t->abort(); });
    Status s = counted([&] { return t->commit(); });
    after = mine;
    return s;
  }
  static Status read_all(Store& store, Contents& found) {
    found.clear();
    ScanCursor cursor;
    while (!cursor.done) {
      auto page = store.scan(cursor, 64);
      if (!page) return page.status();
      for (std::size_t i = 0; i + 1 < page->keys.offsets.size(); ++i) {
        std::uint64_t key = 0;
        Value value{};
        std::memcpy(&key, page->keys.data.data() + page->keys.offsets[i], sizeof key);
        std::memcpy(&value, page->values.data.data() + page->values.offsets[i], sizeof value);
        if (!found.emplace(key, value).second) return {Code::corrupt, "a key came twice"};
      }
      cursor = page->next;
    }
    return {};
  }

  /// A snapshot of it, with a log of its own where it is of durability power.
  Status restore(Store& store, Contents const& held) {
    std::string const from = scratch_.file("restorable"), to = scratch_.file("restored");
    fs::remove(to);
    fs::remove_all(restored_log_);
    SnapshotOptions over;
    over.overwrite = true;
    if (Status s = store.snapshot(from, over); !s.ok()) return s;
    RestoreOptions how;
    how.log.bytes = 1u << 20;
    if (GetParam().power) how.log.dir = restored_log_;
    OpenOptions const plain = options("");
    auto restored = counted([&] { return Store::restore(from, to, how, plain); });
    if (!restored) {
      EXPECT_FALSE(fs::exists(to));
      return restored.status();
    }
    Contents found;
    Status const read = read_all(*restored, found);
    EXPECT_TRUE(read.ok() && found == held) << read.message();
    return {};
  }
  /// A batch and a dense buffer, which holds the step's number, as one transaction.
  Status step(Store& store, Contents& after) {
    auto const numbers = reinterpret_cast<std::byte*>(dense_.data());
    std::vector<DenseBuffer> const buffers{{"dense", numbers, sizeof dense_, Place::host}};
    Status const registered = counted([&] { return store.register_dense(buffers); });
    if (GetParam().power && registered.code() == Code::unsupported) return {};
    if (!registered.ok()) return registered;
    auto const last = counted([&] { return store.restore_step(); });
    if (!last.ok()) return last.status();
    EXPECT_TRUE(!last.value() ||
                std::ranges::all_of(dense_, [&](auto n) { return n == *last.value(); }));
    std::uint64_t const number = last.value().value_or(0) + 1;
    dense_.fill(number);
    auto t = counted([&] { return store.begin({16}); });
    if (!t) return t.status();
    CallOptions how;
    how.transaction = &*t;
    Contents mine = after;
    if (Status s = put(store, keys_from(0, 3), ++version_, mine, how); !s.ok()) return s;
    if (Status s = counted([&] { return t->write_step(number); }); !s.ok()) return s;
    Status s = counted([&] { return t->commit(); });
    after = mine;
    return s;
  }
  static Status stats(Store& store, Contents const& held) {
    try {
      Stats const now = counted([&] { return store.stats(); });
      EXPECT_EQ(now.records, held.size());
      return {};
    } catch (std::bad_alloc const&) {
      return {Code::no_space, "out of memory"};
    }
  }

  std::vector<Step> steps() {
    std::uint64_t const many = gphash() ? 160 : 1200;  // so that the table grows
    std::vector<Step> all{
        {"put", false, [this](Store& s, Contents& a) { return put_new(s, 8, a); }},
        {"put over", false,
         [this](Store& s, Contents& a) { return put(s, keys_from(4, 8), ++version_, a); }},
        {"put many", false, [this, many](Store& s, Contents& a) { return put_new(s, many, a); }},
        {"erase", false,
         [this](Store& s, Contents& a) { return erase(s, keys_from(next_ - 6, 6), a); }},
        {"update", false,
         [this](Store& s, Contents& a) {
           Keys const keys = keys_from(0, 6);
           auto const values = values_of(keys, ++version_);
           Status done = counted(
               [&] { return s.update(column(keys), column(values), Rmw::replace, Element::u8); });
           for (std::size_t i = 0; i < keys.size(); ++i)
             if (a.contains(keys[i])) a[keys[i]] = values[i];
           return done;
         }},
        {"apply", false, [this](Store& s, Contents& a) { return mixed(s, a); }},
        {"get", true,
         [](Store& s, Contents&) {
           Keys const keys = keys_from(0, 30);
           std::vector<Value> out(keys.size());
           std::vector<KeyStatus> statuses(keys.size());
           MutableColumn const into{reinterpret_cast<std::byte*>(out.data()), sizeof(Value),
                                    out.size(), Place::host};
           return counted([&] { return s.get(column(keys), into, statuses); });
         }},
        {"get_variable", true,
         [](Store& s, Contents&) {
           Keys const keys = keys_from(0, 30);
           std::vector<KeyStatus> statuses(keys.size());
           return counted([&] { return s.get_variable(column(keys), statuses); }).status();
         }},
        {"scan", true,
         [](Store& s, Contents&) { return counted([&] { return s.scan({}, 64); }).status(); }},
        {"verify", true,
         [](Store& s, Contents&) { return counted([&] { return s.verify(); }).status(); }},
        {"snapshot", true,
         [this](Store& s, Contents&) {
           std::string const file = scratch_.file("snapshot");
           SnapshotOptions how;
           how.overwrite = true;
           return counted([&] { return s.snapshot(file, how); });
         }},
        {"restore", true, [this](Store& s, Contents& a) { return restore(s, a); }},
        {"stats", true, [](Store& s, Contents& a) { return stats(s, a); }},
    };
    if (!gphash() || GetParam().layout != Layout::word) return all;
    all.push_back({"atomic", true, [this](Store& s, Contents& a) {
                     CallOptions how;
                     how.atomic = true;
                     return put_new(s, 8, a, how);
                   }});
    all.push_back(
        {"transaction", true, [this](Store& s, Contents& a) { return transaction(s, a, true); }});
    all.push_back(
        {"abort", true, [this](Store& s, Contents& a) { return transaction(s, a, false); }});
    all.push_back({"step", true, [this](Store& s, Contents& a) { return step(s, a); }});
    return all;
  }

  /// Of a batch that was refused: nothing, or where `some` of it may be there, each key as it was
  /// or as it was to be.
  static std::string differs(Contents const& found, Contents const& before, Contents const& after,
                             bool some) {
    if (found == before || found == after) return "";
    if (!some) return "neither what was there before nor what was to be there";
    auto const at = [](Contents const& c, std::uint64_t key) {
      auto const it = c.find(key);
      return it == c.end() ? std::optional<Value>{} : std::optional<Value>{it->second};
    };
    Contents all = before;
    all.insert(after.begin(), after.end());
    all.insert(found.begin(), found.end());
    for (auto const& [key, value] : all) {
      auto const is = at(found, key);
      if (is != at(before, key) && is != at(after, key))
        return "key " + std::to_string(key) + " is neither old nor new";
    }
    return "";
  }

  /// What a kill of the process would leave now, opened elsewhere.
  std::string killed_now(Contents& found) {
    std::string const copy = scratch_.file("killed");
    fs::remove(copy);
    copy_as_if_killed(path(), copy);
    if (GetParam().power) {
      fs::remove_all(copied_log_);
      fs::copy(log_, copied_log_);
      fs::remove(copy);
    }
    auto store = Store::open(copy, options(GetParam().power ? copied_log_ : ""));
    if (!store) return store.status().message();
    if (store->recovery().lost_acknowledged) return "acknowledged batches were lost";
    auto verified = store->verify();
    if (!verified) return verified.status().message();
    if (verified->fault_count != 0) return verified->faults[0];
    return read_all(*store, found).message();
  }

  /// The store answers with what it held, or with nothing until it is opened anew, when it holds
  /// that.
  void check(Step const& step, Status const& came_to, Contents after) {
    bool const some = !step.whole && !GetParam().power;
    Contents const before = held_;
    if (came_to.ok()) held_ = after;
    Contents now;
    Status const read = read_all(*store_, now);
    if (read.ok()) {
      ASSERT_TRUE(now == held_) << "seen, after: " << came_to.message();
    }
    Contents further = held_;
    bool const goes_on = put_new(*store_, 1, further).ok();
    if (goes_on) held_ = further;
    ASSERT_TRUE(!goes_on || read.ok())
        << "writes go on where nothing can be read: " << read.message();
    Contents found;
    ASSERT_EQ(killed_now(found), "") << "after: " << came_to.message();
    if (goes_on) {
      ASSERT_TRUE(found == held_) << "acknowledged, after: " << came_to.message();
      return;
    }
    ASSERT_EQ(differs(found, held_, after, some || !came_to.ok()), "")
        << "after: " << came_to.message();
    ++failed_for_good_;
    store_.reset();
    auto again = open();
    ASSERT_TRUE(again.ok()) << again.status().message();
    store_ = std::make_unique<Store>(std::move(*again));
    ASSERT_TRUE(read_all(*store_, now).ok());
    ASSERT_EQ(differs(now, before, after, some), "");
    held_ = now;
  }

  LastingMemory const disk_;
  ScratchDir scratch_;
  std::string const log_ = scratch_.file("log"), copied_log_ = scratch_.file("copied-log"),
                    restored_log_ = scratch_.file("restored-log");
  std::unique_ptr<Store> store_;
  Contents held_;
  std::array<std::uint64_t, 100> dense_{};
  std::uint64_t next_ = 0, version_ = 0;
  std::uint64_t left_ = 0;  // of the allocations that were to be, by the last strike
  int failed_for_good_ = 0;
};

TEST_P(HostAllocation, ThatFailsInACallLosesNothing) {
  ASSERT_NO_FATAL_FAILURE(make());
  for (std::size_t which = 0; which < steps().size(); ++which) {
    Step const step = steps()[which];
    SCOPED_TRACE(step.name);
    std::uint64_t refused = 0;
    Contents after;
    auto const run = [&] {
      after = held_;
      return step.run(*store_, after);
    };
    ASSERT_NO_FATAL_FAILURE(with_each_failing(run, [&](Status const& came_to, bool reached) {
      refused += came_to.ok() ? 0 : 1;
      reached ? check(step, came_to, after) : static_cast<void>(held_ = after);
    }));
    // Some need none, of some kinds: of any other this would be no test.
    std::string const name = step.name;
    bool const needs_none =
        (gphash() && name == "get") || name == "stats" || (GetParam().power && name == "step");
    EXPECT_TRUE(refused > 0 || needs_none);
  }
}

TEST_P(HostAllocation, ThatFailsInACloseLeavesWhatWasThere) {
  ASSERT_NO_FATAL_FAILURE(make());
  auto const close = [&] { return counted([&] { return store_->close(); }); };
  with_each_failing(close, [&](Status const& closed, bool) {
    store_.reset();
    auto again = open();
    ASSERT_TRUE(again.ok()) << closed.message() << "; " << again.status().message();
    store_ = std::make_unique<Store>(std::move(*again));
    Contents found;
    ASSERT_TRUE(read_all(*store_, found).ok());
    ASSERT_TRUE(found == held_);
    ASSERT_TRUE(put_new(*store_, 3, held_).ok());
  });
}

TEST_P(HostAllocation, ThatFailsInAnOpenLeavesThePoolAsItIs) {
  for (bool const clean : {true, false}) {
    ASSERT_NO_FATAL_FAILURE(make());
    if (!clean && GetParam().power) continue;  // it is made anew from its log, clean or not
    std::string const copy = scratch_.file("as-it-was");
    if (clean) {
      ASSERT_TRUE(store_->close().ok());
    }
    copy_as_if_killed(path(), copy);
    store_.reset();
    if (!clean) fs::copy_file(copy, path(), fs::copy_options::overwrite_existing);
    std::unique_ptr<Store> opened;
    auto const opening = [&] {
      auto store = open();
      if (store) opened = std::make_unique<Store>(std::move(*store));
      return store.status();
    };
    ASSERT_NO_FATAL_FAILURE(with_each_failing(opening, [&](Status const& came_to, bool) {
      if (!opened) {
        auto store = open();
        ASSERT_TRUE(store.ok()) << came_to.message() << "; then: " << store.status().message();
        opened = std::make_unique<Store>(std::move(*store));
      }
      Contents found;
      ASSERT_TRUE(read_all(*opened, found).ok());
      ASSERT_TRUE(found == held_);
      opened.reset();
      if (!clean) fs::copy_file(copy, path(), fs::copy_options::overwrite_existing);
    }));
  }
}

// Of a pool of durability power one thread reads the log and another runs it.
TEST_P(HostAllocation, ThatFailsInAnyThreadOfAnOpeningEndsIt) {
  ASSERT_NO_FATAL_FAILURE(make());
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(put_new(*store_, 8, held_).ok());
  store_.reset();
  int refused = 0;
  for (std::uint64_t n = 1;; n += n < 300 ? 1 : n / 8) {
    SCOPED_TRACE("allocation " + std::to_string(n));
    std::string const pool = path();
    OpenOptions const how = options(GetParam().power ? log_ : "");
    all_threads_left = n;
    bool const opened = Store::open(pool, how).ok();
    bool const reached = all_threads_left.exchange(0) == 0;
    refused += opened ? 0 : 1;
    auto again = open();
    ASSERT_TRUE(again.ok()) << again.status().message();
    Contents found;
    ASSERT_TRUE(read_all(*again, found).ok());
    ASSERT_TRUE(found == held_);
    if (!reached) break;
  }
  EXPECT_GT(refused, 10);
}

TEST_P(HostAllocation, ThatFailsWhileAPoolIsMadeLeavesNothing) {
  std::unique_ptr<Store> made;
  auto const making = [&] {
    auto store = create();
    if (store) made = std::make_unique<Store>(std::move(*store));
    return store.status();
  };
  with_each_failing(making, [&](Status const& came_to, bool) {
    if (!made) {
      EXPECT_FALSE(fs::exists(path()));
      auto store = create();  // without overwrite: nothing is in the way
      ASSERT_TRUE(store.ok()) << came_to.message() << "; then: " << store.status().message();
      made = std::make_unique<Store>(std::move(*store));
    }
    Contents held;
    next_ = 0;
    ASSERT_TRUE(put_new(*made, 5, held).ok());
    made.reset();
    fs::remove(path());
    fs::remove_all(log_);
  });
}

// What says why has to be had, too.
TEST_P(HostAllocation, ThatFailsInARefusalIsARefusal) {
  ASSERT_NO_FATAL_FAILURE(make());
  std::string const absent = scratch_.file("a pool that is not there"), there = path();
  OpenOptions const plain = options("");
  CreateOptions same;
  same.value_bytes = sizeof(Value);
  for (std::uint64_t n = 1; n < 60; ++n) {
    EXPECT_FALSE(strike(n, [&] {
                   return counted([&] { return Store::open(absent, plain); }).status();
                 }).ok());
    EXPECT_FALSE(strike(n, [&] {
                   return counted([&] { return Store::open(there, plain); }).status();
                 }).ok());
    EXPECT_FALSE(strike(n, [&] {
                   return counted([&] { return Store::create(there, same, plain); }).status();
                 }).ok());
    EXPECT_FALSE(
        strike(n, [&] {
          return counted([&] { return Store::restore(absent, there, {}, plain); }).status();
        }).ok());
    ASSERT_FALSE(HasFailure()) << "allocation " << n;
  }
}

/// Calls that only look split off what Dash-LH has put off, and make segments sound: where one of
/// them ends in its midst, nobody waits for its locks.
TEST(DashLinear, NobodyWaitsForACallThatHadNoMemory) {
  ::alarm(120);  // whoever waits for ever
  int ended = 0;
  for (int const what : {0, 1, 2, 3}) {
    for (std::uint64_t n = 1;; ++n) {
      ScratchDir const scratch;
      CreateOptions create;
      create.index = Index::dash_lh;
      create.value_bytes = sizeof(Value);
      create.expected_records = 1;
      OpenOptions alone;
      alone.threads = 1;
      auto store = Store::create(scratch.file("pool"), create, alone);
      ASSERT_TRUE(store.ok()) << store.status().message();
      Keys const keys = keys_from(0, 4000);
      ASSERT_TRUE(store->put(column(keys), column(values_of(keys, 1))).ok());
      std::vector<Value> out(keys.size());
      MutableColumn const into{reinterpret_cast<std::byte*>(out.data()), sizeof(Value), out.size(),
                               Place::host};
      std::vector<KeyStatus> statuses(keys.size());
      std::string const snapshot = scratch.file("snapshot");
      planned = n;
      struck = false;
      Status const s = counted([&]() -> Status {
        switch (what) {
          case 0: return store->get(column(keys), into, statuses);
          case 1: return store->scan({}, keys.size()).status();
          case 2: return store->verify().status();
          default: return store->snapshot(snapshot);
        }
      });
      planned = 0;
      if (!struck) break;
      ended += s.ok() ? 0 : 1;
      Status const again = store->get(column(keys), into, statuses);
      if (again.ok()) {
        EXPECT_EQ(std::ranges::count(statuses, KeyStatus::ok), std::ssize(keys));
        EXPECT_TRUE(std::ranges::equal(out, values_of(keys, 1)));
        Keys const more = keys_from(keys.size(), 500);
        ASSERT_TRUE(store->put(column(more), column(values_of(more, 1))).ok());
        ASSERT_TRUE(store->close().ok());
        auto closed = Store::open(scratch.file("pool"), alone);
        ASSERT_TRUE(closed.ok()) << closed.status().message();
        auto verified = closed->verify();
        ASSERT_TRUE(verified.ok()) << verified.status().message();
        EXPECT_EQ(verified->fault_count, 0u) << verified->faults[0];
      } else {
        EXPECT_EQ(again.code(), Code::closed) << again.message();
      }
      ASSERT_FALSE(HasFailure()) << "call " << what << ", allocation " << n;
    }
  }
  EXPECT_GT(ended, 20);
  ::alarm(0);
}

/// Whatever it is asked, and whether or not there is memory to say so.
TEST(MovedFrom, StoresAndTransactionsRefuseEveryCall) {
  ScratchDir const scratch;
  CreateOptions create;
  create.value_bytes = sizeof(Value);
  auto made = Store::create(scratch.file("pool"), create);
  ASSERT_TRUE(made.ok()) << made.status().message();
  Store store = std::move(*made);
  Store& gone = *made;
  auto begun = store.begin({256});
  ASSERT_TRUE(begun.ok()) << begun.status().message();
  Transaction transaction = std::move(*begun);
  Transaction& ended = *begun;
  Keys const keys = keys_from(0, 3);
  auto const values = values_of(keys, 1);
  std::vector<Value> out(keys.size());
  std::vector<KeyStatus> statuses(keys.size());
  std::vector<OpKind> const kinds(keys.size(), OpKind::put), too_few;
  MutableColumn const into{reinterpret_cast<std::byte*>(out.data()), sizeof(Value), out.size(),
                           Place::host};
  MixedBatch batch, wrong;
  batch.keys = wrong.keys = column(keys);
  batch.values = column(values);
  batch.kinds = kinds;
  std::string const snapshot = scratch.file("snapshot");
  std::vector<std::pair<char const*, std::function<Code()>>> const calls{
      {"get", [&] { return code_of([&] { return gone.get(column(keys), into, statuses); }); }},
      {"get_variable",
       [&] { return code_of([&] { return gone.get_variable(column(keys), statuses); }); }},
      {"put", [&] { return code_of([&] { return gone.put(column(keys), column(values)); }); }},
      {"update",
       [&] {
         return code_of(
             [&] { return gone.update(column(keys), column(values), Rmw::add, Element::u8); });
       }},
      {"erase", [&] { return code_of([&] { return gone.erase(column(keys)); }); }},
      {"apply", [&] { return code_of([&] { return gone.apply(batch); }); }},
      {"apply, wrongly", [&] { return code_of([&] { return gone.apply(wrong); }); }},
      {"begin", [&] { return code_of([&] { return gone.begin({256}); }); }},
      {"register_dense", [&] { return code_of([&] { return gone.register_dense({}); }); }},
      {"restore_step", [&] { return code_of([&] { return gone.restore_step(); }); }},
      {"device_session", [&] { return code_of([&] { return gone.device_session(); }); }},
      {"load_cache", [&] { return code_of([&] { return gone.load_cache(); }); }},
      {"scan", [&] { return code_of([&] { return gone.scan({}, 10); }); }},
      {"snapshot", [&] { return code_of([&] { return gone.snapshot(snapshot); }); }},
      {"verify", [&] { return code_of([&] { return gone.verify(); }); }},
      {"acknowledge_repair", [&] { return code_of([&] { return gone.acknowledge_repair(); }); }},
      {"belongs_here", [&] { return code_of([&] { return gone.belongs_here(); }); }},
      {"close", [&] { return code_of([&] { return gone.close(); }); }},
      {"write_step", [&] { return code_of([&] { return ended.write_step(1); }); }},
      {"commit", [&] { return code_of([&] { return ended.commit(); }); }},
      {"abort", [&] { return code_of([&] { return ended.abort(); }); }},
  };
  for (auto const& [name, call] : calls) {
    SCOPED_TRACE(name);
    for (std::uint64_t n = 0; n < 4; ++n) {
      planned = n;
      struck = false;
      Code const code = call();
      planned = 0;
      EXPECT_EQ(code, struck ? Code::no_space : Code::closed);
    }
  }
  gone.reset_counts();
  EXPECT_EQ(gone.stats().records, 0u);
  EXPECT_EQ(gone.recovery().records, 0u);
  EXPECT_FALSE(gone.survives().process_kill);
  EXPECT_EQ(gone.path() + std::to_string(gone.key_bytes() + gone.value_bytes()), "0");
  EXPECT_EQ(gone.device(), Device::cpu);
  CallOptions how;
  how.transaction = &transaction;
  ASSERT_TRUE(store.put(column(keys), column(values), {}, how).ok());
  ASSERT_TRUE(transaction.commit().ok());
  EXPECT_EQ(store.stats().records, keys.size());
}

INSTANTIATE_TEST_SUITE_P(Failures, HostAllocation,
                         testing::Values(Kind{"word", Index::gphash, Layout::word, false},
                                         Kind{"in_place", Index::gphash, Layout::in_place, false},
                                         Kind{"dash_eh", Index::dash_eh, Layout::word, false},
                                         Kind{"dash_lh", Index::dash_lh, Layout::word, false},
                                         Kind{"power", Index::gphash, Layout::word, true}),
                         [](testing::TestParamInfo<Kind> const& kind) { return kind.param.name; });

}  // namespace
}  // namespace perdure::test
