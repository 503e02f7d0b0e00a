// A Dash table over the simulated medium, as a process sees it that has opened its pool: keys and
// values in the slots, or in records that a sweep gives back while others write. Invariant: what a
// record's owner reads it has said so, and a value that is not whole is kTorn, which nobody ever
// puts.
#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "explore/dash/dash_host.hpp"
#include "index/dash/extendible.hpp"
#include "index/dash/keys.hpp"
#include "index/dash/linear.hpp"
#include "pm/host_verbs.hpp"
#include "store/threads/records.hpp"
#include "store/threads/reservation.hpp"

namespace perdure::explore {

inline constexpr std::uint64_t kTorn = ~std::uint64_t{0};

/// Records as a table's keys ask for them, which say what they read.
class SimRecords {
 public:
  explicit SimRecords(threads::Records records, std::byte* base, pm::RecordShape const& shape)
      : records_(records), base_(base), shape_(shape) {}

  template <class Host>
  [[nodiscard]] bool equal(Host& host, std::uint64_t address, std::byte const* key,
                           std::size_t bytes, std::uint64_t hash) const {
    read(address);
    return records_.equal(host, address, key, bytes, hash);
  }
  template <class Host>
  [[nodiscard]] bool same(Host& host, std::uint64_t a, std::uint64_t b) const {
    read(a);
    read(b);
    return records_.same(host, a, b);
  }
  [[nodiscard]] threads::Records const& records() const { return records_; }
  void read(std::uint64_t address) const {
    pm::RecordAddress const at = pm::address_at(base_, shape_, Offset{address});
    pm::will_read(at.head, sizeof(pm::RecordHead) + shape_.key_bytes);
    pm::will_read(at.to, shape_.value_bytes);
  }

 private:
  threads::Records records_;
  std::byte* base_;
  pm::RecordShape shape_;
};

template <class Table>
class OpenedDash {
 public:
  static constexpr std::uint32_t kValueBytes = 8;
  static constexpr bool kSweeps = false;

  explicit OpenedDash(pm::Pool p) : pool(std::move(p)) {}
  void make(dash::SegmentShape shape) {
    table = std::make_unique<Table>(pool, memory, dash::InlineKeys(8), shape);
  }
  void claim_later() {}
  void make_room() {}
  void sweep() {
    table->sweep(host, [](dash::Slot) {});
  }
  dash::Answer put(std::uint64_t key, std::uint64_t value, bool only_there = false) {
    exec::EpochGuard const guard(table->epochs());
    std::optional<dash::Slot> before;
    auto const how = only_there ? Table::Write::update : Table::Write::put;
    return table->write(host, as_key(key), {key, value}, how, before);
  }
  dash::Answer get(std::uint64_t key, std::uint64_t& value) {
    exec::EpochGuard const guard(table->epochs());
    dash::Slot found;
    dash::Answer const answer = table->find(host, as_key(key), found);
    value = found.second;
    return answer;
  }
  dash::Answer erase(std::uint64_t key) {
    exec::EpochGuard const guard(table->epochs());
    dash::Slot before;
    return table->erase(host, as_key(key), before);
  }
  std::pair<std::uint64_t, std::uint64_t> entry(dash::Slot slot) {
    return {slot.first, slot.second};
  }
  std::optional<std::string> fault_of_heap(std::vector<std::uint64_t> const&) {
    return std::nullopt;
  }
  [[nodiscard]] std::vector<std::uint64_t> born() const { return {}; }

  pm::Pool pool;
  Mutex memory;
  SimHost host;
  std::unique_ptr<Table> table;

 private:
  static dash::InlineKeys::Key as_key(std::uint64_t key) {
    return dash::InlineKeys(8).key(reinterpret_cast<std::byte const*>(&key));
  }
};

/// Operations as dash_runs.hpp carries them out, with points between their steps.
template <template <class, class> class Index>
class OpenedDash<Index<dash::RecordKeys<SimRecords>, dash::Knobs>> {
 public:
  using Keys = dash::RecordKeys<SimRecords>;
  using Table = Index<Keys, dash::Knobs>;
  static constexpr std::uint32_t kValueBytes = 16;  // the value twice, the second time with the key
  static constexpr bool kSweeps = true;

  explicit OpenedDash(pm::Pool p)
      : pool(std::move(p)),
        space(pool, memory),
        records(threads::Records(pool.base(), space.shape(), space.pool_bytes()), pool.base(),
                space.shape()) {}
  void make(dash::SegmentShape shape) {
    table = std::make_unique<Table>(pool, memory, Keys(records), shape);
  }
  void claim_later() { space.claim_later(); }
  /// A superblock of records and a free one, so that none has to be added in the midst of a run.
  void make_room() {
    std::vector<std::uint64_t> one;
    if (space.take(stride(), 1, one).ok()) space.give(one);
    if (auto run = pool.take_run(2); run.ok()) pool.give_run(*run, 2);
  }
  /// As DashWalk's.
  void sweep() {
    std::vector<std::uint64_t> addresses;
    space.begin_sweep();
    bool const whole = table->sweep(
        host, [&](dash::Slot slot) { addresses.push_back(slot.first); },
        [&] {
          space.mark(addresses);
          addresses.clear();
          return true;
        });
    if (whole) space.finish_sweep();
  }
  dash::Answer put(std::uint64_t key, std::uint64_t value, bool only_there = false) {
    threads::Reservation reservation(space, table->epochs());
    std::uint64_t const each = stride();
    if (reservation.fill({&each, 1}) == 0) return dash::Answer::full;
    hand_over();
    dash::Answer answer;
    {
      exec::EpochGuard const guard(table->epochs());
      std::uint64_t const address = reservation.take(each);
      if (born_.size() < kMostBorn) born_.push_back(address);
      std::array<std::uint64_t, 2> const words{value, value ^ key};
      records.records().write(host, address,
                              {{0, kValueBytes, sizeof key, 0, 1},
                               reinterpret_cast<std::byte const*>(&key),
                               reinterpret_cast<std::byte const*>(words.data())});
      std::optional<dash::Slot> before;
      auto const how = only_there ? Table::Write::update : Table::Write::put;
      typename Keys::Key const k = as_key(key);
      answer = table->write(host, k, {address, k.hash}, how, before);
      if (answer != dash::Answer::done) reservation.put_back(each, address);
      if (before) retire(before->first);
    }
    table->epochs().collect();
    return answer;
  }
  dash::Answer get(std::uint64_t key, std::uint64_t& value) {
    exec::EpochGuard const guard(table->epochs());
    dash::Slot found;
    dash::Answer const answer = table->find(host, as_key(key), found);
    if (answer != dash::Answer::done) return answer;
    exec::sim_point();
    auto const [held, word] = entry(found);
    value = held == key ? word : kTorn;
    return answer;
  }
  dash::Answer erase(std::uint64_t key) {
    dash::Answer answer;
    {
      exec::EpochGuard const guard(table->epochs());
      dash::Slot before;
      answer = table->erase(host, as_key(key), before);
      if (answer == dash::Answer::done) retire(before.first);
    }
    table->epochs().collect();
    return answer;
  }
  /// Key and value of the record that a slot leads to.
  std::pair<std::uint64_t, std::uint64_t> entry(dash::Slot slot) {
    records.read(slot.first);
    auto const record = records.records().view(slot.first);
    if (!record || !threads::Records::intact(*record)) return {slot.first, kTorn};
    std::uint64_t key = 0, first = 0, second = 0;
    std::memcpy(&key, record->key, sizeof key);
    std::memcpy(&first, record->value, sizeof first);
    exec::sim_point();
    std::memcpy(&second, record->value + sizeof first, sizeof second);
    return {key, second == (first ^ key) ? first : kTorn};
  }
  /// After a sweep, where nobody else is: of the records in use none is free, of all others that
  /// were there each is.
  std::optional<std::string> fault_of_heap(std::vector<std::uint64_t> const& there) {
    table->epochs().drain();
    std::set<std::uint64_t> used;
    std::optional<std::string> wrong;
    std::uint64_t position = 0;
    do {
      exec::EpochGuard const guard(table->epochs());
      auto const next = table->walk(host, position, [&](dash::Slot slot) {
        if (!used.insert(slot.first).second) wrong = "two slots lead to " + named(slot.first);
      });
      position = next.value_or(0);
    } while (position != 0);
    for (std::uint64_t const address : used)
      if (!space.in_use(address)) return named(address) + " is in use, and counts as free";
    for (std::uint64_t const address : there)
      if (!used.contains(address) && space.in_use(address))
        return named(address) + " is free, and counts as in use";
    return wrong;
  }
  /// Records that were written.
  [[nodiscard]] std::vector<std::uint64_t> born() const { return born_; }

  pm::Pool pool;
  Mutex memory;
  SimHost host;
  threads::Space space;
  SimRecords records;
  std::unique_ptr<Table> table;

 private:
  static constexpr std::size_t kMostBorn = 1000;
  static std::string named(std::uint64_t address) {
    return "the record at byte " + std::to_string(address);
  }
  static typename Keys::Key as_key(std::uint64_t const& key) {
    return Keys::key(reinterpret_cast<std::byte const*>(&key), sizeof key);
  }
  [[nodiscard]] std::uint64_t stride() const { return pm::fixed_stride(pool.header()); }
  void retire(std::uint64_t address) {
    hand_over();
    table->epochs().retire([this, address] {
      hand_over();
      space.give({&address, 1});
    });
  }
  /// What a thread had fenced before it released a record comes before whatever another writes
  /// into that. The locks of the epochs and of the space see to it, which the observer does not
  /// see; this word it does.
  void hand_over() {
    auto* const o = fault::observer;
    if (o == nullptr) return;
    o->will_read(&handed_, sizeof handed_);
    ++handed_;
    o->wrote(&handed_, sizeof handed_);
  }

  std::vector<std::uint64_t> born_;
  std::uint64_t handed_ = 0;
};

}  // namespace perdure::explore
