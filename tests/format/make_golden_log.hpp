// Writes the golden pools of layout `log` (golden_log.hpp); a part of make_golden.cpp.
#pragma once

#include <optional>

#include "golden_log.hpp"
#include "store/gphash/device_access.hpp"

namespace perdure::test {

/// The writes of one step as columns: its puts, then its erasure.
class GoldenColumns {
 public:
  GoldenColumns(GoldenLog const& golden, GoldenWrites const& writes)
      : keys_(golden.key_bytes), values_(golden.value_bytes), erased_(golden.key_bytes) {
    for (std::uint64_t const n : golden_log_keys(writes)) {
      keys_.add(golden_log_key(golden, n));
      values_.add(golden_log_value(golden, n, writes.version));
    }
    erased_.add(golden_log_key(golden, writes.erases));
  }

  Status write(Store& store, CallOptions const& how) {
    if (Status s = store.put(keys_.column(), values_.column(), {}, how); !s.ok()) return s;
    return store.erase(erased_.column(), {}, how);
  }
  /// One warp does one after the other; some cells of the session stay empty.
  Status write(Store& store, DeviceSession& session) {
    if (Status s = run(session, OpKind::put, keys_.column(), values_.column()); !s.ok()) return s;
    Strings none(store.stats().value_bytes);
    none.add(std::string(store.stats().value_bytes, '\0'));
    return run(session, OpKind::erase, erased_.column(), none.column());
  }
  [[nodiscard]] std::uint64_t operations() const { return keys_.count() + 1; }

 private:
  static Status run(DeviceSession& session, OpKind kind, Column const& keys, Column const& values) {
    std::vector<OpKind> const kinds(keys.count, kind);
    std::vector<std::byte> out(keys.count * values.width);
    std::vector<KeyStatus> statuses(keys.count);
    std::vector<std::uint64_t> began(keys.count), ended(keys.count);
    MutableColumn const to{out.data(), values.width, keys.count, MemorySpace::host};
    return DeviceAccess::run(session,
                             {keys, values, to, kinds, false, 1, statuses, began, ended, nullptr});
  }

  Strings keys_, values_, erased_;
};

/// The file as it was when its writer was killed; a closed one as it is.
class GoldenLogWriter {
 public:
  explicit GoldenLogWriter(GoldenLog const& golden) : golden_(golden) {}

  Result<Bytes> write() {
    CreateOptions options;
    options.key_bytes = golden_.key_bytes;
    options.value_bytes = golden_.value_bytes;
    options.layout = Layout::log;
    options.expected_records = kGoldenRecords;
    auto store = Store::create(path_.str(), options);
    if (!store) return store.status();
    for (GoldenWrites const& writes : golden_log_story(golden_))
      if (Status s = step(*store, writes); !s.ok()) return s;
    if (golden_.left == Left::closed || golden_.left == Left::closed_to_revert) {
      if (Status s = store->close(); !s.ok()) return s;
    }
    if (!torn_) torn_ = read_file(path_.str());
    return std::move(*torn_);
  }

 private:
  using How = GoldenWrites::How;

  Status step(Store& store, GoldenWrites const& writes) {
    GoldenColumns columns(golden_, writes);
    if (writes.how == How::batch) return columns.write(store, {});
    if (writes.how == How::changes_nothing) return change_nothing(store, writes.erases);
    bool const in_session = writes.how == How::session || writes.how == How::torn_session;
    return in_session ? session(store, columns, writes.how == How::torn_session)
                      : transaction(store, columns, writes.how);
  }

  /// Entries of zeros, which no file needs pages for.
  Status change_nothing(Store& store, std::uint64_t absent) const {
    constexpr std::uint64_t kMost = 80'000;  // 16 bytes each: more than what a short log may have
    Strings keys(golden_.key_bytes);
    for (std::uint64_t n = 0; n < kMost; ++n) keys.add(golden_log_key(golden_, absent));
    return store.erase(keys.column());
  }

  Status session(Store& store, GoldenColumns& columns, bool torn) {
    auto begun = DeviceAccess::open(store, {columns.operations() + 10, 5});
    if (!begun) return begun.status();
    if (Status s = columns.write(store, *begun); !s.ok()) return s;
    if (torn) torn_ = read_file(path_.str());
    return begun->end();
  }

  Status transaction(Store& store, GoldenColumns& columns, How how) {
    auto begun = store.begin({1000, how == How::revertible});
    if (!begun) return begun.status();
    CallOptions options;
    options.transaction = &*begun;
    if (Status s = columns.write(store, options); !s.ok()) return s;
    if (how == How::torn_transaction) torn_ = read_file(path_.str());
    return begun->commit();
  }

  GoldenLog const& golden_;
  PoolPath path_;
  std::optional<Bytes> torn_;
};

}  // namespace perdure::test
