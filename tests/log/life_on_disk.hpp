// A store's life on a disk that forgets, with one mishap in it, and what must be there afterwards:
// after the power has failed and the pool's memory is gone, every acknowledged batch, no half of
// one, nothing that was refused, and whatever a get had returned. The model is a plain map, outside
// of the store. Everything but the threads' turns follows from (script, mishap, seed).
#pragma once

#include <malloc.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "forgetful_disk.hpp"
#include "life_scripts.hpp"
#include "perdure/store.h"
#include "support/calls_stores.hpp"
#include "support/store_driver.hpp"

namespace perdure::wal::test {

using perdure::test::CallsStores;

struct Trouble {
  Mishap mishap = Mishap::none;
  std::uint64_t at = 0;
  int error = EIO;
  bool reader = false;  // a thread reads meanwhile
};

class Life {
 public:
  Life(Script script, std::uint64_t seed) : script_(std::move(script)), seed_(seed) {
    // Disks of some MiB come and go: their memory stays with the process.
    ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
    ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  }

  /// What is wrong, if anything is.
  std::optional<std::string> run(Trouble const& trouble) {
    CallsStores const here;
    ForgetfulDisk disk(seed_ * 1000 + trouble.at);
    disk.short_writes(seed_ % 2 == 0);
    disk_ = &disk;
    random_.seed(seed_ + trouble.at * 7919);
    states_ = {{{}, 0}};
    snapshots_ = {std::nullopt};
    seen_.clear();
    batches_ = 0;
    may_refuse_ = true;
    log_dir_ = "/log";
    killed_ = trouble.mishap == Mishap::kill;
    disk.plan(trouble.mishap, trouble.at, trouble.error);
    auto wrong = live(trouble.reader);
    requests_ = disk.requests();
    if (!wrong) wrong = judge();
    disk_ = nullptr;
    if (!wrong) return std::nullopt;
    return *wrong + " [mishap " + std::to_string(static_cast<int>(trouble.mishap)) +
           " at request " + std::to_string(trouble.at) + ", seed " + std::to_string(seed_) + "]";
  }
  /// Of the last run, up to its end or its mishap.
  [[nodiscard]] std::uint64_t requests() const { return requests_; }

 private:
  /// What may be there, and the last batch that is in it.
  struct State {
    Contents contents;
    std::uint64_t last = 0;
  };
  using Wrong = std::optional<std::string>;

  [[nodiscard]] std::string pool() const { return scratch_.file("pool"); }
  static constexpr char const* kSnapshot = "/snapshot";

  // ----------------------------------------------------------------------------------------------
  // The store's calls

  struct Columns {
    Columns(Writes const& batch, std::uint32_t value_bytes)
        : width(value_bytes), values(batch.size() * value_bytes) {
      for (std::size_t i = 0; i < batch.size(); ++i) {
        kinds.push_back(batch[i].kind);
        keys.push_back(batch[i].key);
        for (std::size_t at = 0; at < value_bytes; at += 8)
          std::memcpy(values.data() + i * value_bytes + at, &batch[i].value, 8);
      }
    }
    [[nodiscard]] MixedBatch batch() const {
      return {{reinterpret_cast<std::byte const*>(keys.data()), nullptr, 8, keys.size(),
               MemorySpace::host},
              kinds,
              {values.data(), nullptr, width, keys.size(), MemorySpace::host},
              Rmw::replace,
              Element::u64,
              {}};
    }
    std::uint32_t width;
    std::vector<OpKind> kinds;
    std::vector<std::uint64_t> keys;
    std::vector<std::byte> values;
  };

  static OpenOptions open_options(std::string const& log_dir) {
    OpenOptions o;
    o.threads = 1;
    o.log_dir = log_dir;
    return o;
  }

  Result<Store> create(bool overwrite) {
    CreateOptions o;
    o.value_bytes = script_.value_bytes;
    o.expected_records = 1;
    o.durability = Durability::power;
    o.log.dir = log_dir_;
    o.log.bytes = 1u << 20;
    o.file.overwrite = overwrite;
    return Store::create(pool(), o, open_options(""));
  }

  /// Everything a scan finds; a value must be whole.
  Wrong contents_of(Store& store, Contents& found) const {
    ScanCursor cursor;
    while (!cursor.done) {
      auto page = store.scan(cursor, 1000);
      if (!page) return "scan: " + page.status().message();
      for (std::size_t i = 0; i + 1 < page->keys.offsets.size(); ++i) {
        std::uint64_t key = 0;
        std::memcpy(&key, page->keys.data.data() + page->keys.offsets[i], 8);
        std::byte const* const value = page->values.data.data() + page->values.offsets[i];
        auto const whole = whole_value(value);
        if (!whole) return "key " + std::to_string(key) + " has pieces of two values";
        if (!found.emplace(key, *whole).second)
          return "key " + std::to_string(key) + " is there twice";
      }
      cursor = page->next;
    }
    auto const verified = store.verify();
    if (!verified) return "verify: " + verified.status().message();
    if (verified.value().fault_count != 0) return "verify: " + verified.value().faults[0];
    return std::nullopt;
  }

  [[nodiscard]] std::optional<std::uint64_t> whole_value(std::byte const* value) const {
    std::uint64_t first = 0;
    std::memcpy(&first, value, 8);
    for (std::size_t at = 8; at < script_.value_bytes; at += 8)
      if (std::memcmp(value, value + at, 8) != 0) return std::nullopt;
    return first;
  }

  // ----------------------------------------------------------------------------------------------
  // Living

  /// A reader beside the writes, which notes what it has been told.
  class Reader {
   public:
    Reader(Life& life, Store& store, bool reads) {
      if (reads) thread_ = std::thread([this, &life, &store] { read(life, store); });
    }
    ~Reader() {
      stop_ = true;
      if (thread_.joinable()) thread_.join();
    }
    Reader(Reader const&) = delete;
    Reader& operator=(Reader const&) = delete;

   private:
    void read(Life& life, Store& store) {
      CallsStores const here;
      std::vector<std::byte> out(life.script_.value_bytes);
      std::array<KeyStatus, 1> status{};
      for (std::uint64_t key = 0; !stop_; key = (key + 1) % 4) {
        Column const column{reinterpret_cast<std::byte const*>(&key), nullptr, 8, 1,
                            MemorySpace::host};
        Status const s =
            store.get(column, {out.data(), life.script_.value_bytes, 1, MemorySpace::host}, status);
        // after it this process was no more, or the log failed
        bool const before_the_mishap = !life.disk_->happened();
        if (!s.ok() || status[0] != KeyStatus::ok || !before_the_mishap) continue;
        std::uint64_t value = 0;
        std::memcpy(&value, out.data(), 8);
        std::lock_guard const lock(life.seen_mutex_);
        life.seen_.push_back(value);
      }
    }
    std::atomic<bool> stop_ = false;
    std::thread thread_;
  };

  Wrong live(bool reader) {
    auto made = create(false);
    if (!made) return failed("creating", made.status());
    may_refuse_ = false;
    std::optional<Store> store(std::move(*made));
    for (Step const& step : script_.steps) {
      if (disk_->dead()) break;
      if (auto wrong = take(step, store, reader)) return wrong;
      if (!store) return std::nullopt;
      if (disk_->happened() && !killed_ && random_() % 2 == 0)
        disk_->cut_power();  // before anything mends what went wrong
    }
    if (killed_ || random_() % 2 == 0) {
      if (Status const s = store->close(); !s.ok() && !disk_->happened())
        return "close: " + s.message();
    } else {
      disk_->cut_power();  // in use
    }
    return std::nullopt;
  }

  /// A failure needs a reason.
  Wrong failed(char const* what, Status const& status) const {
    if (disk_->happened()) return std::nullopt;
    return std::string(what) + " fails without a mishap: " + status.message();
  }

  Wrong take(Step const& step, std::optional<Store>& store, bool reader) {
    switch (step.what) {
      case Step::What::snapshot: return take_snapshot(*store);
      case Step::What::reopen: return reopen(store);
      case Step::What::restore: return restore(store);
      case Step::What::recreate: return recreate(store);
      default: break;
    }
    Reader const beside(*this, *store, reader);
    return write(step, *store);
  }

  Wrong write(Step const& step, Store& store) {
    std::uint64_t const mine = ++batches_;
    Writes all;
    for (Writes const& batch : step.batches) all.insert(all.end(), batch.begin(), batch.end());
    bool const aborted = step.what == Step::What::aborted;
    Status const s = aborted || step.what == Step::What::transaction
                         ? transact(step, store, !aborted)
                         : write_batch(step, store);
    if (s.ok() && aborted) return std::nullopt;
    if (s.ok()) {
      for (State& state : states_) take_effect(all, state.contents), state.last = mine;
      return std::nullopt;
    }
    if (auto wrong = failed("a batch", s)) return wrong;
    // Refused: it did nothing. Else what its last write left is unknown until the store is opened
    // again.
    if (s.code() == Code::closed || aborted) return std::nullopt;
    std::vector<State> const without = states_;
    for (State state : without) {
      take_effect(all, state.contents);
      states_.push_back({state.contents, mine});
    }
    return std::nullopt;
  }

  Status write_batch(Step const& step, Store& store) {
    Columns const columns(step.batches[0], script_.value_bytes);
    CallOptions how;
    how.atomic = step.what == Step::What::atomic;
    std::vector<KeyStatus> statuses(columns.keys.size());
    return store.apply(columns.batch(), statuses, how);
  }

  Status transact(Step const& step, Store& store, bool commit) {
    auto transaction = store.begin({64});
    if (!transaction) return transaction.status();
    CallOptions how;
    how.transaction = &*transaction;
    for (Writes const& batch : step.batches) {
      Columns const columns(batch, script_.value_bytes);
      if (Status s = store.apply(columns.batch(), {}, how); !s.ok()) return s;
    }
    return commit ? transaction->commit() : transaction->abort();
  }

  Wrong take_snapshot(Store& store) {
    Status const s = store.snapshot(kSnapshot, {.overwrite = true});
    if (!s.ok()) {
      for (State const& state : states_) snapshots_.push_back(state.contents);
      return failed("a snapshot", s);
    }
    snapshots_.clear();
    for (State const& state : states_) snapshots_.push_back(state.contents);
    return std::nullopt;
  }

  Wrong reopen(std::optional<Store>& store) {
    Status const closed = store->close();
    store.reset();
    if (auto wrong = closed.ok() ? std::nullopt : failed("close", closed)) return wrong;
    auto again = Store::open(pool(), open_options(log_dir_));
    if (!again) return failed("opening again", again.status());
    store.emplace(std::move(*again));
    return std::nullopt;
  }

  /// From here on the store is the snapshot's, with a log of its own; the old one's log stays
  /// behind.
  Wrong restore(std::optional<Store>& store) {
    Status const closed = store->close();
    store.reset();
    if (auto wrong = closed.ok() ? std::nullopt : failed("close", closed)) return wrong;
    RestoreOptions o;
    o.log.dir = "/restored";
    o.log.bytes = 1u << 20;
    o.file.overwrite = true;
    auto restored = Store::restore(kSnapshot, pool(), o, open_options(""));
    if (!restored) return failed("a restore", restored.status());
    log_dir_ = o.log.dir;
    states_.clear();
    for (auto const& snapshot : snapshots_)
      if (snapshot) states_.push_back({*snapshot, batches_});
    seen_.clear();
    store.emplace(std::move(*restored));
    return std::nullopt;
  }

  Wrong recreate(std::optional<Store>& store) {
    Status const closed = store->close();
    store.reset();
    if (auto wrong = closed.ok() ? std::nullopt : failed("close", closed)) return wrong;
    seen_.clear();
    auto made = create(true);
    if (!made) {  // the old one, the new one, or neither
      may_refuse_ = true;
      states_.push_back({{}, batches_});
      return failed("creating anew", made.status());
    }
    states_ = {{{}, batches_}};
    store.emplace(std::move(*made));
    return std::nullopt;
  }

  // ----------------------------------------------------------------------------------------------
  // Judging

  /// The power has failed, or fails now; once more while the store is opened again, perhaps.
  Wrong judge() {
    if (!killed_ && random_() % 4 != 0) disk_->cut_power();
    disk_->restore();
    if (random_() % 4 != 0)
      ::unlink(pool().c_str());  // what lay in memory; else a kill, or a pool on a disk
    if (random_() % 2 == 0) {
      disk_->plan(Mishap::power, 1 + random_() % 3);
      static_cast<void>(Store::open(pool(), open_options(log_dir_)));
      if (disk_->happened()) disk_->cut_power(), disk_->restore();
      disk_->plan(Mishap::none, 0);
    }
    auto store = Store::open(pool(), open_options(log_dir_));
    if (!store && may_refuse_ && half_made(store.status().code())) return made_anew();
    if (!store) return "the pool does not open: " + store.status().message();
    if (auto wrong = judge_contents(*store)) return wrong;
    if (auto wrong = go_on(store)) return wrong;
    store = Status{Code::closed, "no store"};
    return judge_snapshot();
  }

  Wrong judge_contents(Store& store) {
    if (store.recovery().lost_acknowledged)
      return "acknowledged batches are lost: " + store.recovery().log_report;
    Contents found;
    if (auto wrong = contents_of(store, found)) return wrong;
    for (State const& state : states_) {
      if (state.contents != found || !shows(state)) continue;
      states_ = {state};
      return std::nullopt;
    }
    std::string text =
        "none of the " + std::to_string(states_.size()) + " states that may be there is:";
    for (auto const& [key, value] : found)
      text += " " + std::to_string(key) + "=" + std::to_string(value);
    text += "; the first would be";
    for (auto const& [key, value] : states_[0].contents)
      text += " " + std::to_string(key) + "=" + std::to_string(value);
    return text + "; " + store.recovery().log_report;
  }

  /// Everything that was read is in it. A write's number says of which batch it is.
  [[nodiscard]] bool shows(State const& state) const {
    for (std::uint64_t const value : seen_)
      if (value / 1000 > state.last) return false;
    return true;
  }

  /// It takes further batches, which outlive a further power cut, and so does what it has shown;
  /// after a kill the cut comes amid so many batches that both images are written over.
  Wrong go_on(Result<Store>& store) {
    if (killed_) disk_->plan(Mishap::power, 2 + random_() % (random_() % 2 == 0 ? 8 : 150));
    for (std::uint64_t batch = 0; batch < (killed_ ? 25u : 1u) && !disk_->dead(); ++batch) {
      Step step{Step::What::batch, {{{OpKind::put, 999, 999'000 + batch}}}};
      for (std::uint64_t i = 0; killed_ && i < (100u << 10) / script_.value_bytes; ++i)
        step.batches[0].push_back({OpKind::put, i % 90, 999'000 + batch});
      if (auto wrong = write(step, *store)) return "after the mishap, " + *wrong;
    }
    disk_->cut_power();
    static_cast<void>(store->close());
    store = Status{Code::closed, "no store"};
    disk_->restore();
    ::unlink(pool().c_str());
    store = Store::open(pool(), open_options(log_dir_));
    if (!store)
      return "after a further power cut the pool does not open: " + store.status().message();
    if (auto wrong = judge_contents(*store)) return "after a further power cut, " + *wrong;
    Status const closed = store->close();
    return closed.ok() ? std::nullopt : Wrong("close: " + closed.message());
  }

  /// There is no log, none that is whole, or one whose pool was to take the place of another's that
  /// is still there.
  static bool half_made(Code code) {
    return code == Code::not_found || code == Code::corrupt || code == Code::invalid_argument;
  }

  /// What was never made whole can be made.
  Wrong made_anew() {
    auto made = create(true);
    if (!made) return "what was half made cannot be made anew: " + made.status().message();
    Contents found;
    if (auto wrong = contents_of(*made, found)) return wrong;
    return found.empty() ? std::nullopt : Wrong("a new pool is not empty");
  }

  Wrong judge_snapshot() {
    bool const may_be_none =
        std::find(snapshots_.begin(), snapshots_.end(), std::nullopt) != snapshots_.end();
    RestoreOptions o;
    o.durability = Durability::process;
    auto restored = Store::restore(kSnapshot, scratch_.file("restored"), o, open_options(""));
    ::unlink(scratch_.file("restored").c_str());
    if (!restored && restored.status().code() == Code::not_found && may_be_none)
      return std::nullopt;
    if (!restored) return "a snapshot is not there: " + restored.status().message();
    Contents found;
    if (auto wrong = contents_of(*restored, found)) return "a snapshot: " + *wrong;
    for (auto const& snapshot : snapshots_)
      if (snapshot && *snapshot == found) return std::nullopt;
    return "a snapshot holds what it was not taken of";
  }

  Script const script_;
  std::uint64_t const seed_;
  perdure::test::ScratchDir const scratch_;
  ForgetfulDisk* disk_ = nullptr;
  std::mt19937_64 random_;
  std::vector<State> states_;
  std::vector<std::optional<Contents>> snapshots_;  // any of these may be there
  std::mutex seen_mutex_;
  std::vector<std::uint64_t> seen_;
  std::uint64_t batches_ = 0;
  bool killed_ = false;  // the mishap is one that the disk lives through
  bool may_refuse_ = true;  // it has never been made whole
  std::string log_dir_;
  std::uint64_t requests_ = 0;
};

}  // namespace perdure::wal::test
