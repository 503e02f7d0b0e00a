#include "lsm/rocks/reader.hpp"

#include <typeinfo>

#include "lsm/rocks/key_column.hpp"
#include "lsm/rocks/merging.hpp"
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

}  // namespace

Sight Reader::sight(ReadOptions const& options) const {
  if (options.snapshot == nullptr) {
    if (!tables_.any()) return {};
    ViewPtr now = tables_.view();
    if (now->empty()) return {};
    Sight sight{std::move(now), options};
    sight.options.snapshot = sight.view->base_snapshot();
    return sight;
  }
  if (typeid(*options.snapshot) != typeid(ViewSnapshot)) return {};
  Sight sight{static_cast<ViewSnapshot const*>(options.snapshot)->view(), options};
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

std::optional<rocksdb::Status> Reader::from_tables(Sight const& sight,
                                                   ColumnFamilyHandle* base_family,
                                                   Slice const& key, PinnableSlice* value) {
  RunList const runs = sight.view->runs(base_family->GetID());
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
  if (answer.found == Found::merge) return merged(sight, base_family, key, sight.view->last, value);
  pin(sight.view, answer.value, value);
  return rocksdb::Status::OK();
}

rocksdb::Status Reader::get(ReadOptions const& options, ColumnFamilyHandle* family,
                            Slice const& key, PinnableSlice* value) {
  ColumnFamilyHandle* const base_family = unwrap(family);
  Sight const sight = this->sight(options);
  if (sight.view == nullptr) return base_.Get(options, base_family, key, value);
  if (auto const known = from_tables(sight, base_family, key, value)) return *known;
  ++counters_.table_misses;
  return base_.Get(sight.options, base_family, key, value);
}

rocksdb::Status Reader::merged(Sight const& sight, ColumnFamilyHandle* base_family,
                               Slice const& key, RequestId limit, PinnableSlice* value) {
  Chains chains;
  std::int64_t const offsets[2] = {0, static_cast<std::int64_t>(key.size())};
  RunList const runs = sight.view->runs(base_family->GetID());
  Status const found = engine_.chains(runs, column_of(key, offsets), {{}, limit}, chains);
  if (!found.ok()) return to_rocks(found);
  PinnableSlice below;
  Slice const* base = nullptr;
  if (is_open(chains.versions)) {
    auto const s = base_.Get(sight.options, base_family, key, &below);
    if (!s.ok() && !s.IsNotFound()) return s;
    if (s.ok()) base = &below;
  }
  FamilyPtr const family = families_.find(base_family->GetID());
  if (family == nullptr) return rocksdb::Status::InvalidArgument("no such column family");
  Merged result;
  auto const s = result.resolve(family->merge_operator.get(), nullptr, key, chains.versions, base);
  if (s.ok()) value->PinSelf(result.value());
  return s;
}

void Reader::multi_get(ReadOptions const& options, ColumnFamilyHandle* family,
                       std::span<Slice const> keys, PinnableSlice* values,
                       rocksdb::Status* statuses, bool sorted) {
  ColumnFamilyHandle* const base_family = unwrap(family);
  Sight const sight = this->sight(options);
  if (sight.view == nullptr)
    base_.MultiGet(options, base_family, keys.size(), keys.data(), values, statuses, sorted);
  else
    multi_get(sight, base_family, keys, {{}, sight.view->last}, values, statuses, sorted);
}

void Reader::multi_get(Sight const& sight, ColumnFamilyHandle* base_family,
                       std::span<Slice const> keys, Limits const& limits, PinnableSlice* values,
                       rocksdb::Status* statuses, bool sorted) {
  RunList const runs = sight.view->runs(base_family->GetID());
  if (runs.empty()) {
    base_.MultiGet(sight.options, base_family, keys.size(), keys.data(), values, statuses, sorted);
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
        statuses[i] = merged(sight, base_family, keys[i], limit, &values[i]);
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
  base_.MultiGet(sight.options, base_family, missing.size(), missing.data(), rest.data(),
                 said.data(), sorted);
  for (std::size_t i = 0; i < missing.size(); ++i) {
    values[at[i]] = std::move(rest[i]);
    statuses[at[i]] = said[i];
  }
}

bool Reader::may_exist(ReadOptions const& options, ColumnFamilyHandle* family, Slice const& key,
                       std::string* value, bool* value_found) {
  ColumnFamilyHandle* const base_family = unwrap(family);
  Sight const sight = this->sight(options);
  if (sight.view == nullptr)
    return base_.KeyMayExist(options, base_family, key, value, value_found);
  RunList const runs = sight.view->runs(base_family->GetID());
  Answer answer;
  std::int64_t const offsets[2] = {0, static_cast<std::int64_t>(key.size())};
  if (!runs.empty() &&
      !engine_.find(runs, column_of(key, offsets), {{}, sight.view->last}, {&answer, 1}).ok())
    return true;
  if (answer.found == Found::absent)
    return base_.KeyMayExist(sight.options, base_family, key, value, value_found);
  bool const is_put = answer.found == Found::put;
  if (value_found != nullptr) *value_found = is_put && value != nullptr;
  if (is_put && value != nullptr) *value = slice_of(answer.value).ToString();
  return answer.found != Found::erased;
}

}  // namespace perdure::lsm
