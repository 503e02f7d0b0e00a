// perdure_rocks_fuzz: as many operations as one likes against plain RocksDB, a seed for each
// hundred thousand. Exit status: 0 alike, 1 they part (the seed, the operation and a shorter run
// are printed), 2 wrong usage.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>

#include "rocks/fuzz/duel.hpp"

namespace perdure::test {
namespace {

constexpr std::uint64_t kOfOneSeed = 100'000;

struct Arguments {
  std::uint64_t operations = 1'000'000;
  std::uint64_t seed = 1;
  std::string open = "perdure";
  int shrinks = 60;
};

int report(Arguments const& a, std::uint64_t seed, Disagreement const& found) {
  std::fprintf(stderr, "rocks fuzz: seed %llu, operation %llu, %s\n",
               static_cast<unsigned long long>(seed),
               static_cast<unsigned long long>(found.operation), found.what.c_str());
  if (a.shrinks == 0) return 1;
  auto const fewer =
      shrink(seed, found.operation, opener_named(a.open, seed), plain_rocksdb(), a.shrinks);
  std::fprintf(stderr, "these part too:\n");
  for (std::uint64_t const n : fewer)
    std::fprintf(stderr, "  %llu %s\n", static_cast<unsigned long long>(n),
                 operation_name(seed, n));
  if (auto const again = run(seed, fewer, opener_named(a.open, seed), plain_rocksdb()))
    std::fprintf(stderr, "operation %llu, %s\n", static_cast<unsigned long long>(again->operation),
                 again->what.c_str());
  return 1;
}

int fuzz(Arguments const& a) {
  auto const begin = std::chrono::steady_clock::now();
  std::uint64_t done = 0;
  for (std::uint64_t seed = a.seed; done < a.operations; ++seed) {
    std::uint64_t const count = std::min(kOfOneSeed, a.operations - done);
    if (auto const found = run(seed, count, opener_named(a.open, seed), plain_rocksdb()))
      return report(a, seed, *found);
    done += count;
  }
  std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
  std::printf("rocks fuzz: %llu operations from seed %llu, all alike, %.1f s\n",
              static_cast<unsigned long long>(done), static_cast<unsigned long long>(a.seed),
              took.count());
  return 0;
}

}  // namespace
}  // namespace perdure::test

int main(int argc, char** argv) {
  perdure::test::Arguments a;
  CLI::App app("Compares perdure::rocks with plain RocksDB, operation by operation");
  app.add_option("--operations", a.operations)->capture_default_str();
  app.add_option("--seed", a.seed)->capture_default_str();
  app.add_option("--open", a.open, "what is compared with plain RocksDB")
      ->check(CLI::IsMember({"plain", "perdure"}))
      ->capture_default_str();
  app.add_option("--shrinks", a.shrinks, "runs that look for fewer operations that part too")
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (CLI::ParseError const& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  return perdure::test::fuzz(a);
}
