// Going through a Dash table from one end to the other: scans, verification, the sweep after an
// opening. Members of DashEngineOn. Invariant: a segment's slots are noted while nobody can change
// it, and looked at afterwards, under a guard, so that nobody waits for a record to be read.
#pragma once

#include <cstring>

#include "base/assert.hpp"
#include "store/dash/dash_engine_on.hpp"

namespace perdure {

template <class Table, class Keys>
std::span<std::byte const> DashEngineOn<Table, Keys>::key_at(dash::Slot const& slot,
                                                             std::uint64_t& word) const {
  if constexpr (kInline) {
    word = slot.first;
    return {reinterpret_cast<std::byte const*>(&word), options_.key_bytes};
  } else {
    auto const record = records_.view(slot.first);
    if (!record) return {};
    return {record->key, record->header.key_bytes};
  }
}

/// Keys of equal hash come together, so that a page can begin with any hash.
template <class Table, class Keys>
DashPage DashEngineOn<Table, Keys>::page(std::uint64_t from, std::size_t limit,
                                         DashVisitor const& visit) {
  PERDURE_ASSERT(limit > 0);  // else it would not get on
  OrderedHost host(options_.given_up);
  DashPage page;
  auto const hash_of = [&](dash::Slot const& slot) { return table_.ops().keys().hash_of(slot); };
  std::vector<dash::Slot> slots;
  do {
    exec::EpochGuard const guard(table_.epochs());
    slots.clear();
    auto const next = table_.walk(host, from, [&](dash::Slot const& slot) {
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
      if constexpr (kInline) {
        auto const* const bytes = reinterpret_cast<std::byte const*>(&slots[i]);
        visit({bytes, options_.key_bytes},
              {bytes + offsetof(dash::Slot, second), options_.value_bytes});
      } else {
        if (std::string const fault = options_.verify_reads ? fault_of(slots[i]) : std::string();
            !fault.empty()) {
          page.damaged = true;
          page.record = "record at byte " + std::to_string(slots[i].first) + ": " + fault;
          return page;
        }
        auto const record = records_.view(slots[i].first);
        if (!record ||
            (options_.value_bytes != 0 && record->header.value_bytes != options_.value_bytes))
          continue;
        if (hash_bytes(record->key, record->header.key_bytes) != slots[i].second)
          continue;  // another slot's record
        visit({record->key, record->header.key_bytes}, {record->value, record->header.value_bytes});
      }
      ++page.records;
    }
    from = page.next;
  } while (page.next != 0 && page.records < limit);
  return page;
}

/// What is wrong with what a slot leads to; empty: nothing.
template <class Table, class Keys>
std::string DashEngineOn<Table, Keys>::fault_of(dash::Slot const& slot) const {
  if constexpr (!kInline) {
    auto const record = records_.view(slot.first);
    if (!record) return "leads to no record";
    if (!DashRecords::intact(*record)) return "record's checksum does not match";
    if (options_.value_bytes != 0 && record->header.value_bytes != options_.value_bytes)
      return "record's value has another length than the pool's";
    if (hash_bytes(record->key, record->header.key_bytes) != slot.second)
      return "hash does not match the key";
  }
  return {};
}

template <class Table, class Keys>
std::vector<std::uint64_t> DashEngineOn<Table, Keys>::positions(DashFaults& faults) {
  OrderedHost host(options_.given_up);
  std::vector<std::uint64_t> all;
  exec::EpochGuard const guard(table_.epochs());
  table_.look_over(host, [&](std::string fault) { faults.add(std::move(fault)); });
  std::uint64_t position = 0;
  do {
    auto const next = table_.walk(host, position, [](dash::Slot) {});
    next ? all.push_back(position) : faults.add(table_.why_damaged().message());
    position = next ? *next : table_.beyond(host, position);
  } while (position != 0);
  return all;
}

template <class Table, class Keys>
void DashEngineOn<Table, Keys>::check(std::span<std::uint64_t const> positions,
                                      DashFaults& faults) {
  OrderedHost host(options_.given_up);
  std::vector<dash::Slot> slots;
  exec::EpochGuard const guard(table_.epochs());
  for (std::uint64_t const begin : positions) {
    slots.clear();
    auto const next =
        table_.walk(host, begin, [&](dash::Slot const& slot) { slots.push_back(slot); });
    std::sort(slots.begin(), slots.end(),
              [](auto const& a, auto const& b) { return a.first < b.first; });
    for (std::size_t i = 0; i < slots.size(); ++i) {
      dash::Slot const slot = slots[i];
      std::string fault = fault_of(slot);
      if (fault.empty() && i > 0 && slots[i - 1].first == slot.first) fault = "key stands twice";
      std::uint64_t const hash = table_.ops().keys().hash_of(slot);
      if (fault.empty() && (hash < begin || (next.value_or(0) != 0 && hash >= *next)))
        fault = "key belongs in another segment";
      if (fault.empty()) {
        std::uint64_t word = 0;
        auto const bytes = key_at(slot, word);
        exec::ByteColumn const one{bytes.data(), nullptr, static_cast<std::uint32_t>(bytes.size())};
        dash::Slot found;
        bool const there = table_.find(host, key_of(one, 0), found) == dash::Answer::done;
        // Of two records with one key, gets find one.
        if (!there || found.first != slot.first)
          fault = there ? "key stands twice" : "gets do not find the key";
      }
      if (fault.empty()) {
        ++faults.good;
        continue;
      }
      std::string const where = kInline ? "" : ", record at byte " + std::to_string(slot.first);
      faults.add("slot of hash " + std::to_string(hash) + where + ": " + fault);
    }
  }
}

template <class Table, class Keys>
bool DashEngineOn<Table, Keys>::sweep(std::function<bool()> const& go_on) {
  OrderedHost host(options_.given_up);
  std::vector<std::uint64_t> places;
  if (!kInline) space_->begin_sweep();
  bool const whole = table_.sweep(
      host,
      [&](dash::Slot const& slot) {
        if (!kInline) places.push_back(slot.first);
      },
      [&] {
        PERDURE_ASSERT(!kInline || places.empty());
        if (!kInline) space_->mark(places);
        places.clear();
        return go_on();
      });
  if (whole && !kInline) space_->finish_sweep();
  return whole;
}

/// Over slots that hold keys and values, or over records.
template <template <class, class> class Table>
std::unique_ptr<DashEngine> make_dash(pm::Pool& pool, Mutex& memory, DashSpace& space,
                                      DashOptions const& options) {
  using RecordKeys = dash::RecordKeys<DashRecords>;
  if (dash_inline(options.key_bytes, options.value_bytes))
    return std::make_unique<DashEngineOn<Table<dash::InlineKeys, dash::Knobs>, dash::InlineKeys>>(
        pool, memory, space, options);
  return std::make_unique<DashEngineOn<Table<RecordKeys, dash::Knobs>, RecordKeys>>(pool, memory,
                                                                                    space, options);
}

}  // namespace perdure
