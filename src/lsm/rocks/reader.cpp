#include "lsm/rocks/reader.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <typeinfo>
#include <utility>

#include "lsm/rocks/key_column.hpp"
#include "lsm/rocks/merging.hpp"
#include "lsm/rocks/rocksdb_version.hpp"
#include "lsm/rocks/status.hpp"

namespace perdure::lsm {

namespace {

using rocksdb::ColumnFamilyHandle;
using rocksdb::PinnableSlice;
using rocksdb::ReadOptions;
using rocksdb::Slice;

/// Below this a copy costs less than keeping the memtable.
constexpr std::uint64_t kCopied = 1024;

void release_view(void* view, void*) { delete static_cast<ViewPtr*>(view); }

/// One key, where it lies.
Column column_of(Slice const& key, std::int64_t const (&offsets)[2]) {
  return {as_bytes(key.data()), offsets, 0, 1, MemorySpace::host};
}

/// Whether the time that the caller gave the read is over before it began.
bool is_late(ReadOptions const& options, rocksdb::DB& base) {
  return options.deadline.count() != 0 &&
         base.GetEnv()->NowMicros() > static_cast<std::uint64_t>(options.deadline.count());
}

/// As RocksDB has it: in order of keys, none is answered once the values before it have more bytes.
void limit_sizes(ReadOptions const& options, std::span<Slice const> keys, PinnableSlice* values,
                 rocksdb::Status* statuses) {
  if (options.value_size_soft_limit == std::numeric_limits<std::uint64_t>::max()) return;
  std::vector<std::size_t> order(keys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return keys[a].compare(keys[b]) < 0; });
  std::uint64_t bytes = 0;
  for (std::size_t const i : order) {
    if (bytes > options.value_size_soft_limit) {
      values[i].Reset();
      statuses[i] = rocksdb::Status::Aborted();
    } else if (statuses[i].ok()) {
      bytes += values[i].size();
    }
  }
}

}  // namespace

Sight Reader::sight(ReadOptions const& options) const {
  Sight sight;
  if (options.snapshot == nullptr) {
    if (!tables_.any()) return sight;
    ViewPtr now = tables_.view();
    if (now->empty()) return sight;
    sight.view = std::move(now);
  } else if (typeid(*options.snapshot) == typeid(ViewSnapshot)) {
    sight.view = static_cast<ViewSnapshot const*>(options.snapshot)->view();
  } else {
    sight.refusal = rocksdb::Status::InvalidArgument(
        "a snapshot of GetRootDB() does not see the memtables; take it from this database");
    return sight;
  }
  sight.options = options;
  sight.options.snapshot = sight.view->base_snapshot();
  return sight;
}

void Reader::pin(ViewPtr const& view, ValueRef const& found, PinnableSlice* value) {
  Slice const slice = slice_of(found);
  if (found.size <= kCopied)
    value->PinSelf(slice);
  else
    value->PinSlice(slice, release_view, new ViewPtr(view), nullptr);
}

std::optional<rocksdb::Status> Reader::from_tables(Sight const& sight, ColumnFamilyHandle* family,
                                                   Slice const& key, PinnableSlice* value) {
  RunList const runs = sight.view->runs(family->GetID());
  if (runs.empty()) return std::nullopt;
  Answer answer;
  std::int64_t const offsets[2] = {0, static_cast<std::int64_t>(key.size())};
  Status const found =
      engine_.find(runs, column_of(key, offsets), {{}, sight.view->last}, {&answer, 1});
  if (!found.ok()) return to_rocks(found);
  if (answer.found == Found::absent) return std::nullopt;
  ++counters_.table_hits;
  value->Reset();
  if (answer.found == Found::erased) return rocksdb::Status::NotFound();
  if (answer.found == Found::merge) return merged(sight, family, key, sight.view->last, value);
  pin(sight.view, answer.value, value);
  return rocksdb::Status::OK();
}

rocksdb::Status Reader::merges_entity(Sight const& sight, ColumnFamilyHandle* family,
                                      Slice const& key, bool* answer) {
  *answer = are_entities(base_, sight.options, family, {key}).front();
  if (!*answer) return rocksdb::Status::OK();
  Chains chains;
  std::int64_t const offsets[2] = {0, static_cast<std::int64_t>(key.size())};
  Status const found = engine_.chains(sight.view->runs(family->GetID()), column_of(key, offsets),
                                      {{}, sight.view->last}, chains);
  *answer = found.ok() && is_open(chains.versions);
  return to_rocks(found);
}

rocksdb::Status Reader::get(ReadOptions const& options, ColumnFamilyHandle* family,
                            Slice const& key, PinnableSlice* value) {
  Sight const sight = this->sight(options);
  if (!sight.refusal.ok()) return sight.refusal;
  if (sight.view == nullptr) return base_.Get(options, family, key, value);
  if (auto const known = from_tables(sight, family, key, value)) return *known;
  ++counters_.table_misses;
  return base_.Get(sight.options, family, key, value);
}

rocksdb::Status Reader::merged(Sight const& sight, ColumnFamilyHandle* family, Slice const& key,
                               RequestId limit, PinnableSlice* value) {
  Chains chains;
  std::int64_t const offsets[2] = {0, static_cast<std::int64_t>(key.size())};
  RunList const runs = sight.view->runs(family->GetID());
  Status const found = engine_.chains(runs, column_of(key, offsets), {{}, limit}, chains);
  if (!found.ok()) return to_rocks(found);
  PinnableSlice below;
  Slice const* base = nullptr;
  if (is_open(chains.versions)) {
    auto const s = base_.Get(sight.options, family, key, &below);
    if (!s.ok() && !s.IsNotFound()) return s;
    if (s.ok()) base = &below;
  }
  FamilyPtr const known = families_.find(family->GetID());
  if (known == nullptr) return rocksdb::Status::InvalidArgument("no such column family");
  Merged result;
  auto const s = result.resolve(known->merge_operator.get(), nullptr, key, chains.versions, base);
  if (s.ok()) value->PinSelf(result.value());
  return s;
}

void Reader::multi_get(ReadOptions const& options, ColumnFamilyHandle* family,
                       std::span<Slice const> keys, PinnableSlice* values,
                       rocksdb::Status* statuses, bool sorted) {
  Sight const sight = this->sight(options);
  if (!sight.refusal.ok()) {
    std::fill_n(statuses, keys.size(), sight.refusal);
  } else if (sight.view == nullptr) {
    base_.MultiGet(options, family, keys.size(), keys.data(), values, statuses, sorted);
  } else if (is_late(options, base_)) {
    std::fill_n(statuses, keys.size(), rocksdb::Status::TimedOut());
  } else {
    multi_get(sight, family, keys, {{}, sight.view->last}, values, statuses, sorted);
    limit_sizes(options, keys, values, statuses);
  }
}

void Reader::multi_get(Sight const& sight, ColumnFamilyHandle* family, std::span<Slice const> keys,
                       Limits const& limits, PinnableSlice* values, rocksdb::Status* statuses,
                       bool sorted) {
  RunList const runs = sight.view->runs(family->GetID());
  if (runs.empty()) {
    base_.MultiGet(sight.options, family, keys.size(), keys.data(), values, statuses, sorted);
    return;
  }
  std::vector<Answer> answers(keys.size());
  KeyColumn columns;
  for (Slice const& key : keys) columns.add(key);
  Status const found = engine_.find(runs, columns.column(), limits, answers);
  std::vector<Slice> missing;
  std::vector<std::size_t> at;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!found.ok()) {
      statuses[i] = to_rocks(found);
      continue;
    }
    values[i].Reset();
    switch (answers[i].found) {
      case Found::put:
        pin(sight.view, answers[i].value, &values[i]);
        statuses[i] = rocksdb::Status::OK();
        break;
      case Found::erased: statuses[i] = rocksdb::Status::NotFound(); break;
      case Found::merge: {
        RequestId const limit = limits.each.empty() ? limits.all : limits.each[i];
        statuses[i] = merged(sight, family, keys[i], limit, &values[i]);
        break;
      }
      case Found::absent:
        missing.push_back(keys[i]);
        at.push_back(i);
        break;
    }
  }
  counters_.table_hits += keys.size() - missing.size();
  counters_.table_misses += missing.size();
  if (missing.empty()) return;
  std::vector<PinnableSlice> rest(missing.size());
  std::vector<rocksdb::Status> said(missing.size());
  base_.MultiGet(sight.options, family, missing.size(), missing.data(), rest.data(), said.data(),
                 sorted);
  for (std::size_t i = 0; i < missing.size(); ++i) {
    values[at[i]] = std::move(rest[i]);
    statuses[at[i]] = said[i];
  }
}

bool Reader::may_exist(ReadOptions const& options, ColumnFamilyHandle* family, Slice const& key,
                       std::string* value, bool* value_found) {
  Sight const sight = this->sight(options);
  if (sight.view == nullptr) return base_.KeyMayExist(options, family, key, value, value_found);
  RunList const runs = sight.view->runs(family->GetID());
  Answer answer;
  std::int64_t const offsets[2] = {0, static_cast<std::int64_t>(key.size())};
  if (!runs.empty() &&
      !engine_.find(runs, column_of(key, offsets), {{}, sight.view->last}, {&answer, 1}).ok())
    return true;
  if (answer.found == Found::absent)
    return base_.KeyMayExist(sight.options, family, key, value, value_found);
  bool const is_put = answer.found == Found::put;
  if (value_found != nullptr) *value_found = is_put && value != nullptr;
  if (is_put && value != nullptr) *value = slice_of(answer.value).ToString();
  return answer.found != Found::erased;
}

}  // namespace perdure::lsm
