// Programs that know RocksDB alone, run with the preload library and without it: one of ours
// (preload_program.cpp), and RocksDB's own tools.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "rocks/temporary_directory.hpp"

namespace perdure {
namespace {

using Environment = std::map<std::string, std::string>;

struct Ran {
  int status = 0;
  std::string out;
  std::string error;
};

class Preload : public ::testing::Test {
 protected:
  [[nodiscard]] std::string database() const { return directory_ / "db"; }

  /// A command of the shell, with the preload library.
  [[nodiscard]] Ran preloaded(std::string const& command, Environment environment = {}) const {
    environment["LD_PRELOAD"] = PERDURE_PRELOAD;
    environment.emplace("PERDURE_ROCKS_DEVICE", "cpu");
    environment.emplace("PERDURE_ROCKS_MEMTABLE_BYTES", "4194304");
    return plain(command, environment);
  }

  [[nodiscard]] Ran plain(std::string const& command, Environment const& environment = {}) const {
    std::string line = "env";
    for (auto const& [name, value] : environment) line += " " + name + "='" + value + "'";
    std::string const error_file = directory_ / "stderr";
    line += " " + command + " 2>" + error_file;
    Ran ran;
    std::FILE* const pipe = popen(line.c_str(), "r");
    std::array<char, 4096> buffer;
    for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
      ran.out.append(buffer.data(), n);
    ran.status = pclose(pipe);
    std::ifstream error(error_file);
    ran.error.assign(std::istreambuf_iterator<char>(error), {});
    return ran;
  }

  /// A verb of preload_program.cpp.
  [[nodiscard]] std::string program(std::string const& verb) const {
    return std::string(PERDURE_PRELOAD_PROGRAM) + " " + verb + " " + database();
  }

  testing::TemporaryDirectory directory_;
};

/// Lines of standard error that are ours.
std::ptrdiff_t said(Ran const& ran) {
  std::ptrdiff_t lines = 0;
  for (std::size_t at = 0; (at = ran.error.find("perdure: ", at)) != std::string::npos; ++at)
    ++lines;
  return lines;
}

TEST_F(Preload, AnUnchangedProgramGetsPerdureAndWithoutThePreloadRocksDB) {
  EXPECT_EQ(plain(program("kind")).out, "plain\n");
  Ran const ran = preloaded(program("kind"));
  EXPECT_EQ(ran.out, "perdure\n");
  EXPECT_EQ(ran.error, "");
  EXPECT_EQ(preloaded(program("kind-of-families")).out, "perdure\n");
}

TEST_F(Preload, AProgramInCGetsPerdureAndPlainRocksDBReadsTheDirectoryAfterwards) {
  EXPECT_EQ(preloaded(program("by-c"), {{"PERDURE_ROCKS_THRESHOLD", "1"}}).out, "777\n");
  EXPECT_TRUE(std::filesystem::exists(database() + ".gwal"));
  EXPECT_EQ(plain(program("count")).out, "20000\n");
}

TEST_F(Preload, WhatAKilledProgramWroteIsThereWhenItRunsAgain) {
  EXPECT_EQ(preloaded(program("write-and-be-killed"), {{"PERDURE_ROCKS_THRESHOLD", "1"}}).out,
            "written\n");
  EXPECT_EQ(preloaded(program("count")).out, "20000\n");
}

TEST_F(Preload, OpeningsOfOtherKindsAreRocksDBsAndThatIsSaidOnce) {
  for (char const* const verb : {"transactions", "optimistic", "with-ttl"}) {
    std::string const command =
        std::string(PERDURE_PRELOAD_PROGRAM) + " " + verb + " " + (directory_ / verb);
    Ran const ran = preloaded(command);
    EXPECT_EQ(ran.out, "opened\n") << verb;
    EXPECT_EQ(said(ran), 1) << verb << ": " << ran.error;
    EXPECT_FALSE(std::filesystem::exists(directory_ / verb + ".gwal")) << verb;
  }
}

TEST_F(Preload, TransactionsArePerdureWhereTheEnvironmentSaysSo) {
  for (char const* const verb : {"transactions", "optimistic"}) {
    std::string const command =
        std::string(PERDURE_PRELOAD_PROGRAM) + " " + verb + " " + (directory_ / verb);
    Ran const ran = preloaded(command, {{"PERDURE_ROCKS_TRANSACTIONS", "perdure"}});
    EXPECT_EQ(ran.out, "opened\n") << verb;
    EXPECT_EQ(ran.error, "") << verb;
    EXPECT_TRUE(std::filesystem::exists(directory_ / verb + ".gwal")) << verb;
  }
  Ran const refused = preloaded(program("optimistic"), {{"PERDURE_ROCKS_TRANSACTIONS", "yes"}});
  EXPECT_NE(refused.out.find("PERDURE_ROCKS_TRANSACTIONS='yes'"), std::string::npos) << refused.out;
}

TEST_F(Preload, NobodyWritesPastALogThatHasSomethingAndReadersSeeIt) {
  ASSERT_EQ(preloaded(program("write-and-be-killed"), {{"PERDURE_ROCKS_THRESHOLD", "1"}}).out,
            "written\n");
  Ran const refused = preloaded(program("optimistic"));
  EXPECT_NE(refused.out.find("has writes that RocksDB lacks"), std::string::npos) << refused.out;
  Ran const reader = preloaded(program("count-read-only"));
  EXPECT_EQ(reader.out, "20000\n");
  EXPECT_EQ(reader.error, "");
  EXPECT_EQ(preloaded(program("count")).out, "20000\n");
  EXPECT_EQ(preloaded(program("optimistic")).out, "opened\n");
}

TEST_F(Preload, AValueThatIsNoneIsRefusedByTheNameOfItsVariable) {
  std::array<std::array<std::string, 2>, 13> const bad{{{"DEVICE", "gpu"},
                                                        {"DEVICE", ""},
                                                        {"THRESHOLD", "-1"},
                                                        {"THRESHOLD", "ten"},
                                                        {"MEMTABLE_BYTES", "1G"},
                                                        {"MEMTABLE_BYTES", "0"},
                                                        {"MEMTABLE_VALUE_BYTES", "-1"},
                                                        {"BLOCK_CACHE_BYTES", "1G"},
                                                        {"BLOCK_CACHE_ENTRY_BYTES", "4294967296"},
                                                        {"IDLE_MILLIS", "0.5"},
                                                        {"HAND_OVERS_A_SECOND", "0"},
                                                        {"DURABILITY", "disk"},
                                                        {"LOG_DIR", "/nowhere/at/all"}}};
  for (auto const& [name, value] : bad) {
    std::string const variable = "PERDURE_ROCKS_" + name;
    Ran const ran = preloaded(program("kind"), {{variable, value}});
    EXPECT_NE(ran.status, 0) << variable;
    EXPECT_NE(ran.out.find(variable + "='" + value + "'"), std::string::npos) << ran.out;
  }
  EXPECT_FALSE(std::filesystem::exists(database()));
}

TEST_F(Preload, DurabilityPowerComesFromTheEnvironmentAndIsRefusedInMemory) {
  Ran const ran = preloaded(program("kind"), {{"PERDURE_ROCKS_DURABILITY", "power"}});
  EXPECT_NE(ran.status, 0);
  EXPECT_NE(ran.out.find("lies in memory"), std::string::npos) << ran.out;
}

TEST_F(Preload, TheLogsOfAllDatabasesMayLieInOneDirectory) {
  std::filesystem::create_directory(directory_ / "logs");
  Environment const environment{{"PERDURE_ROCKS_LOG_DIR", directory_ / "logs"}};
  EXPECT_EQ(preloaded(program("kind"), environment).out, "perdure\n");
  std::string name = database();
  std::replace(name.begin(), name.end(), '/', '%');
  EXPECT_TRUE(std::filesystem::exists(directory_ / "logs" + "/" + name));
  EXPECT_FALSE(std::filesystem::exists(database() + ".gwal"));
}

class PreloadedTools : public Preload {
 protected:
  void SetUp() override {
    if (plain("which ldb db_bench >/dev/null").status != 0)
      GTEST_SKIP() << "rocksdb-tools is not installed";
  }
};

TEST_F(PreloadedTools, LdbReadsWhatItWroteWithThePreloadAndWithout) {
  std::string const ldb = "ldb --db=" + database();
  EXPECT_EQ(preloaded(ldb + " --create_if_missing batchput a 1 b 2 c 3").out, "OK\n");
  EXPECT_EQ(preloaded(ldb + " delete b").out, "OK\n");
  EXPECT_EQ(preloaded(ldb + " get c").out, "3\n");
  std::string const scanned = plain(ldb + " scan").out;  // from RocksDB 9 on with another sign
  EXPECT_TRUE(scanned == "a : 1\nc : 3\n" || scanned == "a ==> 1\nc ==> 3\n") << scanned;
  EXPECT_EQ(preloaded(ldb + " scan").out, scanned);
}

TEST_F(PreloadedTools, DbBenchLeavesTheSameDataWithThePreloadAndWithout) {
  std::string const bench =
      "db_bench --benchmarks=fillrandom,readrandom --num=5000 --batch_size=500 --seed=7"
      " --compression_type=none --threads=1 --db=";
  ASSERT_EQ(plain(bench + (directory_ / "plain")).status, 0);
  Ran const ran = preloaded(bench + database(), {{"PERDURE_ROCKS_THRESHOLD", "100"}});
  ASSERT_EQ(ran.status, 0) << ran.error;
  ASSERT_TRUE(std::filesystem::exists(database() + ".gwal"));
  std::string const ours = plain("ldb --hex scan --db=" + database()).out;
  EXPECT_GT(std::count(ours.begin(), ours.end(), '\n'), 3000);
  EXPECT_EQ(ours, plain("ldb --hex scan --db=" + (directory_ / "plain")).out);
}

}  // namespace
}  // namespace perdure
