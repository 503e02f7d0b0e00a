// perdure_make_golden FOLDER: writes the golden pools anew. Only for a new format version: the committed
// files are what earlier builds wrote, and a test that made its own would prove nothing.
#include <cstdio>

#include "golden.hpp"

namespace perdure::test {
namespace {

CreateOptions options_of(Golden const& golden) {
  CreateOptions options;
  options.key_bytes = golden.variable ? 0 : 8;
  options.value_bytes = golden.variable ? 0 : 16;
  options.layout = golden.layout;
  options.expected_records = kGoldenRecords;
  return options;
}

Status make(Golden const& golden, std::string const& folder) {
  PoolPath path;
  auto store = Store::create(path.str(), options_of(golden));
  if (!store) return store.status();
  if (Status s = put_all(*store, golden_contents(golden)); !s.ok()) return s;
  if (Status s = store->close(); !s.ok()) return s;
  write_file(folder + "/" + golden.name + ".sparse", to_sparse(read_file(path.str())));
  return {};
}

}  // namespace
}  // namespace perdure::test

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: perdure_make_golden FOLDER\n");
    return 2;
  }
  for (auto const& golden : perdure::test::kGolden) {
    if (auto const status = perdure::test::make(golden, argv[1]); !status.ok()) {
      std::fprintf(stderr, "%s\n", status.message().c_str());
      return 1;
    }
  }
  return 0;
}
