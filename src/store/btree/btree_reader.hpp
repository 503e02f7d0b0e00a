// What a key's entry leads to, for readers that lock nothing. Invariant: a value comes from a
// record that was valid while it was looked at, or from the newest under the leaf's lock. Where
// records say themselves whether they count, who meets one that is free looks the key up again: so
// nobody sees what an update or a deletion that is not durable yet has changed.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "base/assert.hpp"
#include "index/btree/tree.hpp"
#include "perdure/batch.h"
#include "store/btree/btree_engine.hpp"
#include "store/btree/btree_records.hpp"

namespace perdure {

template <class Table, class Host>
class BtreeReader {
 public:
  BtreeReader(Table& table, BtreeRecords const& records, BtreeOptions const& options, Host& host)
      : table_(table), records_(records), options_(options), host_(host) {}

  /// The value of a key whose entry was found to have this word, or why it cannot be had. The
  /// caller has a guard from before that, and `value` is good as long as that stands.
  KeyStatus value(btree::Key const& key, std::uint64_t word, std::span<std::byte const>& value) {
    for (unsigned looked = 0;; ++looked) {
      pm::SequencedRecord const record = records_.view(host_, word);
      if (Table::kDurable || !record.free()) return value_of(key, record, value);
      std::uint64_t const before = word;
      switch (table_.find(host_, key, word)) {
        case btree::Answer::done: break;
        case btree::Answer::not_found: return KeyStatus::not_found;
        default: return KeyStatus::corrupt;
      }
      if (word != before || looked < kPatience) continue;
      if (stays_free(key, word)) return KeyStatus::corrupt;
    }
  }

  /// The same under the leaf's lock, of the word that the entry has.
  KeyStatus value_now(btree::Key const& key, std::uint64_t word,
                      std::span<std::byte const>& value) {
    pm::SequencedRecord const record = records_.view(host_, word);
    return record.free() ? KeyStatus::corrupt : value_of(key, record, value);
  }

  /// What is wrong with a valid record that is to have this key; null: nothing.
  [[nodiscard]] char const* fault(pm::SequencedRecord const& record) const {
    bool const key_fits = options_.key_bytes == 0 || record.header.key_bytes == options_.key_bytes;
    bool const value_fits =
        options_.value_bytes == 0 || record.header.value_bytes == options_.value_bytes;
    if (!pm::intact(record)) return "its checksum does not match";
    if (!key_fits) return "its key has another length than the pool's";
    if (!value_fits) return "its value has another length than the pool's";
    return nullptr;
  }

 private:
  // look-ups before a reader waits for the leaf's lock, which whoever frees the record has
  static constexpr unsigned kPatience = 64;

  KeyStatus value_of(btree::Key const& key, pm::SequencedRecord const& record,
                     std::span<std::byte const>& value) {
    host_.read(record.key, std::uint64_t{record.header.key_bytes} + record.header.value_bytes);
    if (options_.verify_reads && fault(record) != nullptr) return KeyStatus::corrupt;
    bool const same =
        record.header.key_bytes == key.size && std::memcmp(record.key, key.bytes, key.size) == 0;
    bool const fits =
        options_.value_bytes == 0 || record.header.value_bytes == options_.value_bytes;
    if (!same || !fits) return KeyStatus::corrupt;
    value = record.value_bytes();
    return KeyStatus::ok;
  }
  /// Whether the key's entry leads to a free record while nobody changes it: then it is damaged.
  bool stays_free(btree::Key const& key, std::uint64_t word) {
    bool free = false;
    auto const look = [&](std::uint64_t now) {
      free = now == word && records_.view(host_, now).free();
      return now;
    };
    std::uint64_t before = 0;
    return table_.modify(host_, key, look, before) == btree::Answer::done && free;
  }

  Table& table_;
  BtreeRecords const& records_;
  BtreeOptions const& options_;
  Host& host_;
};

}  // namespace perdure
