// A run of a batch's operations by one thread, on a Dash table. Runs go in pieces, each under a
// guard. Gets go through them in small groups, several of them under way at a time; writes have
// room for the records of a piece first, and then 16 keys brought near at a time
// (store/threads/write_pieces.hpp), in array order. Invariant: a record is written and ordered
// before a slot leads to it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "batch/arithmetic.hpp"
#include "exec/counts.hpp"
#include "exec/epochs.hpp"
#include "store/dash/dash_engine.hpp"
#include "store/dash/dash_slots.hpp"
#include "store/threads/gives.hpp"
#include "store/threads/space.hpp"
#include "store/threads/write_pieces.hpp"

namespace perdure {

/// What gets and writes share. `Table` is one of index/dash's, `Slots` one of dash_slots.hpp's.
template <class Table, class Slots, class Host>
class DashRun {
 protected:
  using Key = typename Slots::Key;

  DashRun(Table& table, Slots const& slots, Host& host, threads::Batch const& batch,
          threads::Tally& tally)
      : table_(table), slots_(slots), host_(host), batch_(batch), tally_(tally) {}

  /// The record that a key may have in a segment, if its slots are near.
  void bring_record_near(std::uint64_t segment, Key const& key) {
    table_.guess(host_, segment, key.hash, [&](dash::Slot const& slot) {
      if (slot.second == key.hash) slots_.prefetch(slot);
    });
  }
  /// give(i, value) for the value that a slot leads to.
  template <class Give>
  void answer(std::size_t i, Key const& key, dash::Slot const& slot, Give& give) {
    std::uint64_t word = 0;
    std::span<std::byte const> value;
    KeyStatus const status = slots_.value(host_, key, slot, word, value);
    batch_.complete(i, status == KeyStatus::ok ? give(i, value) : status);
  }
  void complete(std::size_t i, dash::Answer answer) {
    tally_.damaged += answer == dash::Answer::damaged;
    switch (answer) {
      case dash::Answer::done: return batch_.complete(i, KeyStatus::ok);
      case dash::Answer::damaged: return batch_.complete(i, KeyStatus::corrupt);
      default: return batch_.complete(i, KeyStatus::not_found);
    }
  }

  Table& table_;
  Slots const& slots_;
  Host& host_;
  threads::Batch const& batch_;
  threads::Tally& tally_;
};

template <class Table, class Slots, class Host>
class DashGets : DashRun<Table, Slots, Host> {
  using Base = DashRun<Table, Slots, Host>;

 public:
  DashGets(Table& table, Slots const& slots, Host& host, threads::Batch const& batch,
           threads::Tally& tally)
      : Base(table, slots, host, batch, tally) {}

  template <class Give>
  void run(threads::Ops const& ops, Give give) {
    for (std::size_t at = 0; at < ops.count; at += threads::kPiece) {
      exec::EpochGuard const guard(table_.epochs());
      run_piece(ops, at, std::min(ops.count, at + threads::kPiece), give);
    }
  }

 private:
  using Base::batch_;
  using Base::host_;
  using Base::slots_;
  using Base::table_;
  using typename Base::Key;

  // Gets are taken by groups, and each group goes through steps, of which each reads what the one
  // before had fetched: directory entries, metadata, slots, records. Groups follow each other at
  // one step's distance, so that what one has to wait for comes while the others work.
  enum Step : std::size_t { entries, metadata, candidates, records, answers, kSteps };
  static constexpr std::size_t kTogether = 8;
  struct Group {
    std::array<Key, kTogether> keys;
    std::array<std::size_t, kTogether> which{};
    std::array<std::uint64_t, kTogether> segments{};
    std::size_t count = 0;
  };

  template <class Give>
  void run_piece(threads::Ops const& ops, std::size_t from, std::size_t to, Give& give) {
    std::array<Group, kSteps> under_way;
    std::size_t const groups = (to - from + kTogether - 1) / kTogether;
    for (std::size_t turn = 0; turn < groups + kSteps - 1; ++turn) {
      // The furthest first: what it reads was fetched longest ago.
      for (std::size_t step = kSteps; step-- > 0;) {
        if (turn < step || turn - step >= groups) continue;
        std::size_t const g = turn - step, first = from + g * kTogether;
        Group& group = under_way[g % kSteps];
        if (step == entries) take(ops, first, std::min(to, first + kTogether), group);
        advance(static_cast<Step>(step), group, give);
      }
    }
  }
  void take(threads::Ops const& ops, std::size_t from, std::size_t to, Group& group) {
    PERDURE_ASSERT(from < to && to - from <= kTogether);
    exec::ByteColumn const keys = batch_.keys();
    group.count = 0;
    for (std::size_t k = from; k < to; ++k) {
      if (!batch_.pending(ops[k])) continue;
      group.which[group.count] = ops[k];
      group.keys[group.count++] = slots_.key(keys, ops[k]);
    }
  }
  template <class Give>
  void advance(Step step, Group& group, Give& give) {
    auto const each = [&](auto f) {
      for (std::size_t i = 0; i < group.count; ++i) f(i, group.keys[i]);
    };
    auto& segments = group.segments;
    switch (step) {
      case entries:
        return each([&](std::size_t, Key const& key) { table_.prefetch_entry(host_, key.hash); });
      case metadata:
        return each([&](std::size_t i, Key const& key) {
          segments[i] = table_.prefetch_metadata(host_, key.hash);
        });
      case candidates:
        if constexpr (Host::kNear)
          each([&](std::size_t i, Key const& key) {
            table_.prefetch_candidates(host_, segments[i], key.hash);
          });
        return;
      case records:
        if constexpr (Host::kNear && Slots::kRecords)
          each([&](std::size_t i, Key const& key) { this->bring_record_near(segments[i], key); });
        return;
      case answers:
        return each([&](std::size_t i, Key const& key) { find_one(group.which[i], key, give); });
      case kSteps: return;
    }
  }
  template <class Give>
  void find_one(std::size_t i, Key const& key, Give& give) {
    dash::Slot found;
    host_.begin();
    dash::Answer const answer = table_.find(host_, key, found);
    answer == dash::Answer::done ? this->answer(i, key, found, give) : this->complete(i, answer);
  }
};

template <class Table, class Slots, class Host>
class DashWrites : DashRun<Table, Slots, Host> {
  using Base = DashRun<Table, Slots, Host>;

 public:
  DashWrites(Table& table, Slots const& slots, threads::Space& space, Host& host,
             threads::Batch const& batch, threads::Tally& tally)
      : Base(table, slots, host, batch, tally), pieces_(space, table.epochs(), batch, tally) {}

  void run(threads::Ops const& ops) {
    pieces_.run(
        ops, [this](std::size_t i) { return stride_of(i); },
        [&](std::size_t from, std::size_t to) { write_group(ops, from, to); });
  }

 private:
  using typename Base::Key;
  using Write = typename Table::Write;
  using Base::batch_;
  using Base::host_;
  using Base::slots_;
  using Base::table_;
  using Base::tally_;

  void write_group(threads::Ops const& ops, std::size_t from, std::size_t to) {
    exec::ByteColumn const keys = batch_.keys();
    std::array<Key, threads::kGroup> near;
    for (std::size_t k = from; k < to; ++k) {
      if (batch_.pending(ops[k])) near[k - from] = slots_.key(keys, ops[k]);
    }
    bring_near(std::span<Key const>(near).first(to - from));
    for (std::size_t k = from; k < to; ++k) {
      if (batch_.pending(ops[k])) operate(ops[k], near[k - from]);
    }
  }

  void bring_near(std::span<Key const> keys) {
    for (Key const& key : keys) table_.prefetch_entry(host_, key.hash);
    for (Key const& key : keys) table_.prefetch(host_, key.hash);
    if constexpr (Slots::kRecords && Host::kNear) {
      for (Key const& key : keys) this->bring_record_near(table_.segment_of(host_, key.hash), key);
    }
  }

  void operate(std::size_t i, Key const& key) {
    host_.begin();
    switch (batch_.kind(i)) {
      case OpKind::get: return find_one(i, key);
      case OpKind::erase: return erase(i, key);
      case OpKind::put: return replace(i, key, Write::put);
      case OpKind::update:
        return batch_.call->rmw == Rmw::replace ? replace(i, key, Write::update) : compute(i, key);
    }
  }

  void find_one(std::size_t i, Key const& key) {
    dash::Slot found;
    if (dash::Answer const answer = table_.find(host_, key, found); answer != dash::Answer::done)
      return not_done(i, answer);
    auto const give = threads::give_into_output(batch_);
    this->answer(i, key, found, give);
  }

  void erase(std::size_t i, Key const& key) {
    dash::Slot before;
    dash::Answer const answer = table_.erase(host_, key, before);
    if (answer != dash::Answer::done) return not_done(i, answer);
    batch_.complete(i, KeyStatus::ok);
    ++tally_.erased;
    unlink(key, before);
  }

  /// Put, and an update that takes the operand as it is.
  void replace(std::size_t i, Key const& key, Write how) {
    std::uint64_t const stride = stride_of(i);
    std::uint64_t const record = Slots::kRecords ? pieces_.take(stride) : 0;
    dash::Slot const slot = slots_.make(host_, key, batch_.operand(i), record, batch_.sequence);
    std::optional<dash::Slot> before;
    dash::Answer const answer = table_.write(host_, key, slot, how, before);
    if (answer == dash::Answer::done) {
      batch_.complete(i, KeyStatus::ok);
      if (!before) ++tally_.inserted;
      if (before) unlink(key, *before);
      return;
    }
    if (Slots::kRecords) pieces_.put_back(stride, record);
    not_done(i, answer);
  }

  /// An update that computes, under the locks of the key's buckets.
  void compute(std::size_t i, Key const& key) {
    Call const& call = *batch_.call;
    std::uint64_t const stride = stride_of(i);
    std::uint64_t const record = Slots::kRecords ? pieces_.take(stride) : 0;
    KeyStatus status = KeyStatus::not_found;
    auto const change = [&](dash::Slot const& stored) {
      std::uint64_t word = 0;
      std::span<std::byte const> value;
      std::span<std::byte const> const with = batch_.operand(i);
      status = slots_.value(host_, key, stored, word, value);
      if (status == KeyStatus::ok && value.size() != with.size()) status = KeyStatus::size_mismatch;
      if (status != KeyStatus::ok) return stored;
      scratch_.assign(value.begin(), value.end());
      PERDURE_ASSERT(call.rmw != Rmw::replace);
      combine_values(call.rmw, call.element, scratch_, with.data());
      return slots_.make(host_, key, scratch_, record, batch_.sequence);
    };
    dash::Slot before;
    dash::Answer const answer = table_.modify(host_, key, change, before);
    bool const changed = answer == dash::Answer::done;
    changed ? batch_.complete(i, status) : not_done(i, answer);
    if (!Slots::kRecords) return;
    if (changed && status == KeyStatus::ok)
      unlink(key, before);
    else
      pieces_.put_back(stride, record);
  }

  /// Of the record that operation i may write; 0: it writes none.
  [[nodiscard]] std::uint64_t stride_of(std::size_t i) const {
    if constexpr (Slots::kRecords) {
      OpKind const kind = batch_.kind(i);
      if (batch_.pending(i) && (kind == OpKind::put || kind == OpKind::update))
        return slots_.stride(batch_.keys().size(i), batch_.operand(i).size());
    }
    return 0;
  }
  /// A record that no slot leads to any more, unless the slot was damaged: then it may be another
  /// key's.
  void unlink(Key const& key, dash::Slot const& before) {
    if (Slots::kRecords && slots_.leads_to(before, key)) pieces_.unlink(before.first);
  }
  void not_done(std::size_t i, dash::Answer answer) {
    if (answer == dash::Answer::full) return pieces_.refuse(i, table_.why_full());
    this->complete(i, answer);
  }

  threads::WritePieces pieces_;
  std::vector<std::byte> scratch_;  // a value that is computed
};

}  // namespace perdure
