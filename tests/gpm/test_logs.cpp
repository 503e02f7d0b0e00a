// libGPM's logs on the host's threads: generated operations against a plain stack, files that are
// damaged or foreign, and what an entry costs. Invariant tested: what is refused changes nothing,
// and an opening finds what was there.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "perdure/gpm.hpp"
#include "support/store_driver.hpp"

namespace perdure::test {
namespace {

using gpm::LogError;
using gpm::LogKind;
using Log = gpm::Log<gpm::Cpu>;

enum class Act : std::uint8_t { insert, read, remove, clear, size, empty };
struct Call {
  Act act;
  std::size_t size;
  std::uint8_t fill;
  std::int64_t partition;
};
using Entry = std::string;

Entry entry_of(Call const& call) {
  Entry bytes(call.size, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(call.fill + 3 * i);
  return bytes;
}

/// One thread carries the calls out.
struct Calls {
  static constexpr int kPhases = 1;
  using Shared = gpm::NoShared;
  using State = gpm::NoState;
  gpm::LogView log;
  std::vector<Call> const* calls;
  std::vector<LogError>* answers;
  std::vector<Entry>* read;

  template <int, class T>
  void run(T& thread, Shared&, State&) const {
    if (thread.global() != 0) return;
    for (Call const& call : *calls) {
      Entry bytes = entry_of(call);
      read->emplace_back();
      switch (call.act) {
        case Act::insert:
          answers->push_back(gpm::insert(thread, log, bytes.data(), call.size, call.partition));
          break;
        case Act::read:
          answers->push_back(gpm::read(thread, log, bytes.data(), call.size, call.partition));
          read->back() = bytes;
          break;
        case Act::remove:
          answers->push_back(gpm::remove(thread, log, call.size, call.partition));
          break;
        case Act::clear: answers->push_back(gpm::clear(thread, log, call.partition)); break;
        case Act::size: {
          std::uint64_t size = 0;
          answers->push_back(gpm::size(thread, log, size, call.partition));
          read->back() = std::to_string(size);
          break;
        }
        case Act::empty: {
          bool empty = false;
          answers->push_back(gpm::empty(thread, log, empty, call.partition));
          read->back() = empty ? "yes" : "no";
          break;
        }
      }
    }
  }
};

std::size_t words(std::size_t bytes) { return (bytes + 3) / 4; }

class Logs : public testing::TestWithParam<LogKind> {
 protected:
  static constexpr std::uint32_t kPartitions = 6;
  /// A file is one log's at a time: a fixture has one.
  Log& make(std::uint64_t bytes_each) {
    log_.reset();
    auto log = Log::create(grid_, path_, bytes_each * kPartitions, geometry());
    EXPECT_TRUE(log.ok()) << log.status().message();
    return log_.emplace(std::move(log.value()));
  }
  static gpm::LogGeometry geometry() {
    bool const hcl = GetParam() == LogKind::hcl;
    return {GetParam(), hcl ? 2u : 0u, hcl ? 3u : 0u, hcl ? 0 : kPartitions};
  }
  std::vector<LogError> apply(Log const& log, std::vector<Call> const& calls) {
    std::vector<LogError> answers;
    read_.clear();
    EXPECT_TRUE(grid_.launch({1, 1}, Calls{log.view(), &calls, &answers, &read_}).ok());
    return answers;
  }
  Log& reopened() {
    log_.reset();
    auto log = Log::open(grid_, path_);
    EXPECT_TRUE(log.ok()) << log.status().message();
    return log_.emplace(std::move(log.value()));
  }
  Status refused() { return log_.reset(), Log::open(grid_, path_).status(); }
  void overwrite(std::uint64_t at, std::string const& bytes) const {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  [[nodiscard]] std::byte* first_word() const { return log_->view().base + log_->view().data; }

  ScratchDir dir_;
  std::string path_ = dir_.file("log");
  gpm::Cpu grid_{2};
  std::optional<Log> log_;
  std::vector<Entry> read_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, Logs, testing::Values(LogKind::hcl, LogKind::conventional),
                         [](auto const& made) {
                           return made.param == LogKind::hcl ? "hcl" : "conventional";
                         });

/// A plain stack of bytes, and the room that its entries take until their last byte is gone.
class Stack {
 public:
  explicit Stack(std::size_t words) : words_(words) {}
  /// What a log answers, and what a call answers with besides.
  LogError answer(Call const& call, std::string& also) {
    switch (call.act) {
      case Act::clear: return entries_.clear(), bytes_.clear(), LogError::none;
      case Act::size: return also = std::to_string(bytes_.size()), LogError::none;
      case Act::empty: return also = bytes_.empty() ? "yes" : "no", LogError::none;
      case Act::insert: return insert(entry_of(call));
      default: break;
    }
    if (bytes_.empty()) return LogError::empty;
    if (bytes_.size() < call.size) return LogError::fewer;
    if (call.act == Act::read)
      return also = bytes_.substr(bytes_.size() - call.size), LogError::none;
    bytes_.resize(bytes_.size() - call.size);
    while (!entries_.empty() && entries_.back().begin >= bytes_.size()) entries_.pop_back();
    return LogError::none;
  }
  [[nodiscard]] std::string const& bytes() const { return bytes_; }

 private:
  struct Taken {
    std::size_t begin, words;
  };
  LogError insert(Entry const& entry) {
    std::size_t used = words(entry.size()) + 1;
    for (Taken const& other : entries_) used += other.words + 1;
    if (used > words_) return LogError::overflow;
    entries_.push_back({bytes_.size(), words(entry.size())});
    return bytes_ += entry, LogError::none;
  }

  std::size_t words_;
  std::string bytes_;
  std::vector<Taken> entries_;
};

TEST_P(Logs, AnswerAsPlainStacksOfBytesDo) {
  constexpr std::size_t kRoom = 80;  // bytes of entries: 20 words, and as many checks
  bool const right = rc::check([&] {
    auto const call = rc::gen::build<Call>(
        rc::gen::set(&Call::act, rc::gen::weightedElement<Act>({{10, Act::insert},
                                                                {5, Act::read},
                                                                {6, Act::remove},
                                                                {1, Act::clear},
                                                                {2, Act::size},
                                                                {1, Act::empty}})),
        rc::gen::set(&Call::size, rc::gen::inRange<std::size_t>(1, 13)), rc::gen::set(&Call::fill),
        rc::gen::set(&Call::partition, rc::gen::inRange<std::int64_t>(0, 3)));
    auto const calls = *rc::gen::container<std::vector<Call>>(call);
    Log& log = make(kRoom);
    auto const answers = apply(log, calls);
    std::vector<Stack> model(kPartitions, Stack(2 * kRoom / 4));
    std::uint64_t lost = 0;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      std::string also;
      RC_ASSERT(answers[i] ==
                model[static_cast<std::size_t>(calls[i].partition)].answer(calls[i], also));
      lost += answers[i] == LogError::overflow;
      if (calls[i].act != Act::insert && answers[i] == LogError::none) RC_ASSERT(read_[i] == also);
    }
    RC_ASSERT(log.overflows().value() == lost);
    Log& again = reopened();
    for (std::int64_t p = 0; p < 3; ++p) {
      std::string const& bytes = model[static_cast<std::size_t>(p)].bytes();
      RC_ASSERT(again.size(static_cast<std::uint64_t>(p)).value() == bytes.size());
      if (bytes.empty()) continue;
      RC_ASSERT(apply(again, {{Act::read, bytes.size(), 0, p}})[0] == LogError::none);
      RC_ASSERT(read_[0] == bytes);
      RC_ASSERT(apply(again, {{Act::remove, bytes.size(), 0, p}})[0] == LogError::none);
      RC_ASSERT(apply(again, {{Act::read, 4, 0, p}})[0] == LogError::empty);
    }
  });
  EXPECT_TRUE(right);
}

/// gpKVS: 24 bytes a thread, and an entry of 24. Figure 4: 4 bytes a thread. gpDB: two entries of 4
/// in 8.
TEST_P(Logs, AreSizedByTheBytesOfTheirEntries) {
  for (auto const& [each, entry] :
       {std::pair<std::size_t, std::size_t>{24, 24}, {4, 4}, {8, 4}, {256, 1}, {20, 20}}) {
    Log& log = make(each);
    for (std::int64_t p = 0; p < kPartitions; ++p) {
      std::size_t const counted = (entry + 3) / 4 * 4;
      std::vector<Call> const calls(each / counted, {Act::insert, entry, 5, p});
      EXPECT_EQ(apply(log, calls), std::vector<LogError>(calls.size(), LogError::none))
          << entry << " of " << each;
    }
    EXPECT_EQ(log.overflows().value(), 0u);
    EXPECT_EQ(reopened().in_use().value(), std::uint64_t{kPartitions});
  }
  make(4);
  EXPECT_EQ(apply(*log_, {{Act::insert, 4, 1, 0}, {Act::insert, 4, 1, 0}})[1], LogError::overflow);
}

/// gpDB's recovery: the row's number first, then what stood there; and five of the six numbers of
/// its table.
TEST_P(Logs, AreReadAndTakenOffInParts) {
  Log& log = make(24);
  apply(log, {{Act::insert, 24, 7, 1}});
  Entry const whole = entry_of({Act::insert, 24, 7, 1});
  ASSERT_EQ(apply(log, {{Act::read, 20, 0, 1}})[0], LogError::none);
  EXPECT_EQ(read_[0], whole.substr(4));
  ASSERT_EQ(apply(log, {{Act::remove, 7, 0, 1}})[0], LogError::none);
  Log& again = reopened();
  EXPECT_EQ(again.size(1).value(), 17u);
  ASSERT_EQ(apply(again, {{Act::read, 17, 0, 1}, {Act::read, 1, 0, 1}, {Act::read, 18, 0, 1}}),
            (std::vector<LogError>{LogError::none, LogError::none, LogError::fewer}));
  EXPECT_EQ(read_[0], whole.substr(0, 17));
  EXPECT_EQ(read_[1], whole.substr(16, 1));
  // The entry's room comes back with its last byte.
  EXPECT_EQ(
      apply(again, {{Act::remove, 16, 0, 1}, {Act::insert, 20, 0, 1}, {Act::remove, 1, 0, 1}}),
      (std::vector<LogError>{LogError::none, LogError::overflow, LogError::none}));
  EXPECT_EQ(apply(again, {{Act::insert, 24, 9, 1}})[0], LogError::none);
  EXPECT_EQ(reopened().size(1).value(), 24u);
}

/// A part of an entry goes with one store; of others, whole entries do.
TEST_P(Logs, APartTakesOneStoreToTakeOff) {
  Log& log = make(24);
  apply(log, {{Act::insert, 8, 1, 0},
              {Act::remove, 1, 0, 0}});  // names the size: one more, once in a file's life
  gpm::GridTally const before = grid_.tally().value();
  apply(log, {{Act::remove, 3, 0, 0}});
  EXPECT_EQ(grid_.tally().value().stores - before.stores, 1u);
  EXPECT_EQ(grid_.tally().value().orders - before.orders, 1u);
}

TEST_P(Logs, TakeEntriesOf1To256Bytes) {
  Log& log = make(65 * 64 * 4 * 2);
  std::vector<Call> calls;
  for (std::size_t size = 1; size <= 256; ++size)
    calls.push_back({Act::insert, size, static_cast<std::uint8_t>(size), 1});
  EXPECT_EQ(apply(log, calls), std::vector<LogError>(256, LogError::none));
  reopened();
  for (std::size_t size = 256; size >= 1; --size) {
    Call const read{Act::read, size, 0, 1};
    ASSERT_EQ(apply(log, {read, {Act::remove, size, 0, 1}}),
              std::vector<LogError>(2, LogError::none))
        << size;
    ASSERT_EQ(read_[0], entry_of(calls[size - 1])) << size;
  }
  for (std::size_t const size : {std::size_t{0}, std::size_t{257}})
    EXPECT_EQ(apply(log, {{Act::insert, size, 0, 1}}), std::vector<LogError>(1, LogError::size))
        << size;
  EXPECT_EQ(apply(log, {{Act::read, 0, 0, 1}, {Act::remove, 0, 0, 1}}),
            std::vector<LogError>(2, LogError::size));
}

TEST_P(Logs, RefuseAPartitionThatIsNotThere) {
  Log& log = make(8);
  for (Act const act : {Act::insert, Act::read, Act::remove, Act::clear, Act::size, Act::empty})
    EXPECT_EQ(apply(log, {{act, 4, 0, kPartitions}, {act, 4, 0, -2}}),
              std::vector<LogError>(2, LogError::partition));
  EXPECT_EQ(log.size(kPartitions).status().code(), Code::invalid_argument);
  EXPECT_EQ(log.in_use().value(), 0u);
}

TEST_P(Logs, AnOverflowWritesNothingAndIsCounted) {
  Log& log = make(8);  // one entry of two words, and no room for another of one
  ASSERT_EQ(apply(log, {{Act::insert, 8, 1, 2}})[0], LogError::none);
  std::uint64_t const before = grid_.tally().value().stores;
  EXPECT_EQ(apply(log, {{Act::insert, 4, 2, 2}, {Act::insert, 16, 3, 0}}),
            std::vector<LogError>(2, LogError::overflow));
  EXPECT_EQ(grid_.tally().value().stores, before);
  EXPECT_EQ(log.overflows().value(), 2u);
  EXPECT_EQ(log.in_use().value(), 1u);
  EXPECT_EQ(apply(log, {{Act::read, 8, 0, 2}})[0], LogError::none);
  EXPECT_EQ(read_[0], entry_of({Act::insert, 8, 1, 2}));
}

TEST_P(Logs, TheHostClearsAllWithOneStore) {
  Log& log = make(8);
  apply(log, {{Act::insert, 4, 1, 0}, {Act::insert, 4, 2, 5}});
  std::uint64_t const transaction = log.view().transaction;
  ASSERT_TRUE(log.clear().ok());
  EXPECT_EQ(log.view().transaction, transaction + 1);
  EXPECT_EQ(log.in_use().value(), 0u);
  EXPECT_EQ(apply(log, {{Act::read, 4, 0, 0}})[0], LogError::empty);
  EXPECT_EQ(reopened().in_use().value(), 0u);
}

/// Each of many threads inserts, and removes again, so many entries.
struct Churn {
  static constexpr int kPhases = 1;
  using Shared = gpm::NoShared;
  using State = gpm::NoState;
  gpm::LogView log;
  int inserts, removes;
  template <int, class T>
  void run(T& thread, Shared&, State&) const {
    auto const which = static_cast<std::int64_t>(thread.global());
    std::uint64_t const entry = thread.global();
    for (int i = 0; i < inserts; ++i) (void)gpm::insert(thread, log, &entry, sizeof entry, which);
    for (int i = 0; i < removes; ++i) (void)gpm::remove(thread, log, sizeof entry, which);
  }
};

TEST_P(Logs, AnEntryTakesOneOrderingPoint) {
  Log& log = make(64);
  ASSERT_TRUE(grid_.launch({1, 1}, Churn{log.view(), 1, 1})
                  .ok());  // names the size: one more, once in a file's life
  gpm::GridTally const before = grid_.tally().value();
  ASSERT_TRUE(grid_.launch({2, 3}, Churn{log.view(), 5, 0}).ok());
  EXPECT_EQ(grid_.tally().value().orders - before.orders, 6u * 5);
  EXPECT_EQ(grid_.tally().value().stores - before.stores, 6u * 5 * 3);  // two words and the check
  ASSERT_TRUE(grid_.launch({2, 3}, Churn{log.view(), 0, 5}).ok());
  EXPECT_EQ(grid_.tally().value().orders - before.orders, 6u * 10);
  EXPECT_EQ(log.in_use().value(), 0u);
}

TEST(LogsOfManyThreads, HaveAMillionPartitions) {
  ScratchDir const dir;
  gpm::Cpu grid(2);
  std::uint64_t const threads = 1 << 20;
  auto log = Log::create(grid, dir.file("log"), threads * 8, {LogKind::hcl, 4096, 256, 0});
  ASSERT_TRUE(log.ok()) << log.status().message();
  ASSERT_TRUE(grid.launch({4096, 256}, Churn{log->view(), 2, 0}).ok());
  EXPECT_EQ(log->in_use().value(), threads);
  EXPECT_EQ(log->overflows().value(), threads);  // one entry fits
  {
    [[maybe_unused]] auto const closed = std::move(log.value());
  }
  auto again = Log::open(grid, dir.file("log"));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->in_use().value(), threads);
}

TEST_P(Logs, OpenWithTheGeometryOfTheFile) {
  make(8);
  gpm::GpmLogHeader const& header = reopened().file().header();
  EXPECT_EQ(header.kind, GetParam());
  EXPECT_EQ(header.partitions, kPartitions);
  EXPECT_EQ(header.words, 4u);
  EXPECT_EQ(header.threads, GetParam() == LogKind::hcl ? 3u : 0u);
}

TEST_P(Logs, RefuseAFileThatIsDamagedForeignOrNotThere) {
  EXPECT_EQ(refused().code(), Code::not_found);
  make(8);
  overwrite(24, "\x77");
  EXPECT_EQ(refused().code(), Code::corrupt);
  EXPECT_NE(refused().message().find("damaged header"), std::string::npos) << refused().message();
  overwrite(8, "\x09");
  EXPECT_EQ(refused().code(), Code::unsupported);
  overwrite(0, "ANOTHER!");
  EXPECT_NE(refused().message().find("is no libGPM log"), std::string::npos) << refused().message();
}

TEST_P(Logs, RefuseATruncatedFile) {
  make(4096);
  log_.reset();
  std::filesystem::resize_file(path_, 4 * 4096);
  EXPECT_EQ(refused().code(), Code::corrupt);
  EXPECT_NE(refused().message().find("truncated"), std::string::npos) << refused().message();
}

TEST_P(Logs, RefuseGeometriesThatHoldNothing) {
  gpm::LogGeometry none = geometry();
  none.blocks = 0;
  none.partitions = 0;
  EXPECT_EQ(Log::create(grid_, path_, 4096, none).status().code(), Code::invalid_argument);
  EXPECT_EQ(Log::create(grid_, path_, kPartitions - 1, geometry()).status().code(),
            Code::invalid_argument);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

/// A crash kept the check and one word of an entry, and lost the other; the next entry there has
/// that other word, and a crash keeps it alone. The first entry must not be found.
TEST_P(Logs, ATornEntryIsNotCompletedByTheNextOne) {
  Log& log = make(8);
  apply(log, {{Act::insert, 8, 1, 0}});
  std::byte* const words = first_word();
  std::size_t const next = GetParam() == LogKind::hcl ? 128 : 4;  // bytes from word to word
  std::uint32_t second = 0;
  std::memcpy(&second, words + next, 4);
  std::memset(words + next, 0, 4);
  EXPECT_EQ(reopened().in_use().value(), 0u);
  std::memcpy(first_word() + next, &second, 4);
  EXPECT_EQ(reopened().in_use().value(), 0u);
}

/// Where the host alone orders, a crash may keep an entry and lose the one below it. Opening ends
/// it: the same entry once more, below it, does not bring it back.
TEST_P(Logs, AnEntryAboveALostOneDoesNotComeBack) {
  Log& log = make(16);
  std::vector<Call> const calls{
      {Act::insert, 4, 1, 0}, {Act::insert, 4, 2, 0}, {Act::insert, 8, 3, 0}};
  ASSERT_EQ(apply(log, calls), std::vector<LogError>(3, LogError::none));
  std::size_t const next = GetParam() == LogKind::hcl ? 128 : 4;  // bytes from word to word
  std::memset(first_word() + 3 * next, 0, 4);  // the check of the second
  ASSERT_EQ(apply(reopened(), {calls[1]})[0], LogError::none);
  Log const& again = reopened();
  EXPECT_EQ(apply(again, {{Act::read, 8, 0, 0}})[0], LogError::none);  // both, and no third
  EXPECT_EQ(apply(again, {{Act::read, 9, 0, 0}})[0], LogError::fewer);
  EXPECT_EQ(apply(again, {{Act::read, 4, 0, 0}, {Act::remove, 4, 0, 0}}),
            std::vector<LogError>(2, LogError::none));
  EXPECT_EQ(read_[0], entry_of(calls[1]));
}

}  // namespace
}  // namespace perdure::test
