// Generated sequences of operations against std::map: whatever is done to a store, it answers as a
// map does. A sequence that fails is shrunk; what is left is printed one step a line, keys as k0,
// k1, ... and values as v0, v1, ...
//
// PERDURE_MODEL_CASES=N runs N sequences for each store; RC_PARAMS="seed=..." repeats a run.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <thread>
#include <tuple>
#include <vector>

#include "support/properties.hpp"
#include "support/store_driver.hpp"

namespace perdure::test {
namespace {

// ------------------------------------------------------------------------------------------------
// Steps: plain data, meaningful in every state, so that shrinking may leave out any of them

struct SmallOp {
  OpKind kind = OpKind::get;
  std::uint32_t key = 0;
  std::uint32_t value = 0;
};

enum class Act {
  put,
  get,
  update,
  erase,
  mixed,
  put_many,
  erase_many,
  churn,
  scan,
  verify,
  reopen
};

struct Step {
  Act act = Act::get;
  std::vector<SmallOp> ops;  // put, get, update, erase, mixed
  Rmw rmw = Rmw::replace;
  Element element = Element::u8;
  std::uint32_t from = 0;    // put_many, erase_many, churn: keys from here on
  std::uint32_t count = 0;   // so many keys; a page of a scan
  std::uint32_t value = 0;   // put_many
  bool killed = false;       // reopen: as after a kill
  bool grow = true;          // reopen: the table may grow from now on
};

constexpr char const* kRmwNames[] = {"replace", "add", "min", "max"};
constexpr char const* kElementNames[] = {"u8", "i32", "u32", "i64", "u64", "f32", "f64"};

void show_ops(std::vector<SmallOp> const& ops, bool kinds, bool values, std::ostream& out) {
  constexpr char const* kKinds[] = {"get ", "put ", "erase ", "update "};
  for (std::size_t i = 0; i < ops.size(); ++i) {
    bool const has_value =
        values && (!kinds || ops[i].kind == OpKind::put || ops[i].kind == OpKind::update);
    out << (i == 0 ? " " : ", ") << (kinds ? kKinds[static_cast<int>(ops[i].kind)] : "") << 'k'
        << ops[i].key;
    if (has_value) out << "=v" << ops[i].value;
  }
}

void showValue(Step const& s, std::ostream& out) {
  std::string const arithmetic = std::string(kRmwNames[static_cast<int>(s.rmw)]) + ' ' +
                                 kElementNames[static_cast<int>(s.element)];
  out << "\n  ";
  switch (s.act) {
    case Act::put: show_ops(s.ops, false, true, out << "put"); break;
    case Act::get: show_ops(s.ops, false, false, out << "get"); break;
    case Act::update: show_ops(s.ops, false, true, out << "update " << arithmetic); break;
    case Act::erase: show_ops(s.ops, false, false, out << "erase"); break;
    case Act::mixed:
      show_ops(s.ops, true, true, out << "mixed, updates " << arithmetic << ':');
      break;
    case Act::put_many:
      out << "put k" << s.from << "..k" << s.from + s.count << " (excl.) =v" << s.value;
      break;
    case Act::erase_many:
      out << "erase k" << s.from << "..k" << s.from + s.count << " (excl.)";
      break;
    case Act::churn:
      out << "churn " << s.count << " operations from k" << s.from << ", " << arithmetic;
      break;
    case Act::scan: out << "scan, pages of " << s.count; break;
    case Act::verify: out << "verify"; break;
    case Act::reopen:
      out << (s.killed ? "kill and reopen" : "close and reopen")
          << (s.grow ? "" : ", growth refused");
      break;
  }
}

rc::Gen<std::vector<SmallOp>> small_ops() {
  auto const kind =
      rc::gen::element(OpKind::get, OpKind::put, OpKind::put, OpKind::erase, OpKind::update);
  auto const op = rc::gen::build<SmallOp>(rc::gen::set(&SmallOp::kind, kind),
                                          rc::gen::set(&SmallOp::key, rc::gen::inRange(0u, 12u)),
                                          rc::gen::set(&SmallOp::value, rc::gen::inRange(0u, 9u)));
  return rc::gen::scale(0.4, rc::gen::container<std::vector<SmallOp>>(op));
}

rc::Gen<Step> step() {
  auto const act = rc::gen::weightedElement<Act>({{4, Act::put},
                                                  {3, Act::get},
                                                  {4, Act::update},
                                                  {3, Act::erase},
                                                  {8, Act::mixed},
                                                  {2, Act::put_many},
                                                  {2, Act::erase_many},
                                                  {2, Act::churn},
                                                  {1, Act::scan},
                                                  {1, Act::verify},
                                                  {3, Act::reopen}});
  auto const any = rc::gen::build<Step>(
      rc::gen::set(&Step::act, act), rc::gen::set(&Step::ops, small_ops()),
      rc::gen::set(&Step::rmw, rc::gen::element(Rmw::replace, Rmw::add, Rmw::min, Rmw::max)),
      rc::gen::set(&Step::element,
                   rc::gen::element(Element::u8, Element::i32, Element::u32, Element::i64,
                                    Element::u64, Element::f32, Element::f64)),
      rc::gen::set(&Step::from, rc::gen::inRange(0u, 1500u)),
      rc::gen::set(&Step::count, rc::gen::inRange(1u, 1200u)),
      rc::gen::set(&Step::value, rc::gen::inRange(0u, 9u)),
      rc::gen::set(&Step::killed, rc::gen::arbitrary<bool>()),
      rc::gen::set(&Step::grow, rc::gen::weightedElement<bool>({{2, true}, {1, false}})));
  return rc::gen::map(any, [](Step s) {
    // Which NaN a sum of NaNs is, nobody promises; conformance/arithmetic_test.cpp adds floats.
    bool const floating = s.element == Element::f32 || s.element == Element::f64;
    if (s.rmw == Rmw::add && floating) s.element = Element::u64;
    return s;
  });
}

// ------------------------------------------------------------------------------------------------
// A store that does the steps, and a map that is asked what should have come of each

class Subject {
 public:
  explicit Subject(Config config) : config_(std::move(config)) {
    auto store = Store::create(path_, config_.create(), config_.open());
    if (!store) throw std::runtime_error(store.status().message());
    driver_ = std::make_unique<Driver>(config_, std::move(*store));
  }

  void take(Step const& s) {
    switch (s.act) {
      case Act::put: return write(ops_of(s, OpKind::put), s, OpKind::put);
      case Act::update: return write(ops_of(s, OpKind::update), s, OpKind::update);
      case Act::erase: return write(ops_of(s, OpKind::erase), s, OpKind::erase);
      case Act::mixed: return write(mixed_ops(s.ops), s, std::nullopt);
      case Act::put_many: return write(many(s, OpKind::put), s, OpKind::put);
      case Act::erase_many: return write(many(s, OpKind::erase), s, OpKind::erase);
      case Act::churn: return write(churn(s), s, std::nullopt);
      case Act::get: return get(s);
      case Act::scan:
        EXPECT_TRUE(scan_all(driver_->store(), s.count) == driver_->model.held);
        return;
      case Act::verify: return verify();
      case Act::reopen: return reopen(s);
    }
  }

  void check_all() { driver_->check_all(); }

  /// Behind the map's back; for the test of the test.
  void lose(std::uint32_t key) {
    std::vector<KeyStatus> statuses;
    EXPECT_TRUE(driver_->erase({config_.key(key)}, statuses).ok());
  }

 private:
  /// Of few lengths, so that arithmetic meets operands of the stored length and others.
  [[nodiscard]] Bytes value(std::uint32_t key, std::uint32_t v) const {
    Bytes bytes = config_.value(key * 16 + v);
    if (config_.value_bytes == 0) {
      constexpr std::size_t kLengths[] = {8, 0, 13, 150};
      bytes.resize(kLengths[v % 4], static_cast<char>('a' + v));
    }
    return bytes;
  }

  [[nodiscard]] std::vector<Op> ops_of(Step const& s, OpKind kind) const {
    std::vector<Op> ops;
    for (SmallOp const& op : s.ops)
      ops.push_back({kind, config_.key(op.key), value(op.key, op.value)});
    return ops;
  }

  /// Pools of variable-length values have no gets in mixed batches.
  [[nodiscard]] std::vector<Op> mixed_ops(std::vector<SmallOp> const& from) const {
    std::vector<Op> ops;
    for (SmallOp const& op : from) {
      if (op.kind == OpKind::get && config_.value_bytes == 0) continue;
      ops.push_back({op.kind, config_.key(op.key), value(op.key, op.value)});
    }
    return ops;
  }

  [[nodiscard]] std::vector<Op> many(Step const& s, OpKind kind) const {
    std::vector<Op> ops;
    for (std::uint32_t k = s.from; k < s.from + s.count; ++k)
      ops.push_back({kind, config_.key(k), value(k, s.value)});
    return ops;
  }

  /// Every kind of operation on 40 keys, most of them several times.
  [[nodiscard]] std::vector<Op> churn(Step const& s) const {
    std::vector<SmallOp> ops;
    for (std::uint32_t i = 0; i < s.count; ++i) {
      std::uint32_t const mixed = (i + s.from) * 2654435761u;
      ops.push_back({static_cast<OpKind>(mixed >> 30), s.from + (mixed >> 8) % 40, mixed % 9});
    }
    return mixed_ops(ops);
  }

  /// Runs `ops` through the call for `kind`, or as a mixed batch.
  void write(std::vector<Op> const& ops, Step const& s, std::optional<OpKind> kind) {
    std::vector<Bytes> keys, values;
    for (Op const& op : ops) {
      keys.push_back(op.key);
      values.push_back(op.value);
    }
    std::vector<KeyStatus> statuses;
    std::vector<Answer> answers;
    Status done;
    if (!kind) {
      done = driver_->mixed(ops, s.rmw, s.element, answers);
    } else {
      done = *kind == OpKind::put     ? driver_->put(keys, values, statuses)
             : *kind == OpKind::erase ? driver_->erase(keys, statuses)
                                      : driver_->update(keys, values, s.rmw, s.element, statuses);
      for (KeyStatus const status : statuses) answers.push_back({status, {}});
    }
    ASSERT_TRUE(done.ok() || (done.code() == Code::no_space && !grow_)) << done.message();
    compare(ops, s, answers, !done.ok());
  }

  void compare(std::vector<Op> const& ops, Step const& s, std::vector<Answer> const& answers,
               bool full) {
    Model& model = driver_->model;
    std::set<Bytes> refused;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (answers[i].status == KeyStatus::no_space) refused.insert(ops[i].key);
    }
    ASSERT_EQ(full, !refused.empty()) << "the batch's status and its keys' disagree";
    for (Bytes const& key : refused)
      ASSERT_TRUE(!model.held.contains(key)) << name_of(key) << " is there, and needs no room";
    Model would_be = refused.empty() ? Model{} : model;  // had nothing been refused
    for (std::size_t i = 0; i < ops.size(); ++i) {
      bool const took_effect = !refused.contains(ops[i].key);
      Answer const expected = (took_effect ? model : would_be).apply(ops[i], s.rmw, s.element);
      // A name is looked for among all keys, so only where it is needed.
      if (took_effect ? answers[i] == expected : answers[i].status == KeyStatus::no_space) continue;
      FAIL() << "operation " << i << " on key " << name_of(ops[i].key) << ": status "
             << static_cast<int>(answers[i].status) << ", value " << to_hex(answers[i].value)
             << "; expected "
             << (took_effect ? static_cast<int>(expected.status)
                             : static_cast<int>(KeyStatus::no_space))
             << ", value " << to_hex(expected.value);
    }
    for (Bytes const& key : refused) {
      ASSERT_TRUE(would_be.held.contains(key))
          << name_of(key) << " would not have stayed, and needs no room";
    }
  }

  [[nodiscard]] std::string name_of(Bytes const& key) const {
    for (std::uint32_t n = 0; n < 4096; ++n) {
      if (config_.key(n) == key) return std::string(1, 'k').append(std::to_string(n));
    }
    return to_hex(key);
  }

  void get(Step const& s) {
    std::vector<Bytes> keys;
    for (SmallOp const& op : s.ops) keys.push_back(config_.key(op.key));
    std::vector<Answer> answers;
    Status const done = driver_->get(keys, answers);
    ASSERT_TRUE(done.ok()) << done.message();
    for (std::size_t i = 0; i < keys.size(); ++i) {
      Answer const expected =
          driver_->model.apply({OpKind::get, keys[i], {}}, Rmw::replace, Element::u8);
      ASSERT_TRUE(answers[i] == expected) << 'k' << s.ops[i].key << ": " << to_hex(answers[i].value)
                                          << " instead of " << to_hex(expected.value);
    }
  }

  void verify() {
    auto report = driver_->store().verify();
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(report->records, driver_->model.held.size());
    EXPECT_EQ(report->fault_count, 0u) << (report->faults.empty() ? "" : report->faults[0]);
  }

  void reopen(Step const& s) {
    std::string const old = path_;
    if (s.killed) {
      // A copy of a file is no moment of it while collectors write.
      while (driver_->store().stats().value_log.queued_segments != 0) std::this_thread::yield();
      path_ = scratch_.file("killed-" + std::to_string(++kills_));
      copy_as_if_killed(old, path_);
    } else {
      Status const closed = driver_->store().close();
      ASSERT_TRUE(closed.ok()) << closed.message();
    }
    grow_ = s.grow || config_.single();  // which cannot be kept from growing
    OpenOptions options = config_.open();
    options.grow = grow_;
    auto store = Store::open(path_, options);
    ASSERT_TRUE(store.ok()) << store.status().message();
    driver_->replace(std::move(*store));
    if (s.killed) std::filesystem::remove(old);
    RecoveryReport const& r = driver_->store().recovery();
    EXPECT_EQ(r.clean, !s.killed);
    EXPECT_EQ(r.records, driver_->model.held.size());
    EXPECT_EQ(r.dropped, 0u) << r.why_dropped;
    EXPECT_EQ(r.duplicates, 0u);
  }

  ScratchDir scratch_;
  Config config_;
  std::string path_ = scratch_.file("pool");
  std::unique_ptr<Driver> driver_;
  bool grow_ = true;
  int kills_ = 0;
};

/// What the driver's own expectations complain of, caught so that a sequence can be shrunk.
class Complaints {
 public:
  [[nodiscard]] std::string text() const {
    std::string all;
    for (int i = 0; i < caught_.size(); ++i)
      all += std::string(caught_.GetTestPartResult(i).message()) + '\n';
    return all;
  }

 private:
  testing::TestPartResultArray caught_;
  testing::ScopedFakeTestPartResultReporter reporter_{
      testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &caught_};
};

std::string complaint_of(Config const& config, std::vector<Step> const& steps) {
  Complaints complaints;
  Subject subject(config);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    subject.take(steps[i]);
    if (std::string text = complaints.text(); !text.empty())
      return "step " + std::to_string(i + 1) + ": " + text;
  }
  subject.check_all();
  std::string const text = complaints.text();
  return text.empty() ? text : "at the end: " + text;
}

// ------------------------------------------------------------------------------------------------

class Sequences : public testing::TestWithParam<Config> {};

TEST_P(Sequences, AnswerAsAMapDoes) {
  char const* const cases = std::getenv("PERDURE_MODEL_CASES");
  int const sequences = cases != nullptr ? std::atoi(cases) : static_cast<int>(volume(30));
  auto const sequence = [] {
    auto const steps = *rc::gen::container<std::vector<Step>>(step());
    std::string const complaint = complaint_of(GetParam(), steps);
    if (!complaint.empty()) RC_FAIL(complaint);
  };
  EXPECT_EQ(counterexample("Sequences/" + GetParam().name, sequences, sequence), "");
}

char const* name_of(Layout layout) {
  return layout == Layout::word ? "word" : layout == Layout::log ? "log" : "in_place";
}

std::vector<Config> configs() {
  struct Sizes {
    char const* name;
    std::uint32_t key_bytes, value_bytes;
  };
  std::vector<Config> all;
  for (Layout const layout : {Layout::word, Layout::in_place, Layout::log}) {
    for (Sizes const& sizes : {Sizes{"key8", 8, 24}, Sizes{"key5", 5, 10}, Sizes{"key20", 20, 40},
                               Sizes{"key20values", 20, 0}, Sizes{"variable", 0, 0}}) {
      if (sizes.key_bytes == 20 && layout != Layout::log) continue;  // whose entries it changes
      // The small ones fill up and displace all the time; one slot a bucket even finds no room for
      // a resize.
      for (Shape const shape : {Shape{2, 2, 8}, Shape{1, 2, 2}, Shape{1, 2, 1}}) {
        for (std::uint32_t const threads : {1u, 2u}) {
          if (shape.slots == 1 && (layout == Layout::in_place || threads == 2)) continue;
          if (layout == Layout::log && shape.slots != 8) continue;
          std::ostringstream name;
          name << name_of(layout) << '_' << sizes.name << '_' << shape.levels << 'L' << shape.hashes
               << 'H' << shape.slots << "S_x" << threads;
          all.push_back({name.str(), Device::cpu, layout, shape, sizes.key_bytes, sizes.value_bytes,
                         false, threads});
        }
      }
    }
  }
  for (Shape const shape : {Shape{2, 2, 8}, Shape{1, 2, 2}}) {
    // A second engine answers the half of each batch of gets.
    Config config{"shared_key8_" + std::to_string(shape.levels) + "L",
                  Device::cpu,
                  Layout::word,
                  shape,
                  8,
                  24,
                  false,
                  2};
    config.residency = Residency::mirrored;
    config.gets_by = GetsBy::both;
    all.push_back(config);
  }
  for (auto const& [index, values, table] : {std::tuple(Index::dash_eh, Values::heap, "dash_eh_"),
                                             std::tuple(Index::dash_lh, Values::heap, "dash_lh_"),
                                             std::tuple(Index::btree, Values::heap, "btree_"),
                                             std::tuple(Index::btree, Values::log, "btree_log_")}) {
    for (Sizes const& sizes :
         {Sizes{"key8", 8, 8}, Sizes{"key5", 5, 10}, Sizes{"variable", 0, 0}}) {
      for (std::uint32_t const threads : {1u, 2u}) {
        Config config{std::string(table) + sizes.name + "_x" + std::to_string(threads),
                      Device::cpu,
                      Layout::word,
                      {},
                      sizes.key_bytes,
                      sizes.value_bytes,
                      false,
                      threads};
        config.index = index;
        config.values = values;
        all.push_back(config);
      }
    }
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Store, Sequences, testing::ValuesIn(configs()),
                         [](testing::TestParamInfo<Config> const& config) {
                           return config.param.name;
                         });

/// Were a record lost, the test would fail, and name the one step that it takes to see it.
TEST(SequencesHarness, ALostRecordIsNoticedAndItsSequenceShrunkToOnePut) {
  rc::detail::TestParams params;
  params.seed = 20261121;
  std::vector<Step> last;
  auto const result = rc::detail::checkTestable(
      [&] {
        auto const steps = *rc::gen::container<std::vector<Step>>(step());
        Complaints complaints;
        Subject subject({"", Device::cpu, Layout::word, {2, 2, 8}, 8, 24, false, 1});
        for (Step const& s : steps) subject.take(s);
        subject.lose(3);
        subject.check_all();
        if (complaints.text().empty()) return;
        last = steps;
        RC_FAIL(complaints.text());
      },
      rc::detail::TestMetadata{}, params);
  ASSERT_TRUE(result.template is<rc::detail::FailureResult>());
  ASSERT_EQ(last.size(), 1u) << "the last sequence that failed is the shortest";
  bool const puts_k3 = last[0].act == Act::put_many
                           ? last[0].from <= 3 && last[0].from + last[0].count == 4
                           : last[0].ops.size() == 1 && last[0].ops[0].key == 3;
  std::ostringstream shown;
  showValue(last[0], shown);
  EXPECT_TRUE(puts_k3) << shown.str();
}

}  // namespace
}  // namespace perdure::test
