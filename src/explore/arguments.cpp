#include "explore/arguments.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <utility>

namespace perdure::explore {
namespace {

constexpr std::pair<char const*, System> kSystems[] = {{"store", System::store},
                                                       {"tables", System::tables},
                                                       {"gpm-log", System::gpm_log},
                                                       {"gpm-conv", System::gpm_conventional},
                                                       {"gpm-checkpoint", System::gpm_checkpoint},
                                                       {"dash-eh", System::dash_eh},
                                                       {"dash-lh", System::dash_lh},
                                                       {"dash-records", System::dash_records},
                                                       {"btree", System::btree},
                                                       {"btree-store", System::btree_store},
                                                       {"btree-log", System::btree_log},
                                                       {"btree-index", System::btree_index},
                                                       {"btree-index-log", System::btree_index_log},
                                                       {"btree-full", System::btree_full},
                                                       {"gwal", System::gwal}};

constexpr std::uint32_t kBatchesOverALog = 9;  // so that checkpoints come about
constexpr std::uint32_t kOperationsOverALog = 48;  // so that a batch takes more than a sector
constexpr std::uint64_t kScenariosInDram = 400;
constexpr std::uint64_t kCutsOfAScenario = 400;
constexpr std::uint32_t kCutsOfARequest = 16;

void add_systems(CLI::App& program, Arguments& a) {
  program
      .add_option(
          "--index", a.index,
          "store; or tables, named tables of one pool; or of libGPM gpm-log (hierarchical "
          "coalesced), gpm-conv (conventional), "
          "gpm-checkpoint; or of Dash dash-eh (extendible), dash-lh (linear), dash-records "
          "(extendible, over records); or btree, in DRAM, which no crash leaves; or btree-store, "
          "the store over it, or btree-log, whose values are in a log; or btree-index and "
          "btree-index-log, the same with durable leaves, or btree-full, all of it durable; "
          "or gwal, the log of the LSM store: these take no layout, and none of the store's flags")
      ->check(CLI::IsMember({"store", "tables", "gpm-log", "gpm-conv", "gpm-checkpoint", "dash-eh",
                             "dash-lh", "dash-records", "btree", "btree-store", "btree-log",
                             "btree-index", "btree-index-log", "btree-full", "gwal"}));
  program.add_option("--layout", a.layout, "word, in_place or log")
      ->check(CLI::IsMember({"word", "in_place", "log"}));
  program
      .add_option("--model", a.model,
                  "fence or commit: what orders what persists; of Dash, btree-store and "
                  "btree-index fence or flush")
      ->check(CLI::IsMember({"fence", "commit", "flush"}));
}

void add_bounds(CLI::App& program, Bounds& bounds) {
  program.add_option("--warps", bounds.warps, "warps of a launch")->check(CLI::Range(1, 16));
  program.add_option("--operations", bounds.operations, "operations of a batch, at most")
      ->check(CLI::Range(1, 64));
  program.add_option("--batches", bounds.batches, "batches of a run, at most")
      ->check(CLI::Range(1, 16));
  program.add_flag("--mirrored", bounds.mirrored, "residency mirrored (layout word)");
  program.add_flag(
      "--cached", bounds.cached,
      "a bucket cache (layout in_place), or a record cache (with --mirrored, or layout "
      "log), loaded before each batch");
  program.add_flag("--device-ops", bounds.device_ops,
                   "device sessions: each warp its own operations, one by one (layout word or log, "
                   "model fence)");
  program.add_flag("--full-medium", bounds.full_medium,
                   "a medium on which tables soon find no room to grow");
  program.add_flag("--atomic", bounds.atomic,
                   "atomic batches and transactions (layout word or log)");
  program.add_flag("--power", bounds.power,
                   "durability power: the log, checkpoints and snapshots on a simulated disk, "
                   "whose power is cut");
  program.add_flag("--repair", bounds.repair,
                   "openings that repair a pool with a few flipped bits (layout word or log)");
  program.add_flag("--steps", bounds.steps,
                   "transactions that write a step of dense buffers (layout word or log)");
  program.add_flag("--revertible", bounds.revertible,
                   "with --steps: they can be taken back, and some are");
  program.add_flag("--wide-keys", bounds.wide_keys, "keys of 20 bytes, not 8 (layout log)");
  program.add_flag("--long-keys", bounds.long_keys,
                   "keys of 40 bytes, some of equal hashes (layout word or log)");
  program.add_flag("--any-keys", bounds.any_keys,
                   "keys of several lengths, some of equal hashes (layout log)");
  program.add_flag("--any-values", bounds.any_values,
                   "values of 8, 16 and 24 bytes, not of 8 alone (layout log)");
}

void add_limits(CLI::App& program, Options& o) {
  program.add_option("--states", o.states, "stop at so many distinct crash states (0: no limit)");
  program.add_option("--seconds", o.seconds, "stop after so long (0: no limit)");
  program.add_option("--seed", o.seed, "of the first scenario; each further one takes the next");
  program.add_option("--scenarios", o.scenarios, "stop after so many (0: no limit)");
  program.add_option("--schedules", o.schedules, "random schedules of each scenario");
  program.add_option("--preemptions", o.preemptions,
                     "instead: all schedules with up to so many switches");
  program.add_option("--leaves", o.leaves, "crash states of one window, then samples");
  program.add_option("--per-scenario", o.per_scenario,
                     "go on to the next scenario after so many states (0: no limit)");
  program.add_flag("!--no-crashes", o.crashes, "runs alone: what they answer against the model");
  program.add_option("--nested-leaves", o.nested_leaves, "the same for crashes inside recovery");
  program.add_option("--findings", o.findings, "stop after so many violations")
      ->check(CLI::Range(1, 1000));
  program.add_flag("!--as-found", o.minimise,
                   "do not look for fewer switches that show a violation (--mutants never does)");
  program.add_option("--jobs", o.jobs, "threads")->check(CLI::Range(1, 256));
}

void add_ways(CLI::App& program, Arguments& a, std::string& mutant) {
  program.add_option("--mutant", mutant, "plant this fault");
  program.add_flag("--mutants", a.all_mutants,
                   "plant each fault of the index in turn; fails if one goes unnoticed");
  program.add_flag("--steered", a.steered,
                   "with --mutants: those alone that have a scenario of their own, there, with the "
                   "fault and without");
  program.add_option("--replay", a.replay, "repeat one violation");
  program.add_flag("--json", a.json, "print JSON");
}

void read_names(Arguments& a) {
  Options& o = a.options;
  o.layout = a.layout == "word" ? Layout::word : a.layout == "log" ? Layout::log : Layout::in_place;
  o.model = a.model == "fence" ? Model::fence : a.model == "commit" ? Model::commit : Model::flush;
  for (auto const& [name, system] : kSystems)
    if (a.index == name) o.system = system;
}

/// What does not go together, or null.
char const* contradiction(Options const& o) {
  bool const may_flush = flushes(o.system);
  if (o.model == (may_flush ? Model::commit : Model::flush))
    return may_flush ? "the threads of Dash's tables, of btree-store and of btree-index order as "
                       "they go: --model fence or flush"
                     : "--model flush is for Dash's tables, btree-store and btree-index";
  Bounds const& b = o.bounds;
  if (b.device_ops && (o.layout == Layout::in_place || o.model != Model::fence))
    return "--device-ops orders by fences, in layout word or log";
  if (b.device_ops && (b.any_keys || b.any_values))
    return "--device-ops is about keys and values of one size, and goes without --any-keys and "
           "--any-values";
  if (b.steps && (o.layout == Layout::in_place || b.atomic || b.device_ops))
    return "--steps makes each batch a transaction, in layout word or log";
  if (b.revertible && !b.steps) return "--revertible is about steps: add --steps";
  if (b.full_medium && (b.atomic || b.device_ops || b.steps))
    return "--full-medium is for plain batches";
  if (b.cached && o.layout == Layout::word && !b.mirrored)
    return "--cached is about the bucket cache, which layout in_place has, or about the record "
           "cache of layout log, or of layout word with --mirrored";
  if (b.cached && (b.any_keys || b.any_values))
    return "--cached is about records of one size, and goes without --any-keys and --any-values";
  if (o.layout == Layout::log && b.mirrored)
    return "--mirrored is about slot words on PM, which layout log has none of";
  if (b.wide_keys && o.layout != Layout::log)
    return "--wide-keys is about entries of more than one part, which layout log has";
  if (b.any_keys && (o.layout != Layout::log || b.wide_keys))
    return "--any-keys is about entries that have hashes of keys, which layout log has, and goes "
           "without --wide-keys";
  if (b.long_keys && (o.layout == Layout::in_place || b.wide_keys || b.any_keys || b.cached))
    return "--long-keys is about keys that no slot and no entry has room for, in layout word or "
           "log, and goes without --wide-keys, --any-keys and --cached";
  if (b.any_values && o.layout != Layout::log)
    return "--any-values is about records whose lengths the entries of layout log vouch for";
  if (b.repair && (o.layout == Layout::in_place || b.power || b.steps || b.device_ops ||
                   b.full_medium || b.cached))
    return "--repair is about pools of layout word or log, and goes without --power, --steps, "
           "--device-ops, --full-medium and --cached";
  if (b.power && (b.atomic || b.steps || b.device_ops || b.full_medium || b.cached || b.mirrored))
    return "--power draws its own batches and transactions, and takes no other flag";
  return nullptr;
}

/// Runs alone, so that scenarios are what there is to count.
void fit_to_dram(Options& o) {
  o.crashes = false;
  o.states = 0;
  if (o.scenarios == 0) o.scenarios = kScenariosInDram;
}

int wrong_usage(std::string const& why) {
  std::fprintf(stderr, "perdure-explore: %s\n", why.c_str());
  return 2;
}

}  // namespace

std::optional<int> parse(int argc, char** argv, Arguments& arguments) {
  Options& options = arguments.options;
  std::string mutant;
  CLI::App program("Runs Perdure on simulated warps, crashes it everywhere, recovers, and judges.",
                   "perdure-explore");
  add_systems(program, arguments);
  add_bounds(program, options.bounds);
  add_limits(program, options);
  add_ways(program, arguments, mutant);
  try {
    program.parse(argc, argv);
  } catch (CLI::ParseError const& error) {
    return program.exit(error) == 0 ? 0 : 2;
  }
  read_names(arguments);
  if (!mutant.empty()) {
    arguments.mutant = find_mutant(mutant);
    if (arguments.mutant == nullptr) return wrong_usage("no mutant is called " + mutant);
  }
  if (char const* const why = contradiction(options)) return wrong_usage(why);
  if (options.system == System::btree) fit_to_dram(options);
  // What an opening does has no warps that wait for each other.
  if (options.bounds.repair && program.count("--schedules") == 0) options.schedules = 0;
  if (options.bounds.power)
    fit_to_a_log(options, {.operations = program.count("--operations") > 0,
                           .batches = program.count("--batches") > 0,
                           .per_scenario = program.count("--per-scenario") > 0});
  return std::nullopt;
}

void fit_to_a_log(Options& o, Given const& given) {
  if (!given.operations) o.bounds.operations = kOperationsOverALog;
  if (!given.batches) o.bounds.batches = kBatchesOverALog;
  if (!given.per_scenario) o.per_scenario = kCutsOfAScenario;
  o.leaves = o.samples = std::min(o.leaves, kCutsOfARequest);
}

}  // namespace perdure::explore
