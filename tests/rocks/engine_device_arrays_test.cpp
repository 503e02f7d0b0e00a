// Entries whose bytes a device has, too: what an engine makes of them comes from there. CPU warps
// play the device, and the host's own bytes are wrong, so that who reads them is found out.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lsm/engine/engine.hpp"
#include "rocks/arrays_world.hpp"

namespace perdure::lsm {
namespace {

using perdure::test::Strings;

class EntriesOnADevice : public ::testing::Test {
 protected:
  /// All but the first element, of which a run takes what keys have in common.
  static Strings wrong(Strings strings) {
    for (std::size_t i = static_cast<std::size_t>(strings.offsets[2]); i < strings.data.size(); ++i)
      strings.data[i] = std::byte{'?'};
    return strings;
  }
  /// From the second element on.
  static Column slice(Strings const& strings) {
    Column column = strings.column();
    --column.count;
    if (column.offsets != nullptr)
      ++column.offsets;
    else
      column.data += column.width;
    return column;
  }
  /// The values that a reader gets, one behind the other.
  static std::string read(Engine& engine, RunPtr const& run, Strings const& keys) {
    Column const sought = slice(keys);
    std::vector<Answer> answers(sought.count);
    std::vector<std::uint64_t> words(sought.count * 16);
    AnswerRows const rows{words.data(), 16};
    EXPECT_TRUE(engine.find({&run, 1}, sought, {}, answers, rows).ok());
    std::string values;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      EXPECT_TRUE(answers[i].found == Found::put && answers[i].inside) << i;
      values.append(reinterpret_cast<char const*>(rows.value(answers[i], i)), answers[i].size);
    }
    return values;
  }

  exec::Workers workers_{2};
  EngineOptions options_{.value_bytes_inside = 100, .reads_device_arrays = true};
  std::unique_ptr<Engine> engine_ = std::move(make_cpu_engine(workers_, options_).value());
};

TEST_F(EntriesOnADevice, AreReadThere) {
  for (std::uint32_t const value_bytes : {5u, 8u, 100u}) {
    for (bool const fixed : {false, true}) {
      SCOPED_TRACE(std::to_string(value_bytes) + (fixed ? " fixed" : " any width"));
      std::vector<std::string> all_keys, all_values;
      std::string expected;
      for (int i = 0; i < 300; ++i) {
        all_keys.push_back("key " + std::string(fixed ? 0 : i % 3, 'k') + std::to_string(1000 + i));
        all_values.push_back(std::string(value_bytes - 3, 'v') + std::to_string(100 + i));
        if (i > 0) expected += all_values.back();
      }
      Strings keys(all_keys), values(all_values);
      keys.fixed = values.fixed = fixed;
      keys.width = static_cast<std::uint32_t>(all_keys[0].size());
      values.width = value_bytes;
      Strings const wrong_keys = wrong(keys), wrong_values = wrong(values);
      Entries entries{.keys = slice(wrong_keys), .value_column = slice(wrong_values)};
      entries.device_keys = slice(keys).data;
      entries.device_values = slice(values).data;
      auto const run = engine_->build(entries);
      ASSERT_TRUE(run.ok()) << run.status().message();
      EXPECT_EQ(read(*engine_, run.value(), keys), expected);
    }
  }
}

TEST_F(EntriesOnADevice, AreTheHostsToAnEngineThatDoesNotReachThem) {
  auto const engine = std::move(make_cpu_engine(workers_, {100}).value());
  Strings const keys = Strings::of_width({"none", "key1", "key2"}, 4);
  Strings const values = Strings::of_width({"none", "one ", "two "}, 4);
  Entries entries{.keys = slice(keys), .value_column = slice(values)};
  auto* const nowhere = reinterpret_cast<std::byte const*>(std::uintptr_t{64});
  entries.device_keys = entries.device_values = nowhere;
  auto const run = engine->build(entries);
  ASSERT_TRUE(run.ok()) << run.status().message();
  EXPECT_EQ(read(*engine, run.value(), keys), "one two ");
}

}  // namespace
}  // namespace perdure::lsm
