// perdure_make_golden FOLDER [dash | log]: writes the golden pools anew: those of GPHash, of Dash,
// or of layout log. Only for a new format version: the committed files are what earlier builds
// wrote, and a test that made its own would prove nothing.
#include <cstdio>

#include "golden.hpp"
#include "make_golden_log.hpp"

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

Status make(GoldenLog const& golden, std::string const& folder) {
  auto file = GoldenLogWriter(golden).write();
  if (!file) return file.status();
  write_file(folder + "/" + golden.name + ".sparse", to_sparse(*file));
  return {};
}

template <class List>
int make_all(List const& list, char const* folder) {
  for (auto const& golden : list) {
    if (auto const status = make(golden, folder); !status.ok()) {
      std::fprintf(stderr, "%s: %s\n", golden.name, status.message().c_str());
      return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace perdure::test

int main(int argc, char** argv) {
  using namespace perdure::test;
  std::string const which = argc == 3 ? argv[2] : "";
  if (argc == 2) return make_all(kGolden, argv[1]);
  if (which == "dash") return make_all(kGoldenDash, argv[1]);
  if (which == "log") return make_all(kGoldenLogs, argv[1]);
  std::fprintf(stderr, "usage: perdure_make_golden FOLDER [dash | log]\n");
  return 2;
}
