// Events reach spdlog with their level and their line, and PERDURE_LOG says which.
#include "perdure/spdlog_sink.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>

#include "perdure/store.h"

namespace perdure {
namespace {

class Spdlog : public ::testing::Test {
 protected:
  void TearDown() override {
    set_log_sink(nullptr);
    ::unsetenv("PERDURE_LOG");
  }
  /// What a store's life leaves in a logger of the program's own.
  static std::string life_logged(LogFormat format, LogLevel least) {
    std::ostringstream out;
    auto logger = std::make_shared<spdlog::logger>(
        "own", std::make_shared<spdlog::sinks::ostream_sink_mt>(out));
    logger->set_pattern("%l|%v");
    log_to_spdlog(logger, format, least);
    CreateOptions create;
    create.value_bytes = 8;
    EXPECT_TRUE(Store::create("memfd:spdlog", create).ok());
    set_log_sink(nullptr);
    return out.str();
  }
  static Status begun(char const* said) {
    ::setenv("PERDURE_LOG", said, 1);
    return log_as_environment_says();
  }
};

TEST_F(Spdlog, HasALineAnEvent) {
  std::string const text = life_logged(LogFormat::text, LogLevel::info);
  EXPECT_TRUE(text.starts_with("info|pool=memfd:spdlog event=created index=gphash ")) << text;
  EXPECT_NE(text.find("\ninfo|pool=memfd:spdlog event=closed "), text.npos) << text;
  std::string const json = life_logged(LogFormat::json, LogLevel::info);
  EXPECT_TRUE(json.starts_with("info|{\"time\": \"")) << json;
  EXPECT_EQ(life_logged(LogFormat::text, LogLevel::warning), "");
}

TEST_F(Spdlog, DoesAsTheEnvironmentSays) {
  EXPECT_TRUE(begun("").ok());
  EXPECT_TRUE(begun("off").ok());
  EXPECT_TRUE(begun("error,json").ok());
  for (char const* const wrong : {"loud", "info,xml", ",json", "info,"}) {
    Status const refused = begun(wrong);
    EXPECT_EQ(refused.code(), Code::invalid_argument) << wrong;
    EXPECT_NE(refused.message().find("PERDURE_LOG"), std::string::npos);
  }
}

}  // namespace
}  // namespace perdure
