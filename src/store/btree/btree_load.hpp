// Filling an empty tree from a batch of puts whose keys rise: records side by side by all workers,
// then the tree from left to right. Invariant: where it is not done, nothing is left of it; a crash
// leaves some of the puts done, as in any batch that was not acknowledged.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/assert.hpp"
#include "batch/pieces.hpp"
#include "exec/epochs.hpp"
#include "exec/workers.hpp"
#include "index/btree/load.hpp"
#include "store/btree/btree_runs.hpp"

namespace perdure {

template <class Parts, class Keys, class Host>
class BtreeLoad {
 public:
  BtreeLoad(Parts& parts, threads::Batch const& batch) : parts_(parts), batch_(batch) {}

  /// Whether each key is above the one before it.
  [[nodiscard]] bool rises() const {
    for (std::size_t i = 1; i < batch_.call->keys.count; ++i)
      if (!(Keys::compare(key(i - 1), key(i)) < 0)) return false;
    return true;
  }

  /// Once `stop` is true it is not done either.
  bool run(Host const& host, exec::Workers& workers, std::atomic<bool> const* stop,
           threads::Tally& tally) {
    std::size_t const n = batch_.call->keys.count;
    PERDURE_ASSERT(n > 0 && n <= records_.max_size());
    if (!take(n)) return false;
    workers.for_chunks(n, kChunk, [&](std::size_t begin, std::size_t end) {
      if (stopped(stop)) return;
      Host mine = host;
      for (std::size_t i = begin; i < end; ++i) write(mine, i);
    });
    Host mine = host;
    exec::EpochGuard const guard(parts_.table.epochs());
    if (stopped(stop) || !parts_.table.bulk_load(mine, Entry{this, 0}, Entry{this, n}).ok()) {
      if constexpr (Parts::kAlone)
        for (std::uint64_t const record : records_) pm::make_free(mine, parts_.records.at(record));
      parts_.space.give(records_);
      return false;
    }
    for (std::size_t i = 0; i < n; ++i) batch_.complete(i, KeyStatus::ok);
    tally.inserted += n;
    return true;
  }

 private:
  static constexpr std::size_t kChunk = 1024;

  struct Entry {
    BtreeLoad const* load;
    std::size_t i;
    btree::LoadedEntry operator*() const { return {load->key(i), load->records_[i]}; }
    Entry& operator++() {
      ++i;
      return *this;
    }
    bool operator==(Entry const& other) const { return i == other.i; }
  };

  [[nodiscard]] btree::Key key(std::size_t i) const {
    exec::ByteColumn const keys = batch_.keys();
    return parts_.make_key({keys.at(i), keys.size(i)});
  }
  [[nodiscard]] std::uint64_t stride(std::size_t i) const {
    return pm::stride_for(pm::record_bytes(batch_.keys().size(i), batch_.operand(i).size()));
  }
  /// Records for all, runs of one stride at a time, so that they lie in the order of their keys.
  bool take(std::size_t n) {
    for (std::size_t at = 0; at < n;) {
      std::size_t end = at + 1;
      while (end < n && stride(end) == stride(at)) ++end;
      if (!parts_.space.take(stride(at), end - at, records_).ok()) {
        parts_.space.give(records_);
        return false;
      }
      at = end;
    }
    return true;
  }
  void write(Host& host, std::size_t i) {
    btree::Key const k = key(i);
    std::span<std::byte const> const value = batch_.operand(i);
    std::byte* const record = parts_.records.at(records_[i]);
    std::uint64_t const sequence = batch_.sequence + i;
    pm::RecordHeader const header{0, static_cast<std::uint32_t>(value.size()),
                                  static_cast<std::uint32_t>(k.size), 0, sequence};
    if constexpr (Parts::kAlone) {
      pm::prepare_record(host, record, header, k.bytes, value.data());
      pm::make_valid(host, record, sequence);
    } else {
      pm::write_whole(host, record, header, k.bytes, value.data());
    }
  }

  Parts& parts_;
  threads::Batch const& batch_;
  std::vector<std::uint64_t> records_;
};

}  // namespace perdure
