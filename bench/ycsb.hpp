// The YCSB core workloads, generated here: which operation comes next, on which record, and what it
// must find. Nothing is read from a file, and nothing is timed.
//
//   load  inserts records 0, 1, 2, ... a 50 % reads, 50 % updates
//   b     95 % reads, 5 % updates c reads alone
//   d     95 % reads of the latest records, 5 % inserts
//   e     95 % scans of 1 to 100 records from a key on, 5 % inserts
//   f     50 % reads, 50 % read-modify-writes
//
// Workload e is for an index that keeps keys in order. Its scans begin at records that were loaded,
// and meet inserted ones on their way.
//
// Invariant: the same workload, sizes, theta and seed give the same requests on every machine (the
// generators draw bits from std::mt19937_64 and turn them into numbers themselves, as the
// standard's distributions differ from library to library).
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string_view>
#include <vector>

namespace perdure::bench {

enum class Workload : std::uint8_t { load, a, b, c, d, e, f };

/// Throws std::invalid_argument with the way out for a name that is no workload of ours.
[[nodiscard]] Workload workload_named(std::string_view name);
[[nodiscard]] std::string_view name(Workload workload);

using Random = std::mt19937_64;

/// In [0, 1), of 53 bits.
[[nodiscard]] double unit(Random& random);
/// In [0, n), n > 0. The bias is below n / 2^64.
[[nodiscard]] std::uint64_t below(Random& random, std::uint64_t n);

/// Ranks in [0, n): rank k with a probability in proportion to 1 / (k+1)^theta, by the method of
/// Gray et al., "Quickly generating billion-record synthetic databases" (SIGMOD 1994), as YCSB
/// draws them: exact for the two highest ranks, a close continuous form for the rest. theta 0 is
/// uniform.
class Zipf {
 public:
  Zipf(std::uint64_t n, double theta);

  [[nodiscard]] std::uint64_t operator()(Random& random) const { return rank_of(random()); }
  /// The rank that one draw of the generator gives.
  [[nodiscard]] std::uint64_t rank_of(std::uint64_t bits) const;
  /// More ranks; costs one term a new rank.
  void grow(std::uint64_t n);
  /// The probability that a rank is below k, as drawn here (the two highest apart: k >= 2).
  [[nodiscard]] double mass_below(std::uint64_t k) const;
  [[nodiscard]] double zeta() const { return zeta_; }

 private:
  void derive();

  double theta_;
  std::uint64_t n_ = 0;
  double zeta_ = 0;  // sum of 1 / i^theta for i in 1..n
  double half_ = 0;  // 0.5^theta
  double alpha_ = 0;
  double eta_ = 0;
};

/// Spreads ranks over [0, n) one to one, so that hot records do not lie side by side.
class Scramble {
 public:
  explicit Scramble(std::uint64_t n);
  [[nodiscard]] std::uint64_t operator()(std::uint64_t rank) const;

 private:
  std::uint64_t n_;
  std::uint64_t factor_;  // coprime with n, near n / golden ratio
};

enum class Action : std::uint8_t { read, write, read_modify_write, scan };

inline constexpr std::uint16_t kLongestScan = 100;  // records

struct Request {
  std::uint64_t id = 0;
  std::uint32_t version = 0;  // what a read must return; what a write leaves behind
  Action action = Action::read;
  std::uint16_t length = 0;  // of a scan, whose first record is `id`
};

/// The requests of one workload against a store that holds records 0 .. records-1 at version 0
/// (none for `load`). Requests on one record take effect in the order given; the stream remembers
/// the version of each, so it must see every write that the store does.
class RequestStream {
 public:
  RequestStream(Workload workload, std::uint64_t records, double theta, std::uint64_t seed);

  /// Draws the same records again, whose versions have gone on. Not of a workload that inserts: it
  /// has more records to draw from by then.
  void restart() { random_ = Random(seed_); }

  /// On all cores where they are many.
  void fill(std::span<Request> requests);

  [[nodiscard]] bool scans() const { return workload_ == Workload::e; }
  /// The records there are once everything given out has been done, and the version of each.
  [[nodiscard]] std::uint64_t records() const { return records_; }
  [[nodiscard]] std::uint32_t version(std::uint64_t id) const { return versions_[id]; }

 private:
  Request next();
  Request insert();
  [[nodiscard]] std::uint64_t choose();

  Workload workload_;
  std::uint64_t seed_;
  Random random_;
  Zipf zipf_;
  Scramble scramble_;
  std::uint64_t records_;
  std::vector<std::uint32_t> versions_;
};

}  // namespace perdure::bench
