// Actions by batches as arrays (perdure/rocks.h), for which plain RocksDB is given the calls that
// they stand for, one after the other.
#include <rocksdb/write_batch.h>

#include "rocks/fuzz/actions.hpp"

namespace perdure::test {
namespace {

/// Byte strings side by side.
struct Packed {
  std::string bytes;
  std::vector<std::int64_t> offsets{0};

  void add(std::string const& text) {
    bytes += text;
    offsets.push_back(static_cast<std::int64_t>(bytes.size()));
  }
  [[nodiscard]] std::size_t size() const { return offsets.size() - 1; }
  [[nodiscard]] std::string at(std::size_t i) const {
    auto const begin = static_cast<std::size_t>(offsets[i]);
    return bytes.substr(begin, static_cast<std::size_t>(offsets[i + 1]) - begin);
  }
  [[nodiscard]] Column column() const {
    return {reinterpret_cast<std::byte const*>(bytes.data()), offsets.data(), 0, size(),
            MemorySpace::host};
  }
};

std::string text_at(VariableValues const& values, std::size_t i) {
  return {reinterpret_cast<char const*>(values.data.data()) + values.offsets[i],
          static_cast<std::size_t>(values.offsets[i + 1] - values.offsets[i])};
}

bool is_perdure(Side const& side) { return side.opener().name == "perdure"; }

Packed draw_keys(Side const& side, Draws& draws, std::size_t count) {
  Packed keys;
  for (std::size_t i = 0; i < count; ++i) keys.add(side.draw_key(draws));
  return keys;
}

std::size_t draw_count(Draws& draws) { return 1 + draws.below(draws.once_in(6) ? 2000 : 60); }

/// Of one size in every second batch, which memtables then may keep themselves.
Packed draw_values(Draws& draws, std::size_t family, std::size_t count) {
  bool const alike = draws.once_in(2);
  std::size_t const size = draws.once_in(3) ? 16 : 1 + draws.below(130);
  Packed values;
  for (std::size_t i = 0; i < count; ++i)
    values.add(alike && family != kCounts ? draws.bytes(size) : draw_value(draws, family));
  return values;
}

std::size_t draw_merging_family(Side const& side, Draws& draws) {
  std::size_t const drawn = side.draw_family(draws);
  return drawn == kPlainFamily ? kAppends : drawn;
}

/// What a get of one key says.
void tell(bool found, std::string const& value, Transcript& said) {
  said.number(found).bytes(found ? rocksdb::Slice(value) : rocksdb::Slice());
}

void tell_plain_get(Side& side, rocksdb::ReadOptions const& options, std::size_t family,
                    std::string const& key, Transcript& said) {
  std::string value;
  tell(side.db()->Get(options, side.family(family), key, &value).ok(), value, said);
}

}  // namespace

void array_put(Side& side, Draws& draws, Transcript& said) {
  std::size_t const family = side.draw_family(draws);
  Packed const keys = draw_keys(side, draws, draw_count(draws));
  Packed const values = draw_values(draws, family, keys.size());
  if (is_perdure(side))
    return static_cast<void>(
        said.status(rocks::put(*side.db(), side.family(family), keys.column(), values.column())));
  rocksdb::WriteBatch batch;
  for (std::size_t i = 0; i < keys.size(); ++i)
    batch.Put(side.family(family), keys.at(i), values.at(i));
  said.status(side.db()->Write({}, &batch));
}

void array_merge(Side& side, Draws& draws, Transcript& said) {
  std::size_t const family = draw_merging_family(side, draws);
  Packed const keys = draw_keys(side, draws, draw_count(draws));
  Packed operands;
  for (std::size_t i = 0; i < keys.size(); ++i) operands.add(draw_operand(draws, family));
  if (is_perdure(side))
    return static_cast<void>(said.status(
        rocks::merge(*side.db(), side.family(family), keys.column(), operands.column())));
  rocksdb::WriteBatch batch;
  for (std::size_t i = 0; i < keys.size(); ++i)
    batch.Merge(side.family(family), keys.at(i), operands.at(i));
  said.status(side.db()->Write({}, &batch));
}

void array_erase(Side& side, Draws& draws, Transcript& said) {
  std::size_t const family = side.draw_family(draws);
  Packed const keys = draw_keys(side, draws, draw_count(draws) / 4 + 1);
  if (is_perdure(side))
    return static_cast<void>(
        said.status(rocks::erase(*side.db(), side.family(family), keys.column())));
  rocksdb::WriteBatch batch;
  for (std::size_t i = 0; i < keys.size(); ++i) batch.Delete(side.family(family), keys.at(i));
  said.status(side.db()->Write({}, &batch));
}

void array_get(Side& side, Draws& draws, Transcript& said) {
  std::size_t const family = side.draw_family(draws);
  Packed const keys = draw_keys(side, draws, draw_count(draws));
  auto const* const snapshot = draw_snapshot(side, draws);
  if (is_perdure(side)) {
    VariableValues values;
    std::vector<KeyStatus> statuses(keys.size());
    said.status(rocks::get(*side.db(), side.family(family), keys.column(), values, statuses,
                           {.snapshot = snapshot}));
    for (std::size_t i = 0; i < keys.size(); ++i)
      tell(statuses[i] == KeyStatus::ok, text_at(values, i), said);
    return;
  }
  rocksdb::ReadOptions options;
  options.snapshot = snapshot;
  said.status({});
  for (std::size_t i = 0; i < keys.size(); ++i)
    tell_plain_get(side, options, family, keys.at(i), said);
}

void array_range(Side& side, Draws& draws, Transcript& said) {
  std::size_t const family = side.draw_family(draws);
  Packed begins, ends;
  for (std::size_t i = draws.between(1, 20); i > 0; --i) {
    auto const [begin, end] = side.keys().range(draws);
    begins.add(begin);
    ends.add(end);
  }
  std::uint64_t const limit = draws.below(40);
  auto const* const snapshot = draw_snapshot(side, draws);
  if (is_perdure(side)) {
    rocks::Ranges ranges;
    said.status(rocks::range(*side.db(), side.family(family), begins.column(), ends.column(), limit,
                             ranges, {.snapshot = snapshot}));
    for (std::size_t i = 0; i < begins.size(); ++i) {
      auto const end = static_cast<std::size_t>(ranges.offsets[i + 1]);
      for (auto at = static_cast<std::size_t>(ranges.offsets[i]); at < end; ++at)
        said.entry(text_at(ranges.keys, at), text_at(ranges.values, at));
      said.line();
    }
    return;
  }
  rocksdb::ReadOptions options;
  options.snapshot = snapshot;
  options.total_order_seek = true;
  std::unique_ptr<rocksdb::Iterator> const it(side.db()->NewIterator(options, side.family(family)));
  said.status({});
  for (std::size_t i = 0; i < begins.size(); ++i) {
    it->Seek(begins.at(i));
    for (std::uint64_t n = 0; n < limit && it->Valid() && it->key().compare(ends.at(i)) < 0; ++n) {
      said.entry(it->key(), it->value());
      it->Next();
    }
    said.line();
  }
}

/// Reads among writes: each sees what stands before it in the array.
void array_apply(Side& side, Draws& draws, Transcript& said) {
  std::size_t const family = draw_merging_family(side, draws);
  auto* const handle = side.family(family);
  Packed const keys = draw_keys(side, draws, draw_count(draws));
  Packed values;
  std::vector<OpKind> kinds(keys.size());
  for (OpKind& kind : kinds) {
    kind = static_cast<OpKind>(draws.below(4));
    values.add(kind == OpKind::update ? draw_operand(draws, family) : draw_value(draws, family));
  }
  VariableValues found;
  std::vector<KeyStatus> statuses(keys.size());
  if (is_perdure(side)) {
    MixedBatch batch;
    batch.keys = keys.column();
    batch.kinds = kinds;
    batch.values = values.column();
    said.status(rocks::apply(*side.db(), handle, batch, found, statuses));
  } else {
    said.status({});
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    bool const ours = is_perdure(side);
    if (kinds[i] == OpKind::get && ours)
      tell(statuses[i] == KeyStatus::ok, text_at(found, i), said);
    else if (kinds[i] == OpKind::get)
      tell_plain_get(side, {}, family, keys.at(i), said);
    else if (!ours && kinds[i] == OpKind::put)
      static_cast<void>(side.db()->Put({}, handle, keys.at(i), values.at(i)));
    else if (!ours && kinds[i] == OpKind::erase)
      static_cast<void>(side.db()->Delete({}, handle, keys.at(i)));
    else if (!ours)
      static_cast<void>(side.db()->Merge({}, handle, keys.at(i), values.at(i)));
  }
}

}  // namespace perdure::test
