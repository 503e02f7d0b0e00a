// perdure_make_golden FOLDER [dash]: writes the golden pools anew, those of GPHash or those of
// Dash. Only for a new format version: the committed files are what earlier builds wrote, and a
// test that made its own would prove nothing.
#include <cstdio>

#include "golden.hpp"

namespace perdure::test {
namespace {

CreateOptions options_of(Golden const& golden) {
  CreateOptions options;
  options.key_bytes = golden.variable ? 0 : 8;
  options.value_bytes = golden.variable ? 0 : golden.value_bytes;
  options.layout = golden.layout;
  options.index = golden.index;
  options.expected_records = golden.expected_records;
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
  using perdure::test::Golden;
  bool const dash = argc == 3 && std::string(argv[2]) == "dash";
  if (argc != 2 && !dash) {
    std::fprintf(stderr, "usage: perdure_make_golden FOLDER [dash]\n");
    return 2;
  }
  auto const all =
      dash ? std::span<Golden const>(perdure::test::kGoldenDash) : perdure::test::kGolden;
  for (auto const& golden : all) {
    if (auto const status = perdure::test::make(golden, argv[1]); !status.ok()) {
      std::fprintf(stderr, "%s\n", status.message().c_str());
      return 1;
    }
  }
  return 0;
}
