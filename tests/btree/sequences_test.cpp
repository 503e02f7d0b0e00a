// A B+-tree by one thread against a plain map: generated sequences, growing and shrinking, bulk
// loads.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <random>

#include "trees.hpp"

namespace perdure::btree {
namespace {

using Pairs = std::vector<std::pair<std::string, std::uint64_t>>;

/// What a scan is to find, by the map.
Pairs scan_of(Model const& model, bool up, std::string const& from, bool inclusive,
              std::size_t most) {
  Pairs pairs;
  if (up) {
    for (auto at = inclusive ? model.lower_bound(from) : model.upper_bound(from);
         at != model.end() && pairs.size() < most; ++at)
      pairs.push_back(*at);
    return pairs;
  }
  for (auto at = inclusive ? model.upper_bound(from) : model.lower_bound(from);
       at != model.begin() && pairs.size() < most;)
    pairs.push_back(*--at);
  return pairs;
}

template <class Kind>
class Sequence {
 public:
  explicit Sequence(std::uint64_t keys, std::uint64_t seed) : keys_(keys), draw_(seed) {}

  void step() {
    if (draw_() % 300 == 0) erases_of_10_ = draw_() % 10;
    std::string const key = Kind::key(draw_() % keys_);
    std::uint64_t const value = draw_();
    bool const there = model_.contains(key);
    if (draw_() % 10 < erases_of_10_) {
      RC_ASSERT(tree_.erase(key) == (there ? Answer::done : Answer::not_found));
      model_.erase(key);
    } else if (draw_() % 3 == 0) {
      Answer const answer = tree_.write(key, value, Write::insert);
      RC_ASSERT(answer == (there ? Answer::exists : Answer::done));
      model_.emplace(key, value);
    } else if (draw_() % 2 == 0) {
      Answer const answer = tree_.write(key, value, Write::update);
      RC_ASSERT(answer == (there ? Answer::done : Answer::not_found));
      if (there) model_[key] = value;
    } else {
      RC_ASSERT(tree_.write(key, value, Write::put) == Answer::done);
      model_[key] = value;
    }
    look();
  }
  void end() {
    Pairs const all(model_.begin(), model_.end());
    RC_ASSERT(tree_.scan(true, nullptr, true, ~std::size_t{0}) == all);
    Pairs const reversed(all.rbegin(), all.rend());
    RC_ASSERT(tree_.scan(false, nullptr, true, ~std::size_t{0}) == reversed);
  }

 private:
  void look() {
    std::string const key = Kind::key(draw_() % keys_);
    RC_ASSERT(tree_.get(key) == value_of(key));
    if (draw_() % 20 != 0) return;
    bool const up = draw_() % 2 == 0, inclusive = draw_() % 2 == 0;
    std::size_t const most = draw_() % 60;
    RC_ASSERT(tree_.scan(up, &key, inclusive, most) == scan_of(model_, up, key, inclusive, most));
    std::string const to = Kind::key(draw_() % keys_);
    auto const within =
        key < to ? std::distance(model_.lower_bound(key), model_.lower_bound(to)) : 0;
    RC_ASSERT(tree_.count(key, to) == static_cast<std::uint64_t>(within));
    std::vector<std::string> some(draw_() % 40);
    std::vector<std::optional<std::uint64_t>> values;
    for (std::string& one : some) values.push_back(value_of(one = Kind::key(draw_() % keys_)));
    RC_ASSERT(tree_.get(some) == values);
  }
  [[nodiscard]] std::optional<std::uint64_t> value_of(std::string const& key) const {
    auto const at = model_.find(key);
    return at == model_.end() ? std::nullopt : std::optional(at->second);
  }

  std::uint64_t keys_;
  std::mt19937_64 draw_;
  TreeOf<Kind> tree_;
  Model model_;
  std::uint64_t erases_of_10_ = 2;
};

template <class Kind>
void answers_as_a_map_does() {
  auto const keys = *rc::gen::inRange<std::uint64_t>(1, 3000);
  auto const steps = *rc::gen::inRange<int>(1, 4000);
  Sequence<Kind> sequence(keys, *rc::gen::arbitrary<std::uint64_t>());
  for (int i = 0; i < steps; ++i) sequence.step();
  sequence.end();
}
RC_GTEST_PROP(BTree, AnswersAsAMapDoes, ()) { answers_as_a_map_does<Words>(); }
RC_GTEST_PROP(BTree, AnswersAsAMapDoesWhereFirstBytesAreAlike, ()) {
  answers_as_a_map_does<Records>();
}

TEST(BTree, GrowsAndShrinksAgain) {
  TreeOf<Words> t;
  constexpr std::uint64_t kKeys = 200000;
  Shape const empty = t.shape();
  for (std::uint64_t k = 0; k < kKeys; ++k)
    ASSERT_EQ(t.write(Words::key(k), ~k, Write::insert), Answer::done);
  for (std::uint64_t k = 0; k < kKeys; ++k) ASSERT_EQ(t.get(Words::key(k)), ~k);
  Shape const grown = t.shape();
  EXPECT_GE(grown.depth, 4u);
  for (std::uint64_t k = 0; k < kKeys; ++k) ASSERT_EQ(t.erase(Words::key(k)), Answer::done) << k;
  t.tree().epochs().synchronize();
  Shape const shrunk = t.shape();
  EXPECT_EQ(shrunk.leaves, empty.leaves);
  EXPECT_EQ(shrunk.inner_nodes, empty.inner_nodes);
  EXPECT_EQ(shrunk.depth, empty.depth);
  EXPECT_EQ(shrunk.bytes, empty.bytes) << "memory that went back to the system";
  EXPECT_LT(shrunk.bytes, grown.bytes);
}

TEST(BTree, KeysThatRiseFillLeavesAndInnerNodes) {
  TreeOf<Words> t;
  constexpr std::uint64_t kKeys = 100000;
  for (std::uint64_t k = 0; k < kKeys; ++k)
    ASSERT_EQ(t.write(Words::key_of(k, 0), k, Write::put), Answer::done);
  Shape const shape = t.shape();
  EXPECT_EQ(shape.leaves, kKeys / Permutation::kSlots + 1);
  EXPECT_LT(shape.inner_nodes, shape.leaves / 50);
}

TEST(BTree, ModifyChangesWhatIsThere) {
  TreeOf<Words> t;
  Key const key = t.as_key("somebody");
  exec::EpochGuard const guard(t.tree().epochs());
  std::uint64_t before = 0;
  auto const twice = [](std::uint64_t word) { return 2 * word; };
  EXPECT_EQ(t.tree().modify(t.host(), key, twice, before), Answer::not_found);
  t.write("somebody", 21, Write::put);
  EXPECT_EQ(t.tree().modify(t.host(), key, twice, before), Answer::done);
  EXPECT_EQ(before, 21u);
  EXPECT_EQ(t.get("somebody"), 42u);
}

template <class Kind>
std::vector<std::string> rising_keys(std::uint64_t n) {
  Model all;
  for (std::uint64_t k = 0; k < n; ++k) all[Kind::key(k)] = k;
  std::vector<std::string> keys;
  for (auto const& [key, value] : all) keys.push_back(key);
  return keys;
}
template <class Kind>
std::vector<std::uint64_t> words_of(std::vector<std::string> const& keys) {
  std::vector<std::uint64_t> words;
  for (std::size_t i = 0; i < keys.size(); ++i) words.push_back(Kind::word(keys[i], i));
  return words;
}

template <class Kind>
void loads(std::uint64_t n) {
  auto const keys = rising_keys<Kind>(n);
  TreeOf<Kind> t;
  Status const loaded = t.load(keys, words_of<Kind>(keys));
  ASSERT_TRUE(loaded.ok()) << loaded.message();
  Pairs pairs;
  for (std::size_t i = 0; i < keys.size(); ++i) pairs.emplace_back(keys[i], i);
  EXPECT_EQ(t.scan(true, nullptr, true, ~std::size_t{0}), pairs);
  EXPECT_EQ(t.shape().leaves, std::max<std::uint64_t>(1, (n + 13) / 14));
  for (std::size_t i = 0; i < keys.size(); ++i) ASSERT_EQ(t.get(keys[i]), i);
  for (std::string const& key : keys) ASSERT_EQ(t.write(key, 7, Write::put), Answer::done);
  for (std::string const& key : keys) ASSERT_EQ(t.erase(key), Answer::done);
}
TEST(BTree, ABulkLoadIsATreeAsAnother) {
  for (std::uint64_t const n : {0u, 1u, 14u, 15u, 882u, 883u, 60000u}) loads<Words>(n);
  for (std::uint64_t const n : {1u, 15u, 20000u}) loads<Records>(n);
}

TEST(BTree, ABulkLoadRefusesKeysThatDoNotRiseAndNamesTheFirst) {
  auto keys = rising_keys<Words>(1000);
  TreeOf<Words> t;
  std::swap(keys[700], keys[701]);
  Status refused = t.load(keys, words_of<Words>(keys));
  EXPECT_EQ(refused.code(), Code::invalid_argument);
  EXPECT_NE(refused.message().find("entry 701 "), std::string::npos) << refused.message();
  keys = rising_keys<Words>(1000);
  keys[14] = keys[13];
  refused = t.load(keys, words_of<Words>(keys));
  EXPECT_NE(refused.message().find("entry 14 "), std::string::npos) << refused.message();
  EXPECT_TRUE(t.scan(true, nullptr, true, 1).empty()) << "nothing of either is there";

  t.write("somebody", 1, Write::put);
  refused = t.load(rising_keys<Words>(10), {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_EQ(refused.code(), Code::invalid_argument);
  EXPECT_EQ(t.get("somebody"), 1u);
}

}  // namespace
}  // namespace perdure::btree
