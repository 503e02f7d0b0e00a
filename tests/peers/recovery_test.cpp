// What a file of a peer holds at its ordering points: a copy of its bytes, perhaps with some stores taken
// out that no ordering point covers yet, is attached again.
#include <gtest/gtest.h>

#include <random>

#include "arena.hpp"
#include "peer_driver.hpp"
#include "slabhash.hpp"

namespace perdure::peers::test {
namespace {

using Bytes = std::vector<char>;

Bytes read_file(std::string const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(std::string const& path, Bytes const& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
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

INSTANTIATE_TEST_SUITE_P(All, Recovery, testing::Values(Kind{Design::slabhash_gpm, 8}, Kind{Design::slabhash_gpm, 32}),
                         [](auto const& each) { return kind_name(each.param); });

// ------------------------------------------------------------------------------------------------
class SlabHashLog : public Recovery {
 protected:
  /// The file as a crash before the batch's last store may leave it: that store is missing, and of the
  /// operations in `lost` the change of the pointer too, perhaps with its entry.
  static Bytes interrupted(Bytes const& before, Bytes const& after, std::mt19937_64& random) {
    Bytes bytes = after;
    std::uint64_t const epoch = word(before, Arena::word_at(Arena::kEpoch).bytes);
    set_word(bytes, Arena::word_at(Arena::kEpoch).bytes, epoch);
    for (std::uint64_t at = 0; at + sizeof(slabhash::UndoEntry) <= bytes.size(); at += sizeof(slabhash::UndoEntry)) {
      slabhash::UndoEntry entry;
      std::memcpy(&entry, bytes.data() + at, sizeof entry);
      bool const live =
          entry.epoch == epoch + 1 && entry.check == slabhash::check_of(entry.pointer, entry.before, entry.epoch);
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
                         testing::Values(Kind{Design::slabhash_gpm, 8}, Kind{Design::slabhash_gpm, 32}),
                         [](auto const& each) { return kind_name(each.param); });

}  // namespace
}  // namespace perdure::peers::test
