// Requests out of bytes, however these are cut; and what a client may not send.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "reader_checks.hpp"

namespace perdure::serve::test {
namespace {

TEST(RequestReader, FindsTheSameRequestsHoweverTheBytesAreCut) {
  EXPECT_TRUE(rc::check([](Numbers const& requests, Numbers const& cuts) {
    if (auto const wrong = the_same_requests_however_cut(requests, cuts)) RC_FAIL(*wrong);
  }));
}

TEST(RequestReader, KeepsWhatHasNotComeWholeThroughTurnsOfOthers) {
  auto const wrong = what_is_unfinished_outlasts_turns();
  EXPECT_FALSE(wrong) << *wrong;
}

/// What the client is told, or the requests, one a line.
std::string outcome(std::string_view bytes, bool trusted = true, RequestLimits const& limits = {}) {
  PoisoningMemory memory;
  RequestReader reader(limits, memory);
  reader.trust(trusted);
  std::string said;
  std::vector<std::string_view> arguments;
  EXPECT_TRUE(reader.feed(bytes));
  for (;;) {
    switch (reader.next(arguments)) {
      case RequestReader::Next::failed: return reader.error();
      case RequestReader::Next::need_more: return said;
      case RequestReader::Next::request:
        for (std::string_view const argument : arguments) said += "<" + std::string(argument) + ">";
        said += "\n";
    }
  }
}

TEST(RequestReader, TakesLinesOfWords) {
  EXPECT_EQ(outcome("PING\r\n  SET a \"b \\x41\" 'c d'\n\r\n\nGET a\r\n"),
            "<PING>\n<SET><a><b A><c d>\n<GET><a>\n");
  EXPECT_EQ(outcome("SET \"a\r\n"), "Protocol error: unbalanced quotes in request");
  EXPECT_EQ(outcome(std::string(70'000, 'a')), "Protocol error: too big inline request");
}

TEST(RequestReader, PassesOverRequestsOfNothing) {
  EXPECT_EQ(outcome("*0\r\n*-1\r\n*1\r\n$4\r\nPING\r\n"), "<PING>\n");
  EXPECT_EQ(outcome("*2\r\n$3\r\nGET\r\n$0\r\n\r\n"), "<GET><>\n");
}

TEST(RequestReader, RefusesWhatIsNoArrayOfStrings) {
  EXPECT_EQ(outcome("*1\r\n:5\r\n"), "Protocol error: expected '$', got ':'");
  EXPECT_EQ(outcome("*1\r\n*1\r\n$1\r\na\r\n"), "Protocol error: expected '$', got '*'");
  EXPECT_EQ(outcome("*2\r\n$1\r\na\r\n+b\r\n"), "Protocol error: expected '$', got '+'");
  EXPECT_EQ(outcome("*1\r\n$-1\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(outcome("*x\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(outcome("*1\r\n$x\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(outcome("*1\r\n*1\r\n"), "Protocol error: expected '$', got '*'");
  EXPECT_EQ(outcome("*1\r\n*0\r\n"), "Protocol error: expected '$', got '*'");
}

TEST(RequestReader, RefusesWhatIsTooLongBeforeItHasCome) {
  RequestLimits const limits{.argument_bytes = 100, .request_bytes = 150, .arguments = 3};
  auto const said = [&](std::string_view bytes) { return outcome(bytes, true, limits); };
  EXPECT_EQ(said("*1\r\n$101\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(said("*1\r\n$100\r\n"), "");
  std::string const hundred = "$100\r\n" + std::string(100, 'a') + "\r\n";
  EXPECT_EQ(said("*2\r\n" + hundred + "$51\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(said("*2\r\n" + hundred + hundred), "Protocol error: invalid bulk length");
  EXPECT_EQ(said("*4\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(said("*3\r\n"), "");
  EXPECT_EQ(said("*1\r\n$999999999999999999999\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(outcome("*" + std::string(70'000, '1')), "Protocol error: too big mbulk count string");
}

TEST(RequestReader, TakesLittleFromWhoHasNotSaidWhoItIs) {
  EXPECT_EQ(outcome("*11\r\n", false), "Protocol error: unauthenticated multibulk length");
  EXPECT_EQ(outcome("*10\r\n", false), "");
  EXPECT_EQ(outcome("*1\r\n$16385\r\n", false), "Protocol error: unauthenticated bulk length");
  EXPECT_EQ(outcome("*1\r\n$16384\r\n", false), "");
  EXPECT_EQ(outcome("*1\r\n$20000\r\n" + std::string(20'000, 'a') + "\r\n", false),
            "Protocol error: unauthenticated bulk length");
}

TEST(RequestReader, SaysNothingMoreOnceItHasFailed) {
  PoisoningMemory memory;
  RequestReader reader({}, memory);
  std::vector<std::string_view> arguments;
  ASSERT_TRUE(reader.feed("*1\r\n:5\r\n*1\r\n$4\r\nPING\r\n"));
  EXPECT_EQ(reader.next(arguments), RequestReader::Next::failed);
  EXPECT_FALSE(reader.feed("PING\r\n"));
  EXPECT_EQ(reader.next(arguments), RequestReader::Next::failed);
}

TEST(RequestReader, HoldsNoMoreThanWhatHasNotComeWhole) {
  PoisoningMemory memory;
  RequestReader reader({}, memory);
  std::vector<std::string_view> arguments;
  // Each piece ends within a line, so the reader never has nothing.
  for (int i = 0; i < 100'000; ++i) {
    ASSERT_TRUE(reader.feed(i == 0 ? "PI" : "NG\r\nPI"));
    while (reader.next(arguments) == RequestReader::Next::request) {
    }
    ASSERT_LT(reader.buffer_bytes(), 100'000u);
    memory.release();
    reader.end_turn();
  }
}

}  // namespace
}  // namespace perdure::serve::test
