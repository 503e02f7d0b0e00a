// Going through all records of a pool, superblock by superblock: an opening makes the tree of them,
// a check compares them with it. Invariant: neither changes anything in the pool.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/assert.hpp"
#include "base/hooks.hpp"
#include "exec/epochs.hpp"
#include "pm/record_shape.hpp"
#include "store/btree/btree_reader.hpp"
#include "store/btree/btree_runs.hpp"

namespace perdure {

template <class Parts, class Host>
class BtreeLook {
 public:
  using Superblock = BtreeEngine::Superblock;

  BtreeLook(Parts& parts, Host& host)
      : parts_(parts),
        host_(host),
        shape_(parts.space.shape()),
        reader_(parts.table, parts.records, parts.options, host) {}

  void rebuild(std::span<Superblock const> superblocks, BtreeFound& found) {
    for_each_valid(superblocks, [&](std::uint64_t at, pm::SequencedRecord const& record) {
      if (reader_.fault(record) != nullptr) return found.damaged.push_back(at);
      host_.enters(pm::Part::space);
      if (!mutated("btree_rebuild_notes_nothing")) static_cast<void>(parts_.space.note_used(at));
      host_.enters(pm::Part::index);
      insert(at, record, found);
      host_.enters(pm::Part::value);
    });
  }

  void check(std::span<Superblock const> superblocks, threads::Faults& faults) {
    for_each_valid(superblocks, [&](std::uint64_t at, pm::SequencedRecord const& record) {
      char const* fault = reader_.fault(record);
      if (fault == nullptr) fault = misled(at, record);
      if (fault == nullptr) {
        ++faults.good;
      } else {
        faults.add("record at byte " + std::to_string(at) + ": " + fault);
      }
    });
  }

 private:
  template <class F>
  void for_each_valid(std::span<Superblock const> superblocks, F f) {
    for (Superblock const& superblock : superblocks) {
      exec::EpochGuard const guard(parts_.table.epochs());
      for (std::uint64_t i = 0; i < shape_.capacity(superblock.stride); ++i) {
        std::uint64_t const at = superblock.at + shape_.address(superblock.stride, i);
        pm::SequencedRecord const record =
            pm::view_sequenced(host_, parts_.records.at(at), superblock.stride);
        if (record.free()) continue;
        host_.read(record.key, std::uint64_t{record.header.key_bytes} + record.header.value_bytes);
        f(at, record);
      }
    }
  }

  /// Of two records with one key the tree gets the one with the higher sequence.
  void insert(std::uint64_t at, pm::SequencedRecord const& record, BtreeFound& found) {
    btree::Key const key = parts_.make_key(record.key_bytes());
    std::optional<std::uint64_t> there;
    btree::Answer const answer = parts_.table.write(host_, key, at, btree::Write::insert, there);
    if (answer == btree::Answer::done) {
      ++found.records;
      return;
    }
    if (answer != btree::Answer::exists) {
      found.full = {Code::no_space, "there is no memory for the tree of its keys"};
      return;
    }
    std::uint64_t loser = at;
    auto const keep_newer = [&](std::uint64_t stored) {
      std::uint64_t const sequence = parts_.records.view(host_, stored).header.sequence;
      if (sequence >= record.header.sequence) return stored;
      loser = stored;
      return at;
    };
    std::uint64_t before = 0;
    static_cast<void>(parts_.table.modify(host_, key, keep_newer, before));
    found.superseded.push_back(loser);
  }

  /// Whether the tree leads elsewhere; null: it does not.
  char const* misled(std::uint64_t at, pm::SequencedRecord const& record) {
    std::uint64_t word = 0;
    switch (parts_.table.find(host_, parts_.make_key(record.key_bytes()), word)) {
      case btree::Answer::done: return word == at ? nullptr : "its key stands twice";
      case btree::Answer::not_found: return "gets do not find its key";
      default: return "a record that its key is compared with is damaged";
    }
  }

  Parts& parts_;
  Host& host_;
  pm::RecordShape const& shape_;
  BtreeReader<std::remove_reference_t<decltype(std::declval<Parts>().table)>, Host> reader_;
};

}  // namespace perdure
