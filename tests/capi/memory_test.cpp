// Calls of the C interface whose memory is not to be had, one allocation after the other: each
// answers a code, no exception gets out, and what a call would have made is there or NULL. Replaces
// operator new, so by itself.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "perdure/perdure.h"
#include "perdure/status.h"
#include "support/replaced_new.hpp"

namespace perdure::test {
namespace {

// Of this thread, until one fails; 0: none does.
constinit thread_local std::uint64_t left = 0;
constinit thread_local bool struck = false;

}  // namespace

bool allocation_fails() noexcept {
  if (left == 0 || --left != 0) return false;
  struck = true;
  return true;
}

namespace {

/// A call, and a check of what it has made when it answered that code.
using OneCall = std::function<perdure_code(perdure_error**)>;

bool lacks_memory(perdure_code code) {
  return code == PERDURE_OUT_OF_MEMORY || code == PERDURE_NO_SPACE;
}

/// Lets the n-th allocation of a call fail, for each n there is; how often it was answered. What
/// comes before a call has memory.
int fail_each(OneCall const& call, std::function<void()> const& before = [] {}) {
  int answered = 0;
  for (std::uint64_t n = 1; n < 100'000; ++n) {
    perdure_error* error = nullptr;
    before();
    struck = false;
    left = n;
    perdure_code const code = call(&error);
    left = 0;
    if (!struck) {
      EXPECT_EQ(code, PERDURE_OK) << perdure_error_message(error);
      perdure_error_free(error);
      return answered;
    }
    EXPECT_TRUE(code == PERDURE_OK || lacks_memory(code))
        << "allocation " << n << ": " << perdure_code_name(code) << ": "
        << perdure_error_message(error);
    answered += code == PERDURE_OK ? 0 : 1;
    perdure_error_free(error);
    if (testing::Test::HasFailure()) return answered;
  }
  ADD_FAILURE() << "there is no end of allocations";
  return answered;
}

class CapiWithoutMemory : public testing::Test {
 protected:
  CapiWithoutMemory() : path_("/dev/shm/perdure-capi-memory." + std::to_string(::getpid())) {}
  ~CapiWithoutMemory() override {
    perdure_destroy(store_);
    ::unlink(path_.c_str());
  }

  void make_store(std::uint32_t index = PERDURE_INDEX_GPHASH) {
    perdure_destroy(store_);
    store_ = nullptr;
    perdure_create_options create;
    ASSERT_EQ(perdure_create_options_init(&create, sizeof(create)), PERDURE_OK);
    create.key_bytes = create.value_bytes = 8;
    create.expected_records = 1000;
    create.index = index;
    create.overwrite = 1;
    perdure_open_options open;
    ASSERT_EQ(perdure_open_options_init(&open, sizeof(open)), PERDURE_OK);
    open.threads = 1;
    ASSERT_EQ(perdure_create(path_.c_str(), &create, &open, &store_, nullptr), PERDURE_OK);
    ASSERT_EQ(perdure_put(store_, &keys_, &keys_, nullptr, nullptr, nullptr), PERDURE_OK);
  }

  std::string const path_;
  perdure_store* store_ = nullptr;
  std::array<std::uint64_t, 3> const numbers_ = {1, 2, 3};
  perdure_column const keys_ = {numbers_.data(), nullptr, numbers_.size(), 8, PERDURE_MEMORY_HOST};
};

TEST_F(CapiWithoutMemory, CallsThatLookAnswerACode) {
  make_store();
  std::vector<std::pair<char const*, OneCall>> const calls = {
      {"recovery",
       [&](perdure_error** error) {
         perdure_recovery recovery = {};
         recovery.struct_bytes = sizeof(recovery);
         perdure_lines* lines = nullptr;
         auto const code = perdure_get_recovery(store_, &recovery, &lines, error);
         EXPECT_EQ(lines != nullptr, code == PERDURE_OK);
         perdure_lines_free(lines);
         return code;
       }},
      {"get_variable",
       [&](perdure_error** error) {
         perdure_strings* found = nullptr;
         auto const code = perdure_get_variable(store_, &keys_, nullptr, nullptr, &found, error);
         EXPECT_EQ(found != nullptr, code == PERDURE_OK);
         perdure_strings_free(found);
         return code;
       }},
      {"scan",
       [&](perdure_error** error) {
         perdure_cursor* cursor = nullptr;
         auto code = perdure_scan(&cursor, error);
         if (code != PERDURE_OK) return code;
         perdure_page* page = nullptr;
         code = perdure_next_page(store_, cursor, 2, nullptr, &page, error);
         EXPECT_EQ(page != nullptr, code == PERDURE_OK);
         perdure_page_free(page);
         perdure_cursor_free(cursor);
         return code;
       }},
      {"verify",
       [&](perdure_error** error) {
         perdure_verification found = {};
         found.struct_bytes = sizeof(found);
         perdure_lines* faults = nullptr;
         auto const code = perdure_verify(store_, nullptr, &found, &faults, error);
         EXPECT_EQ(faults != nullptr, code == PERDURE_OK);
         perdure_lines_free(faults);
         return code;
       }},
      {"devices",
       [&](perdure_error** error) {
         perdure_devices* devices = nullptr;
         auto const code = perdure_find_devices(&devices, error);
         EXPECT_EQ(devices != nullptr, code == PERDURE_OK);
         perdure_devices_free(devices);
         return code;
       }},
  };
  for (auto const& [name, call] : calls) {
    SCOPED_TRACE(name);
    EXPECT_GE(fail_each(call), 1);
    ASSERT_FALSE(HasFailure());
  }
}

TEST_F(CapiWithoutMemory, ARangeThatCannotBeCopiedIsNotMade) {
  make_store(PERDURE_INDEX_BTREE);
  perdure_range_query query = {};
  query.struct_bytes = sizeof(query);
  query.start = numbers_.data();
  query.start_bytes = 8;
  EXPECT_GE(fail_each([&](perdure_error** error) {
              perdure_cursor* cursor = nullptr;
              auto const code = perdure_range(&query, &cursor, error);
              EXPECT_EQ(cursor != nullptr, code == PERDURE_OK);
              perdure_cursor_free(cursor);
              return code;
            }),
            2);
}

TEST_F(CapiWithoutMemory, ATransactionThatCannotBeHadIsNotOpen) {
  EXPECT_GE(fail_each(
                [&](perdure_error** error) {
                  perdure_transaction* transaction = nullptr;
                  auto const code = perdure_begin(store_, nullptr, &transaction, error);
                  left = 0;
                  EXPECT_EQ(transaction != nullptr, code == PERDURE_OK);
                  perdure_transaction_destroy(transaction);
                  // a store that fails in the midst of a change refuses writes, and waits for none
                  auto const after = perdure_put(store_, &keys_, &keys_, nullptr, nullptr, nullptr);
                  EXPECT_TRUE(after == PERDURE_OK || after == PERDURE_CLOSED);
                  EXPECT_TRUE(after == PERDURE_OK || code != PERDURE_OK);
                  return code;
                },
                [&] { make_store(); }),
            1);
}

TEST_F(CapiWithoutMemory, APoolIsOpenedOrItIsNot) {
  make_store();
  ASSERT_EQ(perdure_close(store_, nullptr), PERDURE_OK);
  perdure_open_options open;
  ASSERT_EQ(perdure_open_options_init(&open, sizeof(open)), PERDURE_OK);
  open.threads = 1;
  EXPECT_GE(fail_each([&](perdure_error** error) {
              perdure_store* opened = nullptr;
              auto const code = perdure_open(path_.c_str(), &open, &opened, error);
              EXPECT_EQ(opened != nullptr, code == PERDURE_OK);
              left = 0;
              perdure_destroy(opened);
              return code;
            }),
            5);
}

TEST_F(CapiWithoutMemory, AnErrorWithoutMemoryForItsMessageIsNull) {
  int null = 0;
  for (std::uint64_t n = 1; n < 1000; ++n) {
    perdure_error* error = nullptr;
    struck = false;
    left = n;
    auto const code = perdure_close(nullptr, &error);
    left = 0;
    EXPECT_TRUE(code == PERDURE_INVALID_ARGUMENT || code == PERDURE_OUT_OF_MEMORY);
    null += error == nullptr;
    perdure_error_free(error);
    if (!struck) break;
  }
  EXPECT_GE(null, 1);
}

TEST(Capi, EveryCodeHasItsMirror) {
  int codes = 0;
  while (name(static_cast<Code>(codes)) != "unknown") {
    EXPECT_EQ(perdure_code_name(codes), name(static_cast<Code>(codes)));
    ++codes;
  }
  EXPECT_EQ(codes, PERDURE_STOPPED + 1) << "a code is missing in perdure/perdure_types.h";
}

}  // namespace
}  // namespace perdure::test
