// B+-trees whose keys are strings, with the two kinds of keys that there are, and what allocates
// for them: every allocation can be made to fail. Invariant: of a tree with records, each word
// leads to a record of its own, which the epochs free.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "index/btree/tree.hpp"
#include "pm/host.hpp"

namespace perdure::btree {

using Model = std::map<std::string, std::uint64_t>;

/// After how many allocations of this thread one fails; negative: none does.
inline thread_local std::int64_t allocations_left = -1;
[[nodiscard]] inline bool next_allocation_fails() {
  return allocations_left >= 0 && allocations_left-- == 0;
}

template <class Node>
class FailingBlocks : public DramBlocks<Node> {
 public:
  [[nodiscard]] Node* take() noexcept {
    return next_allocation_fails() ? nullptr : DramBlocks<Node>::take();
  }
};
template <class Node>
class FailingInners : public FailingBlocks<Node> {
 public:
  static constexpr bool kTrusted = true;
  template <class Nodes>
  explicit FailingInners(Nodes const&) {}
};
class FailingNodes : public FailingBlocks<Leaf> {
 public:
  static constexpr bool kFreesTails = true;
  static constexpr bool kDurable = false;
  template <class Node>
  using Inners = FailingInners<Node>;
  using Tails = DramTails;

  [[nodiscard]] std::uint64_t& root() { return root_; }
  [[nodiscard]] std::uint64_t const& root() const { return root_; }

 private:
  std::uint64_t root_ = 0;
};

inline std::byte const* bytes_of(std::string const& text) {
  return reinterpret_cast<std::byte const*>(text.data());
}

/// Keys of 8 bytes; the word is the value.
struct Words {
  using Keys = WordKeys;
  static std::string key(std::uint64_t n) {
    std::uint64_t const mixed = n * 0x9e3779b97f4a7c15u;
    return std::string(reinterpret_cast<char const*>(&mixed), sizeof mixed);
  }
  static std::string key_of(std::uint64_t prefix, std::uint64_t) {
    std::uint64_t const bytes = __builtin_bswap64(prefix);
    return std::string(reinterpret_cast<char const*>(&bytes), sizeof bytes);
  }
  static std::uint64_t word(std::string const&, std::uint64_t value) { return value; }
  static std::uint64_t value(std::uint64_t word) { return word; }
  static void free(std::uint64_t) {}
};

/// Keys of up to 20 bytes, few of which the first 8 tell apart; the word leads to a record.
struct Records {
  struct Record {
    std::string key;
    std::uint64_t value;
  };
  static Record const& at(std::uint64_t word) { return *reinterpret_cast<Record const*>(word); }
  static std::span<std::byte const> key_at(std::uint64_t word) {
    return {bytes_of(at(word).key), at(word).key.size()};
  }

  using Keys = ByteKeys<Records>;
  static std::string key(std::uint64_t n) {
    std::string text = n % 3 == 0 ? "" : n % 3 == 1 ? "alike by" : "shared";
    for (std::uint64_t left = n; left != 0; left /= 3) text += "\0\x61\xff"[left % 3];
    return text;
  }
  static std::string key_of(std::uint64_t, std::uint64_t word) { return at(word).key; }
  static std::uint64_t word(std::string const& key, std::uint64_t value) {
    return reinterpret_cast<std::uint64_t>(new Record{key, value});
  }
  static std::uint64_t value(std::uint64_t word) { return at(word).value; }
  static void free(std::uint64_t word) { delete &at(word); }
};

template <class Kind>
class TreeOf {
 public:
  using Keys = typename Kind::Keys;

  TreeOf() : tree_(make_keys()) {
    if (tree_.create(host_) != Answer::done) throw std::runtime_error("no tree");
  }
  TreeOf(TreeOf const&) = delete;
  TreeOf& operator=(TreeOf const&) = delete;
  ~TreeOf() {
    std::vector<std::uint64_t> words;
    {
      exec::EpochGuard const guard(tree_.epochs());
      tree_.ascend(host_, nullptr, true, [&](std::uint64_t, std::uint64_t word) {
        words.push_back(word);
        return true;
      });
    }
    for (std::uint64_t const word : words) Kind::free(word);
  }

  Answer write(std::string const& key, std::uint64_t value, Write how) {
    exec::EpochGuard const guard(tree_.epochs());
    std::optional<std::uint64_t> before;
    std::uint64_t const word = Kind::word(key, value);
    Answer answer;
    {
      Failing const failing(*this);
      answer = tree_.write(host_, as_key(key), word, how, before);
    }
    if (answer != Answer::done)
      Kind::free(word);
    else if (before)
      retire(*before);
    return answer;
  }
  std::optional<std::uint64_t> get(std::string const& key) {
    exec::EpochGuard const guard(tree_.epochs());
    std::uint64_t word = 0;
    if (tree_.find(host_, as_key(key), word) != Answer::done) return std::nullopt;
    return Kind::value(word);
  }
  std::vector<std::optional<std::uint64_t>> get(std::vector<std::string> const& keys) {
    exec::EpochGuard const guard(tree_.epochs());
    std::vector<Key> all;
    for (std::string const& key : keys) all.push_back(as_key(key));
    std::vector<Answer> answers(keys.size());
    std::vector<std::uint64_t> words(keys.size());
    tree_.find_group(host_, all, answers, words);
    std::vector<std::optional<std::uint64_t>> values(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i)
      if (answers[i] == Answer::done) values[i] = Kind::value(words[i]);
    return values;
  }
  Answer erase(std::string const& key) {
    exec::EpochGuard const guard(tree_.epochs());
    std::uint64_t before = 0, last = 0;
    Answer answer;
    {
      Failing const failing(*this);
      answer = tree_.erase(host_, as_key(key), [&](std::uint64_t word) { last = word; }, before);
    }
    if (answer != Answer::done) return answer;
    EXPECT_EQ(last, before);
    retire(before);
    return answer;
  }

  /// Keys and values from here on, at most so many, by ascend() or descend().
  using Pairs = std::vector<std::pair<std::string, std::uint64_t>>;
  Pairs scan(bool up, std::string const* from, bool inclusive, std::size_t most) {
    exec::EpochGuard const guard(tree_.epochs());
    Pairs pairs;
    auto const visit = [&](std::uint64_t prefix, std::uint64_t word) {
      pairs.emplace_back(Kind::key_of(prefix, word), Kind::value(word));
      return pairs.size() < most;
    };
    Key const key = from != nullptr ? as_key(*from) : Key{};
    Key const* const at = from != nullptr ? &key : nullptr;
    if (most > 0)
      up ? tree_.ascend(host_, at, inclusive, visit) : tree_.descend(host_, at, inclusive, visit);
    return pairs;
  }
  std::uint64_t count(std::string const& from, std::string const& to) {
    exec::EpochGuard const guard(tree_.epochs());
    std::uint64_t keys = 0;
    Key const first = as_key(from), end = as_key(to);
    EXPECT_EQ(tree_.count(host_, &first, &end, keys), Answer::done);
    return keys;
  }
  Status load(std::vector<std::string> const& keys, std::vector<std::uint64_t> const& words) {
    std::vector<LoadedEntry> entries;
    for (std::size_t i = 0; i < keys.size(); ++i) entries.push_back({as_key(keys[i]), words[i]});
    Failing const failing(*this);
    return tree_.bulk_load(host_, entries.begin(), entries.end());
  }
  static Key as_key(std::string const& key) { return Keys::key(bytes_of(key), key.size()); }
  [[nodiscard]] Shape shape() { return tree_.shape(host_); }
  [[nodiscard]] Tree<Keys, FailingNodes>& tree() { return tree_; }
  [[nodiscard]] pm::OrderedHost& host() { return host_; }

  /// The n-th allocation of the next operations, counted from 0, fails in each of them.
  void fail_at(std::int64_t n) { fail_at_ = n; }
  /// Whether one has failed in the last operation of this thread.
  [[nodiscard]] static bool failed() { return failed_; }

 private:
  class Failing {
   public:
    explicit Failing(TreeOf const& of) : fails_(of.fail_at_ >= 0) {
      allocations_left = of.fail_at_;
    }
    ~Failing() {
      failed_ = fails_ && allocations_left < 0;
      allocations_left = -1;
    }

   private:
    bool fails_;
  };
  static Keys make_keys() {
    if constexpr (Keys::kTails)
      return Keys(Records{});
    else
      return Keys();
  }
  void retire(std::uint64_t word) {
    tree_.epochs().retire([word] { Kind::free(word); });
  }

  pm::OrderedHost host_;
  Tree<Keys, FailingNodes> tree_;
  std::int64_t fail_at_ = -1;
  inline static thread_local bool failed_ = false;
};

}  // namespace perdure::btree
