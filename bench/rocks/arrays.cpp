#include "arrays.hpp"

#include <algorithm>

#include "database.hpp"
#include "failure.hpp"
#include "perdure/rocks.h"

namespace perdure::bench::rocks {

void fill(PairArrays& arrays, Pairs const& pairs, ArrayCall what, std::size_t count,
          std::function<std::uint64_t()> const& next) {
  arrays.count = count;
  arrays.keys.resize(count * pairs.key_bytes());
  arrays.values.resize(count * pairs.value_bytes());
  arrays.statuses.assign(count, KeyStatus::not_found);
  for (std::size_t i = 0; i < count; ++i) {
    auto* const key = reinterpret_cast<char*>(arrays.keys.data() + i * pairs.key_bytes());
    auto* const value = reinterpret_cast<char*>(arrays.values.data() + i * pairs.value_bytes());
    pairs.key(next(), key);
    if (what == ArrayCall::put) {
      pairs.value(key, 0, value);
    } else {
      std::fill_n(value, pairs.value_bytes(), 0);
      value[0] = what == ArrayCall::increment ? 1 : 0;  // the least byte of a counter
    }
  }
}

std::uint64_t check(PairArrays const& arrays, Pairs const& pairs) {
  for (std::size_t k = 0; k < arrays.count; ++k) {
    auto const* const key =
        reinterpret_cast<char const*>(arrays.keys.data() + k * pairs.key_bytes());
    rocksdb::Slice const value(
        reinterpret_cast<char const*>(arrays.values.data() + k * pairs.value_bytes()),
        pairs.value_bytes());
    if (arrays.statuses[k] != KeyStatus::ok || pairs.version(key, value) != 0)
      throw Failure("the key " + rocksdb::Slice(key, pairs.key_bytes()).ToString(true) +
                    " is absent from the arrays, or has a wrong value");
  }
  return arrays.count;
}

ArrayClient::ArrayClient(rocksdb::DB& db, Pairs const& pairs, What what, std::uint64_t operations,
                         std::uint64_t batch, Next next)
    : ArrayRounds(db, pairs, operations, batch), what_(what), next_(std::move(next)) {}

void ArrayClient::fill(PairArrays& arrays, std::size_t count) {
  rocks::fill(arrays, pairs_, what_, count, next_);
}

void ArrayClient::call(PairArrays& arrays) {
  Column const keys{arrays.keys.data(), nullptr, pairs_.key_bytes(), arrays.count};
  auto* const family = db_.DefaultColumnFamily();
  Column const given{arrays.values.data(), nullptr, pairs_.value_bytes(), arrays.count};
  if (what_ == What::put) {
    require(perdure::rocks::put(db_, family, keys, given), "put arrays");
  } else if (what_ == What::increment) {
    require(perdure::rocks::merge(db_, family, keys, given), "merge arrays");
  } else {
    MutableColumn const values{arrays.values.data(), pairs_.value_bytes(), arrays.count};
    require(perdure::rocks::get(db_, family, keys, values, arrays.statuses), "get arrays");
  }
}

std::uint64_t ArrayClient::check(PairArrays const& arrays) const {
  return what_ == What::get ? rocks::check(arrays, pairs_) : 0;
}

ArrayMixedClient::ArrayMixedClient(rocksdb::DB& db, Pairs const& pairs, std::uint64_t operations,
                                   std::uint64_t batch, Next next)
    : ArrayRounds(db, pairs, operations, batch), next_(std::move(next)) {}

void ArrayMixedClient::fill(MixedArrays& arrays, std::size_t count) {
  arrays.kinds.resize(count);
  arrays.keys.resize(count * pairs_.key_bytes());
  arrays.values.resize(count * pairs_.value_bytes());
  arrays.found.assign(count * pairs_.value_bytes(), std::byte{0});
  arrays.statuses.assign(count, KeyStatus::not_tried);
  for (std::size_t i = 0; i < count; ++i) {
    Operation const operation = next_();
    auto* const key = reinterpret_cast<char*>(arrays.keys.data() + i * pairs_.key_bytes());
    pairs_.key(operation.number, key);
    arrays.kinds[i] = operation.put ? OpKind::put : OpKind::get;
    auto* const value = reinterpret_cast<char*>(arrays.values.data() + i * pairs_.value_bytes());
    if (operation.put) pairs_.value(key, operation.version, value);
  }
}

void ArrayMixedClient::call(MixedArrays& arrays) {
  std::size_t const count = arrays.kinds.size();
  MixedBatch batch;
  batch.keys = {arrays.keys.data(), nullptr, pairs_.key_bytes(), count};
  batch.kinds = arrays.kinds;
  batch.values = {arrays.values.data(), nullptr, pairs_.value_bytes(), count};
  batch.out = {arrays.found.data(), pairs_.value_bytes(), count};
  VariableValues none;
  require(perdure::rocks::apply(db_, db_.DefaultColumnFamily(), batch, none, arrays.statuses),
          "apply arrays");
}

std::uint64_t ArrayMixedClient::check(MixedArrays const& arrays) const {
  for (std::size_t k = 0; k < arrays.kinds.size(); ++k) check(arrays, k);
  return arrays.kinds.size();
}

void ArrayMixedClient::check(MixedArrays const& arrays, std::size_t i) const {
  auto const* const key =
      reinterpret_cast<char const*>(arrays.keys.data() + i * pairs_.key_bytes());
  rocksdb::Slice const value(
      reinterpret_cast<char const*>(arrays.found.data() + i * pairs_.value_bytes()),
      pairs_.value_bytes());
  bool const is_right = arrays.statuses[i] == KeyStatus::ok &&
                        (arrays.kinds[i] == OpKind::put || pairs_.version(key, value));
  if (!is_right)
    throw Failure("the key " + rocksdb::Slice(key, pairs_.key_bytes()).ToString(true) +
                  " of a mixed batch is absent, or has a value that nobody wrote");
}

}  // namespace perdure::bench::rocks
