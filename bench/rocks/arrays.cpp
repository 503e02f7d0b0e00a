#include "arrays.hpp"

#include <algorithm>
#include <chrono>

#include "calls.hpp"
#include "database.hpp"
#include "failure.hpp"
#include "perdure/rocks.h"

namespace perdure::bench::rocks {

ArrayClient::ArrayClient(rocksdb::DB& db, Pairs const& pairs, What what, std::uint64_t operations,
                         std::uint64_t batch, Next next)
    : db_(db),
      pairs_(pairs),
      what_(what),
      left_(operations),
      batch_(batch),
      next_(std::move(next)) {}

bool ArrayClient::prepare() {
  ready_ = std::min(calls_of_round(batch_), (left_ + batch_ - 1) / batch_);
  if (arrays_.size() < ready_) arrays_.resize(ready_);
  for (std::size_t i = 0; i < ready_; ++i) {
    std::uint64_t const count = std::min(batch_, left_);
    fill(arrays_[i], count);
    left_ -= count;
    operations_ += count;
  }
  return ready_ > 0;
}

void ArrayClient::fill(Arrays& arrays, std::size_t count) {
  arrays.count = count;
  arrays.keys.resize(count * pairs_.key_bytes());
  arrays.values.resize(count * pairs_.value_bytes());
  arrays.statuses.assign(count, KeyStatus::not_found);
  for (std::size_t i = 0; i < count; ++i) {
    auto* const key = reinterpret_cast<char*>(arrays.keys.data() + i * pairs_.key_bytes());
    auto* const value = reinterpret_cast<char*>(arrays.values.data() + i * pairs_.value_bytes());
    pairs_.key(next_(), key);
    if (what_ == What::put) {
      pairs_.value(key, 0, value);
    } else {
      std::fill_n(value, pairs_.value_bytes(), 0);
    }
  }
}

void ArrayClient::call() {
  for (std::size_t i = 0; i < ready_; ++i) {
    auto const begin = std::chrono::steady_clock::now();
    call(arrays_[i]);
    latencies_.add(static_cast<std::uint64_t>((std::chrono::steady_clock::now() - begin).count()));
  }
}

void ArrayClient::call(Arrays& arrays) {
  Column const keys{arrays.keys.data(), nullptr, pairs_.key_bytes(), arrays.count};
  auto* const family = db_.DefaultColumnFamily();
  if (what_ == What::put) {
    Column const values{arrays.values.data(), nullptr, pairs_.value_bytes(), arrays.count};
    require(perdure::rocks::put(db_, family, keys, values), "put arrays");
  } else {
    MutableColumn const values{arrays.values.data(), pairs_.value_bytes(), arrays.count};
    require(perdure::rocks::get(db_, family, keys, values, arrays.statuses), "get arrays");
  }
}

void ArrayClient::check() {
  if (what_ == What::put) return;
  for (std::size_t i = 0; i < ready_; ++i) {
    Arrays const& arrays = arrays_[i];
    for (std::size_t k = 0; k < arrays.count; ++k) {
      auto const* const key =
          reinterpret_cast<char const*>(arrays.keys.data() + k * pairs_.key_bytes());
      rocksdb::Slice const value(
          reinterpret_cast<char const*>(arrays.values.data() + k * pairs_.value_bytes()),
          pairs_.value_bytes());
      if (arrays.statuses[k] != KeyStatus::ok || pairs_.version(key, value) != 0)
        throw Failure("the key " + rocksdb::Slice(key, pairs_.key_bytes()).ToString(true) +
                      " is absent from the arrays, or has a wrong value");
    }
    checked_ += arrays.count;
  }
}

}  // namespace perdure::bench::rocks
