// Wrong arguments and sizes: refused by name, and nothing happens.
#include <algorithm>
#include <array>

#include "conformance/conformance.hpp"

namespace perdure::test {
namespace {

TEST_P(Conformance, AStoreKnowsItsSizesAndDevice) {
  Stats const s = driver_->store().stats();
  CreateOptions const made = GetParam().create(1);
  EXPECT_EQ(driver_->store().key_bytes(), made.key_bytes);
  EXPECT_EQ(driver_->store().value_bytes(), made.value_bytes);
  EXPECT_EQ(driver_->store().device(), GetParam().device);
  EXPECT_EQ(s.key_bytes, made.key_bytes);
  EXPECT_EQ(s.value_bytes, made.value_bytes);
  EXPECT_EQ(s.device, GetParam().device);
}

TEST_P(Conformance, TooLongKeysAndValuesAreRefusedOneByOne) {
  if (fixed_keys() && fixed_values()) GTEST_SKIP() << "all sizes are fixed here";
  Stats const s = driver_->store().stats();
  std::vector<Bytes> k = keys(0, 5), v = values(0, 5);
  std::vector<KeyStatus> expected(5, KeyStatus::ok);
  if (!fixed_keys()) {
    k[1] = Bytes(s.max_key_bytes + 1, 'k');
    k[2] = Bytes(s.max_key_bytes, 'k');
    expected[1] = KeyStatus::too_large;
  }
  if (!fixed_values()) {
    v[3] = Bytes(s.max_value_bytes + 1, 'v');
    v[4] = Bytes(s.max_value_bytes, 'v');
    expected[3] = KeyStatus::too_large;
  }
  std::vector<KeyStatus> statuses;
  Status const put = driver_->put(k, v, statuses);
  ASSERT_TRUE(put.ok()) << put.message();
  EXPECT_EQ(statuses, expected);
  for (std::size_t i = 0; i < k.size(); ++i) {
    if (expected[i] == KeyStatus::ok) driver_->model.held[k[i]] = v[i];
  }
  ASSERT_NO_FATAL_FAILURE(driver_->check_all());
  std::vector<Answer> answers;
  ASSERT_TRUE(driver_->get(k, answers).ok());
  for (std::size_t i = 0; i < k.size(); ++i) {
    KeyStatus const absent =
        k[i].size() > s.max_key_bytes ? KeyStatus::too_large : KeyStatus::not_found;
    EXPECT_EQ(answers[i].status, expected[i] == KeyStatus::ok ? KeyStatus::ok : absent);
  }
}

TEST_P(Conformance, OfValuesOfAnyLengthAGetOfRowsAnswersThoseOfItsWidth) {
  if (fixed_values()) GTEST_SKIP() << "all values have one length here";
  std::vector<Bytes> k = keys(0, 400), v;
  for (std::size_t i = 0; i < k.size(); ++i)
    v.push_back(Bytes(std::array{16, 17, 100, 0}[random_() % 4], static_cast<char>(i)));
  ASSERT_NO_FATAL_FAILURE(driver_->run_put(k, v));
  k = keys(0, 500);  // of which the last are absent
  std::ranges::shuffle(k, random_);
  Packed const packed(k, GetParam().key_bytes);
  for (std::uint32_t const width : {16u, 17u, 100u, 64u}) {
    SCOPED_TRACE(width);
    std::vector<std::byte> out(k.size() * width, std::byte{0xee});
    std::vector<KeyStatus> statuses(k.size());
    Status const got = driver_->store().get(
        packed.column(), {out.data(), width, k.size(), MemorySpace::host}, statuses);
    ASSERT_TRUE(got.ok()) << got.message();
    std::vector<Bytes> const rows = unpack(out, width);
    for (std::size_t i = 0; i < k.size(); ++i) {
      auto const held = driver_->model.held.find(k[i]);
      bool const there = held != driver_->model.held.end();
      bool const fits = there && held->second.size() == width;
      EXPECT_EQ(statuses[i], fits    ? KeyStatus::ok
                             : there ? KeyStatus::size_mismatch
                                     : KeyStatus::not_found);
      EXPECT_EQ(rows[i], fits ? held->second : Bytes(width, '\xee')) << "row " << i;
    }
  }
}

TEST_P(Conformance, ErasesIgnoreTheirValuesHoweverLong) {
  if (fixed_values()) GTEST_SKIP() << "all values have one length here";
  ASSERT_NO_FATAL_FAILURE(fill(0, 2));
  Bytes const huge(driver_->store().stats().max_value_bytes + 1, 'v');
  ASSERT_NO_FATAL_FAILURE(
      driver_->run_mixed({{OpKind::erase, key(0), huge}, {OpKind::put, key(1), value(1, 1)}}));
  driver_->check_all();
}

bool refused(Status const& s) { return s.code() == Code::invalid_argument && !s.message().empty(); }

TEST_P(Conformance, WrongShapesOfArraysAreNamedAndHaveNoEffect) {
  ASSERT_NO_FATAL_FAILURE(fill(0, 10));
  Store& store = driver_->store();
  Packed const k(keys(0, 4), GetParam().key_bytes), v(values(0, 4, 1), GetParam().value_bytes);
  std::vector<KeyStatus> statuses(4), few(3);
  EXPECT_TRUE(refused(store.put(k.column(), v.column(), few))) << "a status too few";
  Column three = v.column();
  three.count = 3;
  EXPECT_TRUE(refused(store.put(k.column(), three, statuses))) << "a value too few";
  Column null = k.column();
  null.data = nullptr;
  EXPECT_TRUE(refused(store.put(null, v.column(), statuses))) << "null keys";
  null = v.column();
  null.data = nullptr;
  EXPECT_TRUE(refused(store.put(k.column(), null, statuses))) << "null values";
  Column neither = k.column();
  neither.width = 0;
  neither.offsets = nullptr;
  EXPECT_TRUE(refused(store.erase(neither, statuses))) << "neither a width nor offsets";
  if (fixed_keys()) {
    Column other = k.column();
    other.width = GetParam().key_bytes + 1;
    EXPECT_TRUE(refused(store.erase(other, statuses))) << "keys of another width";
  }
  if (fixed_values()) {
    std::vector<std::byte> out(4 * GetParam().value_bytes);
    EXPECT_TRUE(refused(store.get(
        k.column(), {out.data(), GetParam().value_bytes - 1, 4, MemorySpace::host}, statuses)));
    EXPECT_TRUE(refused(store.get(
        k.column(), {out.data(), GetParam().value_bytes, 3, MemorySpace::host}, statuses)));
    EXPECT_TRUE(refused(
        store.get(k.column(), {nullptr, GetParam().value_bytes, 4, MemorySpace::host}, statuses)));
    Column other = v.column();
    other.width = GetParam().value_bytes + 1;
    EXPECT_TRUE(refused(store.put(k.column(), other, statuses))) << "values of another width";
  } else {
    std::vector<std::byte> out(32);
    EXPECT_TRUE(refused(store.get(k.column(), {}, statuses))) << "an output of no array";
    EXPECT_TRUE(refused(store.get(k.column(), {out.data(), 0, 4, MemorySpace::host}, statuses)))
        << "rows of no bytes";
    EXPECT_TRUE(refused(store.get(k.column(), {out.data(), 8, 3, MemorySpace::host}, statuses)))
        << "a row too few";
  }
  if (!fixed_keys()) {
    std::int64_t const decreasing[] = {0, 8, 4, 9, 12};
    Column wrong = k.column();
    wrong.offsets = decreasing;
    EXPECT_TRUE(refused(store.erase(wrong, statuses))) << "offsets decrease";
  }
  driver_->check_all();
}

TEST_P(Conformance, MixedBatchesThatLackSomethingAreNamedAndHaveNoEffect) {
  ASSERT_NO_FATAL_FAILURE(fill(0, 10));
  Store& store = driver_->store();
  Packed const k(keys(0, 4), GetParam().key_bytes);
  std::vector<KeyStatus> statuses(4);
  MixedBatch batch;
  batch.keys = k.column();
  std::vector<OpKind> kinds(4, static_cast<OpKind>(9));
  batch.kinds = kinds;
  EXPECT_TRUE(refused(store.apply(batch, statuses))) << "an unknown operation";
  kinds.assign(4, OpKind::put);
  EXPECT_TRUE(refused(store.apply(batch, statuses))) << "puts without values";
  kinds.assign(4, OpKind::get);
  EXPECT_TRUE(refused(store.apply(batch, statuses))) << "gets without an output";
  batch.kinds = std::span(kinds).first(3);
  EXPECT_TRUE(refused(store.apply(batch, statuses))) << "a kind too few";
  driver_->check_all();
}

TEST_P(Conformance, ImpossiblePoolsAreRefusedAndLeaveNoFile) {
  auto const refused = [&](CreateOptions const& create, Code code) {
    std::string const path = scratch_.file("impossible");
    auto const store = Store::create(path, create, GetParam().open());
    EXPECT_FALSE(store.ok());
    EXPECT_EQ(store.status().code(), code) << store.status().message();
    EXPECT_NE(::access(path.c_str(), F_OK), 0) << "a refused create left a file";
  };
  CreateOptions create = GetParam().create();
  create.shape = {2, 2, 3};
  refused(create, Code::invalid_argument);
  create.shape = {3, 3, 4};
  refused(create, Code::invalid_argument);
  create.shape = {0, 2, 8};
  refused(create, Code::invalid_argument);
  create = GetParam().create();
  create.key_bytes = 129;
  refused(create, Code::invalid_argument);
  create = GetParam().create();
  create.value_bytes = 2u << 20;
  refused(create, Code::invalid_argument);
  create = GetParam().create();
  create.durability = Durability::power;
  refused(create, Code::unsupported);
  create = GetParam().create();
  create.max_bytes = 1u << 20;
  refused(create, Code::no_space);
}

TEST_P(Conformance, APoolIsReplacedOnlyOnRequest) {
  ASSERT_NO_FATAL_FAILURE(fill(0, 10));
  auto const busy = Store::create(
      pool(),
      [&] {
        auto create = GetParam().create();
        create.file.overwrite = true;
        return create;
      }(),
      GetParam().open());
  EXPECT_EQ(busy.status().code(), Code::busy) << "it is open";
  ASSERT_NO_FATAL_FAILURE(reopen());
  ASSERT_TRUE(driver_->store().close().ok());
  auto const there = Store::create(pool(), GetParam().create(), GetParam().open());
  EXPECT_EQ(there.status().code(), Code::already_exists);
  auto again = Store::open(pool(), GetParam().open());
  ASSERT_TRUE(again.ok()) << again.status().message();
  driver_->replace(std::move(*again));
  ASSERT_NO_FATAL_FAILURE(driver_->check_all());
  ASSERT_NO_FATAL_FAILURE(make());
  driver_->check_all();
}

}  // namespace
}  // namespace perdure::test
