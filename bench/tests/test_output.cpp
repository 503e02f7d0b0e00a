// What the programs write is new: a file that is there stays as it is.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "command_line.hpp"
#include "failure.hpp"
#include "output.hpp"

namespace perdure::bench {
namespace {

namespace fs = std::filesystem;

class Output : public testing::Test {
 protected:
  Output() { fs::create_directory(folder_); }
  ~Output() override { fs::remove_all(folder_); }
  static std::string read(std::string const& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  std::string const folder_ =
      fs::temp_directory_path() / ("perdure-output-" + std::to_string(::getpid()));
  std::string const file_ = folder_ + "/result.json";
};

TEST_F(Output, ReplacesNothing) {
  write_new(file_, "first");
  EXPECT_THROW(write_new(file_, "second"), Failure);
  EXPECT_EQ(read(file_), "first");
}

TEST_F(Output, FollowsNoLink) {
  fs::create_symlink(folder_ + "/elsewhere", file_);
  EXPECT_THROW(write_new(file_, "text"), Failure);
  EXPECT_FALSE(fs::exists(folder_ + "/elsewhere"));
}

TEST_F(Output, IsSettledBeforeAnythingRuns) {
  write_new(file_, "first");
  for (bool const there : {true, false}) {
    CommandLine program("", "test", "");
    std::string json;
    program.add_option("--json", json).check(new_file());
    std::string path = there ? file_ : folder_ + "/new.json", name = "test", option = "--json";
    char* arguments[] = {name.data(), option.data(), path.data()};
    int status = kGood;
    EXPECT_EQ(program.parse(3, arguments, status), !there);
    EXPECT_EQ(status, there ? kUsage : kGood);
  }
}

TEST_F(Output, AResultThatGrowsIsWholeWheneverItIsRead) {
  RewrittenFile result(file_);
  result.update("one row");
  EXPECT_EQ(read(file_), "one row");
  result.finish("two rows");
  EXPECT_EQ(read(file_), "two rows");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "nothing is left beside it";
}

TEST_F(Output, AResultThatGrowsReplacesNothingThatWasThere) {
  write_new(file_, "another's");
  RewrittenFile result(file_);
  EXPECT_THROW(result.update("one row"), Failure);
  EXPECT_EQ(read(file_), "another's");
}

}  // namespace
}  // namespace perdure::bench
