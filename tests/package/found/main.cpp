// Uses an installed Perdure: makes a pool, puts and gets, looks at it from outside, hears of it.
#include <perdure/glance.h>
#include <perdure/logging.h>
#include <perdure/store.h>

#include <cstdio>
#include <numeric>
#include <vector>

int main(int argc, char** argv) {
  using namespace perdure;
  if (argc != 2) return 2;
  int events = 0;
  set_log_sink([&events](LogEvent const&) { ++events; });
  {
    CreateOptions create;
    create.value_bytes = 8;
    create.file.overwrite = true;
    auto store = Store::create(argv[1], create);
    if (!store) return std::fprintf(stderr, "%s\n", store.status().message().c_str()), 1;
    std::vector<std::uint64_t> keys(1000), values(1000);
    std::iota(keys.begin(), keys.end(), 0);
    std::vector<KeyStatus> statuses(keys.size());
    if (!store->put(Column::of(keys), Column::of(keys), statuses).ok()) return 1;
    if (!store->get(Column::of(keys), MutableColumn::of(values), statuses).ok()) return 1;
    if (values != keys) return 1;
    if (auto found = glance(argv[1]); !found || *found->records != 1000) return 1;
  }
  if (events != 2) return std::fprintf(stderr, "%d events\n", events), 1;
  std::printf("perdure %.*s\n", static_cast<int>(version().size()), version().data());
}
