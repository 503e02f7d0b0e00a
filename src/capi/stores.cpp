// Stores from their making to their end, and what they are.
#include "capi/guard.hpp"
#include "capi/options.hpp"

namespace perdure::capi {
namespace {

/// A store object of what call(), which answers a Result<Store>, made.
template <class Call>
perdure_code made_store(perdure_store** store, perdure_error** error, Call&& call) {
  clear(store);
  return guarded(error, [&]() -> Status {
    return make(store, "store", [&](perdure_store& object) -> Status {
      Result<Store> opened = call();
      if (!opened.ok()) return opened.status();
      object.store.emplace(std::move(*opened));
      return {};
    });
  });
}

Status no_path(char const* name) {
  return {Code::invalid_argument, std::string(name) + " is NULL; name a file"};
}

}  // namespace
}  // namespace perdure::capi

using perdure::Result;
using perdure::Status;
using perdure::Store;
namespace capi = perdure::capi;

extern "C" {

std::uint32_t perdure_abi_version(void) { return PERDURE_ABI_VERSION; }

char const* perdure_version(void) { return perdure::version().data(); }  // a literal

perdure_code perdure_create(char const* path, perdure_create_options const* create,
                            perdure_open_options const* open, perdure_store** store,
                            perdure_error** error) {
  return capi::made_store(store, error, [&]() -> Result<Store> {
    if (path == nullptr) return capi::no_path("path");
    auto const made = capi::create_options(create);
    if (!made.ok()) return made.status();
    auto const opened = capi::open_options(open);
    if (!opened.ok()) return opened.status();
    return Store::create(path, made.value(), opened.value());
  });
}

perdure_code perdure_open(char const* path, perdure_open_options const* open, perdure_store** store,
                          perdure_error** error) {
  return capi::made_store(store, error, [&]() -> Result<Store> {
    if (path == nullptr) return capi::no_path("path");
    auto const opened = capi::open_options(open);
    if (!opened.ok()) return opened.status();
    return Store::open(path, opened.value());
  });
}

perdure_code perdure_restore(char const* snapshot, char const* path,
                             perdure_restore_options const* restore,
                             perdure_open_options const* open, perdure_store** store,
                             perdure_error** error) {
  return capi::made_store(store, error, [&]() -> Result<Store> {
    if (snapshot == nullptr) return capi::no_path("snapshot");
    if (path == nullptr) return capi::no_path("path");
    auto const made = capi::restore_options(restore);
    if (!made.ok()) return made.status();
    auto const opened = capi::open_options(open);
    if (!opened.ok()) return opened.status();
    return Store::restore(snapshot, path, made.value(), opened.value());
  });
}

perdure_code perdure_close(perdure_store* store, perdure_error** error) {
  return capi::in_store(store, error, [](Store& open) { return open.close(); });
}

void perdure_destroy(perdure_store* store) { delete store; }

char const* perdure_path(perdure_store const* store) {
  return store != nullptr ? store->store->path().c_str() : "";
}

std::uint32_t perdure_key_bytes(perdure_store const* store) {
  return store != nullptr ? store->store->key_bytes() : 0;
}

std::uint32_t perdure_value_bytes(perdure_store const* store) {
  return store != nullptr ? store->store->value_bytes() : 0;
}

std::uint32_t perdure_index_kind(perdure_store const* store) {
  return store != nullptr ? static_cast<std::uint32_t>(store->store->index()) : 0;
}

perdure_code perdure_snapshot(perdure_store* store, char const* path,
                              perdure_file_options const* options, perdure_error** error) {
  return capi::in_store(store, error, [&](Store& open) -> Status {
    if (path == nullptr) return capi::no_path("path");
    auto const made = capi::file_options(options);
    if (!made.ok()) return made.status();
    return open.snapshot(path, made.value());
  });
}

}  // extern "C"
