// The bodies of ranges as a GPU runs them: heads run by run, and a lane a slot. The host plays all
// lanes, one after the other.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lsm/engine/range_bodies.hpp"
#include "lsm/rocks/run_direct.hpp"
#include "rocks/engine_runs.hpp"

namespace perdure::lsm {
namespace {

class LsmRangeLanes : public testing::Test {
 protected:
  LsmRangeLanes() {
    for (std::uint32_t batch = 0; batch < 40; ++batch) {
      std::vector<Write> writes;
      for (std::uint32_t n = 0; n < 9; ++n) {
        Kind const kind = n % 4 == 3 ? Kind::erase : Kind::put;
        writes.push_back({tricky_key(7 * batch + n * n), kind, std::string(n, 'v')});
      }
      runs_.write(writes);
    }
    for (RunPtr const& run : runs_.list()) views_.push_back(*engine_->host_view(*run));
    view_.runs = views_.data();
    view_.count = static_cast<std::uint32_t>(views_.size());
    view_.n = begins_.size();
    view_.begins = {column_.column().data, column_.column().offsets, 0};
    view_.limit = runs_.next() - 50;
    heads_.resize(view_.n * view_.count);
    counts_.resize(view_.n);
  }
  /// Where each range's slots begin: all have `room`, or, with `exact`, what they need.
  void merge(std::uint64_t most, std::uint64_t room, bool exact) {
    view_.most = most;
    RangeHeads const heads{heads_.data(), 1, view_.n};
    RangeMergeBody body{view_, heads, counts_.data(), nullptr, nullptr, room};
    for (bool const counts : {true, false}) {
      if (counts && !exact) continue;
      RangeSeekBody<HostWarp, 1> const seek{view_, heads};
      for (std::size_t item = 0; item < view_.n * view_.count; ++item) seek(item);
      slots_.resize(counts ? 0 : exact ? firsts_.back() : view_.n * room);
      body.slots = counts ? nullptr : slots_.data();
      body.firsts = exact ? firsts_.data() : nullptr;
      for (std::size_t i = 0; i < view_.n; ++i) body(i);
      add_up();
    }
  }
  void add_up() {
    firsts_.assign(1, 0);
    bytes_.assign(1, 0);
    for (RangeCount const& one : counts_) {
      firsts_.push_back(firsts_.back() + one.keys);
      bytes_.push_back(bytes_.back() + one.key_bytes);
    }
  }
  void write(std::uint64_t room, bool exact) {
    pairs_.assign(firsts_.back(), {});
    keys_.assign(bytes_.back(), {});
    offsets_.assign(firsts_.back() + 1, bytes_.back());
    RangeWriter const to{view_.runs, slots_.data(),   pairs_.data(),  keys_.data(),
                         0,          offsets_.data(), firsts_.data(), bytes_.data()};
    RangeSlotBody const body{to, counts_.data(), exact ? firsts_.data() : nullptr, room, view_.n};
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) body(slot);
  }
  /// Against the engine of the host.
  void check(std::uint64_t most) {
    auto const read = engine_->ranges(
        runs_.list(), {.begins = column_.column(), .limit = view_.limit, .most = most});
    ASSERT_TRUE(read.ok()) << read.status().message();
    RangePairs const& want = read.value();
    ASSERT_EQ(firsts_, std::vector(want.firsts.begin(), want.firsts.end()));
    ASSERT_GT(firsts_.back(), begins_.size() / 2);
    for (std::uint64_t i = 0; i < firsts_.back(); ++i) {
      ASSERT_EQ(offsets_[i + 1], want.key_begin(i + 1));
      ASSERT_EQ(pairs_[i].word, want.pairs[i].word);
      ASSERT_EQ(pairs_[i].found, want.pairs[i].found);
    }
    ASSERT_EQ(std::memcmp(keys_.data(), want.keys, keys_.size()), 0);
  }

  exec::Workers workers_{1};
  std::unique_ptr<Engine> engine_ = std::move(make_cpu_engine(workers_).value());
  Runs runs_{*engine_};
  std::vector<RunView> views_;
  std::vector<std::string> begins_ = probes();
  KeyColumn column_{begins_};
  RangesView view_;
  std::vector<RangeHead> heads_;
  std::vector<RangeCount> counts_;
  std::vector<RangeSlot> slots_;
  std::vector<RangePair> pairs_;
  std::vector<std::byte> keys_;
  std::vector<std::uint64_t> firsts_, bytes_, offsets_;

 private:
  static std::vector<std::string> probes() {
    std::vector<std::string> all;
    for (std::uint32_t n = 0; n < 70; n += 2) all.push_back(tricky_key(n));
    all.insert(all.begin() + 5, 3, std::string(200, '\xff'));  // above all: nothing follows
    return all;
  }
};

TEST_F(LsmRangeLanes, WithRoomForEachWriteWhatTheHostDoes) {
  for (std::uint64_t const most : {1, 5, 64}) {
    merge(most, most, false);
    write(most, false);
    check(most);
  }
}

TEST_F(LsmRangeLanes, ThatCountFirstWriteWhatTheHostDoes) {
  for (std::uint64_t const most : {1, 5, 1000}) {
    merge(most, 1000, true);
    write(0, true);
    check(most);
  }
}

TEST_F(LsmRangeLanes, StopWhereThereIsNoMoreRoom) {
  merge(1000, 4, false);
  write(4, false);
  auto const all =
      engine_->ranges(runs_.list(), {.begins = column_.column(), .limit = view_.limit});
  std::size_t cut = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    std::uint32_t const keys = all.value().ranges[i].keys;
    EXPECT_EQ(counts_[i].keys, std::min(keys, 4u));
    EXPECT_EQ(counts_[i].is_cut, keys > 4 ? 1u : 0u);
    cut += counts_[i].is_cut;
  }
  EXPECT_GT(cut, 5u);
}

}  // namespace
}  // namespace perdure::lsm
