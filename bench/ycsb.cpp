#include "ycsb.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>

#include "common.hpp"

namespace perdure::bench {
namespace {

/// Shares of 1; what is left over are reads, of workload e scans.
struct Mix {
  double updates = 0;
  double inserts = 0;
  double read_modify_writes = 0;
};

Mix mix_of(Workload workload) {
  switch (workload) {
    case Workload::load: return {.inserts = 1};
    case Workload::a: return {.updates = 0.5};
    case Workload::b: return {.updates = 0.05};
    case Workload::c: return {};
    case Workload::d:
    case Workload::e: return {.inserts = 0.05};
    case Workload::f: return {.read_modify_writes = 0.5};
  }
  return {};
}

constexpr std::size_t kAhead = 32;  // requests
constexpr std::array<std::string_view, 7> kNames{"load", "a", "b", "c", "d", "e", "f"};

double unit_of(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

std::uint64_t below_of(std::uint64_t bits, std::uint64_t n) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((Wide{bits} * n) >> 64);
}

}  // namespace

Workload workload_named(std::string_view name) {
  auto const at = std::find(kNames.begin(), kNames.end(), name);
  if (at == kNames.end()) {
    throw std::invalid_argument("workload '" + std::string(name) +
                                "': choose load, a, b, c, d, e or f");
  }
  return static_cast<Workload>(at - kNames.begin());
}

std::string_view name(Workload workload) { return kNames[static_cast<std::size_t>(workload)]; }

double unit(Random& random) { return unit_of(random()); }

std::uint64_t below(Random& random, std::uint64_t n) { return below_of(random(), n); }

Zipf::Zipf(std::uint64_t n, double theta) : theta_(theta) {
  if (!(theta >= 0 && theta < 1))
    throw std::invalid_argument("theta must be at least 0 and less than 1");
  if (n == 0) throw std::invalid_argument("a Zipfian choice needs at least one record");
  grow(n);
}

void Zipf::grow(std::uint64_t n) {
  if (n <= n_) return;
  if (theta_ == 0) zeta_ = static_cast<double>(n);  // a sum of ones
  for (std::uint64_t i = n_ + 1; theta_ != 0 && i <= n; ++i)
    zeta_ += std::pow(static_cast<double>(i), -theta_);
  n_ = n;
  derive();
}

void Zipf::derive() {
  auto const n = static_cast<double>(n_);
  half_ = std::pow(0.5, theta_);
  double const zeta2 = 1 + half_;
  alpha_ = 1 / (1 - theta_);
  eta_ = n_ <= 2 ? 0 : (1 - std::pow(2 / n, 1 - theta_)) / (1 - zeta2 / zeta_);
}

std::uint64_t Zipf::rank_of(std::uint64_t bits) const {
  if (theta_ == 0) return below_of(bits, n_);
  double const u = unit_of(bits);
  double const uz = u * zeta_;
  if (uz < 1 || n_ == 1) return 0;
  if (uz < 1 + half_ || n_ == 2) return 1;
  auto const rank =
      static_cast<std::uint64_t>(static_cast<double>(n_) * std::pow(eta_ * u - eta_ + 1, alpha_));
  return std::min(rank, n_ - 1);
}

double Zipf::mass_below(std::uint64_t k) const {
  if (k >= n_) return 1;
  if (theta_ == 0) return static_cast<double>(k) / static_cast<double>(n_);
  return (std::pow(static_cast<double>(k) / static_cast<double>(n_), 1 - theta_) - 1 + eta_) / eta_;
}

Scramble::Scramble(std::uint64_t n)
    : n_(n), factor_(static_cast<std::uint64_t>(static_cast<double>(n) * 0.6180339887498949)) {
  factor_ = std::max<std::uint64_t>(factor_, 1);
  while (std::gcd(factor_, n_) != 1) ++factor_;
}

std::uint64_t Scramble::operator()(std::uint64_t rank) const {
  // Neither is above n, so that the product has room in 64 bits, which are divided twice as fast.
  if (n_ < std::uint64_t{1} << 31) return (rank * factor_ + n_ / 2) % n_;
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((Wide{rank} * factor_ + n_ / 2) % n_);
}

RequestStream::RequestStream(Workload workload, std::uint64_t records, double theta,
                             std::uint64_t seed)
    : workload_(workload),
      seed_(seed),
      random_(seed),
      zipf_(workload == Workload::load ? 1 : records, theta),
      scramble_(std::max<std::uint64_t>(records, 1)),
      records_(workload == Workload::load ? 0 : records),
      versions_(records_, 0) {}

void RequestStream::fill(std::span<Request> requests) {
  Mix const mix = mix_of(workload_);
  if (mix.inserts > 0) {  // whose records others choose from
    std::generate(requests.begin(), requests.end(), [this] { return next(); });
    return;
  }
  for (Request& r : requests) {
    double const draw = unit(random_);
    r = {random_(), 0,
         draw < mix.updates              ? Action::write
         : draw < mix.read_modify_writes ? Action::read_modify_write
                                         : Action::read};
  }
  on_all_cores(requests.size(), [&](std::size_t i) {
    Request& r = requests[i];
    r.id = scramble_(zipf_.rank_of(r.id));
    r.version = versions_[r.id];
  });
  if (mix.updates == 0 && mix.read_modify_writes == 0) return;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    // One after the other, so that each write is seen by the next, but no wait for memory.
    if (i + kAhead < requests.size()) __builtin_prefetch(&versions_[requests[i + kAhead].id], 1);
    Request& r = requests[i];
    r.version = versions_[r.id] += r.action == Action::read ? 0 : 1;
  }
}

Request RequestStream::next() {
  Mix const mix = mix_of(workload_);
  double const draw = mix.inserts == 1 ? 0 : unit(random_);
  if (draw < mix.inserts) return insert();
  std::uint64_t const id = choose();
  if (scans()) {
    auto const length = static_cast<std::uint16_t>(1 + below(random_, kLongestScan));
    return {id, versions_[id], Action::scan, length};
  }
  return {id, versions_[id], Action::read};
}

Request RequestStream::insert() {
  versions_.push_back(0);
  return {records_++, 0, Action::write};
}

std::uint64_t RequestStream::choose() {
  if (workload_ != Workload::d) return scramble_(zipf_(random_));
  zipf_.grow(records_);
  return records_ - 1 - zipf_(random_);
}

}  // namespace perdure::bench
