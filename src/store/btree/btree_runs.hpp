// A run of a batch's operations by one thread, on a B+-tree. Invariants:
//
//  * A record is durable, whole, before an entry leads to it.
//  * A record is used again only when no guard is left that could have seen it, and nothing in
//    storage says by then that it counts.
//
// Where the tree is volatile, records say themselves whether they count:
//
//  * A record is valid before the one that it replaces is freed; that one is freed under its leaf's
//    lock, so of one key never two are left when a batch is acknowledged, and an erasure never
//    leaves an older one behind.
//  * The sequence of a record is above that of the one it replaces, whatever the order in which
//    batches took their numbers. So after a crash the higher one is the newer.
//  * An update of a key that is not there has left nothing valid.
//  * An erasure is durable before the entry goes.
//
// Where its leaves are durable, what counts is what an entry leads to, and records say nothing.
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
#include "base/hooks.hpp"
#include "batch/arithmetic.hpp"
#include "exec/counts.hpp"
#include "exec/epochs.hpp"
#include "pm/heap.hpp"
#include "pm/record.hpp"
#include "store/btree/btree_reader.hpp"
#include "store/threads/gives.hpp"
#include "store/threads/write_pieces.hpp"

namespace perdure {

/// What runs of one tree share.
template <class Table, class KeysOfTable>
struct BtreeParts {
  using Keys = KeysOfTable;
  static constexpr bool kAlone = !Table::kDurable;  // records say themselves whether they count
  Table& table;
  BtreeRecords records;
  BtreeKeyMaker<Keys> make_key;
  BtreeOptions const& options;
  threads::Space& space;
  threads::BatchNumbers& numbers;
};

/// What gets and writes share: a group's keys, found.
template <class Parts, class Host>
class BtreeRun {
 protected:
  BtreeRun(Parts& parts, Host& host, threads::Batch const& batch, threads::Tally& tally)
      : parts_(parts),
        host_(host),
        batch_(batch),
        tally_(tally),
        reader_(parts.table, parts.records, parts.options, host) {}

  struct Group {
    std::size_t count = 0;
    std::array<std::size_t, threads::kGroup> which;
    std::array<btree::Key, threads::kGroup> keys;
    std::array<btree::Answer, threads::kGroup> answers;
    std::array<std::uint64_t, threads::kGroup> words;
  };

  /// Finds the keys of ops[from] to ops[to - 1], and brings their records near.
  void find(threads::Ops const& ops, std::size_t from, std::size_t to, Group& group) {
    PERDURE_ASSERT(from < to && to - from <= threads::kGroup);
    exec::ByteColumn const keys = batch_.keys();
    group.count = 0;
    for (std::size_t k = from; k < to; ++k) {
      if (!batch_.pending(ops[k])) continue;
      group.which[group.count] = ops[k];
      group.keys[group.count++] = parts_.make_key({keys.at(ops[k]), keys.size(ops[k])});
    }
    host_.begin();
    host_.enters(pm::Part::index);
    parts_.table.find_group(host_, std::span<btree::Key const>(group.keys).first(group.count),
                            std::span(group.answers).first(group.count),
                            std::span(group.words).first(group.count));
    if constexpr (!Host::kNear) return;
    for (std::size_t k = 0; k < group.count; ++k)
      if (group.answers[k] == btree::Answer::done) parts_.records.prefetch(group.words[k], kNear);
  }

  /// give(i, value) for the value of operation i's key, whose entry was found to have that word.
  template <class Give>
  void answer(std::size_t i, btree::Key const& key, std::uint64_t word, Give& give) {
    std::span<std::byte const> value;
    KeyStatus const status = reader_.value(key, word, value);
    batch_.complete(i, status == KeyStatus::ok ? give(i, value) : status);
  }
  void complete(std::size_t i, btree::Answer answer) {
    tally_.damaged += answer == btree::Answer::damaged;
    batch_.complete(i,
                    answer == btree::Answer::damaged ? KeyStatus::corrupt : KeyStatus::not_found);
  }

  Parts& parts_;
  Host& host_;
  threads::Batch const& batch_;
  threads::Tally& tally_;
  BtreeReader<std::remove_reference_t<decltype(std::declval<Parts>().table)>, Host> reader_;

 private:
  static constexpr std::uint64_t kNear = 2 * pm::kCacheLine;
};

template <class Parts, class Host>
class BtreeGets : BtreeRun<Parts, Host> {
  using Base = BtreeRun<Parts, Host>;

 public:
  BtreeGets(Parts& parts, Host& host, threads::Batch const& batch, threads::Tally& tally)
      : Base(parts, host, batch, tally) {}

  template <class Give>
  void run(threads::Ops const& ops, Give give) {
    typename Base::Group group;
    for (std::size_t at = 0; at < ops.count; at += threads::kPiece) {
      exec::EpochGuard const guard(this->parts_.table.epochs());
      std::size_t const end = std::min(ops.count, at + threads::kPiece);
      for (std::size_t from = at; from < end; from += threads::kGroup) {
        this->find(ops, from, std::min(end, from + threads::kGroup), group);
        for (std::size_t k = 0; k < group.count; ++k) {
          group.answers[k] == btree::Answer::done
              ? this->answer(group.which[k], group.keys[k], group.words[k], give)
              : this->complete(group.which[k], group.answers[k]);
        }
      }
    }
  }
};

template <class Parts, class Host>
class BtreeWrites : BtreeRun<Parts, Host> {
  using Base = BtreeRun<Parts, Host>;

 public:
  BtreeWrites(Parts& parts, Host& host, threads::Batch const& batch, threads::Tally& tally)
      : Base(parts, host, batch, tally), pieces_(parts.space, parts.table.epochs(), batch, tally) {}

  void run(threads::Ops const& ops) {
    typename Base::Group group;
    pieces_.run(
        ops, [this](std::size_t i) { return stride_of(i); },
        [&](std::size_t from, std::size_t to) {
          this->find(ops, from, to, group);
          for (std::size_t k = 0; k < group.count; ++k) {
            host_.begin();
            operate(group.which[k], group.keys[k], group.answers[k] == btree::Answer::done);
          }
          host_.enters(pm::Part::space);
        });
  }

 private:
  using Base::batch_;
  using Base::host_;
  using Base::parts_;
  using Base::tally_;

  /// `likely`: the key was there a moment ago.
  void operate(std::size_t i, btree::Key const& key, bool likely) {
    switch (batch_.kind(i)) {
      case OpKind::get: return find_one(i, key);
      case OpKind::erase: return erase(i, key);
      case OpKind::put: return put(i, key, likely);
      case OpKind::update:
        return batch_.call->rmw == Rmw::replace ? update(i, key) : compute(i, key);
    }
  }

  void find_one(std::size_t i, btree::Key const& key) {
    std::uint64_t word = 0;
    btree::Answer const answer = parts_.table.find(host_, key, word);
    if (answer != btree::Answer::done) return this->complete(i, answer);
    auto const give = threads::give_into_output(batch_);
    this->answer(i, key, word, give);
  }

  void erase(std::size_t i, btree::Key const& key) {
    std::uint64_t word = 0;
    auto const last = [&](std::uint64_t leads_to) {
      if (!mutated("btree_erase_not_marked")) free(leads_to);
    };
    btree::Answer const answer = parts_.table.erase(host_, key, last, word);
    if (answer != btree::Answer::done) return not_done(i, answer);
    batch_.complete(i, KeyStatus::ok);
    ++tally_.erased;
    pieces_.unlink(word);
  }

  /// Of a key that is there the record is replaced, else it is inserted; and over again where
  /// another thread came in between.
  void put(std::size_t i, btree::Key const& key, bool likely) {
    std::uint64_t const stride = stride_of(i), record = pieces_.take(stride);
    std::uint64_t sequence = sequence_of(i);
    prepare(record, sequence, key, batch_.operand(i));
    for (bool there = likely;; there = !there) {
      btree::Answer const answer =
          there ? replace(key, record, sequence) : insert(key, record, sequence);
      if (answer == btree::Answer::done) return batch_.complete(i, KeyStatus::ok);
      if (answer == (there ? btree::Answer::not_found : btree::Answer::exists)) continue;
      pieces_.put_back(stride, record);
      return not_done(i, answer);
    }
  }
  btree::Answer insert(btree::Key const& key, std::uint64_t record, std::uint64_t sequence) {
    validate(record, sequence);
    std::optional<std::uint64_t> before;
    btree::Answer const answer =
        parts_.table.write(host_, key, record, btree::Write::insert, before);
    if (answer == btree::Answer::done) {
      ++tally_.inserted;
      return answer;
    }
    free(record);
    return answer;
  }
  btree::Answer replace(btree::Key const& key, std::uint64_t record, std::uint64_t& sequence) {
    std::uint64_t before = 0;
    auto const change = [&](std::uint64_t stored) {
      supersede(stored, record, sequence);
      return record;
    };
    btree::Answer const answer = parts_.table.modify(host_, key, change, before);
    if (answer == btree::Answer::done) pieces_.unlink(before);
    return answer;
  }

  /// An update that takes the operand as it is.
  void update(std::size_t i, btree::Key const& key) {
    std::uint64_t const stride = stride_of(i), record = pieces_.take(stride);
    std::uint64_t sequence = sequence_of(i);
    prepare(record, sequence, key, batch_.operand(i));
    if (mutated("btree_update_leaves_valid")) validate(record, sequence);
    btree::Answer const answer = replace(key, record, sequence);
    if (answer == btree::Answer::done) return batch_.complete(i, KeyStatus::ok);
    pieces_.put_back(stride, record);
    not_done(i, answer);
  }

  /// An update that computes, under the lock of the key's leaf.
  void compute(std::size_t i, btree::Key const& key) {
    std::uint64_t const stride = stride_of(i), record = pieces_.take(stride);
    KeyStatus status = KeyStatus::not_found;
    std::uint64_t early = 0;
    if (mutated("btree_computed_before_lock")) parts_.table.find(host_, key, early);
    auto const change = [&](std::uint64_t stored) {
      std::span<std::byte const> value;
      std::span<std::byte const> const with = batch_.operand(i);
      status = this->reader_.value_now(key, early != 0 ? early : stored, value);
      if (status == KeyStatus::ok && value.size() != with.size()) status = KeyStatus::size_mismatch;
      if (status != KeyStatus::ok) return stored;
      scratch_.assign(value.begin(), value.end());
      PERDURE_ASSERT(batch_.call->rmw != Rmw::replace);
      combine_values(batch_.call->rmw, batch_.call->element, scratch_, with.data());
      std::uint64_t sequence = sequence_of(i);
      prepare(record, sequence, key, scratch_);
      supersede(stored, record, sequence);
      return record;
    };
    std::uint64_t before = 0;
    btree::Answer const answer = parts_.table.modify(host_, key, change, before);
    bool const changed = answer == btree::Answer::done;
    changed ? batch_.complete(i, status) : not_done(i, answer);
    if (changed && status == KeyStatus::ok)
      pieces_.unlink(before);
    else
      pieces_.put_back(stride, record);
  }

  /// Under the leaf's lock: the prepared record counts from here on, and the stored one no more.
  void supersede(std::uint64_t stored, std::uint64_t record, std::uint64_t& sequence) {
    if constexpr (Parts::kAlone) {
      std::uint64_t const older = parts_.records.view(host_, stored).header.sequence;
      if (mutated("btree_replaced_freed_first")) free(stored);
      if (older >= sequence && !mutated("btree_sequence_not_above")) {
        sequence = parts_.numbers.take(1);  // above it, unless that one is damaged
        pm::prepare_again(host_, parts_.records.at(record), sequence);
      }
      if (mutated("btree_replaced_freed_before_durable")) {
        host_.store(pm::sequence_word(parts_.records.at(record)), sequence);
        free(stored);
      }
      validate(record, sequence);
      if (!mutated("btree_replaced_not_freed")) free(stored);
    }
  }

  void prepare(std::uint64_t record, std::uint64_t sequence, btree::Key const& key,
               std::span<std::byte const> value) {
    pm::RecordHeader const header{0, static_cast<std::uint32_t>(value.size()),
                                  static_cast<std::uint32_t>(key.size), 0, sequence};
    std::byte* const at = parts_.records.at(record);
    host_.enters(pm::Part::value);
    Parts::kAlone ? pm::prepare_record(host_, at, header, key.bytes, value.data())
                  : pm::write_whole(host_, at, header, key.bytes, value.data());
    host_.enters(pm::Part::index);
  }
  void validate(std::uint64_t record, std::uint64_t sequence) {
    if constexpr (Parts::kAlone) {
      host_.enters(pm::Part::value);
      pm::make_valid(host_, parts_.records.at(record), sequence);
      host_.enters(pm::Part::index);
    }
  }
  void free(std::uint64_t record) {
    if constexpr (Parts::kAlone) {
      host_.enters(pm::Part::space);
      pm::make_free(host_, parts_.records.at(record));
      host_.enters(pm::Part::index);
    }
  }

  [[nodiscard]] std::uint64_t sequence_of(std::size_t i) const { return batch_.sequence + i; }
  /// Of the record that operation i may write; 0: it writes none.
  [[nodiscard]] std::uint64_t stride_of(std::size_t i) const {
    OpKind const kind = batch_.kind(i);
    if (!batch_.pending(i) || (kind != OpKind::put && kind != OpKind::update)) return 0;
    return pm::stride_for(pm::record_bytes(batch_.keys().size(i), batch_.operand(i).size()));
  }
  void not_done(std::size_t i, btree::Answer answer) {
    if (answer == btree::Answer::full) return pieces_.refuse(i, parts_.table.why_full());
    this->complete(i, answer);
  }

  threads::WritePieces pieces_;
  std::vector<std::byte> scratch_;  // a value that is computed
};

}  // namespace perdure
