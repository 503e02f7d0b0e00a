#include "lsm/rocks/keys_below.hpp"

#include <rocksdb/comparator.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "exec/sort.hpp"
#include "lsm/rocks/array_call.hpp"

namespace perdure::lsm {

namespace {

using rocksdb::Slice;

constexpr std::size_t kKeysACall = 256;  // of RocksDB
constexpr std::size_t kLeast = 256, kMost = 4096;  // questions a chunk

/// Eight bytes from `from` on, as numbers compare.
std::uint64_t word_of(Slice const& key, std::size_t from) {
  std::uint64_t word = 0;
  if (key.size() > from)
    std::memcpy(&word, key.data() + from, std::min(sizeof word, key.size() - from));
  return __builtin_bswap64(word);
}

std::size_t common(Slice const& a, Slice const& b, std::size_t most) {
  std::size_t const n = std::min({a.size(), b.size(), most});
  return static_cast<std::size_t>(std::mismatch(a.data(), a.data() + n, b.data()).first - a.data());
}

}  // namespace

/// Keys of a chunk, each once, and whose answers they are.
struct KeysBelow::Batch {
  std::vector<Slice> keys;
  std::vector<std::size_t> first;  // of each key, its first question's place in the order
  std::vector<rocksdb::PinnableSlice> values{kKeysACall};
  std::vector<rocksdb::Status> statuses{kKeysACall};

  void clear() {
    for (std::size_t i = 0; i < keys.size(); ++i) values[i].Reset();
    keys.clear();
    first.clear();
  }
};

Slice KeysBelow::key(std::size_t question) const {
  return element(keys_, numbers_.empty() ? question : numbers_[question]);
}

std::size_t KeysBelow::a_chunk(std::size_t questions) const {
  return std::clamp(questions / (4 * std::size_t{workers_.threads()}), kLeast, kMost);
}

/// How many bytes all keys begin with, which say nothing of their order.
std::size_t KeysBelow::common_prefix(std::size_t questions) const {
  if (keys_.offsets == nullptr && keys_.width <= sizeof(std::uint64_t)) return 0;
  Slice const first = key(0);
  std::atomic<std::size_t> all = first.size();
  workers_.for_chunks(questions, kMost, [&](std::size_t begin, std::size_t end) {
    std::size_t here = all.load(std::memory_order_relaxed);
    for (std::size_t i = begin; i < end && here > 0; ++i) here = common(first, key(i), here);
    for (std::size_t seen = all.load(); seen > here && !all.compare_exchange_weak(seen, here);) {
    }
  });
  return all.load();
}

/// By the first word that tells keys apart. Those that have it in common are put in order by who
/// asks for them.
void KeysBelow::sort(std::span<exec::Sorted> order) {
  std::size_t const from = by_bytes_ ? common_prefix(order.size()) : 0;
  word_is_key_ = !by_bytes_ || (keys_.offsets == nullptr && keys_.width <= from + sizeof from);
  workers_.for_chunks(order.size(), kMost, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) order[i] = {i, by_bytes_ ? word_of(key(i), from) : i};
  });
  if (by_bytes_) exec::sort_batch(workers_, order, rooms_.spare.take(order.size()));
}

void KeysBelow::ask(std::size_t questions, std::span<std::size_t const> numbers,
                    NewTeller const& teller) {
  if (questions == 0) return;
  numbers_ = numbers;
  by_bytes_ = family_->GetComparator() == rocksdb::BytewiseComparator();
  std::span<exec::Sorted> const order = rooms_.order.take(questions);
  sort(order);
  std::vector<std::size_t> const borders = borders_of(order);
  workers_.for_chunks(borders.size() - 1, 1, [&](std::size_t chunk, std::size_t) {
    std::size_t const begin = borders[chunk], n = borders[chunk + 1] - begin;
    if (n > 0) ask_chunk(order.subspan(begin, n), *teller());
  });
}

/// Questions with one word belong to the chunk in which the first of them is.
std::vector<std::size_t> KeysBelow::borders_of(std::span<exec::Sorted const> order) const {
  std::size_t const size = a_chunk(order.size());
  std::vector<std::size_t> borders{0};
  for (std::size_t begin = size; begin < order.size(); begin += size) {
    std::size_t at = std::max(begin, borders.back());
    while (at < order.size() && order[at].hash == order[at - 1].hash) ++at;
    borders.push_back(at);
  }
  borders.push_back(order.size());
  return borders;
}

/// Those who have their word in common.
void KeysBelow::sort_same(std::span<exec::Sorted> order) const {
  if (word_is_key_) return;
  auto const is_less = [&](exec::Sorted const& a, exec::Sorted const& b) {
    return key(a.index).compare(key(b.index)) < 0;
  };
  for (auto first = order.begin(); first != order.end();) {
    auto const last =
        std::find_if(first, order.end(), [&](auto const& one) { return one.hash != first->hash; });
    bool const one_key = std::all_of(
        first, last, [&](auto const& one) { return key(one.index) == key(first->index); });
    if (!one_key) std::sort(first, last, is_less);
    first = last;
  }
}

void KeysBelow::ask_chunk(std::span<exec::Sorted> order, Teller& teller) {
  sort_same(order);
  Batch batch;
  auto const ask_batch = [&](std::size_t next) {
    batch.first.push_back(next);
    reader_.below(sight_, family_, batch.keys, batch.values.data(), batch.statuses.data(),
                  by_bytes_);
    for (std::size_t k = 0; k < batch.keys.size(); ++k) teller.prepare(order[batch.first[k]].index);
    for (std::size_t k = 0; k < batch.keys.size(); ++k)
      for (std::size_t i = batch.first[k]; i < batch.first[k + 1]; ++i)
        teller.tell(order[i].index, batch.statuses[k], batch.values[k]);
    batch.clear();
  };
  for (std::size_t i = 0; i < order.size(); ++i) {
    Slice const next = key(order[i].index);
    if (!batch.keys.empty() && batch.keys.back() == next) continue;
    if (batch.keys.size() == kKeysACall) ask_batch(i);
    batch.keys.push_back(next);
    batch.first.push_back(i);
  }
  ask_batch(order.size());
}

}  // namespace perdure::lsm
