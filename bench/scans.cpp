#include "scans.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <thread>

#include "common.hpp"

namespace perdure::bench {
namespace {

/// Of a page of Store::range. Answers that wait to be checked take no more, either, but for one a
/// client.
constexpr std::uint64_t kPageBytes = std::uint64_t{32} << 20;

std::uint64_t longest_scan_bytes(Dataset const& dataset) {
  return kLongestScan * (std::uint64_t{dataset.key_bytes()} + dataset.value_bytes());
}

/// One of the elements of `all`.
std::span<std::byte const> element(VariableValues const& all, std::size_t i) {
  auto const begin = static_cast<std::size_t>(all.offsets[i]);
  return std::span(all.data).subspan(begin, static_cast<std::size_t>(all.offsets[i + 1]) - begin);
}

}  // namespace

void check_scan_bytes(Dataset const& dataset) {
  if (longest_scan_bytes(dataset) <= kPageBytes) return;
  throw Failure("--value-bytes " + std::to_string(dataset.value_bytes()) +
                ": a scan of workload e has up to 100 records, and 32 MiB at most; give no more "
                "than " +
                std::to_string(kPageBytes / kLongestScan - dataset.key_bytes()));
}

KeyOrder::Entry KeyOrder::entry(std::uint64_t id) const {
  static_assert(std::endian::native == std::endian::little);
  std::byte key[128];  // the longest key
  dataset_.write_key(id, key);
  std::uint64_t first = 0;
  std::memcpy(&first, key, sizeof first);
  return {__builtin_bswap64(first), id};
}

void KeyOrder::grow(std::uint64_t records) {
  std::size_t const before = entries_.size();
  if (records <= before) return;
  entries_.resize(records);
  on_all_cores(records - before, [&](std::size_t i) { entries_[before + i] = entry(before + i); });
  auto const grown = entries_.begin() + static_cast<std::ptrdiff_t>(before);
  std::sort(grown, entries_.end());
  std::inplace_merge(entries_.begin(), grown, entries_.end());
}

std::span<KeyOrder::Entry const> KeyOrder::from(std::uint64_t id, std::size_t most) const {
  auto const first = std::lower_bound(entries_.begin(), entries_.end(), entry(id));
  auto const at = static_cast<std::size_t>(first - entries_.begin());
  return std::span(entries_).subspan(at, std::min(most, entries_.size() - at));
}

Scanner::Scanner(Dataset const& dataset, std::uint32_t clients)
    : dataset_(dataset),
      clients_(clients > 0 ? clients : std::max(1u, std::thread::hardware_concurrency())),
      chunk_(std::max<std::size_t>(clients_, kPageBytes / longest_scan_bytes(dataset))),
      order_(dataset) {}

double Scanner::run(RangeCall const& range, RequestStream const& stream,
                    std::span<Request const> scans, Pass& pass) {
  order_.grow(stream.records());
  double seconds = 0;
  for (std::size_t first = 0; first < scans.size(); first += chunk_) {
    auto const chunk = scans.subspan(first, std::min(chunk_, scans.size() - first));
    seconds += call(range, chunk);
    check(stream, chunk, pass);
  }
  pass.seconds += seconds;
  return seconds;
}

double Scanner::call(RangeCall const& range, std::span<Request const> scans) {
  queries_.assign(scans.size(), {});
  pages_.assign(scans.size(), {});
  for (std::size_t i = 0; i < scans.size(); ++i) {
    queries_[i].start.emplace(dataset_.key_bytes());
    dataset_.write_key(scans[i].id, queries_[i].start->data());
    queries_[i].limit = scans[i].length;
  }
  std::vector<Status> failures(clients_);
  auto const client = [&](std::size_t c) {
    for (std::size_t i = scans.size() * c / clients_; i < scans.size() * (c + 1) / clients_; ++i) {
      auto page = range(queries_[i]);
      if (!page) failures[c] = page.status();
      if (!page) return;
      pages_[i] = std::move(*page);
    }
  };
  auto const begin = std::chrono::steady_clock::now();
  {
    std::vector<std::jthread> others;
    for (std::size_t c = 1; c < clients_; ++c) others.emplace_back(client, c);
    client(0);
  }
  std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
  for (Status const& each : failures) require(each, "scan");
  return took.count();
}

void Scanner::check(RequestStream const& stream, std::span<Request const> scans, Pass& pass) const {
  std::vector<std::string> faults(scans.size());
  on_all_cores(
      scans.size(), [&](std::size_t i) { faults[i] = fault_of(pages_[i], scans[i], stream); }, 2);
  for (std::size_t i = 0; i < scans.size(); ++i) {
    ++pass.scans;
    pass.scanned += pages_[i].keys.offsets.size() - 1;
    if (faults[i].empty() || pass.faults++ > 0) continue;
    pass.first_fault = "scan of " + std::to_string(scans[i].length) + " records from record " +
                       std::to_string(scans[i].id) + " on " + faults[i];
  }
}

/// Empty: it is right.
std::string Scanner::fault_of(RangePage const& page, Request const& scan,
                              RequestStream const& stream) const {
  auto const expected = order_.from(scan.id, scan.length);
  std::size_t const seen = page.keys.offsets.size() - 1;
  std::vector<std::byte> key(dataset_.key_bytes());
  for (std::size_t i = 0; i < std::min(seen, expected.size()); ++i) {
    std::uint64_t const id = expected[i].id;
    dataset_.write_key(id, key.data());
    auto const which = "gave as number " + std::to_string(i) + " ";
    if (!std::ranges::equal(element(page.keys, i), key))
      return which + "another key than that of record " + std::to_string(id);
    auto const value = element(page.values, i);
    std::uint32_t const version = stream.version(id);
    if (value.size() != dataset_.value_bytes() || !dataset_.holds(value.data(), id, version))
      return which + "a value of record " + std::to_string(id) + " that is not version " +
             std::to_string(version);
  }
  if (seen == expected.size()) return {};
  return "gave " + std::to_string(seen) + ", not " + std::to_string(expected.size());
}

}  // namespace perdure::bench
