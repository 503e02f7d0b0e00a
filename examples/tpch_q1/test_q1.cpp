// Q1 of the example against DuckDB's answer, and against a model that adds up row by row; what
// pools that are damaged, cut short or no lineitem at all are told.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <sstream>
#include <thread>

#include "column_files.hpp"
#include "pool.hpp"
#include "runner.hpp"

namespace perdure::q1 {
namespace {

constexpr Query kValidation{10471};  // 1998-09-02

/// A pool's path of this test's own, which goes with it.
class PoolPath {
 public:
  explicit PoolPath(std::string const& name)
      : path_("/dev/shm/perdure-q1-" + std::to_string(::getpid()) + "-" + name) {}
  PoolPath(PoolPath const&) = delete;
  PoolPath& operator=(PoolPath const&) = delete;
  ~PoolPath() { std::filesystem::remove(path_); }
  [[nodiscard]] std::string const& operator*() const { return path_; }

 private:
  std::string path_;
};

Totals on_threads(std::string const& pool, Query query, unsigned threads = 2) {
  auto table = open_table(pool);
  EXPECT_TRUE(table.ok()) << table.status().message();
  if (!table.ok()) return {};
  Runner runner(*table, threads);
  auto answer = runner.run(Mode::cpu, query);
  EXPECT_TRUE(answer.ok()) << answer.status().message();
  return answer.ok() ? answer->totals : Totals{};
}

/// Row by row, into the words of the answer.
Totals model(Columns const& columns, Query query) {
  Totals totals;
  for (std::uint64_t i = 0; i < columns.rows; ++i) {
    if (columns.as<std::uint16_t>(Name::shipdate)[i] > query.last_day) continue;
    std::uint64_t const price = columns.as<std::uint32_t>(Name::price)[i];
    std::uint64_t const discount = columns.as<std::uint8_t>(Name::discount)[i];
    std::uint64_t const disc_price = price * (100 - discount);
    totals.add(
        key_of(columns.as<std::uint8_t>(Name::flag)[i], columns.as<std::uint8_t>(Name::status)[i]),
        {1, columns.as<std::uint16_t>(Name::quantity)[i], discount, price, disc_price,
         disc_price * (100u + columns.as<std::uint8_t>(Name::tax)[i])});
  }
  return totals;
}

/// The first rows of others.
Columns first_rows(Columns const& from, std::uint64_t rows) {
  Columns columns = Columns::of(rows);
  for (std::size_t c = 0; c < kColumns; ++c)
    std::memcpy(columns.data[c].data(), from.data[c].data(), rows * kKinds[c].width);
  return columns;
}

std::vector<std::vector<std::string>> fields_of(std::istream& in) {
  std::vector<std::vector<std::string>> lines;
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    lines.emplace_back();
    for (std::string field; std::getline(fields, field, '|');) lines.back().push_back(field);
  }
  return lines;
}

TEST(TpchQ1, AnswersDbgensRowsAsDuckDbDoes) {
  auto columns = read_folder(Q1_SAMPLE);
  ASSERT_TRUE(columns.ok()) << columns.status().message();
  ASSERT_EQ(columns->rows, 60175u);
  PoolPath const pool("sample");
  ASSERT_TRUE(load(*pool, *columns, Form::columns).ok());
  std::istringstream ours(on_threads(*pool, kValidation).table());
  std::ifstream theirs(Q1_SAMPLE "/q1_answer.psv");
  auto const found = fields_of(ours), expected = fields_of(theirs);
  ASSERT_EQ(found.size(), 5u);  // a header and four groups
  ASSERT_EQ(found.size(), expected.size());
  EXPECT_EQ(found[0], expected[0]);
  for (std::size_t line = 1; line < found.size(); ++line) {
    ASSERT_EQ(found[line].size(), 10u);
    for (std::size_t i : {0u, 1u, 3u, 4u, 5u, 9u}) EXPECT_EQ(found[line][i], expected[line][i]);
    EXPECT_EQ(found[line][2], expected[line][2] + ".00");  // DuckDB's file has whole quantities
    for (std::size_t i : {6u, 7u, 8u}) {
      double const mean = std::stod(expected[line][i]);
      EXPECT_NEAR(std::stod(found[line][i]), mean, 1e-15 * mean);
    }
  }
}

TEST(TpchQ1, RowsAndColumnsAnswerAsTheModelWhereverTheLastBlockEnds) {
  Columns const all = generate(0.012, 2);
  ASSERT_GT(all.rows, 65541u);
  for (std::uint64_t const rows : {1u, 3u, 4u, 16383u, 16384u, 16385u, 65537u}) {
    Columns const columns = first_rows(all, rows);
    for (Form const form : {Form::columns, Form::rows}) {
      PoolPath const pool("ends");
      ASSERT_TRUE(load(*pool, columns, form).ok());
      EXPECT_TRUE(on_threads(*pool, {9000}) == model(columns, {9000})) << rows;
      EXPECT_TRUE(on_threads(*pool, {kNoDay - 1}) == model(columns, {kNoDay - 1})) << rows;
    }
  }
}

TEST(TpchQ1, ThreadsMakeTheSameRowsAndTheSameAnswer) {
  Columns const one = generate(0.02, 1), three = generate(0.02, 3);
  ASSERT_EQ(one.rows, three.rows);
  for (std::size_t c = 0; c < kColumns; ++c)
    EXPECT_TRUE(std::ranges::equal(one.data[c].span(), three.data[c].span())) << kKinds[c].name;
  PoolPath const pool("threads");
  ASSERT_TRUE(load(*pool, one, Form::columns).ok());
  Totals const expected = model(one, kValidation);
  EXPECT_EQ(expected.groups().size(), 4u);
  for (unsigned const threads : {1u, 2u, 5u})
    EXPECT_TRUE(on_threads(*pool, kValidation, threads) == expected);
}

TEST(TpchQ1, TheFilterAloneCountsTheRowsThatPass) {
  Columns const columns = generate(0.005, 2);
  PoolPath const pool("filter");
  ASSERT_TRUE(load(*pool, columns, Form::columns).ok());
  auto table = open_table(*pool);
  ASSERT_TRUE(table.ok());
  Runner runner(*table, 2);
  auto passed = runner.run(Mode::cpu, kValidation, Stage::filter);
  ASSERT_TRUE(passed.ok());
  Totals const whole = model(columns, kValidation);
  std::uint64_t expected = 0;
  for (auto const& [key, group] : whole.groups()) expected += group.sums.count;
  ASSERT_EQ(passed->totals.groups().size(), 1u);
  EXPECT_EQ(passed->totals.groups().begin()->second.sums.count, expected);
}

/// Turns one bit of what the file has of these bytes, wherever they are.
bool damage(std::string const& file, std::string_view bytes) {
  std::fstream pool(file, std::ios::binary | std::ios::in | std::ios::out);
  std::string const all((std::istreambuf_iterator<char>(pool)), {});
  auto const at = all.find(bytes);
  if (at == std::string::npos) return false;
  pool.clear();
  pool.seekp(static_cast<std::streamoff>(at + bytes.size() / 2));
  pool.put(static_cast<char>(all[at + bytes.size() / 2] ^ 4));
  return pool.good();
}

TEST(TpchQ1, ADamagedRecordIsRefusedAndNamed) {
  Columns const columns = generate(0.02, 2);
  PoolPath const pool("damaged");
  ASSERT_TRUE(load(*pool, columns, Form::columns).ok());
  auto const prices = columns.data[0].span();
  std::string_view const second_piece(
      reinterpret_cast<char const*>(prices.data()) + kRecordBytes + 640, 64);
  ASSERT_TRUE(damage(*pool, second_piece));
  Status const refused = open_table(*pool).status();
  EXPECT_EQ(refused.code(), Code::corrupt);
  EXPECT_NE(refused.message().find("column l_extendedprice, piece 1 is damaged"), std::string::npos)
      << refused.message();
  EXPECT_NE(refused.message().find("load lineitem again"), std::string::npos);
}

TEST(TpchQ1, ALoadThatWasCutShortIsNoTable) {
  PoolPath const pool("short");
  {
    CreateOptions create;
    create.value_bytes = kRecordBytes;
    create.expected_records = 1;
    auto store = Store::create(*pool, create);
    ASSERT_TRUE(store.ok());
    std::vector<std::byte> const piece(kRecordBytes);
    std::array<std::uint64_t, 1> const key{0};
    ASSERT_TRUE(store->put(Column::of(key), {piece.data(), nullptr, kRecordBytes, 1}).ok());
    ASSERT_TRUE(store->close().ok());
  }
  Status const refused = open_table(*pool).status();
  EXPECT_EQ(refused.code(), Code::corrupt);
  EXPECT_NE(refused.message().find("load it again"), std::string::npos) << refused.message();
}

TEST(TpchQ1, AnotherPoolIsRefused) {
  PoolPath const pool("other");
  {
    CreateOptions create;
    create.value_bytes = 16;
    auto store = Store::create(*pool, create);
    ASSERT_TRUE(store.ok() && store->close().ok());
  }
  EXPECT_EQ(open_table(*pool).status().code(), Code::invalid_argument);
}

TEST(TpchQ1, ValuesThatSumsHaveNoRoomForAreRefusedWithTheirRow) {
  PoolPath const folder("folder");
  Columns const columns = generate(0.001, 1);
  columns.as<std::uint8_t>(Name::discount)[77] = 101;
  ASSERT_TRUE(write_folder(*folder, columns).ok());
  Status const refused = read_folder(*folder).status();
  std::filesystem::remove_all(*folder);
  EXPECT_EQ(refused.code(), Code::invalid_argument);
  EXPECT_NE(refused.message().find("l_discount.u1: row 77 has 101"), std::string::npos)
      << refused.message();
}

TEST(TpchQ1, ColumnsOfOtherLengthsAreRefused) {
  PoolPath const folder("lengths");
  ASSERT_TRUE(write_folder(*folder, generate(0.001, 1)).ok());
  std::ofstream(*folder + "/l_tax.u1", std::ios::app) << 'x';
  Status const refused = read_folder(*folder).status();
  std::filesystem::remove_all(*folder);
  EXPECT_EQ(refused.code(), Code::corrupt);
  EXPECT_NE(refused.message().find("l_tax.u1"), std::string::npos) << refused.message();
}

TEST(TpchQ1, MoreGroupsThanSlotsAreRefusedAndEightAreNot) {
  Columns const columns = generate(0.001, 1);
  auto const flags = columns.as<std::uint8_t>(Name::flag);
  std::fill_n(columns.as<std::uint8_t>(Name::status), columns.rows, std::uint8_t{'F'});
  for (std::uint64_t const groups : {8u, 9u}) {
    for (std::uint64_t i = 0; i < columns.rows; ++i)
      flags[i] = static_cast<std::uint8_t>('A' + i % groups);
    PoolPath const pool("groups");
    ASSERT_TRUE(load(*pool, columns, Form::columns).ok());
    auto table = open_table(*pool);
    ASSERT_TRUE(table.ok());
    Runner runner(*table, 1);
    auto answer = runner.run(Mode::cpu, kValidation);
    ASSERT_EQ(answer.ok(), groups == 8);
    if (groups == 8)
      EXPECT_TRUE(answer->totals == model(columns, kValidation));
    else
      EXPECT_NE(answer.status().message().find("more than 8 pairs"), std::string::npos);
  }
}

TEST(TpchQ1, TheLargestValuesOfAWholeBlockStayApart) {
  Columns const columns = Columns::of(4 * kBlockRows);
  for (std::uint64_t i = 0; i < columns.rows; ++i) {
    columns.as<std::uint32_t>(Name::price)[i] = kMostPrice;
    columns.as<std::uint16_t>(Name::quantity)[i] = kMostQuantity;
    columns.as<std::uint16_t>(Name::shipdate)[i] = 0;
    columns.as<std::uint8_t>(Name::discount)[i] = i % 2 == 0 ? kMostPercent : 0;
    columns.as<std::uint8_t>(Name::tax)[i] = kMostPercent;
  }
  PoolPath const pool("largest");
  ASSERT_TRUE(load(*pool, columns, Form::columns).ok());
  EXPECT_TRUE(on_threads(*pool, kValidation) == model(columns, kValidation));
}

TEST(TpchQ1, LanesOfOneRowSumsHoldABlockOfTheLargestRows) {
  // All of a block's rows in one lane, as a CUDA thread has them.
  std::uint64_t const rows = kBlockRows;
  std::uint64_t const packed = 1 + (std::uint64_t{kMostQuantity} << kQuantityBit) +
                               (std::uint64_t{kMostPercent} << kDiscountBit);
  GroupSums const sums = unpack({rows * packed, 0, 0, 0});
  EXPECT_EQ(sums.count, rows);
  EXPECT_EQ(sums.quantity, rows * kMostQuantity);
  EXPECT_EQ(sums.discount, rows * kMostPercent);
  Wide const charge = Wide{kMostPrice} * 100 * 200 * kMostRowsOfAWord;
  EXPECT_EQ(static_cast<std::uint64_t>(charge), charge);
}

TEST(TpchQ1, ChargesPassAWord) {
  Totals totals;
  std::uint64_t const most = ~std::uint64_t{0};
  for (int i = 0; i < 3; ++i) totals.add(key_of('A', 'F'), {1, 0, 0, 0, 0, most});
  EXPECT_EQ(decimal(totals.groups().begin()->second.charge, 6), "55340232221128.654845");
  EXPECT_EQ(decimal(5, 2), "0.05");
  EXPECT_EQ(decimal(0, 0), "0");
}

/// Takes blocks as the GPU does, and runs them on the host; or fails.
class GpuOfTheHost final : public Gpu {
 public:
  explicit GpuOfTheHost(bool fails) : fails_(fails) {}
  [[nodiscard]] std::string name() const override { return "host"; }
  Status pin(Table&) override { return {}; }
  Status copy(Table const&) override { return {}; }
  Status run(Work const& work, bool, BlockQueue& queue, Totals& to) override {
    for (auto next = queue.take(2, 8); next.count > 0; next = queue.take(2, 8)) {
      if (fails_) return {Code::device_error, "the GPU is gone"};
      BlockQueue own(next.count);
      Work part = work;
      part.blocks = work.blocks.subspan(next.first, next.count);
      run_on_host(part, own, to);
    }
    return {};
  }

 private:
  bool fails_;
};

TEST(TpchQ1, TwoDevicesShareTheBlocksAndAnswerAsOne) {
  Columns const columns = generate(0.2, 2);
  PoolPath const pool("both");
  ASSERT_TRUE(load(*pool, columns, Form::columns).ok());
  auto table = open_table(*pool);
  ASSERT_TRUE(table.ok());
  Runner runner(*table, 2, std::make_unique<GpuOfTheHost>(false));
  Totals const expected = model(columns, kValidation);
  for (Mode const mode : {Mode::cpu, Mode::gpu, Mode::both, Mode::gpu_memory}) {
    ASSERT_TRUE(runner.prepare(mode).ok());
    auto answer = runner.run(mode, kValidation);
    ASSERT_TRUE(answer.ok());
    EXPECT_TRUE(answer->totals == expected) << name(mode);
  }
}

TEST(TpchQ1, AGpuThatFailsFailsTheQuery) {
  PoolPath const pool("fails");
  ASSERT_TRUE(load(*pool, generate(0.05, 2), Form::columns).ok());
  auto table = open_table(*pool);
  ASSERT_TRUE(table.ok());
  Runner runner(*table, 1, std::make_unique<GpuOfTheHost>(true));
  EXPECT_EQ(runner.run(Mode::gpu, kValidation).status().code(), Code::device_error);
  EXPECT_TRUE(runner.run(Mode::cpu, kValidation).ok());
}

TEST(TpchQ1, EachBlockGoesToOneTaker) {
  std::vector<std::atomic<int>> taken(200000);
  BlockQueue queue(taken.size());
  auto const take = [&](std::size_t least, std::size_t most) {
    for (auto next = queue.take(least, most); next.count > 0; next = queue.take(least, most))
      for (std::size_t i = 0; i < next.count; ++i) ++taken[next.first + i];
  };
  auto const first = queue.take(32, 2048);  // while nobody else does
  ASSERT_EQ(first.count, 2048u);
  for (std::size_t i = 0; i < first.count; ++i) ++taken[first.first + i];
  {
    std::jthread const few([&] { take(1, 1); }), many([&] { take(32, 2048); });
    take(1, 1);
  }
  EXPECT_TRUE(std::ranges::all_of(taken, [](auto const& one) { return one == 1; }));
}

TEST(TpchQ1, AQuarterOfWhatIsLeftIsTakenWithinBounds) {
  BlockQueue queue(1000);
  EXPECT_EQ(queue.take(32, 2048).count, 250u);
  EXPECT_EQ(queue.take(1, 1).first, 250u);
  EXPECT_EQ(queue.take(700, 2048).count, 700u);
  EXPECT_EQ(queue.take(100, 2048).count, 49u);
  EXPECT_EQ(queue.take(100, 2048).count, 0u);
}

}  // namespace
}  // namespace perdure::q1
