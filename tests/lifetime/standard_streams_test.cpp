// A program that has closed its standard streams, as daemons do, and prints all the same: the
// numbers that it closed go to whatever is opened next, and that is no file of a store. And one
// that closes descriptors which are a store's.
#include <fcntl.h>

#include "lifetime/lifetime_store.hpp"

namespace perdure::test {
namespace {

constexpr int kStreams[] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};

void close_streams() {
  for (int const fd : kStreams) ::close(fd);
}

/// Whether nobody took it. Where a store did, its head is gone.
bool print_into_the_void() {
  std::string const text(4096, 'x');
  return std::all_of(std::begin(kStreams), std::end(kStreams), [&](int fd) {
    return ::write(fd, text.data(), text.size()) < 0 && ::fcntl(fd, F_GETFD) < 0;
  });
}

class StandardStreams : public testing::TestWithParam<Kind> {
 protected:
  PoolHome home_{GetParam()};
};

TEST_P(StandardStreams, ThatWereClosedAreNoFilesOfAStore) {
  EXPECT_EQ(in_child([&] {
              close_streams();
              auto store = home_.create();
              if (!store) return 1;
              for (std::uint64_t first = 0; first < 4000; first += 500) {
                if (!print_into_the_void()) return 2;
                if (!put(*store, first, 500).ok()) return 3;
              }
              if (!store->snapshot(home_.scratch.file("snapshot")).ok()) return 4;
              if (!store->close().ok()) return 5;
              auto again = home_.open();
              Words values;
              if (!again || !get(*again, 0, 4000, values).ok()) return 6;
              return print_into_the_void() && values == words(0, 4000) ? 0 : 7;
            }),
            0);
}

/// As a program does that is about to become a daemon. Its puts may fail then, but no call waits
/// for ever.
TEST_P(StandardStreams, AndAllOtherFilesThatAreClosedKeepNoCallForEver) {
  EXPECT_EQ(in_child([&] {
              auto store = home_.create();
              if (!store || !put(*store, 0, 500).ok()) return 1;
              for (int fd = STDERR_FILENO + 1; fd < 256; ++fd) ::close(fd);
              static_cast<void>(put(*store, 500, 500));
              Words values;
              static_cast<void>(get(*store, 0, 500, values));
              static_cast<void>(store->close());
              return 0;
            }),
            0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, StandardStreams, testing::ValuesIn(kinds()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace perdure::test
