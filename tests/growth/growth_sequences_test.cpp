// Sequences of operations on a table that grows, against a map.
//
// Invariant: whatever the sequence, and wherever in a growth it is closed or killed, the store
// answers as the map does. Slow, up to fifteen seconds.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <ostream>
#include <vector>

#include "full_pool.hpp"
#include "support/properties.hpp"

namespace perdure::test {
namespace {

enum class Act { put_new, change, erase, mixed, get, scan, verify, close, kill };
struct Step {
  Act act = Act::get;
  std::uint32_t from = 0;
  std::uint32_t count = 0;
};

void showValue(Step const& s, std::ostream& out) {
  constexpr char const* kNames[] = {"put new", "change", "erase", "mixed", "get",
                                    "scan",    "verify", "close", "kill"};
  out << "\n  " << kNames[static_cast<int>(s.act)] << ' ' << s.count << " from " << s.from;
}

rc::Gen<Step> step() {
  auto const act = rc::gen::weightedElement<Act>({{6, Act::put_new},
                                                  {4, Act::change},
                                                  {4, Act::erase},
                                                  {4, Act::mixed},
                                                  {3, Act::get},
                                                  {1, Act::scan},
                                                  {1, Act::verify},
                                                  {1, Act::close},
                                                  {1, Act::kill}});
  // Small steps too: a growth is over after few large ones.
  auto const count = rc::gen::oneOf(rc::gen::inRange(1u, 60u), rc::gen::inRange(1u, 3000u));
  return rc::gen::build<Step>(rc::gen::set(&Step::act, act),
                              rc::gen::set(&Step::from, rc::gen::inRange(0u, 50000u)),
                              rc::gen::set(&Step::count, count));
}

TEST_P(Growth, AnswersAsAMapDoesMeanwhile) {
  std::uint64_t met = 0;  // steps in the midst of a growth
  auto const take = [&](Driver& driver, Step const& s) {
    auto const k = keys(GetParam(), s.from, s.from + s.count);
    auto const v = values(GetParam(), s.from, s.from + s.count, s.count % 5 + 1);
    met += driver.store().stats().units_left > 0;
    std::vector<Answer> answers;
    std::vector<Op> ops;
    switch (s.act) {
      case Act::put_new: return put_new(driver, s.count % 60 == 0 ? s.count * 10 : s.count % 60);
      case Act::change: return driver.run_put(k, v);
      case Act::erase: return driver.run_erase({k.begin(), k.begin() + s.count / 8});
      case Act::mixed:
        for (std::size_t i = 0; i < k.size(); ++i)
          ops.push_back({static_cast<OpKind>(i * 7 % 4), k[i], v[i]});
        return driver.run_mixed(ops, Rmw::add, Element::u8);
      case Act::get:
        ASSERT_TRUE(driver.get(k, answers).ok());
        for (std::size_t i = 0; i < k.size(); ++i)
          ASSERT_TRUE(answers[i] ==
                      driver.model.apply({OpKind::get, k[i], {}}, Rmw::replace, Element::u8));
        return;
      case Act::scan: EXPECT_TRUE(scan_all(driver.store(), 10000) == driver.model.held); return;
      case Act::verify: EXPECT_EQ(driver.store().verify().value().fault_count, 0u); return;
      case Act::kill: return reopen_killed(driver);
      case Act::close:
        ASSERT_TRUE(driver.store().close().ok());
        auto store = Store::open(path_, GetParam().open());
        ASSERT_TRUE(store.ok()) << store.status().message();
        return driver.replace(std::move(*store));
    }
  };
  std::uint32_t sequences = 0;
  auto const sequence = [&] {
    auto const length = *rc::gen::inRange<std::size_t>(8, 64);
    auto const steps = *rc::gen::container<std::vector<Step>>(length, step());
    auto driver = open_full();
    if (sequences++ % 4 != 0) begin(*driver);  // a growth of its own begins in the midst of a batch
    for (Step const& s : steps) {
      take(*driver, s);
      RC_ASSERT(!HasFailure());
    }
    driver->check_held();
    RC_ASSERT(!HasFailure());
  };
  // Sequences are others each time; there are more of them where these hardly came into a growth.
  for (int times = 0; times == 0 || (met <= 10 && times < 20 && !HasFailure()); ++times)
    EXPECT_EQ(counterexample("Growth/" + GetParam().name, static_cast<int>(volume(8)), sequence,
                             Shrink::no),
              "");
  EXPECT_GT(met, 10u) << "hardly any step came into a growth";
}

}  // namespace
}  // namespace perdure::test
