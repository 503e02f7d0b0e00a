// A B+-tree as the index of a value log (pm/value_log/index.hpp). Invariant: an entry's word is the
// address of a record whose key is the entry's; of a recovery that may be a tombstone.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "index/btree/tree.hpp"
#include "pm/value_log/index.hpp"
#include "store/btree/btree_runs.hpp"

namespace perdure {

template <class Parts, class Host>
class BtreeLogIndex final : public pm::LogIndex {
 public:
  BtreeLogIndex(Parts& parts, Host const& host) : parts_(parts), host_(host) {}

  exec::Epochs& epochs() override { return parts_.table.epochs(); }

  void find(std::span<pm::LogKey const> keys, std::span<std::uint64_t> addresses) override {
    Host host = host_;
    std::array<btree::Key, threads::kGroup> made;
    std::array<btree::Answer, threads::kGroup> answers{};
    for (std::size_t from = 0; from < keys.size(); from += threads::kGroup) {
      std::size_t const n = std::min(threads::kGroup, keys.size() - from);
      for (std::size_t i = 0; i < n; ++i) made[i] = parts_.make_key(keys[from + i]);
      auto const words = addresses.subspan(from, n);
      parts_.table.find_group(host, std::span<btree::Key const>(made).first(n),
                              std::span(answers).first(n), words);
      for (std::size_t i = 0; i < n; ++i)
        if (answers[i] != btree::Answer::done) words[i] = 0;
    }
  }
  Status put(pm::LogKey key, std::uint64_t address, std::uint64_t& before) override {
    Host host = host_;
    std::optional<std::uint64_t> replaced;
    btree::Answer const answer =
        parts_.table.write(host, parts_.make_key(key), address, btree::Write::put, replaced);
    before = replaced.value_or(0);
    if (answer == btree::Answer::done) return {};
    if (answer == btree::Answer::full)
      return {Code::no_space, "there is no memory for the tree of its keys"};
    return {Code::corrupt, "a record that keys are compared with is damaged"};
  }
  std::uint64_t erase(pm::LogKey key) override {
    Host host = host_;
    std::uint64_t before = 0;
    auto const last = [](std::uint64_t) {};  // the tombstone is durable already
    btree::Answer const answer = parts_.table.erase(host, parts_.make_key(key), last, before);
    return answer == btree::Answer::done ? before : 0;
  }
  bool swap(pm::LogKey key, std::uint64_t from, std::uint64_t to) override {
    Host host = host_;
    std::uint64_t before = 0;
    auto const change = [&](std::uint64_t stored) { return stored == from ? to : stored; };
    return parts_.table.modify(host, parts_.make_key(key), change, before) == btree::Answer::done &&
           before == from;
  }

 private:
  Parts& parts_;
  Host const host_;  // each call has a copy
};

}  // namespace perdure
