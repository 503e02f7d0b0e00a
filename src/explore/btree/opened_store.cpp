#include "explore/btree/opened_store.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "store/btree/btree_ranges.hpp"

namespace perdure::explore {
namespace {

std::uint64_t word_of(std::span<std::byte const> bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data(), std::min(bytes.size(), sizeof word));
  return word;
}

}  // namespace

OpenedStore::OpenedStore(pm::Pool opened, Keeps keeps)
    : pool_(std::move(opened)),
      space_(pool_, memory_),
      numbers_(pool_, memory_),
      options_{8, 8, KeyOrder::unsigned_integer, true, false, nullptr},
      host_(keeps),
      parts_{table_,
             BtreeRecords(pool_.base(), pool_.superblock_bytes()),
             BtreeKeyMaker<btree::WordKeys>(KeyOrder::unsigned_integer),
             options_,
             space_,
             numbers_} {}

void OpenedStore::begin_writing() {
  pm::Root root = pool_.root();
  root.clean = 0;
  pool_.publish_root(root);
}

Answers OpenedStore::apply(StoreBatch const& operations) {
  std::size_t const n = operations.size();
  Answers answers{std::vector<std::uint8_t>(n, kPending), std::vector<std::uint64_t>(n)};
  std::vector<std::uint64_t> keys;
  std::vector<std::byte> values;
  std::vector<std::int64_t> offsets{0};
  std::vector<OpKind> kinds;
  for (StoreOp const& op : operations) {
    keys.push_back(op.key);
    values.resize(values.size() + op.bytes);
    std::memcpy(values.data() + offsets.back(), &op.value, sizeof op.value);
    offsets.push_back(static_cast<std::int64_t>(values.size()));
    kinds.push_back(op.kind);
  }
  Call call;
  call.keys = {reinterpret_cast<std::byte const*>(keys.data()), nullptr, 8, n, MemorySpace::host};
  call.values = {values.data(), offsets.data(), 0, n, MemorySpace::host};
  call.kinds = kinds;
  call.out = {reinterpret_cast<std::byte*>(answers.values.data()), 8, n, MemorySpace::host};
  threads::Batch batch{&call, answers.statuses.data(), 0};
  threads::Ops const ops{nullptr, 0, n};
  bool const reads = std::ranges::all_of(kinds, [](OpKind k) { return k == OpKind::get; });
  if (reads) {
    threads::Tally tally;
    auto const give = [&](std::size_t i, std::span<std::byte const> value) {
      exec::sim_point();
      answers.values[i] = word_of(value);
    };
    BtreeGets(parts_, host_, batch, tally).run(ops, give);
  } else {
    batch.sequence = numbers_.take(n);
    write(batch, ops);
  }
  epochs().collect();
  return answers;
}

std::optional<std::uint64_t> OpenedStore::get(std::uint64_t key) {
  Answers const answers = apply({{OpKind::get, key, 0}});
  if (static_cast<KeyStatus>(answers.statuses[0]) != KeyStatus::ok) return std::nullopt;
  return answers.values[0];
}

std::optional<std::string> OpenedStore::contents(std::vector<std::uint64_t> const& keys,
                                                 Contents& found) {
  btree::WordKeys const order;
  bool twice = false;
  auto const visit = [&](std::span<std::byte const> key, std::span<std::byte const> value) {
    twice |= !found.emplace(word_of(key), word_of(value)).second;
  };
  BtreePage const page =
      BtreeRanges(parts_, order, host_).page({}, ~std::size_t{0}, ~std::uint64_t{0}, visit);
  if (!page.fault.empty()) return "a range: " + page.fault;
  if (twice) return "a range has a key twice";
  for (std::uint64_t const key : keys) {
    auto const value = get(key);
    auto const in = found.find(key);
    if (value.has_value() != (in != found.end()) || (value && *value != in->second))
      return "key " + std::to_string(key) + ": a get says something else than a range";
  }
  return std::nullopt;
}

std::vector<std::uint64_t> OpenedStore::words() {
  std::vector<std::uint64_t> all;
  exec::EpochGuard const guard(epochs());
  table_.ascend(host_, nullptr, true, [&](std::uint64_t, std::uint64_t word) {
    all.push_back(word);
    return true;
  });
  std::ranges::sort(all);
  return all;
}

}  // namespace perdure::explore
