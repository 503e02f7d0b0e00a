#include "untimed.hpp"

#include <algorithm>
#include <future>
#include <utility>

#include "common.hpp"

namespace perdure::bench {

Untimed::Untimed(Dataset const& dataset, std::size_t batch)
    : batch_(batch),
      lots_{Lot(dataset, batch, MemorySpace::host), Lot(dataset, batch, MemorySpace::host)} {}

Pass Untimed::run(Store& store, RequestStream& stream, std::uint64_t ops) {
  if (stream.scans()) throw Failure("a scan is no operation of a batch: have a driver run them");
  return go(store, [&, left = ops](std::vector<Request>& requests) mutable {
    requests.resize(std::min<std::uint64_t>(batch_, left));
    left -= requests.size();
    stream.fill(requests);
  });
}

Pass Untimed::read_back(Store& store, RequestStream const& stream) {
  return go(store, [&, id = std::uint64_t{0}](std::vector<Request>& requests) mutable {
    requests.resize(std::min<std::uint64_t>(batch_, stream.records() - id));
    for (Request& r : requests) {
      r = {id, stream.version(id), Action::read};
      ++id;
    }
  });
}

Pass Untimed::go(Store& store, Draw const& draw) {
  Pass pass;
  Lot* now = &lots_[0];  // made, and not submitted yet
  Lot* other = &lots_[1];  // submitted, and not checked yet
  other->requests().clear();
  draw(now->requests());
  now->make();
  while (!now->requests().empty()) {
    auto beside = std::async(std::launch::async, [&pass, &draw, other] {
      other->check(pass);
      draw(other->requests());
      other->make();
    });
    std::size_t const n = now->requests().size();
    require(now->batch(0, n).submit(store), "batch of " + std::to_string(n) + " operations");
    beside.get();
    std::swap(now, other);
  }
  other->check(pass);
  return pass;
}

}  // namespace perdure::bench
