// A user of the installed library: makes a store whose batches go through a log on a disk (which
// brings in every library that the package depends on), writes a batch, opens it again and reads it
// back.
#include <perdure/store.h>

#include <cstdint>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

namespace {

int complain(char const* what, perdure::Status const& status) {
  std::cerr << what << ": " << perdure::name(status.code()) << ": " << status.message() << '\n';
  return 1;
}

perdure::Status write(std::string const& path, std::string const& log_dir,
                      std::vector<std::uint64_t> const& keys,
                      std::vector<std::uint64_t> const& values) {
  auto store = perdure::Store::create(path, {.key_bytes = 8,
                                             .value_bytes = 8,
                                             .durability = perdure::Durability::power,
                                             .file = {.overwrite = true},
                                             .log = {.dir = log_dir, .bytes = 1 << 20}});
  if (!store) return store.status();
  if (auto const status = store->put(perdure::Column::of(keys), perdure::Column::of(values));
      !status)
    return status;
  return store->close();
}

perdure::Status read(std::string const& path, std::string const& log_dir,
                     std::vector<std::uint64_t> const& keys, std::vector<std::uint64_t>& values) {
  auto store = perdure::Store::open(path, {.log_dir = log_dir});
  if (!store) return store.status();
  std::vector<perdure::KeyStatus> statuses(keys.size());
  return store->get(perdure::Column::of(keys), perdure::MutableColumn::of(values), statuses);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: consumer POOL LOG_DIR\n";
    return 2;
  }
  std::vector<std::uint64_t> keys(1000);
  std::iota(keys.begin(), keys.end(), 0U);
  std::vector<std::uint64_t> written(keys.rbegin(), keys.rend());
  std::vector<std::uint64_t> found(keys.size());

  if (auto const status = write(argv[1], argv[2], keys, written); !status)
    return complain("write", status);
  if (auto const status = read(argv[1], argv[2], keys, found); !status)
    return complain("read", status);
  if (found != written) {
    std::cerr << "what came back is not what was put\n";
    return 1;
  }
  std::cout << "perdure " << perdure::version() << ": " << found.size()
            << " records there and back\n";
}
