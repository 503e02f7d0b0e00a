// The smallest stores of 8-byte keys and values, as the tests of files use them: one key, whose
// value says who wrote it.
#pragma once

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>

#include "perdure/store.h"

namespace perdure::test {

inline CreateOptions small_options() {
  CreateOptions o;
  o.key_bytes = o.value_bytes = 8;
  o.expected_records = 16;
  o.log.bytes = 1u << 20;
  return o;
}
inline OpenOptions one_thread() {
  OpenOptions o;
  o.threads = 1;
  return o;
}
inline Result<Store> create(std::string const& path, CreateOptions const& options) {
  return Store::create(path, options, one_thread());
}
inline CreateOptions overwriting(bool force = false) {
  CreateOptions o = small_options();
  o.file.overwrite = true;
  o.file.force = force;
  return o;
}
inline CreateOptions powered(std::string const& log_dir, bool overwrite = false) {
  CreateOptions o = small_options();
  o.file.overwrite = overwrite;
  o.durability = Durability::power;
  o.log.dir = log_dir;
  return o;
}
inline Result<Store> open(std::string const& path, std::string const& log_dir = {},
                          bool read_only = false) {
  OpenOptions o = one_thread();
  o.log_dir = log_dir;
  o.read_only = read_only;
  return Store::open(path, o);
}

inline Status write_mark(Store& store, std::uint64_t mark) {
  std::uint64_t const key = 1;
  return store.put({reinterpret_cast<std::byte const*>(&key), nullptr, 8, 1},
                   {reinterpret_cast<std::byte const*>(&mark), nullptr, 8, 1});
}
/// 0: there is none.
inline std::uint64_t mark_of(Store& store) {
  std::uint64_t const key = 1;
  std::uint64_t mark = 0;
  KeyStatus status = KeyStatus::not_found;
  Status const s = store.get({reinterpret_cast<std::byte const*>(&key), nullptr, 8, 1},
                             {reinterpret_cast<std::byte*>(&mark), 8, 1}, {&status, 1});
  return s.ok() && status == KeyStatus::ok ? mark : 0;
}
/// Of a closed pool.
inline std::uint64_t mark_at(std::string const& path, std::string const& log_dir = {}) {
  auto store = open(path, log_dir);
  return store.ok() ? mark_of(*store) : 0;
}
/// A closed pool with a mark.
inline Status make_marked(std::string const& path, std::uint64_t mark,
                          CreateOptions const& options) {
  auto store = create(path, options);
  if (!store.ok()) return store.status();
  if (Status s = write_mark(*store, mark); !s.ok()) return s;
  return store->close();
}

inline std::string read_file(std::string const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline void write_file(std::string const& path, std::string const& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}
inline bool says(Status const& s, std::string const& words) {
  return s.message().find(words) != std::string::npos;
}

}  // namespace perdure::test
