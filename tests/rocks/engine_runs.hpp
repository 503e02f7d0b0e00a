// Runs that an engine made, held against a plain map of versions.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "lsm/engine/ranges.hpp"
#include "lsm/engine/run_view.hpp"
#include "rocks/engine_model.hpp"

namespace perdure::lsm {

class Runs {
 public:
  /// `options`: of the engine.
  explicit Runs(Engine& engine, EngineOptions const& options = {})
      : engine_(&engine), options_(options) {}

  [[nodiscard]] RunList list() const { return runs_; }
  [[nodiscard]] RunModel const& model() const { return model_; }
  [[nodiscard]] RequestId next() const { return next_; }

  /// How the engine is told of values; `fixed`: they have one width; `words`: each, and their bytes
  /// besides where these are small and of one size; `record`: each, with keys between them.
  enum class Values : std::uint8_t { each, words, record, column, fixed_column };

  /// `fixed`: keys of one width, told so. `gap` between the requests.
  void write(std::vector<Write> const& writes, bool fixed = false, RequestId gap = 1,
             Values as = Values::each) {
    std::vector<std::string> keys;
    std::vector<Kind> kinds;
    RunModel::Requests requests, from_first;
    bool all_puts = true;
    for (Write const& one : writes) {
      keys.push_back(one.key);
      kinds.push_back(one.kind);
      from_first.push_back(from_first.size() * gap);
      requests.push_back(next_ + from_first.back());
      all_puts &= one.kind == Kind::put;
    }
    KeyColumn const column(keys, fixed);
    std::vector<ValueRef> values =
        as == Values::record ? model_.keep_record(writes) : model_.keep_values(writes);
    Entries entries{.keys = column.column(), .first_request = next_};
    auto const words = as == Values::words ? words_of(writes) : std::vector<std::uint64_t>();
    entries.value_words = words;
    if (as == Values::each || as == Values::words || as == Values::record)
      entries.values = values;
    else
      entries.value_column = model_.keep_column(writes, as == Values::fixed_column, values);
    if (!all_puts) entries.kinds = kinds;
    if (gap != 1) entries.requests = from_first;
    auto run = engine_->build(entries);
    ASSERT_TRUE(run.ok()) << run.status().message();
    ASSERT_EQ(run.value()->count(), writes.size());
    runs_.insert(runs_.begin(), run.value());
    model_.add_run(writes, requests, values);
    inside_.insert(inside_.begin(), size_inside(writes, as == Values::fixed_column));
    next_ += writes.size() * gap;
  }

  void merge(std::size_t first, std::size_t last) {
    auto run = engine_->merge(list().subspan(first, last - first));
    ASSERT_TRUE(run.ok()) << run.status().message();
    auto const at = runs_.begin() + static_cast<std::ptrdiff_t>(first);
    runs_.erase(at, at + static_cast<std::ptrdiff_t>(last - first));
    runs_.insert(runs_.begin() + static_cast<std::ptrdiff_t>(first), run.value());
    model_.merge_runs(first, last);
    auto const sizes = inside_.begin() + static_cast<std::ptrdiff_t>(first);
    auto const end = inside_.begin() + static_cast<std::ptrdiff_t>(last);
    auto const merged = std::accumulate(sizes, end, kNoValues, both_inside);
    inside_.insert(inside_.erase(sizes, end), merged);
  }

  /// One call of each kind, until one fails; keeps nothing.
  Status try_all(std::vector<Write> const& writes, std::vector<std::string> const& keys) {
    std::vector<std::string> written;
    for (Write const& one : writes) written.push_back(one.key);
    KeyColumn const column(written), sought(keys);
    std::vector<ValueRef> const values = model_.keep_record(writes);
    auto run = engine_->build({.keys = column.column(), .values = values});
    if (!run) return run.status();
    std::vector<RunPtr> const two{run.value(), run.value()};
    auto merged = engine_->merge(two);
    if (!merged) return merged.status();
    std::vector<Answer> answers(keys.size());
    std::vector<std::uint32_t> positions(keys.size());
    Chains chains;
    EntryBlock block;
    if (Status s = engine_->find(two, sought.column(), {}, answers, {}); !s.ok()) return s;
    std::vector<std::uint64_t> words(keys.size() * row_words(two));
    if (Status s = engine_->find(two, sought.column(), {}, answers, {words.data(), row_words(two)});
        !s.ok())
      return s;
    if (Status s = engine_->chains(two, sought.column(), {}, chains); !s.ok()) return s;
    for (std::uint64_t const most : {3, 1 << 30}) {
      auto const read = engine_->ranges(two, {.begins = sought.column(), .most = most});
      if (!read) return read.status();
    }
    if (Status s = engine_->seek(*two[0], sought.column(), Bound::lower, positions); !s.ok())
      return s;
    return engine_->fetch(*two[0], 0, two[0]->count(), block);
  }

  void check_newest(std::vector<std::string> const& keys) const {
    KeyColumn const column(keys);
    std::vector<Answer> answers(keys.size());
    std::vector<std::uint64_t> words(keys.size() * row_words(list()));
    AnswerRows const rows{words.data(), row_words(list())};
    ASSERT_TRUE(engine_->find(list(), column.column(), {}, answers, rows).ok());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      std::vector<Version> seen;
      for (auto const& run : model_.runs()) {
        auto const at =
            std::ranges::lower_bound(run, keys[i], {}, [](auto& one) { return one.key; });
        if (at == run.end() || at->key != keys[i]) continue;
        seen.push_back(at->version);
        break;
      }
      check_answer(answers[i], seen);
      check_bytes(answers[i], rows, i);
    }
  }

  void check(std::vector<std::string> const& keys, Limits const& limits) const {
    KeyColumn const column(keys);
    std::vector<Answer> answers(keys.size());
    Chains chains;
    ASSERT_TRUE(engine_->find(list(), column.column(), limits, answers, {}).ok());
    ASSERT_TRUE(engine_->chains(list(), column.column(), limits, chains).ok());
    ASSERT_EQ(chains.offsets.size(), keys.size() + 1);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      RequestId const limit = limits.each.empty() ? limits.all : limits.each[i];
      check_answer(answers[i], model_.visible(keys[i], limit));
      check_bytes(answers[i], {}, i);
      check_inside(answers[i], model_.newest_run(keys[i], limit), false);
      std::vector<Version> const want = model_.chain(keys[i], limit);
      ASSERT_EQ(chains.offsets[i + 1] - chains.offsets[i], want.size()) << keys[i];
      for (std::size_t v = 0; v < want.size(); ++v)
        ASSERT_TRUE(same(chains.versions[chains.offsets[i] + v], want[v])) << keys[i];
    }
  }

  /// With rows, that may lie further apart than they have to.
  void check_rows(std::vector<std::string> const& keys, Limits const& limits,
                  std::size_t apart) const {
    KeyColumn const column(keys);
    std::vector<Answer> answers(keys.size());
    std::size_t const stride = row_words(list()) + apart;
    std::vector<std::uint64_t> words(keys.size() * stride + 1);
    AnswerRows const rows{words.data(), stride};
    ASSERT_TRUE(engine_->find(list(), column.column(), limits, answers, rows).ok());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      RequestId const limit = limits.each.empty() ? limits.all : limits.each[i];
      check_answer(answers[i], model_.visible(keys[i], limit));
      check_bytes(answers[i], rows, i);
      check_inside(answers[i], model_.newest_run(keys[i], limit), true);
    }
  }

  /// Of keys whose newest version is an operand; answers how many the engine folded.
  std::size_t check_folds(std::vector<std::string> const& all, Limits const& limits,
                          Operation operation) const {
    std::vector<std::string> keys;
    std::vector<std::vector<Version>> chains;
    for (std::string const& key : all) {
      std::vector<Version> chain = model_.chain(key, limits.all);
      if (chain.empty() || chain.front().kind != Kind::merge) continue;
      keys.push_back(key);
      chains.push_back(std::move(chain));
    }
    KeyColumn const column(keys);
    std::vector<Answer> answers(keys.size());
    Status const s = engine_->fold(list(), column.column(), limits, operation, answers);
    if (s.code() == Code::unsupported) return 0;
    EXPECT_TRUE(s.ok()) << s.message();
    std::size_t folded = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      bool const open = chains[i].back().kind == Kind::merge;
      EXPECT_EQ(answers[i].found, open ? Found::merge : Found::put) << keys[i];
      if (!answers[i].inside) continue;
      EXPECT_EQ(answers[i].word, folded_word(chains[i], operation)) << keys[i];
      EXPECT_EQ(answers[i].size, chains[i].front().value.size) << keys[i];
      ++folded;
    }
    return folded;
  }

  /// Of ranges that begin at `begins`, and have no end where there are no `ends`.
  void check_ranges(std::vector<std::string> const& begins, std::vector<std::string> const& ends,
                    RequestId limit, std::uint64_t most, bool with_erased) const {
    KeyColumn const first(begins), last(ends);
    RangeQuery query{.begins = first.column(), .limit = limit, .most = most};
    if (!ends.empty()) query.ends = last.column();
    query.with_erased = with_erased;
    auto const read = engine_->ranges(list(), query);
    ASSERT_TRUE(read.ok()) << read.status().message();
    RangePairs const& found = read.value();
    ASSERT_EQ(found.ranges.size(), begins.size());
    auto const all = model_.newest(limit);
    for (std::size_t i = 0; i < begins.size(); ++i)
      check_range(found, i, all, begins[i], ends.empty() ? nullptr : &ends[i], query);
    ASSERT_EQ(found.firsts.back(), found.pairs.size());
  }

  void check_bounds(std::vector<std::string> const& keys) const {
    KeyColumn const column(keys);
    std::vector<std::uint32_t> lower(keys.size()), upper(keys.size());
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      ASSERT_TRUE(engine_->seek(*runs_[r], column.column(), Bound::lower, lower).ok());
      ASSERT_TRUE(engine_->seek(*runs_[r], column.column(), Bound::upper, upper).ok());
      auto const& run = model_.runs()[r];
      for (std::size_t i = 0; i < keys.size(); ++i) {
        auto const [first, last] =
            std::ranges::equal_range(run, keys[i], {}, [](auto& one) { return one.key; });
        ASSERT_EQ(lower[i], first - run.begin()) << keys[i];
        ASSERT_EQ(upper[i], last - run.begin()) << keys[i];
      }
    }
  }

  void check_entries(std::uint32_t step) const {
    EntryBlock block;
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      auto const& run = model_.runs()[r];
      ASSERT_EQ(runs_[r]->count(), run.size());
      for (std::uint32_t first = 0; first <= run.size(); first += step) {
        std::uint32_t const n = std::min(step, runs_[r]->count() - first);
        ASSERT_TRUE(engine_->fetch(*runs_[r], first, n, block).ok());
        ASSERT_EQ(block.size(), n);
        for (std::uint32_t i = 0; i < n; ++i) {
          auto const key = block.key(i);
          std::string const text(reinterpret_cast<char const*>(key.data()), key.size());
          ASSERT_EQ(text, run[first + i].key);
          ASSERT_TRUE(same(block.versions[i], run[first + i].version)) << text;
        }
      }
    }
  }

  /// Of how many of these keys the answer has the value's bytes.
  [[nodiscard]] std::size_t values_inside(std::vector<std::string> const& keys) const {
    KeyColumn const column(keys);
    std::vector<Answer> answers(keys.size());
    std::vector<std::uint64_t> words(keys.size() * row_words(list()));
    EXPECT_TRUE(
        engine_->find(list(), column.column(), {}, answers, {words.data(), row_words(list())})
            .ok());
    return static_cast<std::size_t>(
        std::ranges::count_if(answers, [](Answer const& one) { return one.inside; }));
  }

 private:
  static constexpr std::uint32_t kNoValues = ~std::uint32_t{0};

  /// Of the values that the run of such a batch has; 0: it has none, though there are some. A
  /// column of one width has bytes for erases, too.
  [[nodiscard]] std::uint32_t size_inside(std::vector<Write> const& writes, bool fixed) const {
    if (writes.empty()) return kNoValues;
    std::uint32_t size = fixed ? static_cast<std::uint32_t>(writes[0].value.size()) : 0;
    bool any = fixed;
    for (Write const& one : writes) {
      if (one.kind == Kind::erase) continue;
      if (any && one.value.size() != size) return 0;
      any = true;
      size = static_cast<std::uint32_t>(one.value.size());
    }
    if (!any) return kNoValues;
    return size <= options_.value_bytes_inside ? size : 0;
  }
  static std::uint32_t both_inside(std::uint32_t a, std::uint32_t b) {
    if (a == kNoValues || b == kNoValues) return std::min(a, b);
    return a == b ? a : 0;
  }

  /// Whether a key's answer has its bytes where it should. What lies apart a GPU's run may lack.
  void check_inside(Answer const& answer, std::size_t run, bool with_rows) const {
    if (answer.found == Found::absent) {
      ASSERT_FALSE(answer.inside);
      return;
    }
    std::uint32_t const size = inside_[run];
    bool const want =
        size != 0 && answer.found != Found::erased && (with_rows || size <= sizeof(std::uint64_t));
    ASSERT_TRUE(answer.inside == want || (want && engine_->is_far())) << size;
  }

  static void check_bytes(Answer const& answer, AnswerRows const& rows, std::size_t i) {
    if (!answer.inside) return;
    if (answer.size > sizeof answer.word) {
      ASSERT_NE(rows.words, nullptr);
    }
    std::uint32_t const words = RunView::words_of(answer.size);
    std::string want(std::size_t{words} * sizeof(std::uint64_t), '\0');
    std::memcpy(want.data(), answer.data, answer.size);
    ASSERT_EQ(std::memcmp(rows.value(answer, i), want.data(), want.size()), 0) << answer.size;
  }

  static std::vector<std::uint64_t> words_of(std::vector<Write> const& writes) {
    std::size_t size = 0;
    std::vector<std::uint64_t> words;
    for (Write const& one : writes) {
      words.push_back(0);
      if (one.kind == Kind::erase) continue;
      if (size == 0) size = one.value.size();
      if (one.value.size() != size || size == 0 || size > sizeof words.back()) return {};
      std::memcpy(&words.back(), one.value.data(), size);
    }
    return words;
  }
  static std::uint64_t folded_word(std::vector<Version> const& chain, Operation operation) {
    std::string best;
    std::uint64_t sum = 0;
    for (Version const& one : chain) {
      if (one.kind == Kind::erase) continue;
      std::string const value(reinterpret_cast<char const*>(one.value.data), one.value.size);
      std::uint64_t word = 0;
      std::memcpy(&word, value.data(), value.size());
      sum += word;
      bool const is_better = operation == Operation::max ? value > best : value < best;
      if (best.empty() || is_better) best = value;
    }
    std::uint64_t word = 0;
    std::memcpy(&word, best.data(), best.size());
    return operation == Operation::add ? sum : word;
  }

  static void check_range(RangePairs const& read, std::size_t i,
                          std::map<std::string, Version> const& all, std::string const& begin,
                          std::string const* end, RangeQuery const& query) {
    RangeCount const& is = read.ranges[i];
    RangeCount want;
    std::uint64_t pair = read.firsts[i];
    for (auto at = all.lower_bound(begin); at != all.end(); ++at) {
      auto const& [key, version] = *at;
      if (want.keys - want.erased == query.most || (end != nullptr && key >= *end)) break;
      bool const is_erased = version.kind == Kind::erase;
      if (is_erased && !query.with_erased) continue;
      if (is.is_cut != 0 && want.keys == is.keys) break;  // and what there is, is checked
      want.keys += 1;
      want.erased += is_erased ? 1 : 0;
      want.merges += version.kind == Kind::merge ? 1 : 0;
      want.key_bytes += key.size();
      want.value_bytes += version.value.size;
      ASSERT_LT(pair, read.firsts[i + 1]);
      auto const bytes = read.key(pair);
      ASSERT_EQ(std::string(reinterpret_cast<char const*>(bytes.data()), bytes.size()), key);
      check_pair(read.pairs[pair], version);
      ++pair;
    }
    ASSERT_EQ(pair, read.firsts[i + 1]);
    ASSERT_EQ(is.keys, want.keys);
    ASSERT_EQ(is.erased, want.erased);
    ASSERT_EQ(is.merges, want.merges);
    ASSERT_EQ(is.key_bytes, want.key_bytes);
    ASSERT_EQ(is.value_bytes, want.value_bytes);
    ASSERT_TRUE(is.is_cut == 0 || (query.with_erased && is.erased > query.most / 4));
  }

  static void check_pair(RangePair const& is, Version const& want) {
    ASSERT_EQ(static_cast<int>(is.found), static_cast<int>(want.kind) + 1);
    ASSERT_EQ(is.size, want.value.size);
    if (!is.inside) {
      ASSERT_EQ(is.value(), want.value.data);
    } else if (is.size > 0) {
      ASSERT_EQ(std::memcmp(is.value(), want.value.data, is.size), 0);
    }
  }

  static void check_answer(Answer const& answer, std::vector<Version> const& seen) {
    if (seen.empty()) {
      ASSERT_EQ(answer.found, Found::absent);
      return;
    }
    ASSERT_EQ(answer.found, seen[0].kind == Kind::put     ? Found::put
                            : seen[0].kind == Kind::erase ? Found::erased
                                                          : Found::merge);
    ASSERT_EQ(answer.request, seen[0].request);
    ASSERT_TRUE(same(answer.value(), seen[0].value));
  }

  Engine* engine_;
  EngineOptions options_;
  std::vector<RunPtr> runs_;
  std::vector<std::uint32_t> inside_;  // of each run, the size of the values that it has itself
  RunModel model_;
  RequestId next_ = 10;
};

/// Few enough that they meet again: prefixes of each other, zeros at the end, long common parts.
inline std::string tricky_key(std::uint32_t n) {
  static std::vector<std::string> const starts = {"",
                                                  "a",
                                                  std::string("a\0", 2),
                                                  "\xff",
                                                  std::string(8, 'p'),
                                                  std::string(16, '\0'),
                                                  std::string(100, 'q'),
                                                  std::string(99, 'q') + "\x80"};
  static std::vector<std::string> const ends = {
      "",         std::string(1, '\0'), std::string(9, '\0'), "b",
      "\x80\x01", "12345678",           "123456789",          std::string(20, '\xff')};
  return starts[n % starts.size()] + ends[n / starts.size() % ends.size()];
}

}  // namespace perdure::lsm
