#include "driver.hpp"

#include <algorithm>
#include <chrono>
#include <span>

#include "common.hpp"

namespace perdure::bench {
namespace {

constexpr std::size_t kLot = std::size_t{1} << 17;  // requests
constexpr std::size_t kLotBytes = std::size_t{64} << 20;  // of values

/// Batches whose arrays are made at once. In GPU memory they lie as they do however many there are;
/// in host memory one batch's are still in the processor's caches when it is submitted.
std::size_t batches_of_lot(Dataset const& dataset, std::size_t batch, MemorySpace space) {
  if (space == MemorySpace::host) return 1;
  std::size_t const most = std::min(kLot, kLotBytes / dataset.value_bytes());
  return std::max<std::size_t>(1, most / batch);
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
    : batch_(batch),
      scanner_(dataset, clients),
      most_(batch * batches_of_lot(dataset, batch, space)),
      lot_(dataset, most_, space) {}

Pass Driver::run(Store& store, RequestStream& stream, std::uint64_t ops) {
  // Drawn at once, by all cores; but what scans find depends on how far their stream has come.
  std::size_t const batches = stream.scans() ? 1 : std::max<std::size_t>(1, kLot / batch_);
  Pass pass;
  std::vector<Request> lot;
  while (pass.ops < ops) {
    lot.resize(std::min<std::uint64_t>(batches * batch_, ops - pass.ops));
    stream.fill(lot);
    std::size_t const most = stream.scans() ? batch_ : most_;
    for (std::size_t at = 0; at < lot.size(); at += most) {
      auto const some = std::span(lot).subspan(at, std::min(most, lot.size() - at));
      lot_.requests().assign(some.begin(), some.end());
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
  lot_.requests() = requests;
  call(store, pass);
  return pass;
}

Pass Driver::read_back(Store& store, RequestStream const& stream, std::uint64_t first,
                       std::uint64_t count) {
  Pass pass;
  while (pass.ops < count) {
    std::vector<Request>& requests = lot_.requests();
    requests.resize(std::min<std::uint64_t>(batch_, count - pass.ops));
    for (std::size_t i = 0; i < requests.size(); ++i) {
      std::uint64_t const id = first + pass.ops + i;
      requests[i] = {id, stream.version(id), Action::read};
    }
    call(store, pass);
  }
  return pass;
}

void Driver::call(Store& store, Pass& pass) {
  lot_.make();
  std::size_t const n = lot_.requests().size();
  for (std::size_t at = 0; at < n; at += batch_) {
    std::size_t const count = std::min(batch_, n - at);
    Lot::Batch const batch = lot_.batch(at, count);
    auto const begin = std::chrono::steady_clock::now();
    Status const status = batch.submit(store);
    std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
    require(status, "batch of " + std::to_string(count) + " operations");
    pass.seconds += took.count();
    pass.batch_us.push_back(took.count() * 1e6);
  }
  lot_.check(pass);
}

void Driver::call_with_scans(Store& store, RequestStream const& stream, Pass& pass) {
  std::vector<Request>& requests = lot_.requests();
  auto const scans = std::stable_partition(
      requests.begin(), requests.end(), [](Request const& r) { return r.action != Action::scan; });
  scans_.assign(scans, requests.end());
  requests.erase(scans, requests.end());
  double us = 0;
  if (!requests.empty()) {
    call(store, pass);
    us = pass.batch_us.back();
    pass.batch_us.pop_back();
  }
  auto const range = [&store](RangeQuery const& query) { return store.range(query); };
  pass.batch_us.push_back(us + scanner_.run(range, stream, scans_, pass) * 1e6);
  pass.ops += scans_.size();
}

}  // namespace perdure::bench
