// perdure-explore: simulated runs, crashed wherever that makes a difference, and the summary of it.
// Exit status 0 when nothing was found, 1 for a violation (with --mutants: for a survivor), 2 for
// wrong usage.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "explore/arguments.hpp"
#include "explore/btree/btree_runner.hpp"
#include "explore/btree/store_runner.hpp"
#include "explore/dash/dash_runner.hpp"
#include "explore/gpm/gpm_checkpoint_runner.hpp"
#include "explore/gpm/gpm_log_runner.hpp"
#include "explore/gwal/gwal_power_runner.hpp"
#include "explore/gwal/gwal_runner.hpp"
#include "explore/mutant_runs.hpp"
#include "explore/power_runner.hpp"
#include "explore/repair/repair_runner.hpp"
#include "explore/runner.hpp"
#include "explore/tables/tables_runner.hpp"
#include "index/dash/extendible.hpp"
#include "index/dash/keys.hpp"
#include "index/dash/linear.hpp"

namespace perdure::explore {
namespace {

std::unique_ptr<Crasher> make_crasher(Options const& options, Totals& totals) {
  switch (options.system) {
    case System::store:
      if (options.bounds.repair) return std::make_unique<RepairRunner>(options, totals);
      if (options.bounds.power) return std::make_unique<PowerRunner>(options, totals);
      break;
    case System::tables: return std::make_unique<TablesRunner>(options, totals);
    case System::gpm_log:
    case System::gpm_conventional: return std::make_unique<GpmLogRunner>(options, totals);
    case System::gpm_checkpoint: return std::make_unique<GpmCheckpointRunner>(options, totals);
    case System::dash_eh:
      return std::make_unique<DashRunner<dash::Extendible<dash::InlineKeys>>>(options, totals);
    case System::dash_lh:
      return std::make_unique<DashRunner<dash::Linear<dash::InlineKeys>>>(options, totals);
    case System::dash_records:
      return std::make_unique<DashRunner<dash::Extendible<dash::RecordKeys<SimRecords>>>>(options,
                                                                                          totals);
    case System::btree: return std::make_unique<BTreeRunner>(options, totals);
    case System::btree_store:
    case System::btree_log:
    case System::btree_index:
    case System::btree_index_log:
    case System::btree_full: return std::make_unique<StoreRunner>(options, totals);
    case System::gwal:
      if (options.bounds.power) return std::make_unique<GwalPowerRunner>(options, totals);
      return std::make_unique<GwalRunner>(options, totals);
  }
  return std::make_unique<Runner>(options, totals);
}

void work(Options const& options, Totals& totals) {
  std::atomic<std::uint64_t> next{0};
  auto const worker = [&] {
    auto const crasher = make_crasher(options, totals);
    for (;;) {
      std::uint64_t const n = next++;
      if (totals.stop || (options.scenarios != 0 && n >= options.scenarios)) return;
      crasher->explore(options.seed + n);
    }
  };
  std::vector<std::thread> helpers;
  for (std::uint32_t i = 1; i < options.jobs; ++i) helpers.emplace_back(worker);
  worker();
  for (auto& helper : helpers) helper.join();
}

nlohmann::json summary(Arguments const& a, Totals& t) {
  nlohmann::json found = nlohmann::json::array();
  for (Finding const& f : t.findings)
    found.push_back({{"what", f.what}, {"replay", replay_text(f)}});
  return {{"index", a.index},
          {"layout", a.layout},
          {"model", a.model},
          {"seed", a.options.seed},
          {"scenarios", t.explored.scenarios.load()},
          {"runs", t.explored.runs.load()},
          {"schedule_points", t.explored.points.load()},
          {"crash_points", t.explored.crash_points.load()},
          {"windows", t.explored.windows.load()},
          {"windows_seen_before", t.explored.windows_seen.load()},
          {"windows_sampled", t.explored.windows_sampled.load()},
          {"windows_inside_recovery_sampled", t.explored.nested_sampled.load()},
          {"windows_too_large", t.explored.windows_skipped.load()},
          {"states", t.explored.states.load()},
          {"distinct_states", t.distinct.size()},
          {"distinct_recovered_contents", t.logical.size()},
          {"recoveries_crashed_again", t.explored.nested.load()},
          {"growths", t.met.growths.load()},
          {"displacements", t.met.displacements.load()},
          {"resizes_resumed", t.recovered.resumed.load()},
          {"duplicates_resolved", t.recovered.duplicates.load()},
          {"half_inserts_cleared", t.recovered.half_inserted.load()},
          {"half_made_pools_refused", t.recovered.refused.load()},
          {"transactions_undone", t.recovered.undone.load()},
          {"batches_without_room", t.met.batches_refused.load()},
          {"batches_that_end_inside_a_growth", t.met.inside_growths.load()},
          {"steps", t.met.steps.load()},
          {"checkpoints", t.met.checkpoints.load()},
          {"batches_replayed", t.recovered.replayed.load()},
          {"merges", t.met.merges.load()},
          {"session_operations", t.met.session_operations.load()},
          {"session_operations_without_room", t.met.session_refusals.load()},
          {"gpm_operations", t.gpm.operations.load()},
          {"gpm_entries_without_room", t.gpm.overflows.load()},
          {"gpm_entries_after_crashes", t.gpm.entries.load()},
          {"gpm_checkpoints_restored_after_crashes", t.gpm.restored.load()},
          {"gwal_records", t.gwal.records.load()},
          {"gwal_segments_ingested", t.gwal.ingests.load()},
          {"gwal_segments_replayed_after_crashes", t.gwal.replayed.load()},
          {"gwal_segments_discarded_after_crashes", t.gwal.discarded.load()},
          {"repairs_that_mend", t.repairs.mended.load()},
          {"repairs_that_drop", t.repairs.lossy.load()},
          {"repairs_refused", t.repairs.refused.load()},
          {"damages_that_only_repairs_see", t.repairs.unseen.load()},
          {"violations", found},
          {"seconds", t.seconds()}};
}

unsigned long long n(std::atomic<std::uint64_t> const& v) { return v.load(); }

void print_store(Arguments const& a, Totals& t) {
  if (a.options.bounds.repair)
    std::printf(
        "met: %llu repairs that mended, %llu of them with loss, %llu refused; of %llu pools "
        "without "
        "one no opening sees the damage\n",
        n(t.repairs.mended), n(t.repairs.lossy), n(t.repairs.refused), n(t.repairs.unseen));
  else if (a.options.bounds.power)
    std::printf(
        "met: %llu growths, %llu checkpoints; after power cuts %llu batches replayed, %llu "
        "half-made pools refused\n",
        n(t.met.growths), n(t.met.checkpoints), n(t.recovered.replayed), n(t.recovered.refused));
  else
    std::printf(
        "met: %llu growths, %llu batches that ended inside one, %llu without room, %llu "
        "displacements; recoveries with "
        "%llu resizes resumed, %llu duplicates, %llu half "
        "inserts, %llu transactions undone, %llu half-made pools refused\n",
        n(t.met.growths), n(t.met.inside_growths), n(t.met.batches_refused), n(t.met.displacements),
        n(t.recovered.resumed), n(t.recovered.duplicates), n(t.recovered.half_inserted),
        n(t.recovered.undone), n(t.recovered.refused));
}

void print(Arguments const& a, Totals& t) {
  for (Finding const& f : t.findings) {
    bool const store = a.options.system == System::store;
    std::printf(
        "violation: %s\n%s\n  replay: perdure-explore --%s %s --model "
        "%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s "
        "--replay '%s'\n",
        f.what.c_str(), f.description.c_str(), store ? "layout" : "index",
        store ? a.layout.c_str() : a.index.c_str(), a.model.c_str(),
        a.options.bounds.atomic ? " --atomic" : "", a.options.bounds.mirrored ? " --mirrored" : "",
        a.options.bounds.full_medium ? " --full-medium" : "",
        a.options.bounds.cached ? " --cached" : "",
        a.options.bounds.device_ops ? " --device-ops" : "",
        a.options.bounds.steps ? " --steps" : "",
        a.options.bounds.revertible ? " --revertible" : "",
        a.options.bounds.power ? " --power" : "", a.options.bounds.repair ? " --repair" : "",
        a.options.bounds.wide_keys ? " --wide-keys" : "",
        a.options.bounds.any_keys ? " --any-keys" : "",
        a.options.bounds.long_keys ? " --long-keys" : "",
        a.options.bounds.any_values ? " --any-values" : "", a.mutant == nullptr ? "" : " --mutant ",
        a.mutant == nullptr ? "" : a.mutant->mutant.name(), replay_text(f).c_str());
  }
  std::printf(
      "%s, %s: %llu scenarios, %llu runs, %llu crash points in %llu windows (%llu seen before, "
      "%llu + %llu inside "
      "recovery sampled, "
      "%llu too large)\n",
      a.options.system == System::store ? a.layout.c_str() : a.index.c_str(), a.model.c_str(),
      n(t.explored.scenarios), n(t.explored.runs), n(t.explored.crash_points),
      n(t.explored.windows), n(t.explored.windows_seen), n(t.explored.windows_sampled),
      n(t.explored.nested_sampled), n(t.explored.windows_skipped));
  if (a.options.system == System::store)
    print_store(a, t);
  else if (a.options.system == System::tables)
    std::printf("met: %llu steps, %llu growths; recoveries with %llu transactions undone\n",
                n(t.met.steps), n(t.met.growths), n(t.recovered.undone));
  else if (has_searches(a.options.system))
    std::printf("met: %llu operations, %llu splits, %llu merges\n", n(t.met.session_operations),
                n(t.met.growths), n(t.met.merges));
  else if (a.options.system == System::gwal)
    std::printf(
        "met: %llu records, %llu segments ingested; after crashes %llu replayed, %llu discarded\n",
        n(t.gwal.records), n(t.gwal.ingests), n(t.gwal.replayed), n(t.gwal.discarded));
  else
    std::printf(
        "met: %llu operations, %llu of them without room; after crashes %llu entries, %llu "
        "checkpoints\n",
        n(t.gpm.operations), n(t.gpm.overflows), n(t.gpm.entries), n(t.gpm.restored));
  std::printf(
      "%llu crash states recovered, %zu distinct, %zu distinct contents after recovery; %llu "
      "recoveries crashed "
      "again\n%zu violations, %.1f s\n",
      n(t.explored.states), t.distinct.size(), t.logical.size(), n(t.explored.nested),
      t.findings.size(), t.seconds());
}

int explore_once(Arguments const& a) {
  Totals totals;
  work(a.options, totals);
  if (a.json)
    std::printf("%s\n", summary(a, totals).dump(2).c_str());
  else
    print(a, totals);
  return totals.findings.empty() ? 0 : 1;
}

int replay(Arguments const& a) {
  auto const finding = parse_replay(a.replay);
  if (!finding) {
    std::fprintf(stderr, "perdure-explore: --replay takes what a violation printed\n");
    return 2;
  }
  Totals totals;
  auto const crasher = make_crasher(a.options, totals);
  auto const wrong = crasher->replay(*finding);
  std::printf("%s\n%s\n", crasher->describe(finding->scenario).c_str(),
              wrong ? ("violation: " + *wrong).c_str() : "nothing is wrong");
  return wrong ? 1 : 0;
}

Options steered(Options options, Steer const& steer) {
  if (flushes(options.system)) options.model = steer.flushes ? Model::flush : Model::fence;
  options.seed = steer.seed;
  options.scenarios = steer.scenarios;
  options.preemptions = steer.preemptions;
  options.crashes = steer.states != 0;
  options.states = steer.states;
  options.per_scenario = 0;
  options.schedules = 60;
  if (steer.operations != 0) options.bounds.operations = steer.operations;
  return options;
}

/// Runs alone first, then crashes, for as long as nothing is found.
void try_everything(Options const& options, Steer const& steer, Totals& totals) {
  auto runs = options;  // some faults show without a crash, in one run of many
  runs.crashes = false;
  // Races for a slot's copy are rare, and so are those for what waits for its readers. Of a log
  // they show nothing.
  runs.scenarios = runs.bounds.power                     ? 5
                   : runs.bounds.repair                  ? 60
                   : runs.bounds.cached                  ? 8000
                   : runs.system == System::dash_records ? 3000
                                                         : 400;
  work(runs, totals);
  if (has_searches(runs.system) && !is_btree_store(runs.system) &&
      totals.findings.empty()) {  // one long wait in the midst of a search
    runs.preemptions = 1;
    runs.scenarios = 60;
    work(runs, totals);
  }
  if (steer.seed != 0 && totals.findings.empty()) work(steered(options, steer), totals);
  if (!totals.findings.empty() || !options.crashes) return;
  totals.stop = false;  // that scenario's states are not all there are to be
  work(options, totals);
}

/// Whether a run with this fault goes wrong. In a process of its own, for it may crash; that, too,
/// is being found out.
bool goes_wrong(Arguments const& a, MutantInfo const& m, bool plant, std::string& how) {
  int pipe_ends[2];
  if (::pipe(pipe_ends) != 0) return false;
  std::fflush(nullptr);
  ::pid_t const child = ::fork();
  if (child == 0) {
    ::close(pipe_ends[0]);
    if (plant) planted = m.mutant;
    Totals totals;
    Options options = a.options;
    options.minimise = false;  // that something goes wrong is all that is asked
    a.steered ? work(steered(options, m.steer), totals) : try_everything(options, m.steer, totals);
    std::string text = std::to_string(totals.distinct.size()) + " states: ";
    if (!totals.findings.empty()) text += totals.findings[0].what;
    [[maybe_unused]] auto const sent = ::write(pipe_ends[1], text.data(), text.size());
    ::_exit(totals.findings.empty() ? 0 : 1);
  }
  ::close(pipe_ends[1]);
  char text[512];
  for (;;) {
    auto const got = ::read(pipe_ends[0], text, sizeof text);
    if (got <= 0) break;
    how.append(text, static_cast<std::size_t>(got));
  }
  ::close(pipe_ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) how = "died of signal " + std::to_string(WTERMSIG(status));
  return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/// What a mutant can be planted in: as what its `layouts` says, or as a part of it.
struct Kind {
  char const* name;
  char const* also;  // names this one and another
  System system;
  Layout layout;
  bool Bounds::* flag;
  bool commit = false;  // where the host alone orders, whatever --model says
  bool Bounds::* second = nullptr;  // flag
};
constexpr Kind kKinds[] = {
    {"word", "both", System::store, Layout::word, nullptr},
    {"in_place", "both", System::store, Layout::in_place, nullptr},
    {"log", "", System::store, Layout::log, nullptr},
    {"atomic", "", System::store, Layout::word, &Bounds::atomic},
    {"log-atomic", "", System::store, Layout::log, &Bounds::atomic},
    {"steps", "", System::store, Layout::word, &Bounds::steps},
    {"reverts", "", System::store, Layout::word, &Bounds::steps, false, &Bounds::revertible},
    {"log-reverts", "", System::store, Layout::log, &Bounds::steps, false, &Bounds::revertible},
    {"log-wide", "", System::store, Layout::log, &Bounds::wide_keys},
    {"log-any", "", System::store, Layout::log, &Bounds::any_values},
    {"log-any-keys", "", System::store, Layout::log, &Bounds::any_keys},
    {"log-any-keys-atomic", "", System::store, Layout::log, &Bounds::any_keys, false,
     &Bounds::atomic},
    {"log-device-long", "", System::store, Layout::log, &Bounds::device_ops, false,
     &Bounds::long_keys},
    {"log-steps", "", System::store, Layout::log, &Bounds::steps},
    {"log-cached", "", System::store, Layout::log, &Bounds::cached},
    {"mirrored", "", System::store, Layout::word, &Bounds::mirrored},
    {"mirrored-atomic", "", System::store, Layout::word, &Bounds::mirrored, false, &Bounds::atomic},
    {"mirrored-cached", "", System::store, Layout::word, &Bounds::mirrored, false, &Bounds::cached},
    {"device", "", System::store, Layout::word, &Bounds::device_ops},
    {"log-device", "", System::store, Layout::log, &Bounds::device_ops},
    {"full", "", System::store, Layout::word, &Bounds::full_medium},
    {"power", "", System::store, Layout::word, &Bounds::power},
    {"repair", "repairs", System::store, Layout::word, &Bounds::repair},
    {"log-repair", "repairs", System::store, Layout::log, &Bounds::repair},
    {"log-repair-any", "", System::store, Layout::log, &Bounds::repair, false, &Bounds::any_values},
    {"log-repair-keys", "", System::store, Layout::log, &Bounds::repair, false, &Bounds::any_keys},
    {"cached", "", System::store, Layout::in_place, &Bounds::cached},
    {"tables", "", System::tables, Layout::word, nullptr},
    {"gpm-log", "gpm-logs", System::gpm_log, Layout::word, nullptr},
    {"gpm-conv", "gpm-logs", System::gpm_conventional, Layout::word, nullptr},
    {"gpm-log-commit", "gpm-logs-commit", System::gpm_log, Layout::word, nullptr, true},
    {"gpm-conv-commit", "gpm-logs-commit", System::gpm_conventional, Layout::word, nullptr, true},
    {"gpm-checkpoint", "", System::gpm_checkpoint, Layout::word, nullptr},
    {"dash-eh", "dash", System::dash_eh, Layout::word, nullptr},
    {"dash-lh", "dash", System::dash_lh, Layout::word, nullptr},
    {"dash-records", "", System::dash_records, Layout::word, nullptr},
    {"btree", "", System::btree, Layout::word, nullptr},
    {"btree-store", "", System::btree_store, Layout::word, nullptr},
    {"btree-log", "", System::btree_log, Layout::word, nullptr},
    {"btree-index", "", System::btree_index, Layout::word, nullptr},
    {"btree-index-log", "", System::btree_index_log, Layout::word, nullptr},
    {"btree-full", "", System::btree_full, Layout::word, nullptr},
    {"gwal", "", System::gwal, Layout::word, nullptr},
    {"gwal-power", "", System::gwal, Layout::word, &Bounds::power},
};

Arguments of_kind(Arguments a, Kind const& kind) {
  Bounds& bounds = a.options.bounds;
  bounds.atomic = bounds.mirrored = bounds.device_ops = bounds.full_medium = bounds.cached =
      bounds.steps = bounds.revertible = bounds.power = bounds.wide_keys = bounds.any_keys =
          bounds.long_keys = bounds.any_values = bounds.repair = false;
  for (auto const flag : {kind.flag, kind.second})
    if (flag != nullptr) bounds.*flag = true;
  a.options.layout = kind.layout;
  if (kind.commit) a.options.model = Model::commit;
  if (kind.flag == &Bounds::power) fit_to_a_log(a.options, {});
  if (kind.flag == &Bounds::repair) a.options.schedules = 0;
  return a;
}

int try_mutants(Arguments const& a) {
  unsigned dead = 0, all = 0;
  nlohmann::json list = nlohmann::json::array();
  for (MutantInfo const& m : mutants()) {
    if (m.why_equal != nullptr || (a.steered && m.steer.seed == 0)) continue;
    for (Kind const& kind : kKinds) {
      std::string_view const what = m.layouts;
      if ((what != kind.name && what != kind.also) || kind.system != a.options.system) continue;
      if (a.options.bounds.power && kind.flag != &Bounds::power) continue;
      std::string how;
      Arguments const here = of_kind(a, kind);
      bool gone = goes_wrong(here, m, true, how);
      if (std::string sound; a.steered && gone && goes_wrong(here, m, false, sound)) {
        gone = false;
        how = "without it, too: " + sound;
      }
      ++all;
      dead += gone;
      list.push_back(
          {{"mutant", m.mutant.name()}, {"layout", kind.name}, {"killed", gone}, {"how", how}});
      if (!a.json) {
        std::printf("%-8s %-34s %-14s %s\n", gone ? "killed" : "SURVIVED", m.mutant.name(),
                    kind.name, how.c_str());
        std::fflush(stdout);
      }
    }
  }
  if (a.json)
    std::printf(
        "%s\n",
        nlohmann::json{{"killed", dead}, {"total", all}, {"mutants", list}}.dump(2).c_str());
  else
    std::printf("%u of %u mutants killed\n", dead, all);
  return dead == all ? 0 : 1;
}

int run(int argc, char** argv) {
  Arguments a;
  if (auto const ended = parse(argc, argv, a)) return *ended;
  if (a.mutant != nullptr) planted = a.mutant->mutant;
  use_simulated_disk();  // no store of the explorer's lies on another
  if (a.all_mutants) return try_mutants(a);
  return a.replay.empty() ? explore_once(a) : replay(a);
}

}  // namespace
}  // namespace perdure::explore

int main(int argc, char** argv) {
  try {
    return perdure::explore::run(argc, argv);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "perdure-explore: %s\n", error.what());
    return 2;
  }
}
