// The target that a server's requests are, where the server is built.
#include "fuzzed.hpp"
#include "targets.hpp"

namespace perdure::test {
namespace {

TEST(Fuzz, AnswersWhateverTheRequestsInWholeReplies) { fuzz("server", fuzz_server); }

}  // namespace
}  // namespace perdure::test
