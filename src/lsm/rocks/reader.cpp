#include "lsm/rocks/reader.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <typeinfo>
#include <utility>

#include "exec/range.hpp"
#include "lsm/rocks/key_column.hpp"
#include "lsm/rocks/merging.hpp"
#include "lsm/rocks/rocksdb_version.hpp"
#include "lsm/rocks/status.hpp"
#include "lsm/rocks/value_pins.hpp"
#include "lsm/rocks/value_prefetch.hpp"

namespace perdure::lsm {

namespace {

using rocksdb::ColumnFamilyHandle;
using rocksdb::PinnableSlice;
using rocksdb::ReadOptions;
using rocksdb::Slice;

/// Up to this a copy costs less than keeping the memtable as long as the value; of many values,
/// what a string holds without memory of its own.
constexpr std::uint64_t kCopied = 1024, kCopiedOfMany = 15;
/// From so many keys on flushed memtables are asked.
constexpr std::size_t kManyKeys = 256;

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
  sight.options = options;
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
  sight.options.snapshot = sight.view->base_snapshot();
  return sight;
}

void Reader::count(View const& view, std::span<Answer const> answers) {
  std::size_t absent = 0, flushed = 0, hot = 0;
  for (Answer const& one : answers) {
    absent += one.found == Found::absent;
    flushed += one.found != Found::absent && one.request <= view.last_flushed;
    hot += one.found != Found::absent && one.request == kHotRequest;
  }
  if (view.flushed.empty()) flushed = 0;
  counters_.table_hits += answers.size() - absent - flushed;
  counters_.flushed_hits += flushed - hot;
  if (hot != 0) counters_.hot_hits += hot;
  counters_.table_misses += absent;
}

void Reader::count_cached(std::size_t keys, std::size_t answered) {
  if (hot_ != nullptr && answered != 0 && keys >= kManyKeys) hot_->found(answered);
}

std::size_t Reader::below(Sight const& sight, ColumnFamilyHandle* family,
                          std::span<Slice const> keys, PinnableSlice* values,
                          rocksdb::Status* statuses, bool sorted) {
  return cached_.multi_get(sight.options, family, keys, values, statuses, sorted);
}

std::optional<rocksdb::Status> Reader::from_tables(Sight const& sight, ColumnFamilyHandle* family,
                                                   Slice const& key, PinnableSlice* value) {
  RunList const runs = sight.view->runs(family->GetID());
  if (runs.empty()) return std::nullopt;
  Answer answer;
  std::int64_t const offsets[2] = {0, static_cast<std::int64_t>(key.size())};
  Status const found =
      engine_.find(runs, column_of(key, offsets), {{}, sight.view->last}, {&answer, 1}, {});
  if (!found.ok()) return to_rocks(found);
  if (answer.found == Found::absent) return std::nullopt;
  ++counters_.table_hits;
  value->Reset();
  if (answer.found == Found::erased) return rocksdb::Status::NotFound();
  if (answer.found == Found::merge) {
    rocksdb::Status status;
    std::size_t const first = 0;
    merge(sight, family, {&key, 1}, {&first, 1}, {{}, sight.view->last}, value, &status);
    return status;
  }
  ValuePins(sight.view, kCopied).pin(answer, value);
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
  if (sight.view == nullptr) return cached_.get(options, family, key, value);
  if (auto const known = from_tables(sight, family, key, value)) return *known;
  ++counters_.table_misses;
  return cached_.get(sight.options, family, key, value);
}

void Reader::merge(Sight const& sight, ColumnFamilyHandle* family, std::span<Slice const> keys,
                   std::span<std::size_t const> which, Limits const& limits, PinnableSlice* values,
                   rocksdb::Status* statuses) {
  KeyColumn column;
  std::vector<RequestId> each;
  for (std::size_t const i : which) {
    column.add(keys[i]);
    if (!limits.each.empty()) each.push_back(limits.each[i]);
  }
  Chains chains;
  RunList const runs = sight.view->runs(family->GetID());
  Status const found = engine_.chains(runs, column.column(), {each, limits.all}, chains);
  FamilyPtr const known = families_.find(family->GetID());
  rocksdb::Status const failure = !found.ok() ? to_rocks(found)
                                  : known == nullptr
                                      ? rocksdb::Status::InvalidArgument("no such column family")
                                      : rocksdb::Status::OK();
  if (!failure.ok()) {
    for (std::size_t const i : which) statuses[i] = failure;
    return;
  }
  std::vector<std::size_t> open;  // these stand on what RocksDB has
  for (std::size_t k = 0; k < which.size(); ++k)
    if (is_open(chain_of(chains, k))) open.push_back(which[k]);
  Sight whole = sight;  // what operands stand on counts no bytes of the answer
  whole.options.value_size_soft_limit = std::numeric_limits<std::uint64_t>::max();
  Below const bases = get_below(whole, family, keys, open, false);
  Merged merged;
  for (std::size_t k = 0, next = 0; k < which.size(); ++k) {
    std::size_t const i = which[k];
    auto const chain = chain_of(chains, k);
    Slice base;
    bool has_base = false;
    if (is_open(chain)) {
      rocksdb::Status const& said = bases.statuses[next];
      base = bases.values[next++];
      has_base = said.ok();
      statuses[i] = said;
      if (!said.ok() && !said.IsNotFound()) continue;
    }
    statuses[i] = merged.resolve(known->merge_operator.get(), nullptr, keys[i], chain,
                                 has_base ? &base : nullptr);
    if (statuses[i].ok()) values[i].PinSelf(merged.value());
  }
}

Reader::Below Reader::get_below(Sight const& sight, ColumnFamilyHandle* family,
                                std::span<Slice const> keys, std::span<std::size_t const> which,
                                bool sorted) {
  Below answers{std::vector<PinnableSlice>(which.size()),
                std::vector<rocksdb::Status>(which.size())};
  std::vector<Slice> asked;
  asked.reserve(which.size());
  for (std::size_t const i : which) asked.push_back(keys[i]);
  if (which.empty()) return answers;
  if (keys.size() == 1)  // RocksDB's deadlines mean less to one Get than to a MultiGet
    answers.statuses[0] = cached_.get(sight.options, family, keys[0], &answers.values[0]);
  else
    answers.cached =
        below(sight, family, asked, answers.values.data(), answers.statuses.data(), sorted);
  return answers;
}

void Reader::see_flushed(Sight& sight, std::uint32_t family) const {
  if (!sight.refusal.ok() || !cached_.may_answer(sight.options, family)) return;
  if (tables_.flushed().generations == 0) return;
  sight.view = tables_.snapshot()->view();
  sight.options.snapshot = sight.view->base_snapshot();
}

void Reader::multi_get(ReadOptions const& options, ColumnFamilyHandle* family,
                       std::span<Slice const> keys, PinnableSlice* values,
                       rocksdb::Status* statuses, bool sorted) {
  exec::Range const range("rocks multi_get");
  KeysUnderWay const under_way(counters_, keys.size());
  Sight sight = this->sight(options);
  if (sight.view == nullptr && keys.size() >= kManyKeys) see_flushed(sight, family->GetID());
  if (!sight.refusal.ok()) {
    std::fill_n(statuses, keys.size(), sight.refusal);
  } else if (sight.view == nullptr) {
    count_cached(keys.size(), below(sight, family, keys, values, statuses, sorted));
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
  RunList const runs = keys.size() < kManyKeys ? sight.view->runs(family->GetID())
                                               : known_runs(*sight.view, family->GetID());
  if (runs.empty() || keys.empty()) {
    count_cached(keys.size(), below(sight, family, keys, values, statuses, sorted));
    return;
  }
  std::vector<Answer> answers(keys.size());
  KeyColumn columns;
  columns.reserve(keys.size(), keys.size() * keys.front().size());
  for (Slice const& key : keys) columns.add(key);
  if (Status const s = engine_.find(runs, columns.column(), limits, answers, {}); !s.ok()) {
    std::fill_n(statuses, keys.size(), to_rocks(s));
    return;
  }
  std::vector<std::size_t> absent, merges;
  ValuePins pins(sight.view, keys.size() < kManyKeys ? kCopied : kCopiedOfMany);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (std::size_t const next = i + kValuesAhead; next < keys.size())
      prefetch_value(answers[next]);
    values[i].Reset();
    switch (answers[i].found) {
      case Found::put:
        pins.pin(answers[i], &values[i]);
        statuses[i] = rocksdb::Status::OK();
        break;
      case Found::erased: statuses[i] = rocksdb::Status::NotFound(); break;
      case Found::merge: merges.push_back(i); break;
      case Found::absent: absent.push_back(i); break;
    }
  }
  count(*sight.view, answers);
  if (!merges.empty()) merge(sight, family, keys, merges, limits, values, statuses);
  if (absent.empty()) return;
  Below rest = get_below(sight, family, keys, absent, sorted);
  count_cached(keys.size(), rest.cached);
  for (std::size_t k = 0; k < absent.size(); ++k) {
    values[absent[k]] = std::move(rest.values[k]);
    statuses[absent[k]] = std::move(rest.statuses[k]);
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
      !engine_.find(runs, column_of(key, offsets), {{}, sight.view->last}, {&answer, 1}, {}).ok())
    return true;
  if (answer.found == Found::absent)
    return base_.KeyMayExist(sight.options, family, key, value, value_found);
  bool const is_put = answer.found == Found::put;
  if (value_found != nullptr) *value_found = is_put && value != nullptr;
  if (is_put && value != nullptr) *value = slice_of(answer.value()).ToString();
  return answer.found != Found::erased;
}

}  // namespace perdure::lsm
