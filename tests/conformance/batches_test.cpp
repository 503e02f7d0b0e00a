// What a batch does: each operation, their order on one key, statuses, and which keys are legal.
#include "conformance/conformance.hpp"

namespace perdure::test {
namespace {

TEST_P(Conformance, PutRecordsAreFound) {
  ASSERT_NO_FATAL_FAILURE(fill(0, 300));
  driver_->check_all();
}

TEST_P(Conformance, AbsentKeysAreNotFoundAndLeaveTheOutputAlone) {
  ASSERT_NO_FATAL_FAILURE(fill(0, 50));
  std::vector<Answer> answers;
  ASSERT_TRUE(driver_->get(keys(25, 75), answers).ok());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i].status, i < 25 ? KeyStatus::ok : KeyStatus::not_found);
  }
}

TEST_P(Conformance, VariableGetsOfFixedSizesFindTheSame) {
  ASSERT_NO_FATAL_FAILURE(fill(0, 50));
  std::vector<Bytes> const asked = keys(25, 75), held = values(25, 50);
  Packed const k(asked, GetParam().key_bytes);
  std::vector<KeyStatus> statuses(asked.size());
  auto got = driver_->store().get_variable(k.column(), statuses);
  ASSERT_TRUE(got.ok()) << got.status().message();
  std::vector<Bytes> const found = unpack(*got);
  ASSERT_EQ(found.size(), asked.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(statuses[i], i < held.size() ? KeyStatus::ok : KeyStatus::not_found);
    EXPECT_EQ(found[i], i < held.size() ? held[i] : Bytes{});
  }
}

TEST_P(Conformance, PutOverAnExistingKeyReplacesItsValue) {
  ASSERT_NO_FATAL_FAILURE(fill(0, 200));
  ASSERT_NO_FATAL_FAILURE(fill(50, 150, 1));
  driver_->check_all();
}

TEST_P(Conformance, ErasedKeysAreGoneAndErasingAgainFindsNothing) {
  ASSERT_NO_FATAL_FAILURE(fill(0, 200));
  ASSERT_NO_FATAL_FAILURE(driver_->run_erase(keys(100, 250)));
  ASSERT_NO_FATAL_FAILURE(driver_->run_erase(keys(100, 250)));
  ASSERT_NO_FATAL_FAILURE(driver_->check_all());
  ASSERT_NO_FATAL_FAILURE(fill(150, 160, 2));
  driver_->check_all();
}

TEST_P(Conformance, UpdateReplacesExistingKeysOnly) {
  ASSERT_NO_FATAL_FAILURE(fill(0, 20));
  std::vector<KeyStatus> statuses;
  ASSERT_TRUE(
      driver_->update(keys(10, 30), values(10, 30, 7), Rmw::replace, Element::u8, statuses).ok());
  for (std::uint64_t n = 10; n < 30; ++n) {
    EXPECT_EQ(statuses[n - 10], n < 20 ? KeyStatus::ok : KeyStatus::not_found);
    if (n < 20) driver_->model.held[key(n)] = value(n, 7);
  }
  driver_->check_all();
}

TEST_P(Conformance, TheLastPutOfAKeyInABatchWins) {
  std::vector<Bytes> k, v;
  for (std::uint64_t i = 0; i < 600; ++i) {
    k.push_back(key(i % 7));
    v.push_back(value(i % 7, i));
  }
  ASSERT_NO_FATAL_FAILURE(driver_->run_put(k, v));
  driver_->check_all();
}

TEST_P(Conformance, AKeyErasedTwiceInABatchIsFoundOnce) {
  ASSERT_NO_FATAL_FAILURE(fill(0, 3));
  ASSERT_NO_FATAL_FAILURE(driver_->run_erase({key(1), key(2), key(1), key(1), key(9)}));
  driver_->check_all();
}

TEST_P(Conformance, MixedBatchesOnFewKeysActInArrayOrder) {
  constexpr Rmw kRmw[] = {Rmw::replace, Rmw::add, Rmw::min, Rmw::max};
  constexpr Element kElements[] = {Element::u8, Element::i32, Element::u32, Element::i64,
                                   Element::u64};
  auto const operand = [&](std::uint64_t n) {
    if (fixed_values()) return value(n, random_());
    Bytes v = value(n, random_());
    v.resize(8 * (random_() % 3), 'x');  // often of the stored length, often not
    return v;
  };
  for (int batch = 0; batch < 25; ++batch) {
    Rmw const rmw = kRmw[random_() % 4];
    Element const element = kElements[random_() % 5];
    std::vector<Op> ops(1 + random_() % 200);
    for (Op& op : ops) {
      std::uint64_t const n = random_() % 12;
      op.kind = static_cast<OpKind>(random_() % 4);
      if (op.kind == OpKind::get && !fixed_values()) op.kind = OpKind::put;
      op.key = key(n);
      if (op.kind == OpKind::put || op.kind == OpKind::update) op.value = operand(n);
    }
    ASSERT_NO_FATAL_FAILURE(driver_->run_mixed(ops, rmw, element)) << "batch " << batch;
    ASSERT_NO_FATAL_FAILURE(driver_->check_held()) << "batch " << batch;
  }
  driver_->check_all();
}

/// Some keys have far more operations than a warp has lanes, others few; now all of one kind, now
/// any.
TEST_P(Conformance, LongRunsOnHotKeysActInArrayOrder) {
  constexpr OpKind kWriting[] = {OpKind::put, OpKind::update, OpKind::erase};
  for (int batch = 0; batch < 10; ++batch) {
    std::vector<Op> ops(30 + random_() % 800);
    bool const mixed = batch % 2 == 0;
    OpKind const alone = kWriting[random_() % 3];
    for (Op& op : ops) {
      std::uint64_t const n = random_() % 4 != 0 ? random_() % 2 : random_() % 40;
      std::uint64_t const kind = random_() % 16;
      op.kind = !mixed      ? alone
                : kind < 7  ? OpKind::get
                : kind < 12 ? OpKind::update
                : kind < 14 ? OpKind::put
                            : OpKind::erase;
      if (op.kind == OpKind::get && !fixed_values()) op.kind = OpKind::update;
      op.key = key(n);
      if (op.kind == OpKind::put || op.kind == OpKind::update) op.value = value(n, random_());
    }
    ASSERT_NO_FATAL_FAILURE(driver_->run_mixed(ops, Rmw::replace, Element::u8))
        << "batch " << batch;
    ASSERT_NO_FATAL_FAILURE(driver_->check_held()) << "batch " << batch;
  }
  driver_->check_all();
}

TEST_P(Conformance, AMixedBatchNeedsNoValuesForGetsAndErases) {
  if (!fixed_values()) GTEST_SKIP() << "gets of a mixed batch need fixed-width values";
  ASSERT_NO_FATAL_FAILURE(fill(0, 4));
  Packed const k(keys(0, 4), GetParam().key_bytes);
  std::vector<OpKind> const kinds{OpKind::get, OpKind::erase, OpKind::get, OpKind::erase};
  std::vector<std::byte> out(4 * GetParam().value_bytes);
  std::vector<KeyStatus> statuses(4);
  MixedBatch batch;
  batch.keys = k.column();
  batch.kinds = kinds;
  batch.out = {out.data(), GetParam().value_bytes, 4, MemorySpace::host};
  Status const s = driver_->store().apply(batch, statuses);
  ASSERT_TRUE(s.ok()) << s.message();
  EXPECT_EQ(statuses, std::vector<KeyStatus>(4, KeyStatus::ok));
  EXPECT_EQ(to_hex(unpack(out, GetParam().value_bytes)[2]), to_hex(value(2)));
  driver_->model.held.erase(key(1));
  driver_->model.held.erase(key(3));
  driver_->check_all();
}

TEST_P(Conformance, EveryExtremeKeyIsLegal) {
  std::vector<Bytes> extremes;
  for (std::uint64_t const n :
       {0ull, 1ull, 2ull, 3ull, ~0ull, ~0ull - 1, ~0ull - 2, 1ull << 63, 0x7fffffffffffffffull}) {
    Bytes k(fixed_keys() ? GetParam().key_bytes : 8, '\0');
    for (std::size_t i = 0; i < k.size(); ++i)
      k[i] = i < 8 ? static_cast<char>(n >> (8 * i) & 0xff) : (n >> 63 ? '\xff' : '\0');
    extremes.push_back(k);
  }
  if (!fixed_keys()) {
    for (Bytes const& k :
         {Bytes(), Bytes(1, '\0'), Bytes(2, '\0'), Bytes("\xff"), Bytes(7, '\0'), Bytes(16, '\0'),
          Bytes(17, '\0'), Bytes(1000, '\0'), Bytes(1000, '\xff')}) {
      extremes.push_back(k);
    }
  }
  std::sort(extremes.begin(), extremes.end());
  extremes.erase(std::unique(extremes.begin(), extremes.end()), extremes.end());
  std::vector<Bytes> v;
  for (std::size_t i = 0; i < extremes.size(); ++i) v.push_back(value(i));
  std::vector<Answer> answers;
  ASSERT_TRUE(driver_->get(extremes, answers).ok());
  for (Answer const& a : answers) EXPECT_EQ(a.status, KeyStatus::not_found) << "in an empty store";
  ASSERT_NO_FATAL_FAILURE(driver_->run_put(extremes, v));
  ASSERT_NO_FATAL_FAILURE(driver_->check_all());
  ASSERT_NO_FATAL_FAILURE(fill(1000, 1500));  // resizes move them
  ASSERT_NO_FATAL_FAILURE(driver_->check_all());
  ASSERT_NO_FATAL_FAILURE(reopen());
  ASSERT_NO_FATAL_FAILURE(driver_->check_all());
  ASSERT_NO_FATAL_FAILURE(driver_->run_erase(extremes));
  driver_->check_all();
}

TEST_P(Conformance, AnEmptyBatchDoesNothing) {
  ASSERT_NO_FATAL_FAILURE(driver_->run_put({}, {}));
  ASSERT_NO_FATAL_FAILURE(driver_->run_erase({}));
  ASSERT_NO_FATAL_FAILURE(driver_->run_mixed({}));
  std::vector<Answer> answers;
  ASSERT_TRUE(driver_->get({}, answers).ok());
  std::vector<KeyStatus> statuses;
  ASSERT_TRUE(driver_->update({}, {}, Rmw::add, Element::u64, statuses).ok());
  driver_->check_all();
}

TEST_P(Conformance, BatchesOfOneWork) {
  for (std::uint64_t n = 0; n < 40; ++n)
    ASSERT_NO_FATAL_FAILURE(driver_->run_put({key(n)}, {value(n)}));
  for (std::uint64_t n = 0; n < 40; n += 3) ASSERT_NO_FATAL_FAILURE(driver_->run_erase({key(n)}));
  driver_->check_all();
}

TEST_P(Conformance, StatusesAreOptional) {
  Packed const k(keys(0, 10), GetParam().key_bytes), v(values(0, 10), GetParam().value_bytes);
  ASSERT_TRUE(driver_->store().put(k.column(), v.column()).ok());
  for (std::uint64_t n = 0; n < 10; ++n) driver_->model.held[key(n)] = value(n);
  ASSERT_NO_FATAL_FAILURE(driver_->check_all());
  ASSERT_TRUE(driver_->store().erase(k.column()).ok());
  driver_->model.held.clear();
  driver_->check_all();
}

TEST_P(Conformance, ScansReturnEachRecordOnceWhateverThePage) {
  ASSERT_NO_FATAL_FAILURE(fill(0, 500));
  for (std::size_t const page : {1u, 7u, 499u, 500u, 100000u}) {
    EXPECT_TRUE(scan_all(driver_->store(), page) == driver_->model.held) << "page of " << page;
  }
}

TEST_P(Conformance, AScanEndsWhenTheTableGrows) {
  if (GetParam().single()) GTEST_SKIP() << "scans of a Dash index go on";
  ASSERT_NO_FATAL_FAILURE(fill(0, 10));
  auto first = driver_->store().scan({}, 3);
  ASSERT_TRUE(first.ok());
  ASSERT_NO_FATAL_FAILURE(fill(10, 3000));
  ASSERT_GT(driver_->store().stats().growths, 0u);
  auto second = driver_->store().scan(first->next, 3);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::busy);
}

TEST_P(Conformance, AScanOfADashIndexSeesWhatIsThereAllAlongWhileItGrowsAndShrinks) {
  if (!GetParam().single()) GTEST_SKIP() << "other indexes end it";
  ASSERT_NO_FATAL_FAILURE(fill(0, 2000));
  auto const growths = [&] {
    Stats const s = driver_->store().stats();
    return GetParam().index == Index::btree ? s.segments : s.growths;
  };
  std::uint64_t const at_first = growths();
  std::uint64_t most = 0;
  std::map<Bytes, Bytes> seen;
  ScanCursor cursor;
  for (std::uint64_t page = 0; !cursor.done; ++page) {
    auto const got = driver_->store().scan(cursor, 37);
    ASSERT_TRUE(got.ok()) << got.status().message();
    auto const k = unpack(got.value().keys), v = unpack(got.value().values);
    for (std::size_t i = 0; i < k.size(); ++i)
      EXPECT_TRUE(seen.emplace(k[i], v[i]).second) << "a key comes twice";
    cursor = got.value().next;
    // for 30 pages the table grows, then it shrinks again
    std::uint64_t const at = 2000 + page % 30 * 100;
    ASSERT_NO_FATAL_FAILURE(page / 30 % 2 == 0 ? fill(at, at + 100)
                                               : driver_->run_erase(keys(at, at + 100)));
    most = std::max(most, growths());
  }
  EXPECT_GT(most, at_first + 2);
  for (std::uint64_t n = 0; n < 1800; ++n)
    ASSERT_EQ(seen[key(n)], value(n)) << "key " << n << " was there all along";
}

TEST_P(Conformance, StatsSayWhatIsThere) {
  ASSERT_NO_FATAL_FAILURE(fill(0, 100));
  ASSERT_NO_FATAL_FAILURE(driver_->run_erase(keys(0, 10)));
  Stats const s = driver_->store().stats();
  EXPECT_EQ(s.records, 90u);
  EXPECT_EQ(s.batches, 2u);
  EXPECT_EQ(s.key_bytes, GetParam().key_bytes);
  EXPECT_EQ(s.value_bytes, GetParam().value_bytes);
  EXPECT_EQ(s.layout, GetParam().layout);
  EXPECT_EQ(s.index, GetParam().index);
  EXPECT_EQ(s.segments > 0, GetParam().single());
  EXPECT_EQ(s.device, GetParam().device);
  EXPECT_GE(s.slots, 90u);
  EXPECT_DOUBLE_EQ(s.load_factor, 90.0 / static_cast<double>(s.slots));
  EXPECT_LE(s.space.used_bytes, s.space.pool_bytes);
  EXPECT_EQ(s.accesses.pm_writes > 0, GetParam().count_accesses);
  EXPECT_EQ(s.accesses.orders > 0, GetParam().count_accesses);
  driver_->store().reset_counts();
  EXPECT_EQ(driver_->store().stats().accesses.pm_writes, 0u);
}

/// Keys whose 64-bit hashes are all equal: their first 16-byte block multiplies by zero. The hash
/// is no secret, so users may bring such keys.
std::vector<Bytes> colliding_keys(std::uint32_t key_bytes, std::size_t n) {
  std::uint64_t const k1 = 0x13198a2e03707344u;  // base/hash.hpp
  std::vector<Bytes> out;
  for (std::size_t i = 0; i < n; ++i) {
    Bytes k(key_bytes, '\0');
    for (std::size_t b = 0; b < 8; ++b) k[b] = static_cast<char>(k1 >> (8 * b) & 0xff);
    k[8] = static_cast<char>(i & 0xff);
    k[9] = static_cast<char>(i >> 8);
    out.push_back(k);
  }
  return out;
}

TEST_P(Conformance, KeysOfEqualHashAreKeptApart) {
  std::uint32_t const bytes = fixed_keys() ? GetParam().key_bytes : 16;
  if (bytes < 10) GTEST_SKIP() << "short keys of equal hash are not known";
  // at least
  std::size_t const candidates = std::size_t{GetParam().shape.levels} * GetParam().shape.slots;
  auto const k = colliding_keys(bytes, std::min<std::size_t>(candidates, 8));
  std::vector<Bytes> v;
  for (std::size_t i = 0; i < k.size(); ++i) v.push_back(value(i));
  ASSERT_NO_FATAL_FAILURE(driver_->run_put(k, v));
  ASSERT_NO_FATAL_FAILURE(driver_->check_all());
  std::vector<Bytes> twice = k;
  twice.insert(twice.end(), k.begin(), k.end());
  ASSERT_NO_FATAL_FAILURE(driver_->run_erase(twice));
  driver_->check_all();
}

/// In the batch that is refused one of them takes the slot that another leaves. The next batch of
/// the transaction is smaller, and so overwrites a part of what the log of undoing says of it.
TEST_P(Conformance, KeysOfEqualHashOutliveABatchThatWasRefusedAndATransactionThatAborts) {
  std::uint32_t const bytes = fixed_keys() ? GetParam().key_bytes : 16;
  if (bytes < 10) GTEST_SKIP() << "short keys of equal hash are not known";
  if (GetParam().layout == Layout::in_place) GTEST_SKIP() << "layout in_place cannot undo";
  if (GetParam().single()) GTEST_SKIP() << "a Dash index has single operations";
  OpenOptions open = GetParam().open();
  open.grow = false;
  ASSERT_NO_FATAL_FAILURE(make(GetParam(), GetParam().create(), open));
  auto const k = colliding_keys(bytes, 40);
  for (Bytes const& key : k) {
    std::vector<KeyStatus> statuses;
    if (driver_->put({key}, {value(1)}, statuses).ok()) driver_->model.held[key] = value(1);
  }
  if (driver_->model.held.size() < 4 || driver_->model.held.size() + 2 > k.size()) return;
  std::size_t const held = driver_->model.held.size();
  Model const before = driver_->model;
  auto t = driver_->store().begin({100});
  ASSERT_TRUE(t.ok()) << t.status().message();
  driver_->how.transaction = &*t;
  std::vector<Answer> answers;
  auto const write = [&](std::vector<Op> const& ops) {
    return driver_->mixed(ops, Rmw::replace, Element::u8, answers);
  };
  EXPECT_TRUE(write({{OpKind::put, k[0], value(2)}}).ok());
  EXPECT_EQ(write({{OpKind::erase, k[1], {}},
                   {OpKind::put, k[held], value(2)},
                   {OpKind::put, k[held + 1], value(2)}})
                .code(),
            Code::no_space);
  EXPECT_TRUE(write({{OpKind::put, k[2], value(2)}}).ok());
  driver_->how = {};
  ASSERT_TRUE(t->abort().ok());
  driver_->model = before;
  driver_->check_all();
}

TEST_P(Conformance, KeysOfEqualHashAreKeptApartInALongRun) {
  std::uint32_t const bytes = fixed_keys() ? GetParam().key_bytes : 16;
  if (bytes < 10) GTEST_SKIP() << "short keys of equal hash are not known";
  if (GetParam().shape.levels * GetParam().shape.slots < 2)
    GTEST_SKIP() << "no two keys of equal hash find room";
  auto const twins = colliding_keys(bytes, 2);
  for (std::size_t const n : {300u, 17'000u}) {  // the second is summed up before it is answered
    std::vector<Op> ops(n);
    for (std::size_t i = 0; i < n; ++i) {
      Op& op = ops[i];
      op.kind = random_() % 3 == 0 ? OpKind::erase : OpKind::put;
      op.key = twins[i % 1000 < 700 ? 0 : random_() % 2];
      if (op.kind == OpKind::put) op.value = value(1, random_());
    }
    ASSERT_NO_FATAL_FAILURE(driver_->run_mixed(ops, Rmw::replace, Element::u8));
    driver_->check_all();
  }
}

TEST_P(Conformance, MoreKeysOfEqualHashThanSlotsAreRefusedAndHarmNobody) {
  std::uint32_t const bytes = fixed_keys() ? GetParam().key_bytes : 16;
  if (bytes < 10) GTEST_SKIP() << "short keys of equal hash are not known";
  CreateOptions create = GetParam().create();
  create.max_bytes = 48u << 20;
  ASSERT_NO_FATAL_FAILURE(make(create, GetParam().open()));
  ASSERT_NO_FATAL_FAILURE(fill(0, 100));
  // that one hash may have: Dash has two buckets and the stash
  std::size_t const slots = GetParam().single() ? 56 : 32;
  auto const k = colliding_keys(bytes, slots + 30);
  for (std::size_t i = 0; i < k.size(); ++i) {
    std::vector<KeyStatus> statuses;
    Status const s = driver_->put({k[i]}, {value(i)}, statuses);
    ASSERT_EQ(statuses[0] == KeyStatus::ok, s.ok());
    if (s.ok()) {
      driver_->model.held[k[i]] = value(i);
    } else {
      ASSERT_EQ(s.code(), Code::no_space) << s.message();
      ASSERT_EQ(statuses[0], KeyStatus::no_space);
    }
  }
  if (GetParam().index == Index::dash_lh || GetParam().index == Index::btree) {
    EXPECT_EQ(driver_->model.held.size(), 100 + k.size()) << "there is room for all";
  } else {
    EXPECT_LE(driver_->model.held.size(), 100 + slots) << "keys of equal hash have no more slots";
  }
  ASSERT_NO_FATAL_FAILURE(driver_->check_all());
  ASSERT_NO_FATAL_FAILURE(reopen_killed(GetParam().open()));
  driver_->check_all();
}

}  // namespace
}  // namespace perdure::test
