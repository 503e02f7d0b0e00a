// Dash pools of which words were overwritten: whatever they say, a store opens or refuses, answers
// right or says what is damaged, and comes to an end; and `verify` names what it is.
#include <gtest/gtest.h>
#include <unistd.h>

#include <random>

#include "base/hash.hpp"
#include "dash_image.hpp"
#include "support/sanitized.hpp"

namespace perdure::test {
namespace {

struct Kind {
  Index index;
  std::uint32_t key_bytes, value_bytes;
  [[nodiscard]] bool in_slots() const { return value_bytes == 8; }
};
constexpr std::uint64_t kRecords = 3000;  // several segments
constexpr std::uint64_t kAlike = 3000;
constexpr int kShare = kSanitized ? 3 : 1;  // one in so many of the words

/// Whoever hangs is killed.
class Deadline {
 public:
  Deadline() { ::alarm(300); }  // some take ten seconds on a busy machine
  Deadline(Deadline const&) = delete;
  Deadline& operator=(Deadline const&) = delete;
  ~Deadline() { ::alarm(0); }
};

class DashDamage : public ::testing::TestWithParam<Kind> {
 protected:
  DashDamage() {
    CreateOptions create;
    create.index = GetParam().index;
    create.key_bytes = GetParam().key_bytes;
    create.value_bytes = GetParam().value_bytes;
    create.expected_records = 1;
    OpenOptions alone;
    alone.threads = 1;  // the same pool each time
    auto store = Store::create(path_.str(), create, alone);
    if (!store) throw std::runtime_error(store.status().message());
    for (std::uint64_t i = 0; i < kRecords; ++i) contents_[key(i)] = value(i);
    // And some whose hashes are alike, so that segments are chained and the directory is deep.
    for (std::uint64_t i = 10 * kRecords, n = 0; n < kAlike; ++i) {
      std::string const one = key(i);
      if (hash_bytes(reinterpret_cast<std::byte const*>(one.data()), one.size()) >> 59 != 5)
        continue;
      contents_[one] = value(i);
      ++n;
    }
    if (Status s = put_all(*store, contents_); !s.ok()) throw std::runtime_error(s.message());
    unclean_.emplace(read_file(path_.str()));
    if (Status s = store->close(); !s.ok()) throw std::runtime_error(s.message());
    whole_.emplace(read_file(path_.str()));
    words_.emplace(*whole_);
    for (auto const& [k, v] : contents_) keys_.push_back(k);
    for (std::uint64_t i = 0; i < 100; ++i) absent_.push_back(key(kRecords + i));
  }
  static std::string key(std::uint64_t i) { return u64_text(i * 0x9e3779b97f4a7c15u); }
  [[nodiscard]] static std::string value(std::uint64_t i) {
    std::string const text = u64_text(i) + u64_text(~i);
    return GetParam().in_slots() ? text.substr(0, 8) : text;
  }

  /// Another word in the place of one: at random, small, what stands elsewhere, or a bit flipped.
  [[nodiscard]] std::uint64_t other_word(std::uint64_t at) {
    auto const was = whole_->at<std::uint64_t>(at);
    std::uint64_t word = was;
    while (word == was) {
      switch (draw_() % 4) {
        case 0: word = draw_(); break;
        case 1: word = draw_() % 8; break;
        case 2: word = whole_->at<std::uint64_t>(some_word()); break;
        default: word = was ^ std::uint64_t{1} << draw_() % 64;
      }
    }
    return word;
  }
  [[nodiscard]] std::uint64_t some_word() {
    std::vector<std::uint64_t> const* const of[] = {
        &words_->index, &words_->directory, &words_->headers, &words_->states, &words_->slots};
    auto const& some = *of[draw_() % std::size(of)];
    return some[draw_() % some.size()];
  }

  struct Seen {
    bool refused = false;  // to open
    bool damaged = false;  // some call said so
    bool wrong_get = false;  // answered something else than what was put
    bool wrong_scan = false;
    bool wrong_count = false;  // another number than were put, and no word of it
    std::uint64_t faults = 0;
  };
  void look_at(Seen& seen, Status const& s) {
    if (s.ok()) return;
    seen.damaged = true;
    EXPECT_EQ(s.code(), Code::corrupt) << s.message();
    EXPECT_NE(s.message().find(path_.str()), std::string::npos) << s.message();
    EXPECT_TRUE(s.message().find("verify") != std::string::npos ||
                s.message().find("restore") != std::string::npos)
        << s.message();
  }
  void get(Store& store, Seen& seen, std::vector<std::string> const& keys, bool there) {
    Strings column(store.stats().key_bytes);
    for (std::string const& k : keys) column.add(k);
    std::vector<KeyStatus> statuses(keys.size());
    auto const values = store.get_variable(column.column(), statuses);
    look_at(seen, values.status());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (statuses[i] == KeyStatus::corrupt) continue;
      bool const right = statuses[i] == (there ? KeyStatus::ok : KeyStatus::not_found);
      seen.wrong_get |=
          !right || (there && values.ok() && text_at(values.value(), i) != contents_[keys[i]]);
    }
  }
  void scan(Store& store, Seen& seen) {
    Contents found;
    std::uint64_t pages = 0;
    for (ScanCursor cursor; !cursor.done;) {
      ASSERT_LT(++pages, 10000u) << "the scan does not end";
      auto page = store.scan(cursor, 1000);
      look_at(seen, page.status());
      if (!page) return;
      for (std::size_t i = 0; i + 1 < page->keys.offsets.size(); ++i)
        seen.wrong_scan |= !found.emplace(text_at(page->keys, i), text_at(page->values, i)).second;
      cursor = page->next;
    }
    seen.wrong_scan |= found != contents_;
  }
  Seen look(OpenOptions const& options) {
    Deadline const deadline;
    Seen seen;
    auto store = Store::open(path_.str(), options);
    if (!store) {
      look_at(seen, store.status());
      seen.refused = true;
      return seen;
    }
    get(*store, seen, keys_, true);
    get(*store, seen, absent_, false);
    scan(*store, seen);
    auto report = store->verify();
    EXPECT_TRUE(report.ok()) << report.status().message();
    if (report) {
      seen.faults = report->fault_count;
      EXPECT_EQ(report->faults.empty(), seen.faults == 0);
    }
    Stats const stats = store->stats();
    seen.wrong_count = stats.records != contents_.size() && stats.damage.empty();
    seen.damaged |= !stats.damage.empty();
    Status const closed = store->close();
    look_at(seen, closed);
    EXPECT_TRUE(stats.damage.empty() || !closed.ok()) << "a close that leaves damage says so";
    return seen;
  }
  /// Puts, changes and erasures end, whatever they answer.
  void write() {
    Deadline const deadline;
    auto store = Store::open(path_.str());
    if (!store) return;
    Strings keys(GetParam().key_bytes), values(GetParam().value_bytes);
    for (std::uint64_t i = kRecords / 2; i < 2 * kRecords; ++i) {
      keys.add(key(i));
      values.add(value(i));
    }
    std::vector<KeyStatus> statuses(keys.count());
    for (int round = 0; round < 2; ++round) {
      Status const put = store->put(keys.column(), values.column(), statuses);
      EXPECT_TRUE(put.ok() || put.code() == Code::corrupt || put.code() == Code::no_space)
          << put.message();
      static_cast<void>(
          store->update(keys.column(), values.column(), Rmw::add, Element::u8, statuses));
      static_cast<void>(store->erase(keys.column(), statuses));
    }
    static_cast<void>(store->verify());
    static_cast<void>(store->close());
  }

  void overwrite(Image const& image, std::uint64_t at, std::uint64_t word) {
    Image damaged = image;
    damaged.set(at, word);
    write_file(path_.str(), damaged.bytes);
  }

  /// Words that lead through the index: answers are right, or say that something is damaged,
  /// `verify` finds that, and when the word says again what it said, nothing is lost.
  void overwrite_structure(std::vector<std::uint64_t> const& words, int times) {
    OpenOptions reading;
    reading.read_only = true;
    for (int n = 0; n < times / kShare && !HasFailure(); ++n) {
      std::uint64_t const at = words[draw_() % words.size()], word = other_word(at);
      SCOPED_TRACE("byte " + std::to_string(at) + ": " + std::to_string(word) + " instead of " +
                   std::to_string(whole_->at<std::uint64_t>(at)));
      overwrite(*whole_, at, word);
      Bytes const before = read_file(path_.str());
      expect_told(look(reading));
      EXPECT_TRUE(read_file(path_.str()) == before) << "a reader changed the pool";
      Seen const seen = look({});
      expect_told(seen);
      if (seen.refused) {
        EXPECT_TRUE(read_file(path_.str()) == before) << "a refused pool was changed";
      }
      if (seen.damaged) {
        Image mended(read_file(path_.str()));
        if (mended.at<std::uint64_t>(at) == word) mended.set(at, whole_->at<std::uint64_t>(at));
        write_file(path_.str(), mended.bytes);
        Seen const again = look({});
        EXPECT_FALSE(again.damaged || again.wrong_get || again.wrong_scan || again.faults != 0)
            << "looking lost something";
      }
      overwrite(*unclean_, at, word);
      Seen const after_kill = look({});
      EXPECT_FALSE(after_kill.wrong_get || after_kill.wrong_scan || after_kill.wrong_count);
      write();
    }
  }
  void expect_told(Seen const& seen) {
    EXPECT_FALSE(seen.wrong_get);
    EXPECT_FALSE(seen.wrong_scan);
    EXPECT_FALSE(seen.wrong_count);
    EXPECT_TRUE(!seen.damaged || seen.refused || seen.faults != 0) << "verify finds nothing";
  }
  /// Words that say what is in a bucket: what is wrong, `verify` finds.
  void overwrite_contents(std::vector<std::uint64_t> const& words, int times) {
    for (int n = 0; n < times / kShare && !HasFailure(); ++n) {
      std::uint64_t const at = words[draw_() % words.size()], word = other_word(at);
      SCOPED_TRACE("byte " + std::to_string(at) + ": " + std::to_string(word) + " instead of " +
                   std::to_string(whole_->at<std::uint64_t>(at)));
      overwrite(*whole_, at, word);
      Seen const seen = look({});
      bool const wrong = seen.wrong_get || seen.wrong_scan || seen.damaged;
      EXPECT_TRUE(!wrong || seen.refused || seen.faults != 0) << "verify finds nothing";
      overwrite(*unclean_, at, word);
      static_cast<void>(look({}));
      write();
    }
  }

  PoolPath path_;
  Contents contents_;
  std::vector<std::string> keys_, absent_;
  std::optional<Image> whole_, unclean_;
  std::optional<DashWords> words_;
  /// Other words with --gtest_shuffle --gtest_random_seed=N.
  std::mt19937_64 draw_{20261122u +
                        static_cast<unsigned>(::testing::UnitTest::GetInstance()->random_seed())};
};

TEST_P(DashDamage, OfTheIndexSuperblockIsTold) { overwrite_structure(words_->index, 24); }
TEST_P(DashDamage, OfTheDirectoryIsTold) { overwrite_structure(words_->directory, 16); }
TEST_P(DashDamage, OfSegmentHeadersIsTold) { overwrite_structure(words_->headers, 40); }
/// Locked buckets are what a crash left, and no version but the one that follows says that they are
/// not.
TEST_P(DashDamage, OfTheVersionAfterACrashKeepsNoLocks) {
  std::uint64_t const at = words_->index[1], was = unclean_->at<std::uint64_t>(at);
  for (std::uint64_t const version : {was - 1, was + 1, was ^ 2, std::uint64_t{0}, ~was}) {
    SCOPED_TRACE("version " + std::to_string(version) + " instead of " + std::to_string(was));
    Image crashed = *unclean_;
    for (std::uint64_t const state : words_->states)
      crashed.set(state, crashed.at<std::uint64_t>(state) | dash::State::kLocked);
    crashed.set(at, version);
    write_file(path_.str(), crashed.bytes);
    Seen const seen = look({});
    EXPECT_FALSE(seen.refused || seen.damaged || seen.wrong_get || seen.wrong_scan ||
                 seen.faults != 0);
  }
}
TEST_P(DashDamage, OfHeadersOfSuperblocksIsTold) { overwrite_structure(words_->blocks, 16); }
TEST_P(DashDamage, OfLinksOfChainedBucketsIsTold) {
  if (GetParam().index == Index::dash_eh) GTEST_SKIP() << "Dash-EH chains no buckets";
  ASSERT_FALSE(words_->links.empty());
  overwrite_structure(words_->links, 16);
}
TEST_P(DashDamage, OfStatesOfBucketsIsFoundByVerify) { overwrite_contents(words_->states, 24); }
TEST_P(DashDamage, OfFingerprintsAndHintsIsFoundByVerify) { overwrite_contents(words_->hints, 12); }
TEST_P(DashDamage, OfSlotsIsFoundByVerify) { overwrite_contents(words_->slots, 24); }
TEST_P(DashDamage, OfRecordsIsFoundByVerify) {
  if (GetParam().in_slots()) GTEST_SKIP() << "there are no records";
  overwrite_contents(words_->records, 24);
}

std::string name_of(::testing::TestParamInfo<Kind> const& one) {
  std::string const index = one.param.index == Index::dash_eh ? "Extendible" : "Linear";
  return index + (one.param.in_slots()       ? "Slots"
                  : one.param.key_bytes != 0 ? "Records"
                                             : "Variable");
}
INSTANTIATE_TEST_SUITE_P(Pools, DashDamage,
                         ::testing::Values(Kind{Index::dash_eh, 8, 8}, Kind{Index::dash_eh, 8, 16},
                                           Kind{Index::dash_eh, 0, 0}, Kind{Index::dash_lh, 8, 8},
                                           Kind{Index::dash_lh, 8, 16}, Kind{Index::dash_lh, 0, 0}),
                         name_of);

}  // namespace
}  // namespace perdure::test
