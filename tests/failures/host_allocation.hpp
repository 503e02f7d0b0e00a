// A store of any kind whose calls run out of memory, step by step: each step of steps() with each
// of its allocations failing, and check() of what must hold afterwards. Invariant: held_ is what
// was acknowledged, no more and no less, and what a kill of the process would leave holds it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "counted_calls.hpp"
#include "support/sanitized.hpp"
#include "support/store_driver.hpp"
#include "wal/disk/disk.hpp"

namespace perdure::test {

namespace fs = std::filesystem;

struct Kind {
  char const* name;
  Index index;
  Layout layout;
  bool power;
  Persist persist = Persist::minimal;
};
inline void PrintTo(Kind const& kind, std::ostream* out) { *out << kind.name; }

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
    o.persist = GetParam().persist;
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
  /// Fewer under a sanitizer, which looks at how an exception leaves each function, not at each
  /// count.
  /// `then` hears what it came to, and whether one failed.
  template <class Call, class Then>
  void with_each_failing(Call call, Then then) {
    constexpr std::uint64_t kNever = std::uint64_t{1} << 40, kLast = kSanitized ? 4 : 8;
    // With a log each try makes and opens pools.
    std::uint64_t const first = GetParam().power ? kLast : kSanitized ? 12 : 40;
    std::uint64_t const part = GetParam().power ? kLast / 4 : kSanitized ? 3 : 8;
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
    batch.out = {reinterpret_cast<std::byte*>(out.data()), sizeof(Value), out.size(),
                 MemorySpace::host};
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
    std::vector<DenseBuffer> const buffers{{"dense", numbers, sizeof dense_, MemorySpace::host}};
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
    std::vector<Step> all = steps_that_write();
    for (auto const& more : {steps_that_read(), gphash() && GetParam().layout != Layout::in_place
                                                    ? steps_in_transactions()
                                                    : std::vector<Step>{}})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::vector<Step> steps_that_write() {
    std::uint64_t const many = gphash() ? 160 : 1200;  // so that the table grows
    return {
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
    };
  }
  std::vector<Step> steps_that_read() {
    return {
        {"get", true,
         [](Store& s, Contents&) {
           Keys const keys = keys_from(0, 30);
           std::vector<Value> out(keys.size());
           std::vector<KeyStatus> statuses(keys.size());
           MutableColumn const into{reinterpret_cast<std::byte*>(out.data()), sizeof(Value),
                                    out.size(), MemorySpace::host};
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
  }
  std::vector<Step> steps_in_transactions() {
    return {
        {"atomic", true,
         [this](Store& s, Contents& a) {
           CallOptions how;
           how.atomic = true;
           return put_new(s, 8, a, how);
         }},
        {"transaction", true, [this](Store& s, Contents& a) { return transaction(s, a, true); }},
        {"abort", true, [this](Store& s, Contents& a) { return transaction(s, a, false); }},
        {"step", true, [this](Store& s, Contents& a) { return step(s, a); }},
    };
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

}  // namespace perdure::test
