// What a file of a baseline holds at its ordering points: a copy of its bytes, perhaps with some
// stores taken out that no ordering point covers yet, is attached again.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "arena.hpp"
#include "baseline_driver.hpp"
#include "clevel.hpp"
#include "slabhash.hpp"

namespace perdure::baselines::test {
namespace {

using Bytes = std::vector<char>;

Bytes read_file(std::string const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(std::string const& path, Bytes const& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

Ids numbers(std::uint64_t first, std::uint64_t count) {
  Ids ids(count);
  for (std::uint64_t i = 0; i < count; ++i) ids[i] = first + i;
  return ids;
}

Model model_of(Ids const& keys, Ids const& values) {
  Model model;
  for (std::size_t i = 0; i < keys.size(); ++i) model[keys[i]] = values[i];
  return model;
}

std::uint64_t word(Bytes const& bytes, std::uint64_t at) {
  std::uint64_t value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

void set_word(Bytes& bytes, std::uint64_t at, std::uint64_t value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

class Recovery : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (!can_run(GetParam())) GTEST_SKIP() << "no GPU to run on";
  }
  std::string const name_ = testing::UnitTest::GetInstance()->current_test_info()->name();
  TmpFile file_{name_};
  TmpFile copy_{name_ + "copy"};
};

TEST_P(Recovery, EveryAcknowledgedBatchIsThereAfterAttaching) {
  Driver driver = created(file_, GetParam(), 64);
  Model model;
  for (std::uint64_t round = 0; round < 6; ++round) {
    driver.put(numbers(round * 500, 700), numbers(round, 700));
    for (std::uint64_t i = 0; i < 700; ++i) model[round * 500 + i] = round + i;
    driver.erase(numbers(round * 500, 50));
    for (std::uint64_t i = 0; i < 50; ++i) model.erase(round * 500 + i);
    std::filesystem::remove(copy_.path);
    write_file(copy_.path, read_file(file_.path));
    Driver again = attached(copy_, GetParam());
    again.expect(model, 4000);
    again.put(numbers(3000, 900), numbers(1, 900));  // and it can be written on
    Model more = model;
    for (std::uint64_t i = 0; i < 900; ++i) more[3000 + i] = 1 + i;
    again.expect(more, 4000);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Recovery,
                         testing::ValuesIn(on_all_devices(with_assisted(
                             {Kind{Design::slabhash_gpm, 8}, Kind{Design::slabhash_gpm, 32},
                              Kind{Design::clevel_gpm, 8}, Kind{Design::clevel_gpm, 24}}))),
                         [](auto const& each) { return kind_name(each.param); });

// ------------------------------------------------------------------------------------------------
class SlabHashLog : public Recovery {
 protected:
  /// The file as a crash before the batch's last store may leave it: that store is missing, and of
  /// the operations in `lost` the change of the pointer too, perhaps with its entry.
  static Bytes interrupted(Bytes const& before, Bytes const& after, std::mt19937_64& random) {
    Bytes bytes = after;
    std::uint64_t const epoch = word(before, Arena::word_at(Arena::kEpoch).bytes);
    set_word(bytes, Arena::word_at(Arena::kEpoch).bytes, epoch);
    for (std::uint64_t at = 0; at + sizeof(slabhash::UndoEntry) <= bytes.size();
         at += sizeof(slabhash::UndoEntry)) {
      slabhash::UndoEntry entry;
      std::memcpy(&entry, bytes.data() + at, sizeof entry);
      bool const live = entry.epoch == epoch + 1 &&
                        entry.check == slabhash::check_of(entry.pointer, entry.before, entry.epoch);
      if (!live || random() % 3 == 0) continue;
      set_word(bytes, entry.pointer, entry.before);
      if (random() % 2 == 0) set_word(bytes, at + 8 * (random() % 4), random());
    }
    return bytes;
  }

  void expect_undone(Bytes const& before, Bytes const& after, Model const& model) {
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      std::mt19937_64 random(seed);
      std::filesystem::remove(copy_.path);
      write_file(copy_.path, interrupted(before, after, random));
      Driver again = attached(copy_, GetParam());
      again.expect(model, 3000);
      again.update(numbers(0, 100), numbers(5, 100));
      Model more = model;
      for (std::uint64_t i = 0; i < 100; ++i)
        if (more.contains(i)) more[i] = 5 + i;
      again.expect(more, 3000);
    }
  }
};

TEST_P(SlabHashLog, AnInterruptedUpdateIsUndone) {
  Driver driver = created(file_, GetParam(), 2000);
  driver.put(numbers(0, 1000), numbers(0, 1000));
  Bytes const before = read_file(file_.path);
  driver.update(numbers(0, 1000), numbers(9000, 1000));
  expect_undone(before, read_file(file_.path), model_of(numbers(0, 1000), numbers(0, 1000)));
}

TEST_P(SlabHashLog, AnInterruptedInsertIsUndone) {
  Driver driver = created(file_, GetParam(), 3000);
  driver.put(numbers(0, 1000), numbers(0, 1000));
  Bytes const before = read_file(file_.path);
  driver.put(numbers(1000, 1000), numbers(0, 1000));
  expect_undone(before, read_file(file_.path), model_of(numbers(0, 1000), numbers(0, 1000)));
}

TEST_P(SlabHashLog, AnInterruptedEraseIsUndone) {
  Driver driver = created(file_, GetParam(), 2000);
  driver.put(numbers(0, 1000), numbers(0, 1000));
  Bytes const before = read_file(file_.path);
  driver.erase(numbers(300, 400));
  expect_undone(before, read_file(file_.path), model_of(numbers(0, 1000), numbers(0, 1000)));
}

TEST_P(SlabHashLog, EntriesOfAnUndoneBatchAreDeadAfterwards) {
  Driver driver = created(file_, GetParam(), 2000);
  driver.put(numbers(0, 1000), numbers(0, 1000));
  Bytes const before = read_file(file_.path);
  driver.update(numbers(0, 1000), numbers(9000, 1000));
  std::mt19937_64 random(1);
  write_file(copy_.path, interrupted(before, read_file(file_.path), random));
  attached(copy_, GetParam()).update(numbers(0, 10), numbers(70, 10));  // uses ten entries again
  Model model = model_of(numbers(0, 1000), numbers(0, 1000));
  for (std::uint64_t i = 0; i < 10; ++i) model[i] = 70 + i;
  attached(copy_, GetParam()).expect(model, 2000);
}

INSTANTIATE_TEST_SUITE_P(All, SlabHashLog,
                         testing::ValuesIn(on_all_devices({Kind{Design::slabhash_gpm, 8},
                                                           Kind{Design::slabhash_gpm, 32}})),
                         [](auto const& each) { return kind_name(each.param); });

// ------------------------------------------------------------------------------------------------
class ClevelSlots : public Recovery {
 protected:
  static std::vector<baselines::Run> levels(std::string const& path) {
    auto arena = Arena::attach(path, {});
    return arena ? arena->runs_of(Use::level) : std::vector<baselines::Run>{};
  }

  /// The file as a crash inside a batch may leave it: any of its slots still as they were before.
  Bytes interrupted(Bytes const& before, Bytes const& after, std::mt19937_64& random) {
    write_file(copy_.path, after);
    Bytes bytes = after;
    for (baselines::Run const& run : levels(copy_.path)) {
      for (std::uint64_t at = run.at.bytes; at < run.at.bytes + run.bytes; at += 8)
        if (random() % 2 == 0) set_word(bytes, at, word(before, at));
    }
    std::filesystem::remove(copy_.path);
    return bytes;
  }

  void expect_one_of(Model const& older, Model const& newer, Bytes const& before,
                     Bytes const& after) {
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      std::mt19937_64 random(seed);
      write_file(copy_.path, interrupted(before, after, random));
      auto const got = attached(copy_, GetParam()).get(numbers(0, 2000));
      for (std::uint64_t k = 0; k < got.size(); ++k) {
        auto const is = [&](Model const& model) {
          auto const at = model.find(k);
          return at == model.end() ? got[k].first == KeyStatus::not_found
                                   : got[k] == std::pair{KeyStatus::ok, at->second};
        };
        EXPECT_TRUE(is(older) || is(newer)) << "key " << k;
      }
      std::filesystem::remove(copy_.path);
    }
  }
};

TEST_P(ClevelSlots, AfterAnInterruptedBatchEachKeyIsAsBeforeOrAsAfterwards) {
  Driver driver = created(file_, GetParam(), 3000);
  driver.put(numbers(0, 1000), numbers(0, 1000));
  Model const first = model_of(numbers(0, 1000), numbers(0, 1000));
  Bytes const before = read_file(file_.path);
  driver.put(numbers(500, 1000), numbers(9000, 1000));
  Model second = first;
  for (std::uint64_t i = 0; i < 1000; ++i) second[500 + i] = 9000 + i;
  Bytes const between = read_file(file_.path);
  ASSERT_EQ(driver.baseline().stats().growths, 0u);
  expect_one_of(first, second, before, between);
  driver.erase(numbers(0, 800));
  Model third = second;
  for (std::uint64_t i = 0; i < 800; ++i) third.erase(i);
  expect_one_of(second, third, between, read_file(file_.path));
}

TEST_P(ClevelSlots, AnItemThatWasBeingMovedUpIsThereOnce) {
  Driver driver = created(file_, GetParam(), 3000);
  driver.put(numbers(0, 1000), numbers(0, 1000));
  Bytes bytes = read_file(file_.path);
  write_file(copy_.path, bytes);
  auto runs = levels(copy_.path);
  std::filesystem::remove(copy_.path);
  std::sort(runs.begin(), runs.end(),
            [](baselines::Run const& a, baselines::Run const& b) { return a.number < b.number; });
  clevel::View view;
  view.level[runs[0].number] = runs[0].at;
  std::uint64_t copied = 0;
  for (std::uint64_t at = runs[1].at.bytes; at < runs[1].at.bytes + runs[1].bytes; at += 8) {
    std::uint64_t const item = word(bytes, at);
    if (item == clevel::word::kEmpty) continue;
    auto const* key =
        reinterpret_cast<std::byte const*>(bytes.data()) + clevel::word::place(item).bytes;
    Offset const below = view.bucket(runs[0].number, hash_bytes(key, GetParam().key_bytes));
    if (word(bytes, below.bytes) != clevel::word::kEmpty) continue;
    set_word(bytes, below.bytes, item);
    ++copied;
  }
  ASSERT_GT(copied, 10u);
  write_file(copy_.path, bytes);
  attached(copy_, GetParam()).expect(model_of(numbers(0, 1000), numbers(0, 1000)), 2000);
}

INSTANTIATE_TEST_SUITE_P(All, ClevelSlots,
                         testing::ValuesIn(on_all_devices({Kind{Design::clevel_gpm, 8},
                                                           Kind{Design::clevel_gpm, 24}})),
                         [](auto const& each) { return kind_name(each.param); });

}  // namespace
}  // namespace perdure::baselines::test
