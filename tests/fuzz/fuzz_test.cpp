// The fuzzers' targets, on their corpora and on changes of them.
#include "fuzzed.hpp"
#include "targets.hpp"

namespace perdure::test {
namespace {

TEST(Fuzz, OpensWhateverTheBytesWithoutACrash) { fuzz("pool", fuzz_pool); }
TEST(Fuzz, ReplaysWhateverTheLogToABatchThatWas) { fuzz("log", fuzz_log); }
TEST(Fuzz, OpensWhateverTheImagesAsTheyWereOrNotAtAll) { fuzz("image", fuzz_image); }
TEST(Fuzz, RestoresWhateverTheSnapshotWholeOrNotAtAll) { fuzz("snapshot", fuzz_snapshot); }

}  // namespace
}  // namespace perdure::test
