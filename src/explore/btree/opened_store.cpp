#include "explore/btree/opened_store.hpp"

#include <algorithm>

namespace perdure::explore {

StoreCall::StoreCall(StoreBatch const& operations, KeyForm form)
    : answers{std::vector<std::uint8_t>(operations.size(), kPending),
              std::vector<std::uint64_t>(operations.size())} {
  for (StoreOp const& op : operations) {
    auto const key = form.bytes(op.key);
    keys_.insert(keys_.end(), key.begin(), key.end());
    key_offsets_.push_back(static_cast<std::int64_t>(keys_.size()));
    values_.resize(values_.size() + op.bytes);
    std::memcpy(values_.data() + offsets_.back(), &op.value, sizeof op.value);
    offsets_.push_back(static_cast<std::int64_t>(values_.size()));
    kinds_.push_back(op.kind);
    if (op.rmw != Rmw::replace) call.rmw = op.rmw;
  }
  std::size_t const n = count();
  call.keys = {keys_.data(), form.strings() ? key_offsets_.data() : nullptr,
               form.strings() ? 0u : 8u, n, MemorySpace::host};
  call.values = {values_.data(), offsets_.data(), 0, n, MemorySpace::host};
  call.kinds = kinds_;
  call.element = Element::u64;
  call.out = {reinterpret_cast<std::byte*>(answers.values.data()), 8, n, MemorySpace::host};
}

bool StoreCall::reads() const {
  return std::ranges::all_of(kinds_, [](OpKind kind) { return kind == OpKind::get; });
}

OpenedStore::OpenedStore(pm::Pool opened, Keeps keeps, KeyForm form)
    : pool_(std::move(opened)),
      space_(pool_, memory_),
      numbers_(pool_, memory_),
      leaf_blocks_(pool_, memory_, sizeof(btree::Leaf)),
      form_(form),
      options_{form.strings() ? 0u : 8u,
               8,
               form.strings() ? KeyOrder::bytes : KeyOrder::unsigned_integer,
               true,
               false,
               nullptr},
      host_(keeps) {}

void OpenedStore::begin_writing() {
  pm::Root root = pool_.root();
  root.clean = 0;
  pool_.publish_root(root);
}

std::optional<std::string> OpenedStore::contents(std::vector<std::uint64_t> const& keys,
                                                 Contents& found) {
  bool twice = false;
  BtreePage const page = all([&](std::span<std::byte const> key, std::span<std::byte const> value) {
    twice |= !found.emplace(form_.number(key), word_of(value)).second;
  });
  if (!page.fault.empty()) return "a range: " + page.fault;
  if (twice) return "a range has a key twice";
  for (std::uint64_t const key : keys) {
    Answers const answers = apply({{OpKind::get, key, 0}});
    bool const there = static_cast<KeyStatus>(answers.statuses[0]) == KeyStatus::ok;
    auto const in = found.find(key);
    if (there != (in != found.end()) || (there && answers.values[0] != in->second))
      return "key " + std::to_string(key) + ": a get says something else than a range";
  }
  return std::nullopt;
}

}  // namespace perdure::explore
