// Generated lives of a G-WAL: records, hand-overs, openings, and crashes, each of which leaves a
// copy of the directory in which the record under way is there in part; against the list of what
// was acknowledged. Then damage: whatever bit is flipped, nothing wrong comes back. And a process
// that is really killed.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gwal_folder.hpp"

namespace perdure::test {
namespace {

using Texts = std::vector<std::string>;

std::string text_for(lsm::RequestId request, std::size_t bytes) {
  std::string text = std::to_string(request) + ":";
  while (text.size() < bytes) text += static_cast<char>('a' + (request + text.size()) % 26);
  return text;
}

/// What is in the files of a folder, so that a crash can leave a mixture of two of them.
using Files = std::map<std::string, std::string>;
Files files_of(GwalFolder const& folder) {
  Files files;
  for (std::string const& name : folder.names()) files[name] = contents(folder.path + "/" + name);
  return files;
}
void put_files(GwalFolder const& folder, Files const& files) {
  std::filesystem::remove_all(folder.path);
  std::filesystem::create_directories(folder.path);
  for (auto const& [name, bytes] : files) put_contents(folder.path + "/" + name, bytes);
}

class Life {
 public:
  explicit Life(std::uint64_t seed) : random_(seed) { open(); }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      std::uint64_t const dice = random_() % 16;
      if (dice < 9)
        write();
      else if (dice < 11)
        begin();
      else if (dice < 14)
        hand_over();
      else if (dice < 15)
        reopen();
      else
        crash();
    }
    reopen();
  }
  /// A copy with one bit flipped: refused, or read as what was there; of the newest record nobody
  /// can tell whether it was being written.
  void damage() {
    close();
    Files const whole = files_of(folder_);
    for (int i = 0; i < 10; ++i) {
      Files files = whole;
      auto& bytes = std::next(files.begin(), pick(files.size()))->second;
      std::size_t const used = std::min<std::size_t>(bytes.size(), lsm::kGwalRecords + 2000);
      bytes[pick(used)] ^= static_cast<char>(1u << pick(8));
      put_files(folder_, files);
      auto opened = open_gwal(folder_.options(), sequence_);
      if (!opened.ok()) {
        RC_ASSERT(opened.status().code() == Code::corrupt);
        continue;
      }
      Texts expected = texts();
      Texts const found = texts_of(opened->found);
      if (found.size() + 1 == expected.size()) expected.pop_back();
      RC_ASSERT(found == expected);
    }
  }

 private:
  struct Generation {
    std::unique_ptr<lsm::GwalSegment> segment;
    Texts texts;
  };

  std::size_t pick(std::size_t below) { return static_cast<std::size_t>(random_() % below); }

  static Texts texts_of(std::vector<lsm::GwalRecovered> const& found) {
    Texts all;
    for (auto const& segment : found)
      for (lsm::GwalRecord const& record : segment.records) all.push_back(text_of(record));
    return all;
  }
  [[nodiscard]] Texts texts() const {
    Texts all;
    for (Generation const& g : generations_) all.insert(all.end(), g.texts.begin(), g.texts.end());
    return all;
  }

  void close() {
    for (Generation& g : generations_) g.segment.reset();
    log_.reset();
  }
  void open() {
    auto opened = open_gwal(folder_.options(), sequence_);
    RC_ASSERT(opened.status().message() == "");
    log_ = std::move(opened->log);
    RC_ASSERT(texts_of(opened->found) == texts());
    generations_.clear();
    for (auto& segment : opened->found) {
      if (segment.found.discarded) continue;
      Texts texts;
      for (lsm::GwalRecord const& record : segment.records) texts.push_back(text_of(record));
      generations_.push_back({std::move(segment.segment), std::move(texts)});
    }
    writable_ = false;
  }
  void reopen() {
    close();
    open();
  }

  void begin() {
    if (generations_.size() >= 5) return;
    auto segment = log_->begin(pick(4) == 0 ? pick(100'000) : 0);
    RC_ASSERT(segment.status().message() == "");
    generations_.push_back({std::move(*segment), {}});
    writable_ = true;
  }
  void write() {
    if (!writable_) begin();
    if (!writable_) return;
    std::string const text = text_for(next_, pick(8) == 0 ? pick(20'000) : pick(200));
    Status const s = write_record(*generations_.back().segment, next_, text, 1, pick(3) == 0);
    if (s.code() == Code::no_space) {
      writable_ = false;
      return;
    }
    RC_ASSERT(s.message() == "");
    ++next_;
    generations_.back().texts.push_back(text);
  }
  void hand_over() {
    if (generations_.empty()) return;
    if (generations_.size() == 1) writable_ = false;
    Generation& oldest = generations_.front();
    RC_ASSERT(oldest.segment->intend(sequence_).ok());
    if (pick(4) == 0) return reopen();  // and it is handed over once more
    ++sequence_;
    if (pick(4) == 0) {  // RocksDB has it, and nobody said so
      generations_.pop_front();
      return reopen();
    }
    RC_ASSERT(oldest.segment->retire().ok());
    generations_.pop_front();
  }
  /// While a record is being written: of its lines any words may be there.
  void crash() {
    if (!writable_) return reopen();
    Files const before = files_of(folder_);
    std::string const text = text_for(next_, pick(500));
    if (!write_record(*generations_.back().segment, next_, text).ok()) return;
    Files after = files_of(folder_);
    bool whole = true;
    for (auto& [name, bytes] : after) {
      auto const then = before.find(name);
      if (then == before.end() || then->second.size() != bytes.size()) continue;  // a spare is made
      std::string const& old = then->second;
      for (std::size_t at = 0; at < bytes.size(); at += 8) {
        if (old.compare(at, 8, bytes, at, 8) == 0 || pick(8) != 0) continue;
        bytes.replace(at, 8, old, at, 8);
        whole = false;
      }
    }
    close();
    put_files(folder_, after);
    if (whole) generations_.back().texts.push_back(text);
    if (whole) ++next_;
    open();
  }

  std::mt19937_64 random_;
  GwalFolder folder_{"life"};
  std::unique_ptr<lsm::Gwal> log_;
  std::deque<Generation> generations_;  // oldest first; of each what was acknowledged
  bool writable_ = false;
  lsm::RequestId next_ = 1;
  std::uint64_t sequence_ = 5;
};

RC_GTEST_PROP(GwalCrash, WhatWasAcknowledgedComesBackAndNothingElse, ()) {
  Life life(*rc::gen::arbitrary<std::uint64_t>());
  life.run(20);
}

RC_GTEST_PROP(GwalCrash, AFlippedBitBringsNothingWrongBack, ()) {
  Life life(*rc::gen::arbitrary<std::uint64_t>());
  life.run(12);
  life.damage();
}

/// What a process that is killed and its parent both see.
struct Shared {
  std::atomic<std::uint64_t> acknowledged;
  // RocksDB, whose ingests are atomic: its sequence number, and the last request that it has
  std::atomic<std::uint64_t> rocks;
};
constexpr std::uint64_t kRequestBits = 32;
std::uint64_t sequence_of(std::uint64_t rocks) { return rocks >> kRequestBits; }
std::uint64_t last_of(std::uint64_t rocks) { return rocks & 0xffffffffu; }

/// Writes for ever. Every so many records a generation is handed over.
[[noreturn]] void write_until_killed(lsm::GwalOptions const& options, Shared& shared) {
  auto open = open_gwal(options, sequence_of(shared.rocks));
  if (!open.ok()) ::_exit(1);
  std::deque<std::pair<std::unique_ptr<lsm::GwalSegment>, std::uint64_t>> sealed;
  std::uint64_t next = std::max(last_of(shared.rocks), shared.acknowledged.load()) + 1;
  for (auto& found : open->found) {
    if (found.found.discarded) continue;
    // One without records adds nothing to what those before it hold.
    std::uint64_t last = sealed.empty() ? last_of(shared.rocks) : sealed.back().second;
    if (!found.records.empty()) last = found.records.back().first_request;
    next = std::max(next, last + 1);
    sealed.emplace_back(std::move(found.segment), last);
  }
  for (;;) {
    auto segment = open->log->begin(0);
    if (!segment.ok()) ::_exit(1);
    for (int i = 0; i < 40; ++i, ++next) {  // enough that the next file is made meanwhile
      if (!write_record(**segment, next, text_for(next, next * 37 % 900), 1, i % 8 == 0).ok())
        ::_exit(1);
      shared.acknowledged = next;
    }
    sealed.emplace_back(std::move(*segment), next - 1);
    while (sealed.size() > 2) {
      std::uint64_t const sequence = sequence_of(shared.rocks);
      auto& [oldest, last] = sealed.front();
      if (!oldest->intend(sequence).ok()) ::_exit(1);
      shared.rocks = (sequence + 1) << kRequestBits | last;
      if (!oldest->retire().ok()) ::_exit(1);
      sealed.pop_front();
    }
  }
}

TEST(GwalKilled, AProcessThatIsKilledLosesNothingThatItAcknowledged) {
  GwalFolder const folder("killed");
  auto* const shared = static_cast<Shared*>(
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(shared, MAP_FAILED);
  std::mt19937_64 random(7);
  std::uint64_t before = 0;
  // Twenty-five kills, and more until generations were handed over: how far a child comes is up to
  // the system.
  auto const is_handed_over = [&] { return sequence_of(shared->rocks) > 25; };
  for (int kill = 0; kill < 25 || (!is_handed_over() && kill < 1000); ++kill) {
    ::pid_t const child = ::fork();
    if (child == 0) write_until_killed(folder.options(), *shared);
    while (shared->acknowledged <= before) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 8000));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself: " << status;

    std::uint64_t const rocks = shared->rocks;
    auto open = open_gwal(folder.options(), sequence_of(rocks));
    ASSERT_TRUE(open.ok()) << open.status().message();
    std::uint64_t next = last_of(rocks) + 1;
    for (auto const& segment : open->found)
      for (lsm::GwalRecord const& record : segment.records) {
        ASSERT_EQ(record.first_request, next) << "once, and in order";
        ASSERT_EQ(text_of(record), text_for(next, next * 37 % 900));
        ++next;
      }
    ASSERT_GE(next, shared->acknowledged + 1);
    for (std::string const& name : folder.names())
      EXPECT_FALSE(name.starts_with("000000000000")) << "made beforehand, and left: " << name;
    before = shared->acknowledged;
  }
  EXPECT_TRUE(is_handed_over()) << sequence_of(shared->rocks);
  ::munmap(shared, sizeof(Shared));
}

}  // namespace
}  // namespace perdure::test
