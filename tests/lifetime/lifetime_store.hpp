// Small stores of every kind for the tests of lifetimes, and children that say by their exit status
// what went wrong.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "support/folders.hpp"
#include "support/store_driver.hpp"

namespace perdure::test {

struct Kind {
  char const* name;
  Index index = Index::gphash;
  Layout layout = Layout::word;
  bool power = false;
};
inline void PrintTo(Kind const& kind, std::ostream* out) { *out << kind.name; }
inline std::vector<Kind> kinds() {
  return {{"word"},
          {"in_place", Index::gphash, Layout::in_place},
          {"dash_eh", Index::dash_eh},
          {"dash_lh", Index::dash_lh},
          {"btree", Index::btree},
          {"power", Index::gphash, Layout::word, true}};
}

using Words = std::vector<std::uint64_t>;

inline Words words(std::uint64_t first, std::uint64_t n) {
  Words w(n);
  std::iota(w.begin(), w.end(), first);
  return w;
}
inline Column column(Words const& w) {
  return {reinterpret_cast<std::byte const*>(w.data()), nullptr, 8, w.size(), MemorySpace::host};
}
/// Keys first .. first + n - 1, each with the value key + plus.
inline Status put(Store& store, std::uint64_t first, std::uint64_t n, std::uint64_t plus = 0,
                  CallOptions const& how = {}) {
  Words const keys = words(first, n), values = words(first + plus, n);
  return store.put(column(keys), column(values), {}, how);
}
/// Their values; 0 where there is none.
inline Status get(Store& store, std::uint64_t first, std::uint64_t n, Words& values,
                  CallOptions const& how = {}) {
  Words const keys = words(first, n);
  values.assign(n, 0);
  std::vector<KeyStatus> statuses(n);
  return store.get(column(keys),
                   {reinterpret_cast<std::byte*>(values.data()), 8, n, MemorySpace::host}, statuses,
                   how);
}

/// Where a pool lies, and its log.
class PoolHome {
 public:
  explicit PoolHome(Kind const& kind)
      : log_dir(std::string("lifetime-").append(kind.name).c_str()), kind_(kind) {}
  [[nodiscard]] std::string path() const { return scratch.file("pool"); }
  [[nodiscard]] Result<Store> create(std::string const& path) const {
    CreateOptions o;
    o.value_bytes = 8;
    o.expected_records = expected_records;
    o.index = kind_.index;
    o.layout = kind_.layout;
    o.file.overwrite = true;
    if (kind_.power) {
      o.durability = Durability::power;
      o.log.dir = log_dir.path;
      o.log.bytes = 1u << 20;
    }
    return Store::create(path, o, options());
  }
  [[nodiscard]] Result<Store> create() const { return create(path()); }
  [[nodiscard]] Result<Store> open() const {
    OpenOptions o = options();
    if (kind_.power) o.log_dir = log_dir.path;
    return Store::open(path(), o);
  }
  [[nodiscard]] static OpenOptions options() {
    OpenOptions o;
    o.threads = 2;
    return o;
  }
  ScratchDir scratch;
  DiskDir log_dir;
  std::uint64_t expected_records = 64;

 private:
  Kind kind_;
};

/// Runs `body` in a forked child, which leaves as a program does: by exit(), with what it returns.
inline pid_t start_child(std::function<int()> const& body) {
  pid_t const child = ::fork();
  if (child != 0) return child;
  ::alarm(30);  // one that hangs has failed
  ::exit(body());
}
inline int wait_for(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}
inline int in_child(std::function<int()> const& body) { return wait_for(start_child(body)); }

}  // namespace perdure::test
