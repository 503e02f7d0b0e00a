// What the writer does between two of a follower's looks at one pool of layout `log`
// (store/gphash/log_follower.hpp).
#include <cstring>
#include <string>
#include <vector>

#include "lifetime/lifetime_store.hpp"
#include "pm/followed_file.hpp"
#include "pm/pool.hpp"
#include "store/gphash/log_look.hpp"
#include "support/sanitized.hpp"

namespace perdure::test {
namespace {

constexpr std::uint64_t kKeysFollowed = 200;

/// The newest version of each key, as the follower's index has it.
void expect_all(gphash::LogFollower& follower, std::uint64_t version) {
  Words const keys = words(1, kKeysFollowed);
  Words values(keys.size());
  std::vector<gphash::LogLook::Ask> asks(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i)
    asks[i] = {std::as_bytes(std::span(&keys[i], 1)),
               {reinterpret_cast<std::byte*>(&values[i]), sizeof values[i]}};
  gphash::LogLook look(follower, asks);
  Status const s = look.get();
  ASSERT_TRUE(s.ok()) << s.message();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    ASSERT_EQ(asks[i].status, KeyStatus::ok) << keys[i];
    ASSERT_EQ(values[i], version << 32 | keys[i]);
  }
}

/// The root is read, then the segment that it names; a segment that was let go in between has
/// another number, and still what was written in its life before.
TEST(LogFollowers, ThatAreOvertakenBetweenTheRootAndItsSegmentBeginAnew) {
  ScratchDir const scratch;
  std::string const path = scratch.file("pool");
  CreateOptions o;
  o.layout = Layout::log;
  o.value_bytes = 8;
  o.expected_records = 64;
  auto store = Store::create(path, o, {.threads = 1});
  ASSERT_TRUE(store.ok()) << store.status().message();
  std::uint64_t version = 0;
  auto const put = [&](std::uint64_t batches) {
    Words const keys = words(1, kKeysFollowed);
    for (; batches > 0; --batches) {
      ++version;
      Words values;
      for (std::uint64_t const key : keys) values.push_back(version << 32 | key);
      ASSERT_TRUE(store->put(column(keys), column(values)).ok());
    }
  };
  put(1);
  auto file = pm::FollowedFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  auto const header = pm::Pool::header_in(path, file->data());
  std::uint64_t meanwhile = 0;  // batches that come when the root has been read
  gphash::LogFollower follower(path, header.value(), file->data(), [&]() -> Result<std::uint64_t> {
    put(std::exchange(meanwhile, 0));
    if (Status s = file->follow(); !s.ok()) return s;
    return file->size();
  });
  ASSERT_TRUE(follower.follow().ok());
  for (std::uint64_t n = 0; n < (kSanitized ? 20 : 60); ++n) {
    SCOPED_TRACE(n);
    put(1);
    meanwhile = 150 + 37 * n % 400;  // a life of a segment has some 330
    Status const s = follower.follow();
    ASSERT_TRUE(s.ok()) << s.message();
    ASSERT_NO_FATAL_FAILURE(expect_all(follower, version));
  }
}

}  // namespace
}  // namespace perdure::test
