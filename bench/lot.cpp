#include "lot.hpp"

#include <algorithm>
#include <cstring>

#include "common.hpp"

namespace perdure::bench {
namespace {

OpKind kind_of(Action action) {
  switch (action) {
    case Action::read: return OpKind::get;
    case Action::write: return OpKind::put;
    case Action::read_modify_write: return OpKind::update;
    case Action::scan: break;  // is no operation of a batch, and never comes here
  }
  return OpKind::get;
}

}  // namespace

Lot::Lot(Dataset const& dataset, std::size_t most, MemorySpace space)
    : dataset_(dataset), space_(space) {
  std::size_t const key_bytes = most * dataset.key_bytes();
  std::size_t const value_bytes = most * dataset.value_bytes();
  keys_.resize(key_bytes);
  values_.resize(value_bytes);
  out_.resize(value_bytes);
  if (space == MemorySpace::host) return;
  device_keys_ = std::make_unique<DeviceArray>(key_bytes);
  device_values_ = std::make_unique<DeviceArray>(value_bytes);
  device_out_ = std::make_unique<DeviceArray>(value_bytes);
}

void Lot::make() {
  std::size_t const n = requests_.size();
  std::size_t const key_bytes = dataset_.key_bytes();
  std::size_t const value_bytes = dataset_.value_bytes();
  kinds_.resize(n);
  statuses_.assign(n, KeyStatus::corrupt);
  on_all_cores(n, [&](std::size_t i) {
    Request const& r = requests_[i];
    kinds_[i] = kind_of(r.action);
    dataset_.write_key(r.id, keys_.data() + i * key_bytes);
    std::byte* const value = values_.data() + i * value_bytes;
    if (r.action == Action::write) dataset_.write_value(r.id, r.version, value);
    if (r.action == Action::read_modify_write) dataset_.write_increment(value);
    std::memset(out_.data() + i * value_bytes, 0, value_bytes);
  });
  if (space_ == MemorySpace::host) return;
  device_keys_->upload({keys_.data(), n * key_bytes});
  if (std::ranges::any_of(kinds_, [](OpKind kind) { return kind != OpKind::get; }))
    device_values_->upload({values_.data(), n * value_bytes});
  device_out_->zero(n * value_bytes);
}

Lot::Batch Lot::batch(std::size_t first, std::size_t count) {
  bool const host = space_ == MemorySpace::host;
  std::uint32_t const key_bytes = dataset_.key_bytes();
  std::uint32_t const value_bytes = dataset_.value_bytes();
  std::byte* const keys = host ? keys_.data() : device_keys_->data();
  std::byte* const values = host ? values_.data() : device_values_->data();
  std::byte* const out = host ? out_.data() : device_out_->data();
  auto const kinds = std::span(kinds_).subspan(first, count);
  auto const all = [&](OpKind kind) {
    return std::ranges::all_of(kinds, [kind](OpKind each) { return each == kind; });
  };
  return {{keys + first * key_bytes, nullptr, key_bytes, count, space_},
          {values + first * value_bytes, nullptr, value_bytes, count, space_},
          {out + first * value_bytes, value_bytes, count, space_},
          kinds,
          std::span(statuses_).subspan(first, count),
          all(OpKind::get),
          all(OpKind::put)};
}

Status Lot::Batch::submit(Store& store) const {
  if (all_gets) return store.get(keys, out, statuses);
  if (all_puts) return store.put(keys, values, statuses);
  return store.apply({keys, kinds, values, Rmw::add, Element::u64, out}, statuses);
}

void Lot::check(Pass& pass) {
  std::size_t const value_bytes = dataset_.value_bytes();
  if (space_ == MemorySpace::device)
    device_out_->download({out_.data(), requests_.size() * value_bytes});
  verdicts_.assign(requests_.size(), Verdict::status);
  on_all_cores(requests_.size(), [&](std::size_t i) {
    Request const& r = requests_[i];
    if (statuses_[i] != KeyStatus::ok) return;
    bool const good =
        r.action != Action::read || dataset_.holds(out_.data() + i * value_bytes, r.id, r.version);
    verdicts_[i] = good ? Verdict::good : Verdict::value;
  });
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    bool const is_get = requests_[i].action == Action::read;
    pass.gets += is_get ? 1 : 0;
    pass.hits += is_get && verdicts_[i] != Verdict::status ? 1 : 0;
    if (verdicts_[i] == Verdict::status)
      fault(pass, i,
            "has key status " + std::to_string(static_cast<int>(statuses_[i])) + ", not 0 (ok)");
    if (verdicts_[i] == Verdict::value)
      fault(pass, i, "gave a value that is not version " + std::to_string(requests_[i].version));
  }
  pass.ops += requests_.size();
}

void Lot::fault(Pass& pass, std::size_t i, std::string const& what) const {
  if (pass.faults++ > 0) return;
  constexpr char const* kActions[] = {"get", "put", "read-modify-write"};
  pass.first_fault = std::string(kActions[static_cast<std::size_t>(requests_[i].action)]) +
                     " of record " + std::to_string(requests_[i].id) + " (operation " +
                     std::to_string(pass.ops + i) + " of the pass) " + what;
}

}  // namespace perdure::bench
