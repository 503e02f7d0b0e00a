// Going through a Dash table from one end to the other: scans, counting, verification, the sweep
// after an opening. Invariant: a segment's slots are noted while nobody can change it, and looked
// at afterwards, under a guard, so that nobody waits for a record to be read.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/assert.hpp"
#include "exec/counts.hpp"
#include "exec/epochs.hpp"
#include "index/dash/layout.hpp"
#include "pm/host.hpp"
#include "store/dash/dash_engine.hpp"
#include "store/threads/gives_up.hpp"
#include "store/threads/space.hpp"

namespace perdure {

template <class Table, class Slots>
class DashWalk {
 public:
  DashWalk(Table& table, Slots const& slots, std::atomic<bool>* given_up)
      : table_(table), slots_(slots), host_(given_up) {}

  /// Keys of equal hash come together, so that a page can begin with any hash.
  DashPage page(std::uint64_t from, std::size_t limit, threads::Visitor const& visit, bool verify) {
    PERDURE_ASSERT(limit > 0);  // else it would not get on
    DashPage page;
    std::vector<dash::Slot> slots;
    do {
      exec::EpochGuard const guard(table_.epochs());
      slots.clear();
      auto const next = table_.walk(host_, from, [&](dash::Slot const& slot) {
        if (hash_of(slot) >= from) slots.push_back(slot);
      });
      page.damaged = !next;
      if (page.damaged) return page;
      page.next = *next;
      std::sort(slots.begin(), slots.end(),
                [&](auto const& a, auto const& b) { return hash_of(a) < hash_of(b); });
      for (std::size_t i = 0; i < slots.size(); ++i) {
        bool const may_begin = i == 0 || hash_of(slots[i]) != hash_of(slots[i - 1]);
        if (may_begin && page.records >= limit) {
          page.next = hash_of(slots[i]);
          return page;
        }
        if (std::string const fault = verify ? slots_.fault(slots[i]) : std::string();
            !fault.empty()) {
          page.damaged = true;
          page.record = "record at byte " + std::to_string(slots[i].first) + ": " + fault;
          return page;
        }
        page.records += slots_.show(slots[i], visit);
      }
      from = page.next;
    } while (page.next != 0 && page.records < limit);
    return page;
  }

  DashCount count() {
    DashCount count;
    std::uint64_t position = 0;
    do {
      exec::EpochGuard const guard(table_.epochs());
      auto const next = table_.walk(host_, position, [&](dash::Slot) { ++count.records; });
      count.whole &= next.has_value();
      position = next ? *next : table_.beyond(host_, position);
    } while (position != 0);
    return count;
  }

  std::vector<std::uint64_t> positions(threads::Faults& faults) {
    std::vector<std::uint64_t> all;
    exec::EpochGuard const guard(table_.epochs());
    table_.look_over(host_, [&](std::string fault) { faults.add(std::move(fault)); });
    std::uint64_t position = 0;
    do {
      auto const next = table_.walk(host_, position, [](dash::Slot) {});
      next ? all.push_back(position) : faults.add(table_.why_damaged().message());
      position = next ? *next : table_.beyond(host_, position);
    } while (position != 0);
    return all;
  }

  void check(std::span<std::uint64_t const> positions, threads::Faults& faults) {
    std::vector<dash::Slot> slots;
    exec::EpochGuard const guard(table_.epochs());
    for (std::uint64_t const begin : positions) {
      slots.clear();
      auto const next =
          table_.walk(host_, begin, [&](dash::Slot const& slot) { slots.push_back(slot); });
      std::sort(slots.begin(), slots.end(),
                [](auto const& a, auto const& b) { return a.first < b.first; });
      for (std::size_t i = 0; i < slots.size(); ++i) {
        dash::Slot const slot = slots[i];
        bool const twice = i > 0 && slots[i - 1].first == slot.first;
        std::string const fault = fault_of(slot, twice, begin, next.value_or(0));
        if (fault.empty()) {
          ++faults.good;
          continue;
        }
        std::string const where =
            Slots::kRecords ? ", record at byte " + std::to_string(slot.first) : "";
        faults.add("slot of hash " + std::to_string(hash_of(slot)) + where + ": " + fault);
      }
    }
  }

  bool sweep(threads::Space& space, std::function<bool()> const& go_on) {
    std::vector<std::uint64_t> addresses;
    if (Slots::kRecords) space.begin_sweep();
    bool const whole = table_.sweep(
        host_,
        [&](dash::Slot const& slot) {
          if (Slots::kRecords) addresses.push_back(slot.first);
        },
        [&] {
          PERDURE_ASSERT(Slots::kRecords || addresses.empty());
          if (Slots::kRecords) space.mark(addresses);
          addresses.clear();
          return go_on();
        });
    if (whole && Slots::kRecords) space.finish_sweep();
    return whole;
  }

 private:
  [[nodiscard]] std::uint64_t hash_of(dash::Slot const& slot) const {
    return table_.ops().keys().hash_of(slot);
  }
  /// What is wrong with a slot of the segment that has the hashes from `begin` to `end`, of which
  /// another may have led to the same. Empty: nothing.
  std::string fault_of(dash::Slot const& slot, bool twice, std::uint64_t begin, std::uint64_t end) {
    if (std::string fault = slots_.fault(slot); !fault.empty()) return fault;
    if (twice) return "key stands twice";
    std::uint64_t const hash = hash_of(slot);
    if (hash < begin || (end != 0 && hash >= end)) return "key belongs in another segment";
    auto const bytes = slots_.key_at(slot);
    exec::ByteColumn const one{bytes.data(), nullptr, static_cast<std::uint32_t>(bytes.size())};
    dash::Slot found;
    bool const there = table_.find(host_, slots_.key(one, 0), found) == dash::Answer::done;
    if (there && found.first == slot.first) return {};
    // Of two records with one key, gets find one.
    return there ? "key stands twice" : "gets do not find the key";
  }

  Table& table_;
  Slots const& slots_;
  threads::GivesUp<pm::OrderedHost> host_;
};

}  // namespace perdure
