// Operations of batches on a Dash table, for each kind of table and each content of slots: keys and
// values themselves, or records. Runs of operations go in pieces: room for the records of a piece,
// then, under a guard, its operations in array order, 16 keys brought near at a time. Invariant: a
// record is written and ordered before a slot leads to it, and what a piece unlinked comes back
// only when no guard is left that could have seen it.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/assert.hpp"
#include "base/hash.hpp"
#include "batch/arithmetic.hpp"
#include "exec/counts.hpp"
#include "exec/epochs.hpp"
#include "index/dash/keys.hpp"
#include "pm/counted_host.hpp"
#include "pm/host.hpp"
#include "store/dash/dash_engine.hpp"
#include "store/dash/dash_records.hpp"
#include "store/dash/dash_reservation.hpp"
#include "store/dash/gives_up.hpp"

namespace perdure {

/// `Table` is one of index/dash's, over InlineKeys or over RecordKeys<DashRecords>.
template <class Table, class Keys>
class DashEngineOn final : public DashEngine {
 public:
  DashEngineOn(pm::Pool& pool, Mutex& memory, DashSpace& space, DashOptions const& options)
      : options_(options),
        space_(&space),
        records_(pool.base(), space.shape(), space.pool_bytes()),
        durable_(pool.addresses()),
        fixed_stride_(options.key_bytes != 0 && options.value_bytes != 0
                          ? pm::fixed_stride(pool.header())
                          : 0),
        table_(pool, memory, make_keys(), options.segments) {}

  Status create(Offset index, std::uint32_t depth) override {
    OrderedHost host(options_.given_up);
    return table_.create(host, index, depth);
  }
  Status open(Offset index, bool sound, bool summed) override {
    OrderedHost host(options_.given_up);
    return table_.open(host, index, sound, summed);
  }
  void begin_mending() override {
    pm::OrderedHost host;
    exec::EpochGuard const guard(table_.epochs());
    table_.begin_mending(host);
  }
  std::vector<std::string> mended() override { return table_.mended(); }

  void get(DashBatch const& batch, DashOps const& ops, DashTally& tally) override {
    MutableColumn const& out = batch.call->out;
    find_each(batch, ops, tally, [&](std::size_t i, std::span<std::byte const> value) {
      PERDURE_ASSERT(!kCostlyAssertions || (value.size() == out.width && i < out.count));
      std::memcpy(out.data + i * out.width, value.data(), value.size());
    });
  }

  void get_variable(DashBatch const& batch, DashOps const& ops, std::vector<std::byte>& values,
                    std::int64_t* lengths, DashTally& tally) override {
    for (std::size_t k = 0; k < ops.count; ++k) lengths[ops[k]] = 0;
    find_each(batch, ops, tally, [&](std::size_t i, std::span<std::byte const> value) {
      values.insert(values.end(), value.begin(), value.end());
      lengths[i] = static_cast<std::int64_t>(value.size());
    });
  }

  void write(DashBatch const& batch, DashOps const& ops, DashTally& tally) override {
    on_host(tally, [&](auto& host) { write_on(host, batch, ops, tally); });
  }

  Status why_refused() override {
    std::lock_guard const lock(why_mutex_);
    return why_refused_.ok() ? table_.why_full() : why_refused_;
  }

  Status why_damaged() override { return table_.why_damaged(); }

  DashPage page(std::uint64_t from, std::size_t limit, DashVisitor const& visit) override;

  DashCount count() override {
    OrderedHost host(options_.given_up);
    DashCount count;
    std::uint64_t position = 0;
    do {
      exec::EpochGuard const guard(table_.epochs());
      auto const next = table_.walk(host, position, [&](dash::Slot) { ++count.records; });
      count.whole &= next.has_value();
      position = next ? *next : table_.beyond(host, position);
    } while (position != 0);
    return count;
  }

  std::vector<std::uint64_t> positions(DashFaults& faults) override;
  void check(std::span<std::uint64_t const> positions, DashFaults& faults) override;
  bool sweep(std::function<bool()> const& go_on) override;

  DashShape shape() override {
    OrderedHost host(options_.given_up);
    exec::EpochGuard const guard(table_.epochs());
    std::uint64_t const segments = table_.segments(host);
    dash::SegmentShape const segment = table_.ops().shape();
    std::uint64_t const slots = std::uint64_t{segment.buckets + segment.stash} * dash::kSlots;
    return {segments, segments * slots, table_.splits()};
  }

  std::uint32_t depth() override {
    OrderedHost host(options_.given_up);
    exec::EpochGuard const guard(table_.epochs());
    return table_.depth(host);
  }

  std::uint64_t noted_count() override { return pm::OrderedHost::load(&table_.root()->counted); }
  void note_count(std::uint64_t records) override {
    pm::store_word(&table_.root()->counted, records);
    pm::order();
  }
  bool store_sums() override {
    pm::OrderedHost host;
    return table_.store_sums(host);
  }

 private:
  static constexpr bool kInline = std::is_same_v<Keys, dash::InlineKeys>;
  static constexpr std::size_t kPiece = 256;  // operations between two guards
  static constexpr std::size_t kGroup = 16;  // whose lines are on their way at a time
  // records for readers to let go of, until somebody looks
  static constexpr std::uint64_t kMostWaiting = 1024;
  using Key = typename Keys::Key;
  using Write = typename Table::Write;
  using OrderedHost = GivesUp<pm::OrderedHost>;

  Keys make_keys() {
    if constexpr (kInline)
      return Keys(options_.key_bytes);
    else
      return Keys(records_);
  }
  static exec::ByteColumn bytes_of(Column const& column) {
    return {column.data, column.offsets, column.width};
  }
  [[nodiscard]] Key key_of(exec::ByteColumn const& keys, std::size_t i) const {
    if constexpr (kInline)
      return table_.ops().keys().key(keys.at(i));
    else
      return Keys::key(keys.at(i), keys.size(i));
  }
  static OpKind kind_of(Call const& call, std::size_t i) {
    return call.kinds.empty() ? call.kind : call.kinds[i];
  }
  static void complete(DashBatch const& batch, std::size_t i, KeyStatus status) {
    PERDURE_ASSERT(!kCostlyAssertions || i < batch.call->keys.count);
    batch.status[i] = static_cast<std::uint8_t>(status);
  }

  template <class F>
  void on_host(DashTally& tally, F f) {
    if (!options_.count_accesses) {
      OrderedHost host(options_.given_up);
      return f(host);
    }
    GivesUp<pm::CountedHost> host(options_.given_up, durable_);
    f(host);
    tally.reads += host.counts().lines_read;
    tally.writes += host.counts().lines_flushed;
    tally.orders += host.counts().fences;
  }

  // --- Finding
  // -----------------------------------------------------------------------------------------------

  static KeyStatus status_of(dash::Answer answer) {
    switch (answer) {
      case dash::Answer::done: return KeyStatus::ok;
      case dash::Answer::damaged: return KeyStatus::corrupt;
      default: return KeyStatus::not_found;
    }
  }

  /// Whether a slot leads to a record of this key, and so has it to itself; else it is damaged.
  [[nodiscard]] bool leads_to(dash::Slot const& slot, Key const& key) const {
    if constexpr (kInline)
      return true;
    else
      return records_.has(slot.first, key.bytes, key.size);
  }

  /// The value that a key's slot leads to, or why it cannot be had. `word` is where an inline value
  /// is put.
  template <class Host>
  KeyStatus value_at(Host& host, Key const& key, dash::Slot const& slot, std::uint64_t& word,
                     std::span<std::byte const>& value) const {
    if constexpr (kInline) {
      word = slot.second;
      value = {reinterpret_cast<std::byte const*>(&word), options_.value_bytes};
      return KeyStatus::ok;
    } else {
      auto const record = records_.view(slot.first);
      if (!record || (options_.verify_reads && !DashRecords::intact(*record)) ||
          !leads_to(slot, key))
        return KeyStatus::corrupt;
      value = {record->value, record->header.value_bytes};
      host.read(value.data(), value.size());
      bool const fits = options_.value_bytes == 0 || value.size() == options_.value_bytes;
      return fits ? KeyStatus::ok : KeyStatus::corrupt;
    }
  }

  template <class Host>
  void bring_near(Host& host, std::span<Key const> keys) {
    for (Key const& key : keys) table_.prefetch_entry(host, key.hash);
    for (Key const& key : keys) table_.prefetch(host, key.hash);
    if constexpr (!kInline && Host::kNear) {
      for (Key const& key : keys) {
        table_.guess(host, key.hash, [&](dash::Slot const& slot) {
          if (slot.second == key.hash) records_.prefetch(slot.first, likely_bytes());
        });
      }
    }
  }
  /// Of a record; where they have any length, its first lines.
  [[nodiscard]] std::uint64_t likely_bytes() const {
    return fixed_stride_ != 0 ? fixed_stride_ : 2 * pm::kCacheLine;
  }

  template <class Give>
  void find_each(DashBatch const& batch, DashOps const& ops, DashTally& tally, Give give) {
    on_host(tally, [&](auto& host) {
      for (std::size_t at = 0; at < ops.count; at += kPiece) {
        exec::EpochGuard const guard(table_.epochs());
        for (std::size_t from = at; from < std::min(ops.count, at + kPiece); from += kGroup)
          find_group(host, batch, ops, from, std::min({ops.count, at + kPiece, from + kGroup}),
                     tally, give);
      }
    });
  }

  template <class Host, class Give>
  void find_group(Host& host, DashBatch const& batch, DashOps const& ops, std::size_t from,
                  std::size_t to, DashTally& tally, Give& give) {
    PERDURE_ASSERT(from < to && to - from <= kGroup);
    exec::ByteColumn const keys = bytes_of(batch.call->keys);
    std::array<Key, kGroup> near;
    std::array<std::size_t, kGroup> which{};
    std::size_t n = 0;
    for (std::size_t k = from; k < to; ++k) {
      if (batch.status[ops[k]] != kPending) continue;
      which[n] = ops[k];
      near[n++] = key_of(keys, ops[k]);
    }
    bring_near(host, std::span(near).first(n));
    std::array<dash::Slot, kGroup> found;
    for (std::size_t k = 0; k < n; ++k) {
      host.begin();
      dash::Answer const answer = table_.find(host, near[k], found[k]);
      complete(batch, which[k], status_of(answer));
      tally.damaged += answer == dash::Answer::damaged;
    }
    for (std::size_t k = 0; k < n; ++k) {
      if (batch.status[which[k]] == static_cast<std::uint8_t>(KeyStatus::ok))
        answer(host, batch, which[k], near[k], found[k], give);
    }
  }

  template <class Host, class Give>
  void answer(Host& host, DashBatch const& batch, std::size_t i, Key const& key,
              dash::Slot const& slot, Give& give) const {
    std::uint64_t word = 0;
    std::span<std::byte const> value;
    KeyStatus const status = value_at(host, key, slot, word, value);
    complete(batch, i, status);
    if (status == KeyStatus::ok) give(i, value);
  }

  // --- Writing
  // -----------------------------------------------------------------------------------------------

  /// Of the record that operation i may write; 0: it writes none.
  [[nodiscard]] std::uint64_t stride_of(DashBatch const& batch, std::size_t i) const {
    OpKind const kind = kind_of(*batch.call, i);
    if (kInline || batch.status[i] != kPending || (kind != OpKind::put && kind != OpKind::update))
      return 0;
    if (fixed_stride_ != 0) return fixed_stride_;
    return pm::stride_for(
        pm::record_bytes(bytes_of(batch.call->keys).size(i), bytes_of(batch.call->values).size(i)));
  }

  /// What a piece needs beside its operations.
  struct Piece {
    DashBatch const& batch;
    DashTally& tally;
    DashReservation& records;
    std::vector<std::uint64_t> unlinked;
    std::vector<std::byte> scratch;  // a value that is computed
  };

  template <class Host>
  void write_on(Host& host, DashBatch const& batch, DashOps const& ops, DashTally& tally) {
    DashReservation reservation(*space_, table_.epochs());
    Piece piece{batch, tally, reservation, {}, {}};
    std::array<std::uint64_t, kPiece> strides{};
    for (std::size_t at = 0; at < ops.count;) {
      std::size_t n = std::min(kPiece, ops.count - at);
      if constexpr (!kInline) {
        for (std::size_t k = 0; k < n; ++k) strides[k] = stride_of(batch, ops[at + k]);
        n = reservation.fill(std::span(strides).first(n));
        if (n == 0) {
          refuse(piece, ops[at++], reservation.refusal());
          continue;
        }
      }
      PERDURE_ASSERT(n > 0 && n <= kPiece);  // else there is no end
      write_piece(host, piece, ops, at, at + n);
      at += n;
    }
  }

  void refuse(Piece& piece, std::size_t i, Status const& why) {
    PERDURE_ASSERT(piece.batch.status[i] == kPending);  // nothing has been done for it
    complete(piece.batch, i, KeyStatus::no_space);
    ++piece.tally.refused;
    std::lock_guard const lock(why_mutex_);
    why_refused_ = why;
  }

  template <class Host>
  void write_piece(Host& host, Piece& piece, DashOps const& ops, std::size_t from, std::size_t to) {
    PERDURE_ASSERT(piece.unlinked.empty());  // of the piece before
    std::uint64_t waiting = 0;
    {
      exec::EpochGuard const guard(table_.epochs());
      for (std::size_t at = from; at < to; at += kGroup)
        write_group(host, piece, ops, at, std::min(to, at + kGroup));
      if (piece.unlinked.empty()) return;
      PERDURE_ASSERT(piece.unlinked.size() <= to - from);  // one an operation at most
      piece.records.freed();
      waiting = space_->wait_for_readers(piece.unlinked.size());
      table_.epochs().retire([space = space_, records = std::exchange(piece.unlinked, {})] {
        space->give_waiting(records);
      });
    }
    if (waiting > kMostWaiting) table_.epochs().collect();
  }

  template <class Host>
  void write_group(Host& host, Piece& piece, DashOps const& ops, std::size_t from, std::size_t to) {
    exec::ByteColumn const keys = bytes_of(piece.batch.call->keys);
    std::array<Key, kGroup> near;
    for (std::size_t k = from; k < to; ++k) {
      if (piece.batch.status[ops[k]] == kPending) near[k - from] = key_of(keys, ops[k]);
    }
    bring_near(host, std::span(near).first(to - from));
    for (std::size_t k = from; k < to; ++k) {
      if (piece.batch.status[ops[k]] == kPending) operate(host, piece, ops[k], near[k - from]);
    }
  }

  template <class Host>
  void operate(Host& host, Piece& piece, std::size_t i, Key const& key) {
    Call const& call = *piece.batch.call;
    host.begin();
    switch (kind_of(call, i)) {
      case OpKind::get: return find_one(host, piece, i, key);
      case OpKind::erase: return erase(host, piece, i, key);
      case OpKind::put: return replace(host, piece, i, key, Write::put);
      case OpKind::update:
        return call.rmw == Rmw::replace ? replace(host, piece, i, key, Write::update)
                                        : compute(host, piece, i, key);
    }
  }

  template <class Host>
  void find_one(Host& host, Piece& piece, std::size_t i, Key const& key) {
    dash::Slot found;
    if (dash::Answer const answer = table_.find(host, key, found); answer != dash::Answer::done)
      return not_done(piece, i, answer);
    MutableColumn const& out = piece.batch.call->out;
    auto const give = [&](std::size_t at, std::span<std::byte const> value) {
      std::memcpy(out.data + at * out.width, value.data(), value.size());
    };
    answer(host, piece.batch, i, key, found, give);
  }

  void not_done(Piece& piece, std::size_t i, dash::Answer answer) {
    if (answer == dash::Answer::full) return refuse(piece, i, {});
    complete(piece.batch, i, status_of(answer));
    piece.tally.damaged += answer == dash::Answer::damaged;
  }
  /// A record that no slot leads to any more, unless the slot was damaged: then it may be another
  /// key's.
  void unlink(Piece& piece, Key const& key, dash::Slot const& before) {
    if (!kInline && leads_to(before, key)) piece.unlinked.push_back(before.first);
  }

  template <class Host>
  void erase(Host& host, Piece& piece, std::size_t i, Key const& key) {
    dash::Slot before;
    dash::Answer const answer = table_.erase(host, key, before);
    if (answer != dash::Answer::done) return not_done(piece, i, answer);
    complete(piece.batch, i, KeyStatus::ok);
    ++piece.tally.erased;
    unlink(piece, key, before);
  }

  /// A slot for this key and value; of records, one is written.
  template <class Host>
  dash::Slot make_slot(Host& host, Piece& piece, Key const& key, std::span<std::byte const> value,
                       std::uint64_t record) {
    if constexpr (kInline) {
      dash::Slot slot{key.word, 0};
      PERDURE_ASSERT(value.size() <= sizeof slot.second);
      std::memcpy(&slot.second, value.data(), value.size());
      return slot;
    } else {
      auto const bytes = static_cast<std::uint32_t>(value.size());
      records_.write(host, record,
                     {{0, bytes, static_cast<std::uint32_t>(key.size), 0, piece.batch.sequence},
                      key.bytes,
                      value.data()});
      return {record, key.hash};
    }
  }

  [[nodiscard]] static std::span<std::byte const> operand(Call const& call, std::size_t i) {
    exec::ByteColumn const values = bytes_of(call.values);
    return {values.at(i), values.size(i)};
  }

  /// Put, and an update that takes the operand as it is.
  template <class Host>
  void replace(Host& host, Piece& piece, std::size_t i, Key const& key, Write how) {
    std::uint64_t const stride = stride_of(piece.batch, i);
    std::uint64_t const record = kInline ? 0 : piece.records.take(stride);
    dash::Slot const slot = make_slot(host, piece, key, operand(*piece.batch.call, i), record);
    PERDURE_ASSERT((record == 0) == kInline);
    std::optional<dash::Slot> before;
    dash::Answer const answer = table_.write(host, key, slot, how, before);
    if (answer == dash::Answer::done) {
      complete(piece.batch, i, KeyStatus::ok);
      if (!before) ++piece.tally.inserted;
      if (before) unlink(piece, key, *before);
      return;
    }
    if (!kInline) piece.records.put_back(stride, record);
    not_done(piece, i, answer);
  }

  /// An update that computes, under the locks of the key's buckets.
  template <class Host>
  void compute(Host& host, Piece& piece, std::size_t i, Key const& key) {
    Call const& call = *piece.batch.call;
    std::uint64_t const stride = stride_of(piece.batch, i);
    std::uint64_t const record = kInline ? 0 : piece.records.take(stride);
    KeyStatus status = KeyStatus::not_found;
    auto const change = [&](dash::Slot const& stored) {
      std::uint64_t word = 0;
      std::span<std::byte const> value;
      std::span<std::byte const> const with = operand(call, i);
      status = value_at(host, key, stored, word, value);
      if (status == KeyStatus::ok && value.size() != with.size()) status = KeyStatus::size_mismatch;
      if (status != KeyStatus::ok) return stored;
      piece.scratch.assign(value.begin(), value.end());
      PERDURE_ASSERT(call.rmw != Rmw::replace);
      combine_values(call.rmw, call.element, piece.scratch, with.data());
      return make_slot(host, piece, key, piece.scratch, record);
    };
    dash::Slot before;
    dash::Answer const answer = table_.modify(host, key, change, before);
    bool const changed = answer == dash::Answer::done;
    changed ? complete(piece.batch, i, status) : not_done(piece, i, answer);
    if (kInline) return;
    if (changed && status == KeyStatus::ok)
      unlink(piece, key, before);
    else
      piece.records.put_back(stride, record);
  }

  [[nodiscard]] std::string fault_of(dash::Slot const& slot) const;
  [[nodiscard]] std::span<std::byte const> key_at(dash::Slot const& slot,
                                                  std::uint64_t& word) const;

  DashOptions options_;
  DashSpace* space_;
  DashRecords records_;
  pm::DurableRange durable_;
  std::uint64_t fixed_stride_;
  std::mutex why_mutex_;
  Status why_refused_;  // guarded by why_mutex_
  Table table_;
};

}  // namespace perdure
