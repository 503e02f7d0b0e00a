// Leaves that a crash leaves: a tree whose leaves lie in memory that keeps, of each line, what it
// held after any store since it was last flushed and fenced. After every store and every fence of
// an operation such a crash is drawn, and a tree is made of the chain of leaves that is left.
// Invariant checked: it has what was there before the operation, or after it, and is sound.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <functional>
#include <random>
#include <set>
#include <unordered_map>

#include "support/sanitized.hpp"
#include "trees.hpp"

namespace perdure::btree {
namespace {

enum class Come : std::uint8_t { first, again, invalid };

/// Leaves by number, from 1 on, so that addresses are no pointers.
class Arena {
 public:
  static constexpr std::uint64_t kLeaves = 200;

  Arena() : leaves_(kLeaves), reached_(kLeaves, false) {
    for (std::uint64_t at = kLeaves; at-- > 1;) free_.push_back(at);
  }
  [[nodiscard]] Leaf* take() {
    if (free_.empty()) return nullptr;
    std::uint64_t const at = free_.back();
    free_.pop_back();
    return &leaves_[at];
  }
  void give(Leaf* leaf) { free_.push_back(address_of(leaf)); }
  [[nodiscard]] Leaf* at(std::uint64_t address) { return &leaves_[address]; }
  [[nodiscard]] std::uint64_t address_of(Leaf const* leaf) const {
    return static_cast<std::uint64_t>(leaf - leaves_.data());
  }
  [[nodiscard]] Come mark(std::uint64_t address) {
    if (address == 0 || address >= kLeaves) return Come::invalid;
    if (reached_[address]) return Come::again;
    reached_[address] = true;
    return Come::first;
  }
  /// After an opening: what was not reached is free.
  void finish() {
    free_.clear();
    for (std::uint64_t at = kLeaves; at-- > 1;)
      if (!reached_[at]) free_.push_back(at);
  }
  [[nodiscard]] std::span<std::uint64_t> words() {
    return {reinterpret_cast<std::uint64_t*>(leaves_.data()), kLeaves * sizeof(Leaf) / 8};
  }

 private:
  std::vector<Leaf> leaves_;
  std::vector<std::uint64_t> free_;
  std::vector<bool> reached_;
};

class ArenaNodes {
 public:
  static constexpr bool kFreesTails = true;
  static constexpr bool kDurable = true;
  template <class Node>
  using Inners = DramInners<Node>;
  using Tails = DramTails;

  explicit ArenaNodes(Arena& arena) : arena_(arena) {}
  [[nodiscard]] Leaf* take() { return arena_.take(); }
  void give(Leaf* leaf) { arena_.give(leaf); }
  [[nodiscard]] Leaf* at(std::uint64_t address) const { return arena_.at(address); }
  [[nodiscard]] std::uint64_t address_of(Leaf const* leaf) const { return arena_.address_of(leaf); }
  [[nodiscard]] static std::uint64_t bytes() { return 0; }
  [[nodiscard]] Come mark(std::uint64_t address) { return arena_.mark(address); }
  [[nodiscard]] static Status refusal() { return {}; }
  [[nodiscard]] std::uint64_t& root() { return root_; }
  [[nodiscard]] std::uint64_t const& root() const { return root_; }

 private:
  Arena& arena_;
  std::uint64_t root_ = 0;
};

/// What a power loss may leave of an arena.
class Medium {
 public:
  static constexpr std::size_t kLine = 8;  // words
  using Line = std::array<std::uint64_t, kLine>;

  explicit Medium(Arena& arena) : words_(arena.words()) {}

  void stored(std::uint64_t* at, std::uint64_t value) {
    std::size_t const line = line_of(at);
    if (line != kNone && !held_.contains(line)) held_[line] = {now(line)};
    *at = value;
    if (line == kNone) return;
    held_[line].push_back(now(line));
    if (after) after();
  }
  void flushed(void const* at, std::size_t bytes) {
    auto const* const from = static_cast<std::uint64_t const*>(at);
    if (line_of(from) == kNone) return;
    std::size_t const last = line_of(from + (bytes - 1) / 8);
    for (std::size_t line = line_of(from); line <= last; ++line)
      if (held_.contains(line)) flushed_[line] = held_[line].size() - 1;
  }
  void fenced() {
    for (auto const& [line, to] : flushed_) {
      std::vector<Line>& held = held_[line];
      held.erase(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(to));
    }
    std::erase_if(held_, [](auto const& one) { return one.second.size() == 1; });
    flushed_.clear();
    if (after) after();
  }
  /// Each line as it was at some moment since it was last ordered: any, or all as they are but for
  /// one, or one as it is and the others not.
  template <class Draw>
  void lose(Draw& draw, Arena& left) const {
    std::ranges::copy(words_, left.words().begin());
    if (held_.empty()) return;
    std::uint64_t const way = draw() % 3;
    std::size_t odd = draw() % held_.size();
    for (auto const& [line, held] : held_) {
      bool const is_odd = odd-- == 0;
      Line const& any = held[draw() % held.size()];
      Line const& is = way == 0 || (way == 1 && is_odd) ? any
                       : way == 1 || is_odd             ? held.back()
                                                        : held.front();
      std::ranges::copy(is, left.words().begin() + static_cast<std::ptrdiff_t>(line * kLine));
    }
  }
  std::function<void()> after;

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  [[nodiscard]] std::size_t line_of(std::uint64_t const* at) const {
    bool const inside = at >= words_.data() && at < words_.data() + words_.size();
    return inside ? static_cast<std::size_t>(at - words_.data()) / kLine : kNone;
  }
  [[nodiscard]] Line now(std::size_t line) const {
    Line is;
    std::copy_n(words_.begin() + static_cast<std::ptrdiff_t>(line * kLine), kLine, is.begin());
    return is;
  }
  std::span<std::uint64_t> words_;
  std::unordered_map<std::size_t, std::vector<Line>> held_;  // lines that are not ordered
  std::unordered_map<std::size_t, std::size_t> flushed_;  // to which state
};

class LosingHost : public pm::OrderedHost {
 public:
  explicit LosingHost(Medium& medium) : medium_(&medium) {}
  void store(std::uint64_t* at, std::uint64_t value) const { medium_->stored(at, value); }
  bool cas(std::uint64_t* at, std::uint64_t expected, std::uint64_t value) const {
    if (*at != expected) return false;
    store(at, value);
    return true;
  }
  void flush(void const* at, std::size_t bytes) const { medium_->flushed(at, bytes); }
  void fence() const { medium_->fenced(); }
  void persist(void const* at, std::size_t bytes) const {
    flush(at, bytes);
    fence();
  }

 private:
  Medium* medium_;
};

struct UsedOnce {
  std::set<std::uint64_t> seen;
  RecordMark use(std::uint64_t word) {
    return seen.insert(word).second ? RecordMark::first : RecordMark::again;
  }
  static bool intact(std::uint64_t) { return true; }
};

template <class Kind>
class DurableTree {
 public:
  using Keys = typename Kind::Keys;
  using Contents = std::map<std::string, std::uint64_t>;

  DurableTree() : tree_(keys(), arena) {
    EXPECT_EQ(tree_.create(host_), Answer::done);
    first = tree_.first_leaf(host_);
  }
  /// What is left of another one.
  explicit DurableTree(std::uint64_t first_leaf) : first(first_leaf), tree_(keys(), arena) {}

  /// Empty: the tree has been made of the leaves.
  std::vector<std::string> open() {
    ChainFound found;
    UsedOnce records;
    auto chain = tree_.chain();
    auto const leaves =
        chain.walk(host_, first, [&](std::uint64_t at) { return arena.mark(at); }, found);
    chain.check(host_, leaves, 0, leaves.size(), records, found);
    if (found.faults != 0) return found.wrong;
    std::vector<Unlinked> unlinked;
    EXPECT_TRUE(chain.build(host_, leaves, found, unlinked));
    chain.settle(host_, found, unlinked);
    arena.finish();
    for (Unlinked const& each : unlinked)
      for (std::uint64_t const leaf : each.leaves) arena.give(arena.at(leaf));
    counted = found.records;
    return {};
  }
  void put(std::string const& key, std::uint64_t word) {
    exec::EpochGuard const guard(tree_.epochs());
    std::optional<std::uint64_t> before;
    ASSERT_EQ(tree_.write(host_, as_key(key), word, Write::put, before), Answer::done);
  }
  void erase(std::string const& key) {
    {
      exec::EpochGuard const guard(tree_.epochs());
      std::uint64_t before = 0;
      static_cast<void>(tree_.erase(host_, as_key(key), [](std::uint64_t) {}, before));
    }
    tree_.epochs().collect();  // leaves are used again as soon as they may be
  }
  void load(Contents const& words) {
    std::vector<LoadedEntry> entries;
    for (auto const& [key, word] : words) entries.push_back({as_key(key), word});
    ASSERT_TRUE(tree_.bulk_load(host_, entries.begin(), entries.end()).ok());
  }
  [[nodiscard]] Contents contents() {
    exec::EpochGuard const guard(tree_.epochs());
    Contents all;
    tree_.ascend(host_, nullptr, true, [&](std::uint64_t prefix, std::uint64_t word) {
      EXPECT_TRUE(all.emplace(Kind::key_of(prefix, word), word).second);
      return true;
    });
    return all;
  }
  [[nodiscard]] bool has(std::string const& key, std::uint64_t word) {
    exec::EpochGuard const guard(tree_.epochs());
    std::uint64_t found = 0;
    return tree_.find(host_, as_key(key), found) == Answer::done && found == word;
  }
  [[nodiscard]] std::uint64_t leaves() { return tree_.shape(host_).leaves; }

  Arena arena;
  Medium medium{arena};
  std::uint64_t first = 0, counted = 0;

 private:
  static Keys keys() {
    if constexpr (Keys::kTails)
      return Keys(Records{});
    else
      return Keys();
  }
  static Key as_key(std::string const& key) { return Keys::key(bytes_of(key), key.size()); }

  LosingHost host_{medium};
  Tree<Keys, ArenaNodes> tree_;
};

template <class Kind>
class Crashes {
 public:
  using Contents = typename DurableTree<Kind>::Contents;

  explicit Crashes(std::uint64_t seed) : draw_(seed) {}

  void run(int operations) {
    load();
    for (int i = 0; i < operations && !testing::Test::HasFailure(); ++i) {
      // so that leaves split for a while, and then merge
      bool const grows = i / kPhase % 2 == 1;
      std::string const key = Kind::key(draw_() % kKeys);
      Contents after = now_;
      bool const puts = draw_() % 8 < (grows ? 7u : 1u);
      std::uint64_t const word = puts ? word_of(key) : 0;
      puts ? static_cast<void>(after[key] = word) : static_cast<void>(after.erase(key));
      watch(now_, after, 1);
      std::uint64_t const leaves = tree_.leaves();
      puts ? tree_.put(key, word) : tree_.erase(key);
      splits += tree_.leaves() > leaves;
      merges += tree_.leaves() < leaves;
      now_ = std::move(after);
      lose(now_, now_);
    }
    EXPECT_EQ(tree_.contents(), now_);
  }
  std::uint64_t splits = 0, merges = 0, crashes = 0;
  std::uint64_t settled = 0;  // openings that had something half done

 private:
  static constexpr std::uint64_t kKeys = 150;
  static constexpr int kPhase = 200;  // operations

  void load() {
    Contents all;
    for (std::uint64_t n = 0; n < kKeys; n += 2) all[Kind::key(n)] = word_of(Kind::key(n));
    watch({}, all, 96);
    tree_.load(all);
    now_ = all;
    lose(now_, now_);
  }
  /// After each store and each fence so many crashes in eight are drawn.
  void watch(Contents const& before, Contents const& after, std::uint64_t in_eight) {
    tree_.medium.after = [this, before, after, in_eight] {
      for (std::uint64_t n = in_eight / 8 + (draw_() % 8 < in_eight % 8); n > 0; --n)
        lose(before, after);
    };
  }
  /// A crash now: each key is as before or as after; and so again, if a crash comes in the midst of
  /// what the opening does.
  void lose(Contents const& before, Contents const& after) {
    if (testing::Test::HasFailure()) return;
    ++crashes;
    DurableTree<Kind> left(tree_.first);
    tree_.medium.lose(draw_, left.arena);
    bool first = true;
    left.medium.after = [&] {
      settled += std::exchange(first, false);
      DurableTree<Kind> again(left.first);
      left.medium.lose(draw_, again.arena);
      EXPECT_EQ(again.open(), std::vector<std::string>{});
      judge(again.contents(), before, after);
    };
    EXPECT_EQ(left.open(), std::vector<std::string>{});
    left.medium.after = nullptr;
    Contents const held = left.contents();
    judge(held, before, after);
    EXPECT_EQ(left.counted, held.size());
    if (crashes % 16 == 0) go_on(left, held);
  }
  static void judge(Contents const& held, Contents const& before, Contents const& after) {
    if (held == before || held == after) return;
    auto const of = [](Contents const& c, std::string const& key) {
      auto const found = c.find(key);
      return found == c.end() ? std::nullopt : std::optional(found->second);
    };
    for (auto const& both : {before, after})
      for (auto const& [key, word] : both)
        EXPECT_TRUE(of(held, key) == of(before, key) || of(held, key) == of(after, key)) << key;
    for (auto const& [key, word] : held) EXPECT_TRUE(before.contains(key) || after.contains(key));
  }
  /// What an opening made is a tree as any other.
  void go_on(DurableTree<Kind>& left, Contents held) {
    for (int i = 0; i < 60; ++i) {
      std::string const key = Kind::key(draw_() % kKeys);
      if (draw_() % 2 == 0)
        left.put(key, held[key] = word_of(key));
      else
        left.erase(key), held.erase(key);
      if (i % 8 != 0) continue;
      DurableTree<Kind> again(left.first);
      left.medium.lose(draw_, again.arena);
      EXPECT_EQ(again.open(), std::vector<std::string>{});
      EXPECT_EQ(again.contents(), held);
    }
    EXPECT_EQ(left.contents(), held);
    for (auto const& [key, word] : held) EXPECT_TRUE(left.has(key, word));
  }
  /// Words are never the same, as addresses of records are not.
  std::uint64_t word_of(std::string const& key) {
    if constexpr (Kind::Keys::kTails) {
      records_.push_back({key, ++last_});
      return reinterpret_cast<std::uint64_t>(&records_.back());
    }
    return ++last_;
  }

  std::mt19937_64 draw_;
  std::deque<Records::Record> records_;
  std::uint64_t last_ = 0;
  DurableTree<Kind> tree_;
  Contents now_;
};

template <class Kind>
void lose_power_often() {
  Crashes<Kind> run(1);
  run.run(test::kSanitized ? 500 : 1500);
  std::uint64_t const few = test::kSanitized ? 1 : 5;
  EXPECT_GT(run.splits, few);
  EXPECT_GT(run.merges, few);
  EXPECT_GT(run.settled, 10u);
  EXPECT_GT(run.crashes, 1000u);
}

TEST(DurableLeaves, OfWordsAreWholeAfterEachStoreAndEachFence) { lose_power_often<Words>(); }
TEST(DurableLeaves, OfBytesAreWholeAfterEachStoreAndEachFence) { lose_power_often<Records>(); }

}  // namespace
}  // namespace perdure::btree
