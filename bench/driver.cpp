#include "driver.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>

#include "common.hpp"

namespace perdure::bench {
namespace {

constexpr std::size_t kLot = std::size_t{1} << 17;  // requests

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

void Pass::add(Pass const& other) {
  ops += other.ops;
  gets += other.gets;
  hits += other.hits;
  scans += other.scans;
  scanned += other.scanned;
  seconds += other.seconds;
  batch_us.insert(batch_us.end(), other.batch_us.begin(), other.batch_us.end());
  if (faults == 0) first_fault = other.first_fault;
  faults += other.faults;
}

Driver::Driver(Dataset const& dataset, std::size_t batch, MemorySpace space, std::uint32_t clients)
    : dataset_(dataset), batch_(batch), space_(space), scanner_(dataset, clients) {
  std::size_t const key_bytes = batch * dataset.key_bytes();
  std::size_t const value_bytes = batch * dataset.value_bytes();
  keys_.resize(key_bytes);
  values_.resize(value_bytes);
  out_.resize(value_bytes);
  if (space == MemorySpace::host) return;
  device_keys_ = std::make_unique<DeviceArray>(key_bytes);
  device_values_ = std::make_unique<DeviceArray>(value_bytes);
  device_out_ = std::make_unique<DeviceArray>(value_bytes);
}

Pass Driver::run(Store& store, RequestStream& stream, std::uint64_t ops) {
  // Drawn at once, by all cores; but what scans find depends on how far their stream has come.
  std::size_t const batches = stream.scans() ? 1 : std::max<std::size_t>(1, kLot / batch_);
  Pass pass;
  std::vector<Request> lot;
  while (pass.ops < ops) {
    lot.resize(std::min<std::uint64_t>(batches * batch_, ops - pass.ops));
    stream.fill(lot);
    for (std::size_t at = 0; at < lot.size(); at += batch_) {
      auto const batch = std::span(lot).subspan(at, std::min(batch_, lot.size() - at));
      requests_.assign(batch.begin(), batch.end());
      stream.scans() ? call_with_scans(store, stream, pass) : call(store, pass);
    }
  }
  return pass;
}

Pass Driver::run_batch(Store& store, std::vector<Request> const& requests) {
  if (requests.size() > batch_)
    throw Failure("a batch of more requests than the driver has room for");
  if (std::ranges::any_of(requests, [](Request const& r) { return r.action == Action::scan; }))
    throw Failure("a scan is no operation of a batch: run the stream that it is of");
  Pass pass;
  requests_ = requests;
  call(store, pass);
  return pass;
}

Pass Driver::read_back(Store& store, RequestStream const& stream, std::uint64_t first,
                       std::uint64_t count) {
  Pass pass;
  while (pass.ops < count) {
    requests_.resize(std::min<std::uint64_t>(batch_, count - pass.ops));
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      std::uint64_t const id = first + pass.ops + i;
      requests_[i] = {id, stream.version(id), Action::read};
    }
    call(store, pass);
  }
  return pass;
}

void Driver::make_arrays() {
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
  });
  auto const all = [&](OpKind kind) {
    return std::count(kinds_.begin(), kinds_.end(), kind) == std::ssize(kinds_);
  };
  all_gets_ = all(OpKind::get);
  all_puts_ = all(OpKind::put);
  std::memset(out_.data(), 0,
              n * value_bytes);  // so that nothing left by an earlier batch can pass
  if (space_ == MemorySpace::host) return;
  device_keys_->upload({keys_.data(), n * key_bytes});
  if (!all_gets_) device_values_->upload({values_.data(), n * value_bytes});
  device_out_->upload({out_.data(), n * value_bytes});
}

Status Driver::submit(Store& store) {
  std::size_t const n = requests_.size();
  bool const host = space_ == MemorySpace::host;
  Column const keys{host ? keys_.data() : device_keys_->data(), nullptr, dataset_.key_bytes(), n,
                    space_};
  Column const values{host ? values_.data() : device_values_->data(), nullptr,
                      dataset_.value_bytes(), n, space_};
  MutableColumn const out{host ? out_.data() : device_out_->data(), dataset_.value_bytes(), n,
                          space_};
  if (all_gets_) return store.get(keys, out, statuses_);
  if (all_puts_) return store.put(keys, values, statuses_);
  return store.apply({keys, kinds_, values, Rmw::add, Element::u64, out}, statuses_);
}

void Driver::call(Store& store, Pass& pass) {
  make_arrays();
  auto const begin = std::chrono::steady_clock::now();
  Status const status = submit(store);
  std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
  require(status, "batch of " + std::to_string(requests_.size()) + " operations");
  pass.seconds += took.count();
  pass.batch_us.push_back(took.count() * 1e6);
  check(pass);
  pass.ops += requests_.size();
}

void Driver::call_with_scans(Store& store, RequestStream const& stream, Pass& pass) {
  auto const scans =
      std::stable_partition(requests_.begin(), requests_.end(),
                            [](Request const& r) { return r.action != Action::scan; });
  scans_.assign(scans, requests_.end());
  requests_.erase(scans, requests_.end());
  double us = 0;
  if (!requests_.empty()) {
    call(store, pass);
    us = pass.batch_us.back();
    pass.batch_us.pop_back();
  }
  auto const range = [&store](RangeQuery const& query) { return store.range(query); };
  pass.batch_us.push_back(us + scanner_.run(range, stream, scans_, pass) * 1e6);
  pass.ops += scans_.size();
}

void Driver::check(Pass& pass) {
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
}

void Driver::fault(Pass& pass, std::size_t i, std::string const& what) const {
  if (pass.faults++ > 0) return;
  constexpr char const* kActions[] = {"get", "put", "read-modify-write"};
  pass.first_fault = std::string(kActions[static_cast<std::size_t>(requests_[i].action)]) +
                     " of record " + std::to_string(requests_[i].id) + " (operation " +
                     std::to_string(pass.ops + i) + " of the pass) " + what;
}

}  // namespace perdure::bench
