// One put or get of one key, with every function that it enters written to a file: what
// scripts/crossings.py counts. Compiled, as the library it links, with -finstrument-functions.
//
//   crossings put|get|power POOL LOG_DIR TRACE
#include <perdure/store.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>

namespace {

std::FILE* trace = nullptr;
thread_local bool traced = false;

void note(char what, void* function, void* caller) __attribute__((no_instrument_function));
void note(char what, void* function, void* caller) {
  if (traced) std::fprintf(trace, "%c %p %p\n", what, function, caller);
}

}  // namespace

extern "C" {
void __cyg_profile_func_enter(void* function, void*) __attribute__((no_instrument_function));
void __cyg_profile_func_exit(void* function, void*) __attribute__((no_instrument_function));
void __cyg_profile_func_enter(void* function, void* caller) { note('E', function, caller); }
void __cyg_profile_func_exit(void* function, void* caller) { note('X', function, caller); }
}

namespace {

using perdure::Column;
using perdure::KeyStatus;
using perdure::MutableColumn;

perdure::Status put(perdure::Store& store, std::uint64_t key) {
  std::array<std::uint64_t, 1> const keys{key}, values{key};
  std::array<KeyStatus, 1> statuses{};
  Column const k = Column::of(keys), v = Column::of(values);
  traced = trace != nullptr;
  perdure::Status done = store.put(k, v, statuses);
  traced = false;
  return done;
}

perdure::Status get(perdure::Store& store, std::uint64_t key) {
  std::array<std::uint64_t, 1> const keys{key};
  std::array<std::uint64_t, 1> values{};
  std::array<KeyStatus, 1> statuses{};
  Column const k = Column::of(keys);
  MutableColumn const v = MutableColumn::of(values);
  traced = trace != nullptr;
  perdure::Status done = store.get(k, v, statuses);
  traced = false;
  return done;
}

perdure::Status run(std::string const& what, std::string const& pool, std::string const& log_dir,
                    std::string const& file) {
  perdure::CreateOptions create;
  create.key_bytes = create.value_bytes = 8;
  create.expected_records = 100'000;
  create.file.overwrite = true;
  if (what == "power") {
    create.durability = perdure::Durability::power;
    create.log.dir = log_dir;
  }
  perdure::OpenOptions open;
  open.threads = 1;
  auto store = perdure::Store::create(pool, create, open);
  if (!store) return store.status();
  for (std::uint64_t key = 100; key < 103; ++key) {
    if (perdure::Status s = put(*store, key); !s.ok()) return s;
    if (perdure::Status s = get(*store, key); !s.ok()) return s;
  }
  trace = std::fopen(file.c_str(), "w");
  if (trace == nullptr) return {perdure::Code::io_error, file + ": cannot be written"};
  perdure::Status done = what == "get" ? get(*store, 100) : put(*store, 77);
  std::fclose(trace);
  trace = nullptr;
  return done.ok() ? store->close() : done;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs("usage: crossings put|get|power POOL LOG_DIR TRACE\n", stderr);
    return 2;
  }
  perdure::Status const done = run(argv[1], argv[2], argv[3], argv[4]);
  if (!done.ok()) std::fprintf(stderr, "crossings: %s\n", done.message().c_str());
  return done.ok() ? 0 : 1;
}
