// Generated sequences of calls on arrays, of every shape of columns, against a plain map. Reads are
// split into parts of a few keys, so that all that joins parts is under test.
#include <random>
#include <utility>

#include "rocks/arrays_world.hpp"

namespace perdure::test {
namespace {

/// Columns that a sequence has: keys of one width or of several, and values.
struct Shape {
  std::uint32_t key_width = 0;  // 0: of any length
  std::uint32_t value_width = 0;
  bool fixed_values = false;
  std::uint32_t inside = 8;  // bytes of values that memtables have themselves
};

class ArrayCalls {
 public:
  ArrayCalls(rocksdb::DB& db, Shape const& shape, std::uint32_t seed)
      : db_(db), shape_(shape), random_(seed) {}

  void call() {
    std::size_t const n = below(4) == 0 ? 1 + below(2000) : 1 + below(250);
    switch (below(10)) {
      case 0: return write_all(OpKind::put, n);
      case 1: return write_all(OpKind::erase, n / 4 + 1);
      case 2: return write_all(OpKind::update, n / 2 + 1);
      case 3: return get_variable(n);
      case 4: return get_fixed(n);
      case 5: return get_ranges();
      case 6: return maybe_flush();
      default: return apply(n);
    }
  }

 private:
  rocksdb::ColumnFamilyHandle* family() { return db_.DefaultColumnFamily(); }
  std::size_t below(std::size_t n) { return random_() % n; }

  std::string draw_key() {
    std::string const number = std::to_string(below(400));
    if (shape_.key_width == 0) return number.substr(1);  // often the same, and often empty
    std::string key(shape_.key_width, '0');
    for (std::size_t i = 0; i < std::min<std::size_t>(number.size(), key.size()); ++i)
      key[key.size() - 1 - i] = number[i];
    return key;
  }
  std::string draw_value() {
    if (shape_.fixed_values) return std::string(shape_.value_width, static_cast<char>(random_()));
    return std::string(below(5) == 0 ? 0 : below(40), static_cast<char>('a' + below(26)));
  }
  template <class Draw>
  std::vector<std::string> draw(std::size_t n, Draw one) {
    std::vector<std::string> all(n);
    for (std::string& each : all) each = one();
    return all;
  }
  [[nodiscard]] Strings keys(std::vector<std::string> const& all) const {
    return shape_.key_width == 0 ? Strings(all) : Strings::of_width(all, shape_.key_width);
  }
  [[nodiscard]] Strings values(std::vector<std::string> const& all) const {
    return shape_.fixed_values ? Strings::of_width(all, shape_.value_width) : Strings(all);
  }

  void write_all(OpKind kind, std::size_t n) {
    auto const k = draw(n, [this] { return draw_key(); });
    auto const v = draw(n, [this] { return draw_value(); });
    rocksdb::Status s;
    if (kind == OpKind::put) {
      s = rocks::put(db_, family(), keys(k).column(), values(v).column());
    } else if (kind == OpKind::erase) {
      s = rocks::erase(db_, family(), keys(k).column());
    } else {
      s = rocks::merge(db_, family(), keys(k).column(), values(v).column());
    }
    ASSERT_TRUE(s.ok()) << s.ToString();
    for (std::size_t i = 0; i < n; ++i) write(model_, kind, k[i], v[i]);
  }

  void get_variable(std::size_t n) {
    auto const k = draw(n, [this] { return draw_key(); });
    std::vector<KeyStatus> statuses(n);
    auto const s = rocks::get(db_, family(), keys(k).column(), found_, statuses);
    ASSERT_TRUE(s.ok()) << s.ToString();
    ASSERT_EQ(found_.offsets.size(), n + 1);
    for (std::size_t i = 0; i < n; ++i) {
      auto const is = model_.find(k[i]);
      ASSERT_EQ(statuses[i], is == model_.end() ? KeyStatus::not_found : KeyStatus::ok);
      ASSERT_EQ(at(found_, i), is == model_.end() ? "" : is->second);
    }
  }

  void get_fixed(std::size_t n) {
    auto const k = draw(n, [this] { return draw_key(); });
    std::vector<KeyStatus> statuses(n);
    auto const width = static_cast<std::uint32_t>(shape_.fixed_values ? shape_.value_width : 8);
    std::string out(width * n, '#');
    MutableColumn const to{reinterpret_cast<std::byte*>(out.data()), width, n};
    auto const s = rocks::get(db_, family(), keys(k).column(), to, statuses);
    ASSERT_TRUE(s.ok()) << s.ToString();
    for (std::size_t i = 0; i < n; ++i)
      check_fixed(k[i], statuses[i], out.substr(i * width, width));
  }

  void check_fixed(std::string const& key, KeyStatus status, std::string const& value) {
    auto const is = model_.find(key);
    std::string expected(value.size(), '#');  // as it was
    KeyStatus expected_status = KeyStatus::not_found;
    if (is != model_.end() && is->second.size() == value.size()) {
      expected = is->second;
      expected_status = KeyStatus::ok;
    } else if (is != model_.end()) {
      expected_status = KeyStatus::size_mismatch;
    }
    ASSERT_EQ(status, expected_status);
    ASSERT_EQ(value, expected);
  }

  void get_ranges() {
    std::size_t const n = 1 + below(60);
    auto const begins = draw(n, [this] { return draw_key(); });
    auto const ends = draw(n, [this] { return draw_key(); });
    bool const has_ends = below(2) == 0;
    std::size_t const limit = below(30);
    rocks::Ranges ranges;
    auto const s = rocks::range(db_, family(), keys(begins).column(),
                                has_ends ? keys(ends).column() : Column{}, limit, ranges);
    ASSERT_TRUE(s.ok()) << s.ToString();
    for (std::size_t i = 0; i < n; ++i) {
      auto is = model_.lower_bound(begins[i]);
      auto pair = static_cast<std::size_t>(ranges.offsets[i]);
      for (std::size_t k = 0; k < limit && is != model_.end(); ++k, ++is, ++pair) {
        if (has_ends && is->first >= ends[i]) break;
        ASSERT_LT(pair, static_cast<std::size_t>(ranges.offsets[i + 1]));
        ASSERT_EQ(at(ranges.keys, pair), is->first);
        ASSERT_EQ(at(ranges.values, pair), is->second);
      }
      ASSERT_EQ(pair, static_cast<std::size_t>(ranges.offsets[i + 1]));
    }
  }

  void maybe_flush() {
    if (below(2) == 0) return;
    ASSERT_TRUE(db_.Flush({}).ok());
  }

  void apply(std::size_t n) {
    auto const k = draw(n, [this] { return draw_key(); });
    auto const v = draw(n, [this] { return draw_value(); });
    std::vector<OpKind> kinds(n);
    std::size_t const kinds_of_this = 1 + below(4);  // gets alone, gets and puts, ...
    for (OpKind& kind : kinds) kind = static_cast<OpKind>(below(kinds_of_this));
    Strings const key_column = keys(k), value_column = values(v);
    MixedBatch batch{key_column.column(), kinds, value_column.column()};
    std::uint32_t const width = shape_.fixed_values && below(2) == 0 ? shape_.value_width : 0;
    std::string out(width * n, '#');
    if (width != 0) batch.out = {reinterpret_cast<std::byte*>(out.data()), width, n};
    std::vector<KeyStatus> statuses(n);
    auto const s = rocks::apply(db_, family(), batch, found_, statuses);
    ASSERT_TRUE(s.ok()) << s.ToString();
    for (std::size_t i = 0; i < n; ++i) {
      bool const is_get = kinds[i] == OpKind::get;
      auto const is = model_.find(k[i]);
      if (is_get && width != 0) check_fixed(k[i], statuses[i], out.substr(i * width, width));
      if (width == 0) {
        ASSERT_EQ(at(found_, i), is_get && is != model_.end() ? is->second : "");
      }
      if (width == 0 || !is_get) {
        bool const is_there = !is_get || is != model_.end();
        ASSERT_EQ(statuses[i], is_there ? KeyStatus::ok : KeyStatus::not_found);
      }
      if (!is_get) write(model_, kinds[i], k[i], v[i]);
    }
  }

  rocksdb::DB& db_;
  Shape shape_;
  std::mt19937 random_;
  Model model_;
  VariableValues found_;  // used again and again, as callers may
};

class RocksArraysOfShape : public ::testing::WithParamInterface<Shape>, public RocksArrays {
 protected:
  /// RocksDB takes over whenever the machine is slow enough.
  RocksArraysOfShape() : RocksArrays(GetParam().inside, rocks::GpuOptions().idle_millis) {}
};

TEST_P(RocksArraysOfShape, AnswerAsAPlainMapDoes) {
  split_reads_into(7);
  ArrayCalls calls(*db_, GetParam(), 11);
  for (int i = 0; i < 150 && !HasFatalFailure(); ++i) calls.call();
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, RocksArraysOfShape,
    ::testing::Values(Shape{0, 0, false}, Shape{8, 8, true}, Shape{3, 0, false}, Shape{0, 16, true},
                      Shape{12, 100, true}, Shape{1, 0, true}, Shape{12, 100, true, 128},
                      Shape{0, 16, true, 16}, Shape{8, 0, false, 1024}, Shape{8, 8, true, 0}),
    [](auto const& one) {
      auto const width = [](std::uint32_t n, bool fixed) {
        return fixed ? std::to_string(n) : std::string("any");
      };
      return "Keys_" + width(one.param.key_width, one.param.key_width != 0) + "_values_" +
             width(one.param.value_width, one.param.fixed_values) +
             (one.param.inside == 8 ? "" : "_inside_" + std::to_string(one.param.inside));
    });

}  // namespace
}  // namespace perdure::test
