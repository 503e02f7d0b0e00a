// `perdure-bench prestores`: listings 2, 3 and 4 of X. Wu's thesis on this machine's memory (times)
// and over the models of the thesis's machines (times and exact counts), with and without
// pre-stores.
#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "commands.hpp"
#include "common.hpp"
#include "perdure/prestore.h"
#include "prestore_listings.hpp"
#include "prestore_loops.hpp"

namespace perdure::bench {
namespace {

struct PrestoreOptions {
  std::vector<std::uint32_t> elements{64, 128, 256, 512, 1024, 2048, 4096};
  std::vector<std::uint32_t> threads{1, 2, 5};
  std::vector<std::uint32_t> reads{0, 10, 25, 50, 75, 100, 150, 200, 250, 300, 400, 600, 1000};
  std::vector<std::uint32_t> listings{2, 3, 4};
  std::vector<std::string> where{"dram", "emulated"};
  std::string evicts = "rotating";
  std::string sets = "slices";
  std::uint64_t cache_bytes = 28835840 / 8;  // with the array in proportion
  std::uint64_t array_bytes = std::uint64_t{128} << 20;
  bool in_order = false;
  std::uint32_t repeats = 3;
  std::string json;
};

struct Variant {
  char const* name;
  Prestored here;
  cpu_baselines::Prestored modelled;
};
constexpr std::array kElementVariants{
    Variant{"plain", Prestored::plain, cpu_baselines::Prestored::plain},
    Variant{"clean", Prestored::clean, cpu_baselines::Prestored::clean},
    Variant{"skip", Prestored::skip, cpu_baselines::Prestored::skip}};
constexpr std::array kFenceVariants{
    Variant{"plain", Prestored::plain, cpu_baselines::Prestored::plain},
    Variant{"demote", Prestored::demote, cpu_baselines::Prestored::demote},
    Variant{"clean", Prestored::clean, cpu_baselines::Prestored::clean}};

cpu_baselines::Evicts evicts_named(std::string const& text) {
  if (text == "lru") return cpu_baselines::Evicts::lru;
  return text == "random" ? cpu_baselines::Evicts::random : cpu_baselines::Evicts::rotating;
}

class Prestores {
 public:
  explicit Prestores(PrestoreOptions const& o) : o_(o) {
    if (has(o.where, "dram")) array_.emplace(o.array_bytes);
  }

  int run() {
    for (std::uint32_t const listing : o_.listings) {
      say("listing %u\n", listing);
      if (listing == 2) listing2();
      if (listing == 3) listing3();
      if (listing == 4) listing4();
    }
    if (faults_ > 0)
      std::printf("FAULT: %llu of %llu answers were wrong\n",
                  static_cast<unsigned long long>(faults_),
                  static_cast<unsigned long long>(checked_));
    write_json(o_.json, {{"command", "prestores"},
                         {"version", version()},
                         {"demote_means", prestore_means(PrestoreOp::demote)},
                         {"clean_means", prestore_means(PrestoreOp::clean)},
                         {"skip_means", skipping_means()},
                         {"evicts", o_.evicts},
                         {"sets", o_.sets},
                         {"in_order", o_.in_order},
                         {"cache_bytes", o_.cache_bytes},
                         {"array_bytes", o_.array_bytes},
                         {"repeats", o_.repeats},
                         {"rows", rows_},
                         {"checked", checked_},
                         {"faults", faults_}});
    return faults_ == 0 ? kGood : kFaults;
  }

 private:
  template <class T>
  static bool has(std::vector<T> const& all, T const& one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  }
  static bool has(std::vector<std::string> const& all, char const* one) {
    return has(all, std::string(one));
  }
  template <class... Args>
  void say(char const* format, Args... args) const {
    if (o_.json != "-") std::printf(format, args...);
  }

  /// The least of the repeats, in which the variants take turns: what else ran only adds time.
  template <std::size_t kVariants, class Loop>
  std::array<double, kVariants> least(std::array<Variant, kVariants> const& variants, Loop loop) {
    std::array<double, kVariants> ns{};
    for (std::uint32_t repeat = 0; repeat < o_.repeats; ++repeat) {
      for (std::size_t v = 0; v < kVariants; ++v) {
        Timed const timed = loop(variants[v]);
        checked_ += timed.checked;
        faults_ += timed.faults;
        ns[v] = repeat == 0 ? timed.ns : std::min(ns[v], timed.ns);
      }
    }
    return ns;
  }

  void add(Json row, double ns, double plain_ns) {
    row["ns"] = ns;
    row["gain"] = plain_ns / ns;
    say("  %s\n", row.dump().c_str());
    rows_.push_back(std::move(row));
  }

  void listing2() {
    for (bool const read_again : {true, false}) {
      for (std::uint32_t const bytes : o_.elements) {
        for (std::uint32_t const threads : o_.threads) {
          if (has(o_.where, "dram")) elements_here(bytes, threads, read_again);
          if (!has(o_.where, "emulated")) continue;
          for (bool const small_pages : {true, false})
            elements_modelled(bytes, threads, read_again, small_pages);
        }
      }
    }
  }

  static Json element_row(char const* where, std::uint32_t bytes, std::uint32_t threads,
                          bool read_again, char const* variant) {
    return {{"listing", 2},       {"where", where},           {"element_bytes", bytes},
            {"threads", threads}, {"read_again", read_again}, {"variant", variant}};
  }

  void elements_here(std::uint32_t bytes, std::uint32_t threads, bool read_again) {
    auto const ns = least(kElementVariants, [&](Variant const& variant) {
      ElementLoop const loop{bytes, threads, variant.here, read_again, o_.in_order, o_.array_bytes};
      return timed_elements(*array_, loop);
    });
    for (std::size_t v = 0; v < ns.size(); ++v)
      add(element_row("dram", bytes, threads, read_again, kElementVariants[v].name), ns[v], ns[0]);
  }

  void elements_modelled(std::uint32_t bytes, std::uint32_t threads, bool read_again,
                         bool small_pages) {
    cpu_baselines::ElementWrites how;
    how.array_bytes = how.array_bytes / (how.cache_bytes / o_.cache_bytes);
    how.cache_bytes = o_.cache_bytes;
    how.element_bytes = bytes;
    how.threads = threads;
    how.read_again = read_again;
    how.in_order = o_.in_order;
    how.small_pages = small_pages;
    how.evicts = evicts_named(o_.evicts);
    how.sets = o_.sets == "slices" ? cpu_baselines::Sets::slices : cpu_baselines::Sets::address;
    double plain = 0;
    for (Variant const& variant : kElementVariants) {
      how.prestored = variant.modelled;
      cpu_baselines::ElementsFound const found = emulated_elements(how);
      if (variant.here == Prestored::plain) plain = found.ns_an_element;
      Json row = element_row("emulated", bytes, threads, read_again, variant.name);
      row["page_bytes"] = small_pages ? 4096 : 2 << 20;
      row["amplification"] = found.amplification;
      row["lines_stored"] = found.lines_stored;
      row["lines_out"] = found.lines_out;
      row["internal_lines"] = found.internal_lines;
      add(row, found.ns_an_element, plain);
    }
  }

  void listing3() {
    for (std::uint32_t const reads : o_.reads) {
      if (has(o_.where, "dram")) {
        auto const ns = least(kFenceVariants, [&](Variant const& variant) {
          return timed_fences(*array_, variant.here, reads);
        });
        for (std::size_t v = 0; v < ns.size(); ++v)
          add({{"listing", 3},
               {"where", "dram"},
               {"reads", reads},
               {"variant", kFenceVariants[v].name}},
              ns[v], ns[0]);
      }
      if (!has(o_.where, "emulated")) continue;
      for (bool const slow : {false, true}) fences_modelled(slow, reads);
    }
  }

  void fences_modelled(bool slow, std::uint32_t reads) {
    constexpr double kNsOfCycle = 0.5;
    double plain = 0;
    for (Variant const& variant : kFenceVariants) {
      cpu_baselines::FenceFound const found = emulated_fences(slow, variant.modelled, reads);
      if (variant.here == Prestored::plain) plain = found.cycles;
      add({{"listing", 3},
           {"where", slow ? "emulated slow" : "emulated fast"},
           {"reads", reads},
           {"variant", variant.name},
           {"rounds", found.rounds},
           {"lines_acquired", found.lines_acquired},
           {"lines_waited_for", found.lines_waited_for},
           {"cycles", found.cycles}},
          found.cycles * kNsOfCycle, plain * kNsOfCycle);
    }
  }

  void listing4() {
    if (has(o_.where, "dram")) {
      auto const ns = least(kElementVariants, [&](Variant const& variant) {
        return timed_rewrites(*array_, variant.here);
      });
      for (std::size_t v = 0; v < ns.size(); ++v)
        add({{"listing", 4}, {"where", "dram"}, {"variant", kElementVariants[v].name}}, ns[v],
            ns[0]);
    }
    if (!has(o_.where, "emulated")) return;
    double const plain = cpu_baselines::emulated_rewrites(cpu_baselines::Prestored::plain);
    for (Variant const& variant : kElementVariants)
      add({{"listing", 4}, {"where", "emulated"}, {"variant", variant.name}},
          cpu_baselines::emulated_rewrites(variant.modelled), plain);
  }

  PrestoreOptions const& o_;
  std::optional<LoopArray> array_;
  Json rows_ = Json::array();
  std::uint64_t checked_ = 0, faults_ = 0;
};

}  // namespace

Command add_prestores(CommandLine& program) {
  auto o = std::make_shared<PrestoreOptions>();
  CommandLine& app = program.add_subcommand(
      "prestores", "What cleaning, demoting and skipping bring, here and on emulated media");
  app.add_option("--listing", o->listings, "2: writes of elements; 3: before fences; 4: misuse")
      .separated_by(',')
      .shows_default()
      .check(range(2u, 4u));
  app.add_option("--where", o->where,
                 "dram: this machine's memory, timed; emulated: models, exact and deterministic")
      .separated_by(',')
      .shows_default()
      .check(one_of({"dram", "emulated"}));
  app.add_option("--elements", o->elements, "Bytes of an element")
      .separated_by(',')
      .shows_default()
      .check(one_of({64u, 128u, 256u, 512u, 1024u, 2048u, 4096u}));
  app.add_option("--threads", o->threads, "Numbers of threads, with commas")
      .separated_by(',')
      .shows_default()
      .check(range(1u, 200u));
  app.add_option("--reads", o->reads, "Reads before the fence, with commas")
      .separated_by(',')
      .shows_default()
      .check(range(0u, 100000u));
  app.add_option("--evicts", o->evicts, "How the modelled cache replaces")
      .shows_default()
      .check(one_of({"lru", "rotating", "random"}));
  app.add_option(
         "--sets", o->sets,
         "Which set a line is in: by the slices of a Xeon Gold 6230, or by its address alone")
      .shows_default()
      .check(one_of({"slices", "address"}));
  app.add_option("--emulated-cache", o->cache_bytes,
                 "Bytes of the modelled cache (the machine's, or that over a power of two);"
                 " its array shrinks alike")
      .shows_default()
      .check(one_of({28835840u, 14417920u, 7208960u, 3604480u, 1802240u, 901120u, 450560u}));
  app.add_flag("--in-order", o->in_order,
               "Listing 2 writes elements one after the other, as a log is written");
  app.add_option("--array", o->array_bytes, "Bytes of the array in memory")
      .shows_default()
      .check(positive());
  app.add_option("--repeats", o->repeats).shows_default().check(positive());
  app.add_option("--json", o->json, "Write the results to this file; - = standard output")
      .check(new_file());
  return {&app, [o] { return Prestores(*o).run(); }};
}

}  // namespace perdure::bench
