// What the model tests found, reduced: a table that is full and may not grow, and what it does to
// operations that need no room; a scan while words move.
#include <gtest/gtest.h>

#include <set>

#include "support/store_driver.hpp"

namespace perdure::test {
namespace {

Driver full_soon(Layout layout, std::uint64_t expected_records = 1) {
  Config const config{"", Device::cpu, layout, {2, 2, 8}, 8, 24, false, 1};
  OpenOptions open = config.open();
  open.grow = false;
  auto store = Store::create("memfd:refused", config.create(expected_records), open);
  if (!store) throw std::runtime_error(store.status().message());
  return {config, std::move(*store)};
}

constexpr std::uint64_t kOld = 20;
constexpr std::uint64_t kAll = 400;  // more than fit

std::vector<Bytes> keys(Config const& config, std::uint64_t from, std::uint64_t to) {
  std::vector<Bytes> out;
  for (std::uint64_t n = from; n < to; ++n) out.push_back(config.key(n));
  return out;
}

std::vector<Bytes> values(Config const& config, std::uint64_t from, std::uint64_t to,
                          std::uint64_t version) {
  std::vector<Bytes> out;
  for (std::uint64_t n = from; n < to; ++n) out.push_back(config.value(n, version));
  return out;
}

/// One batch: the old keys by `kind`, and more new ones than fit. The old ones must not be refused:
/// a slot that another key's displacement has claimed comes free in the next round.
void expect_old_keys_served(Layout layout, OpKind kind) {
  Driver driver = full_soon(layout);
  Config const& c = driver.config();
  ASSERT_NO_FATAL_FAILURE(driver.run_put(keys(c, 0, kOld), values(c, 0, kOld, 0)));
  std::vector<Op> ops;
  for (std::uint64_t n = 0; n < kAll; ++n)
    ops.push_back({n < kOld ? kind : OpKind::put, c.key(n), c.value(n, 1)});
  std::vector<Answer> answers;
  ASSERT_EQ(driver.mixed(ops, Rmw::replace, Element::u8, answers).code(), Code::no_space);
  for (std::uint64_t n = 0; n < kOld; ++n)
    EXPECT_EQ(answers[n].status, KeyStatus::ok) << "key " << n;
}

TEST(Refused, InLayoutWordPutsOfKeysThatAreThereNeedNoRoom) {
  expect_old_keys_served(Layout::word, OpKind::put);
}
TEST(Refused, InLayoutWordErasesNeedNoRoom) { expect_old_keys_served(Layout::word, OpKind::erase); }
TEST(Refused, InLayoutInPlacePutsOfKeysThatAreThereNeedNoRoom) {
  expect_old_keys_served(Layout::in_place, OpKind::put);
}
TEST(Refused, InLayoutInPlaceErasesNeedNoRoom) {
  expect_old_keys_served(Layout::in_place, OpKind::erase);
}

/// Each key is put and got in one batch. Where the put is refused, so is the get, and its output
/// stays as it was: Driver::mixed looks.
void expect_refused_gets_to_leave_their_output(Layout layout) {
  Driver driver = full_soon(layout);
  std::vector<Op> ops;
  for (std::uint64_t n = 0; n < kAll; ++n) {
    ops.push_back({OpKind::put, driver.config().key(n), driver.config().value(n)});
    ops.push_back({OpKind::get, driver.config().key(n), {}});
  }
  std::vector<Answer> answers;
  ASSERT_EQ(driver.mixed(ops, Rmw::replace, Element::u8, answers).code(), Code::no_space);
  for (std::size_t i = 0; i < ops.size(); i += 2)
    EXPECT_EQ(answers[i].status, answers[i + 1].status) << "key " << i / 2;
}

TEST(Refused, InLayoutWordAGetLeavesItsOutputAlone) {
  expect_refused_gets_to_leave_their_output(Layout::word);
}
TEST(Refused, InLayoutInPlaceAGetLeavesItsOutputAlone) {
  expect_refused_gets_to_leave_their_output(Layout::in_place);
}

/// New keys come between a scan's pages, and to make room for them, old ones move to other slots. A
/// scan sees every key that is there from its begin to its end (store.h), or says that it must
/// start again.
void expect_scans_to_miss_nothing(Layout layout, double load) {
  Driver driver = full_soon(layout, 2000);
  Config const& c = driver.config();
  auto const old =
      static_cast<std::uint64_t>(load * static_cast<double>(driver.store().stats().slots));
  for (std::uint64_t n = 0; n < old; ++n) {
    ASSERT_NO_FATAL_FAILURE(driver.run_put({c.key(n)}, {c.value(n)}));
  }
  std::set<Bytes> seen;
  std::vector<KeyStatus> statuses;
  ScanCursor cursor;
  for (std::uint64_t n = old; !cursor.done; n += 3) {
    auto page = driver.store().scan(cursor, 100);
    if (page.status().code() == Code::busy) return;
    ASSERT_TRUE(page.ok()) << page.status().message();
    for (Bytes const& k : unpack(page->keys)) seen.insert(k);
    cursor = page->next;
    static_cast<void>(driver.put(keys(c, n, n + 3), values(c, n, n + 3, 0), statuses));
  }
  EXPECT_EQ(driver.store().stats().displacements > 0, layout == Layout::word)
      << "the table is too empty for this test";
  for (std::uint64_t n = 0; n < old; ++n)
    EXPECT_TRUE(seen.contains(c.key(n))) << "key " << n << " was there all along";
}

TEST(Scans, InLayoutWordMissNoKeyThatMoves) { expect_scans_to_miss_nothing(Layout::word, 0.94); }
TEST(Scans, InLayoutInPlaceMissNoKey) { expect_scans_to_miss_nothing(Layout::in_place, 0.75); }

}  // namespace
}  // namespace perdure::test
