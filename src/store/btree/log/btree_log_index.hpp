// A B+-tree as the index of a value log (pm/value_log/index.hpp), for one thread. Invariant: an
// entry's word is the address of a record whose key is the entry's; of a recovery that may be a
// tombstone.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "index/btree/tree.hpp"
#include "pm/value_log/index.hpp"
#include "store/btree/btree_runs.hpp"

namespace perdure {

template <class Parts, class Host>
class BtreeLogIndex : public pm::LogIndex {
 public:
  BtreeLogIndex(Parts& parts, Host& host) : parts_(parts), host_(host), log_host_(host) {}

  pm::LogHost& host() override { return log_host_; }
  exec::Epochs& epochs() override { return parts_.table.epochs(); }

  void find(std::span<pm::LogKey const> keys, std::span<std::uint64_t> addresses) override {
    std::array<btree::Key, threads::kGroup> made;
    std::array<btree::Answer, threads::kGroup> answers{};
    for (std::size_t from = 0; from < keys.size(); from += threads::kGroup) {
      std::size_t const n = std::min(threads::kGroup, keys.size() - from);
      for (std::size_t i = 0; i < n; ++i) made[i] = parts_.make_key(keys[from + i]);
      auto const words = addresses.subspan(from, n);
      host_.begin();
      parts_.table.find_group(host_, std::span<btree::Key const>(made).first(n),
                              std::span(answers).first(n), words);
      for (std::size_t i = 0; i < n; ++i)
        if (answers[i] != btree::Answer::done) words[i] = 0;
    }
  }
  Status put(pm::LogKey key, std::uint64_t address, std::uint64_t& before) override {
    host_.begin();
    std::optional<std::uint64_t> replaced;
    btree::Answer const answer =
        parts_.table.write(host_, parts_.make_key(key), address, btree::Write::put, replaced);
    before = replaced.value_or(0);
    if (answer == btree::Answer::done) return {};
    if (answer == btree::Answer::full) return parts_.table.why_full();
    return {Code::corrupt, "a record that keys are compared with is damaged"};
  }
  std::uint64_t erase(pm::LogKey key) override {
    host_.begin();
    std::uint64_t before = 0;
    auto const last = [](std::uint64_t) {};  // the tombstone is durable already
    btree::Answer const answer = parts_.table.erase(host_, parts_.make_key(key), last, before);
    return answer == btree::Answer::done ? before : 0;
  }
  bool swap(pm::LogKey key, std::uint64_t from, std::uint64_t to) override {
    host_.begin();
    std::uint64_t before = 0;
    auto const change = [&](std::uint64_t stored) { return stored == from ? to : stored; };
    return parts_.table.modify(host_, parts_.make_key(key), change, before) ==
               btree::Answer::done &&
           before == from;
  }

 private:
  Parts& parts_;
  Host& host_;
  pm::LogHostOn<Host> log_host_;
};

template <class Host>
struct OwnedHost {
  Host host;
};

/// The same with a Host of its own.
template <class Parts, class Host>
class OwningBtreeLogIndex final : OwnedHost<Host>, public BtreeLogIndex<Parts, Host> {
 public:
  OwningBtreeLogIndex(Parts& parts, Host host)
      : OwnedHost<Host>{std::move(host)},
        BtreeLogIndex<Parts, Host>(parts, static_cast<OwnedHost<Host>&>(*this).host) {}
};

template <class Parts, class Host>
[[nodiscard]] std::unique_ptr<pm::LogIndex> make_btree_log_index(Parts& parts, Host host) {
  return std::make_unique<OwningBtreeLogIndex<Parts, Host>>(parts, std::move(host));
}

}  // namespace perdure
