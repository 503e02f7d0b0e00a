// perdure_rocks_fuzz: as many operations as one likes against plain RocksDB, a seed for each
// hundred thousand. Exit status: 0 alike, 1 they part (the seed, the operation and a shorter run
// are printed), 2 wrong usage.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <span>

#include "rocks/fuzz/duel.hpp"

namespace perdure::test {
namespace {

constexpr std::uint64_t kOfOneSeed = 100'000;
constexpr std::size_t kPrinted = 100;

struct Arguments {
  std::uint64_t operations = 1'000'000;
  std::uint64_t seed = 1;
  std::string open = "perdure";
  int shrinks = 300;
  std::vector<std::string> without;
};

int report(Arguments const& a, std::uint64_t seed, std::vector<std::uint64_t> operations,
           Disagreement const& found) {
  std::fprintf(stderr, "rocks fuzz: seed %llu, operation %llu, %s\n",
               static_cast<unsigned long long>(seed),
               static_cast<unsigned long long>(found.operation), found.what.c_str());
  if (a.shrinks == 0) return 1;
  Opener const ours = opener_named(a.open, seed);
  std::erase_if(operations, [&](std::uint64_t n) { return n > found.operation; });
  operations = shrink(seed, std::move(operations), ours, plain_rocksdb(), a.shrinks);
  std::fprintf(stderr, "%zu operations part too, of which the last are:\n", operations.size());
  for (std::uint64_t const n : std::span(operations).last(std::min(kPrinted, operations.size())))
    std::fprintf(stderr, "  %llu %s\n", static_cast<unsigned long long>(n),
                 operation_name(seed, n));
  if (auto const again = run(seed, operations, ours, plain_rocksdb()))
    std::fprintf(stderr, "operation %llu, %s\n", static_cast<unsigned long long>(again->operation),
                 again->what.c_str());
  return 1;
}

int fuzz(Arguments const& a) {
  auto const begin = std::chrono::steady_clock::now();
  std::uint64_t done = 0;
  for (std::uint64_t seed = a.seed; done < a.operations; ++seed) {
    std::uint64_t const count = std::min(kOfOneSeed, a.operations - done);
    auto const operations = operations_without(seed, count, a.without);
    if (auto const found = run(seed, operations, opener_named(a.open, seed), plain_rocksdb()))
      return report(a, seed, operations, *found);
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
  app.add_option("--without", a.without, "operations that are left out, by their names")
      ->delimiter(',');
  try {
    app.parse(argc, argv);
  } catch (CLI::ParseError const& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  return perdure::test::fuzz(a);
}
