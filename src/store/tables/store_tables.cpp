// Named tables of a store: the public calls. Invariant: what a call does to the tables is one batch
// of the store, whose rules (statuses, atomicity, transactions) are those of a plain one.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/hooks.hpp"
#include "batch/call.hpp"
#include "exec/range.hpp"
#include "store/store_impl.hpp"
#include "store/tables/catalogue_format.hpp"
#include "store/tables/table_batch.hpp"

namespace perdure {
namespace {

using tables::PoolBatch;

/// Table 0 of a store's pool.
class StoreRecords final : public tables::CatalogueRecords {
 public:
  explicit StoreRecords(Store::Impl& impl) : impl_(impl) {}

  [[nodiscard]] std::string const& path() const override { return impl_.path; }
  [[nodiscard]] std::uint32_t key_bytes() const override { return impl_.key_bytes; }
  [[nodiscard]] std::uint32_t most_value_bytes() const override { return impl_.max_value_bytes; }

  Result<std::vector<Found>> read(std::span<std::int64_t const> ids) override {
    auto const keys = keys_of(ids);
    std::vector<KeyStatus> statuses(ids.size());
    Call call;
    call.keys = Column::of(keys);
    std::vector<Found> found(ids.size());
    if (impl_.value_bytes == 0) {
      auto values = impl_.read_variable(call, statuses, {});
      if (!values) return values.status();
      for (std::size_t i = 0; i < found.size(); ++i)
        found[i].content.assign(values->data.begin() + values->offsets[i],
                                values->data.begin() + values->offsets[i + 1]);
    } else {
      std::vector<std::byte> values(ids.size() * impl_.value_bytes);
      call.out = {values.data(), impl_.value_bytes, ids.size(), MemorySpace::host};
      if (Status s = impl_.read(call, statuses, {}); !s.ok()) return s;
      for (std::size_t i = 0; i < found.size(); ++i) {
        auto const* const from = values.data() + i * impl_.value_bytes;
        found[i].content.assign(from, from + impl_.value_bytes);
      }
    }
    for (std::size_t i = 0; i < found.size(); ++i) found[i].status = statuses[i];
    return found;
  }

  Status may_make(std::string_view name) override {
    if (!impl_.is_held_here()) return {};
    return bad_argument("pool " + impl_.path + ": make table '" + std::string(name) +
                        "' before the transaction, which may abort");
  }

  Status write(std::int64_t id, std::vector<std::byte> const& content) override {
    TableKey const key{id, tables::kCatalogue};
    std::vector<std::byte> value = content;
    if (impl_.value_bytes != 0) value.resize(impl_.value_bytes);  // zeros
    Call call;
    call.kind = OpKind::put;
    call.keys = Column::of(std::span(&key, 1));
    call.values = {value.data(), nullptr, static_cast<std::uint32_t>(value.size()), 1,
                   MemorySpace::host};
    return impl_.write(call, {}, {});
  }

  Result<std::uint64_t> records() override { return impl_.stats().records; }

 private:
  static std::vector<TableKey> keys_of(std::span<std::int64_t const> ids) {
    std::vector<TableKey> keys;
    for (std::int64_t const id : ids) keys.push_back({id, tables::kCatalogue});
    return keys;
  }

  Store::Impl& impl_;
};

/// The tables are this pool's; offsets fit, and so do rows, unless there are none.
Status check_tables(Store::Impl& impl, TableBatch const& batch,
                    std::optional<std::size_t> row_bytes) {
  if (Status s = tables::check_form(impl.path, batch); !s.ok()) return s;
  StoreRecords records(impl);
  for (Table const& table : batch.tables)
    if (Status s = impl.catalogue.check(records, table); !s.ok()) return s;
  return row_bytes ? tables::check_rows(impl.path, batch, *row_bytes) : Status{};
}

Status check_elements(std::string const& path, TableBatch const& batch, Element element) {
  static constexpr std::uint32_t kBytes[] = {1, 4, 4, 8, 8, 4, 8};
  static_assert(std::size(kBytes) == static_cast<std::size_t>(Element::f64) + 1);
  if (static_cast<std::size_t>(element) >= std::size(kBytes)) return {};  // the batch says so
  for (Table const& table : batch.tables)
    if (std::uint32_t const bytes = kBytes[static_cast<std::size_t>(element)];
        table.row_bytes % bytes != 0)
      return bad_argument("pool " + path + ": rows of table '" + table.name + "' have " +
                          std::to_string(table.row_bytes) +
                          " bytes, which is no number of elements of " + std::to_string(bytes));
  return {};
}

Status get_rows(Store::Impl& impl, TableBatch const& batch, std::span<std::byte> rows,
                std::span<KeyStatus> statuses, CallOptions const& how) {
  if (Status s = check_tables(impl, batch, rows.size()); !s.ok()) return s;
  PoolBatch pool_batch(batch, impl.value_bytes);
  if (!statuses.empty() && statuses.size() != batch.ids.size())
    return bad_argument("statuses has " + std::to_string(statuses.size()) + " entries for " +
                        std::to_string(batch.ids.size()) + " ids");
  std::vector<KeyStatus> own(statuses.empty() ? batch.ids.size() : 0);
  std::span<KeyStatus> const each = statuses.empty() ? std::span(own) : statuses;
  Call call;
  call.keys = pool_batch.keys();
  call.stream = how.stream;
  if (impl.value_bytes == 0 && !pool_batch.rows_are_values()) {
    auto values = impl.read_variable(call, each, how);
    if (!values) return values.status();
    pool_batch.take(*values, rows, each);
    return {};
  }
  call.out = pool_batch.answers(rows);
  call.device_statuses = how.device_statuses;
  if (Status s = impl.read(call, each, how); !s.ok()) return s;
  if (!pool_batch.rows_are_values()) pool_batch.narrow(rows, each);
  return {};
}

Status write_rows(Store::Impl& impl, TableBatch const& batch, Call call,
                  std::optional<std::span<std::byte const>> rows, std::span<KeyStatus> statuses,
                  CallOptions const& how) {
  if (Status s = check_tables(impl, batch, rows ? std::optional(rows->size()) : std::nullopt);
      !s.ok())
    return s;
  PoolBatch pool_batch(batch, impl.value_bytes);
  call.keys = pool_batch.keys();
  if (rows && call.kind == OpKind::put && mutated("state_before_weight")) {
    std::vector<std::byte> states(rows->begin(), rows->end());
    std::fill_n(states.begin(), std::min<std::size_t>(8, states.size()), std::byte{});
    call.values = pool_batch.values(states);
    static_cast<void>(impl.write(call, statuses, how));
  }
  if (rows) call.values = pool_batch.values(*rows);
  return impl.write(call, statuses, how);
}

}  // namespace

Result<Table> Store::table(std::string_view name, std::uint32_t row_bytes) {
  exec::Range const range("table");
  return answer(impl_.get(), [&](Impl& impl) -> Result<Table> {
    // What the catalogue knows it answers without a look at the store.
    if (impl.end_noted) return Status{Code::closed, "pool " + impl.path + ": this store is closed"};
    StoreRecords records(impl);
    return impl.catalogue.table(records, name, row_bytes);
  });
}

Result<std::vector<Table>> Store::tables() {
  exec::Range const range("tables");
  return answer(impl_.get(), [&](Impl& impl) {
    StoreRecords records(impl);
    return impl.catalogue.all(records);
  });
}

Status Store::get_tables(TableBatch const& batch, std::span<std::byte> rows,
                         std::span<KeyStatus> statuses, CallOptions const& options) {
  exec::Range const range("get_tables");
  return answer(impl_.get(),
                [&](Impl& impl) { return get_rows(impl, batch, rows, statuses, options); });
}

Status Store::put_tables(TableBatch const& batch, std::span<std::byte const> rows,
                         std::span<KeyStatus> statuses, CallOptions const& options) {
  exec::Range const range("put_tables");
  Call call;
  call.kind = OpKind::put;
  return answer(impl_.get(),
                [&](Impl& impl) { return write_rows(impl, batch, call, rows, statuses, options); });
}

Status Store::update_tables(TableBatch const& batch, std::span<std::byte const> operands, Rmw rmw,
                            Element element, std::span<KeyStatus> statuses,
                            CallOptions const& options) {
  exec::Range const range("update_tables");
  Call call;
  call.kind = OpKind::update;
  call.rmw = rmw;
  call.element = element;
  return answer(impl_.get(), [&](Impl& impl) {
    Status const s = check_elements(impl.path, batch, element);
    return s.ok() ? write_rows(impl, batch, call, operands, statuses, options) : s;
  });
}

Status Store::erase_tables(TableBatch const& batch, std::span<KeyStatus> statuses,
                           CallOptions const& options) {
  exec::Range const range("erase_tables");
  Call call;
  call.kind = OpKind::erase;
  return answer(impl_.get(), [&](Impl& impl) {
    return write_rows(impl, batch, call, std::nullopt, statuses, options);
  });
}

}  // namespace perdure
