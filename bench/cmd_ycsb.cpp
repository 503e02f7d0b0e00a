// `perdure-bench ycsb`: one YCSB workload on one or more devices.
//
// On a GPU `mops` is measured with keys and values already in GPU memory, `mops_end_to_end` with
// them in host memory, unless --arrays near leaves that out; on a CPU there is one place, one
// measurement, and the two figures are equal.
// Accesses are counted in a pass of their own, so that counting slows nothing that is timed. With a
// record cache, it is loaded after a pass that it learns from (policy random learns nothing, and
// has none), and again before the counted pass; of workload c the counts are then exact about it:
// of a mirrored store a get reads PM once, and never where its record is cached; of layout in_place
// it reads the record alone where its bucket is cached.
//
// Several caches are measured on one pool, which is loaded once: ycsb_run.hpp.
//
// Workload e needs an index that keeps keys in order. A batch of it is one call that puts its
// inserts, then a call a scan, from as many clients at once as there are workers.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "commands.hpp"
#include "common.hpp"
#include "dataset.hpp"
#include "scans.hpp"
#include "ycsb_run.hpp"

namespace perdure::bench {
namespace {

Json rounded(double value) {
  return static_cast<double>(static_cast<std::int64_t>(value * 1000 + 0.5)) / 1000;
}

/// `mops`, `p50_us` and `p99_us` of several passes, their names ending in `suffix`.
void put_speed(Json& json, std::vector<Pass> const& passes, std::string const& suffix) {
  std::vector<double> mops;
  std::vector<double> batch_us;
  for (Pass const& pass : passes) {
    mops.push_back(pass.mops());
    batch_us.insert(batch_us.end(), pass.batch_us.begin(), pass.batch_us.end());
  }
  json["mops" + suffix] = rounded(median(mops));
  json["p50_us" + suffix] = rounded(percentile(batch_us, 0.50));
  json["p99_us" + suffix] = rounded(percentile(batch_us, 0.99));
  Json& each = json["mops" + suffix + "_each"];
  for (double const m : mops) each.push_back(rounded(m));
}

/// Ranges' reads are not among those that a store counts: with `scans` there is no figure of them.
void put_accesses(Json& json, std::optional<YcsbAccesses> const& accesses, bool scans) {
  if (!accesses) {
    for (char const* key :
         {"pm_reads_per_op", "pm_writes_per_op", "orders_per_batch", "cache_hits_per_get"})
      json[key] = nullptr;
    return;
  }
  auto const per = [](std::uint64_t count, std::uint64_t of) {
    return static_cast<double>(count) / static_cast<double>(of);
  };
  json["pm_reads_per_op"] = scans ? Json() : Json(per(accesses->counts.pm_reads, accesses->ops));
  json["pm_writes_per_op"] = per(accesses->counts.pm_writes, accesses->ops);
  json["orders_per_batch"] = per(accesses->counts.orders, accesses->batches);
  json["cache_hits_per_get"] =
      accesses->gets == 0 ? Json() : Json(per(accesses->counts.cache_hits, accesses->gets));
  json["counted_ops"] = accesses->ops;
}

Pass sum_of(YcsbOutcome const& outcome) {
  Pass sum = outcome.checks;
  for (auto const* passes : {&outcome.passes, &outcome.passes_end_to_end}) {
    for (Pass const& pass : *passes) sum.add(pass);
  }
  return sum;
}

Json report(YcsbOptions const& o, YcsbOutcome const& outcome) {
  Json json;
  json["command"] = "ycsb";
  json["version"] = version();
  json["workload"] = o.workload;
  json["records"] = o.records;
  json["ops"] = outcome.passes.front().ops;
  json["batch"] = o.batch;
  json["key_bytes"] = o.key_bytes;
  json["value_bytes"] = o.value_bytes;
  json["theta"] = o.theta;
  json["seed"] = o.seed;
  json["index"] = o.index;
  json["layout"] = name(outcome.stats.layout);
  json["shape"] = name(outcome.stats.shape);
  json["verify_reads"] = o.verify_reads;
  json["residency"] = o.residency;
  json["cache"] = outcome.asked.share;
  json["cache_policy"] = outcome.asked.policy;
  json["turn"] = outcome.turn;
  json["cache_records"] = outcome.cache.records;
  json["cache_bytes"] = outcome.cache.bytes;
  json["cache_learned_ops"] = outcome.learned_ops;
  json["cache_load_seconds"] = outcome.cache.seconds;
  json["device"] = name(outcome.stats.device);
  json["machine"] = outcome.stats.machine;
  json["medium"] = name(outcome.stats.medium);
  json["survives"] = outcome.survives;
  json["repeats"] = o.repeats;
  json["summary"] = "median of the repeats; latencies are a batch's, over all repeats";
  put_speed(json, outcome.passes, "");
  if (!outcome.passes_end_to_end.empty()) {
    put_speed(json, outcome.passes_end_to_end, "_end_to_end");
  } else if (outcome.stats.device == Device::cpu) {
    put_speed(json, outcome.passes, "_end_to_end");
  } else {
    for (char const* key :
         {"mops_end_to_end", "p50_us_end_to_end", "p99_us_end_to_end", "mops_end_to_end_each"})
      json[key] = nullptr;
  }
  json["load_factor"] = outcome.stats.load_factor;
  json["growths"] = outcome.stats.growths;
  std::uint64_t gets = 0;
  std::uint64_t hits = 0;
  for (Pass const& pass : outcome.passes) {
    gets += pass.gets;
    hits += pass.hits;
  }
  json["hit_rate"] =
      gets == 0 ? Json(nullptr) : Json(static_cast<double>(hits) / static_cast<double>(gets));
  Pass const sum = sum_of(outcome);
  put_accesses(json, outcome.accesses, sum.scans > 0);
  json["records_per_scan"] =
      sum.scans == 0 ? Json()
                     : Json(static_cast<double>(sum.scanned) / static_cast<double>(sum.scans));
  json["checked"] = sum.gets + sum.scans;
  json["faults"] = sum.faults;
  if (sum.faults > 0) json["first_fault"] = sum.first_fault;
  return json;
}

void print(Json const& j) {
  auto const number = [&](char const* key) {
    return j[key].is_null() ? std::string("-") : j[key].dump();
  };
  std::printf("YCSB %s on %s (%s), %s, survives %s\n", j["workload"].get<std::string>().c_str(),
              j["device"].get<std::string>().c_str(), j["machine"].get<std::string>().c_str(),
              j["medium"].get<std::string>().c_str(), j["survives"].get<std::string>().c_str());
  std::printf("  Mops              %s (end to end %s), each %s\n", number("mops").c_str(),
              number("mops_end_to_end").c_str(), j["mops_each"].dump().c_str());
  std::printf("  batch latency     p50 %s us, p99 %s us\n", number("p50_us").c_str(),
              number("p99_us").c_str());
  std::printf("  hit rate          %s, load factor %s\n", number("hit_rate").c_str(),
              number("load_factor").c_str());
  std::printf("  PM reads/op       %s, writes/op %s, orders/batch %s\n",
              number("pm_reads_per_op").c_str(), number("pm_writes_per_op").c_str(),
              number("orders_per_batch").c_str());
  std::printf("  answers checked   %s, wrong %s\n", number("checked").c_str(),
              number("faults").c_str());
  if (!j["records_per_scan"].is_null())
    std::printf("  records a scan    %s\n", number("records_per_scan").c_str());
  if (j.contains("first_fault"))
    std::printf("  FAULT: %s\n", j["first_fault"].get<std::string>().c_str());
}

void check_options(YcsbOptions const& o) {
  bool const cached = std::ranges::any_of(o.caches, [](double share) { return share > 0; });
  if (cached && workload_named(o.workload) == Workload::load)
    throw Failure(
        "--cache: workload load gets nothing that a cache could learn from; choose another "
        "workload");
  if (workload_named(o.workload) == Workload::e && index_named(o.index) != Index::btree) {
    throw Failure("--index " + o.index +
                  ": workload e scans ranges of keys, and this index keeps no order of keys; "
                  "choose --index btree");
  }
  if (workload_named(o.workload) == Workload::e)
    check_scan_bytes(Dataset(o.seed, o.key_bytes, o.value_bytes));
  if (workload_named(o.workload) == Workload::f && o.value_bytes % 8 != 0) {
    throw Failure("--value-bytes " + std::to_string(o.value_bytes) +
                  ": workload f adds to values as 64-bit integers; give a multiple of 8");
  }
  if (!o.pool.empty() && o.devices.size() > 1)
    throw Failure("--pool: name one device, or leave the path to the benchmark");
}

/// What nobody named is what the workload needs.
YcsbOptions with_index(YcsbOptions o) {
  if (o.index.empty()) o.index = workload_named(o.workload) == Workload::e ? "btree" : "gphash";
  return o;
}

int run(YcsbOptions const& given) {
  YcsbOptions const o = with_index(given);
  check_options(o);
  Json all = Json::array();
  bool good = true;
  for (std::string const& device : o.devices) {
    run_ycsb(o, device_named(device), [&](YcsbOutcome const& outcome) {
      all.push_back(report(o, outcome));
      if (o.json != "-") print(all.back());
      good = good && all.back()["faults"] == 0;
    });
  }
  write_json(o.json, all.size() == 1 ? all[0] : all);
  return good ? kGood : kFaults;
}

}  // namespace

Command add_ycsb(CommandLine& program) {
  auto o = std::make_shared<YcsbOptions>();
  CommandLine& app = program.add_subcommand("ycsb", "A YCSB workload: load, a, b, c, d, e or f");
  app.add_option("--workload", o->workload, "load, a, b, c, d, e (ranges) or f").shows_default();
  app.add_option("--records", o->records, "Records in the store before the run (load: put by it)")
      .shows_default()
      .check(positive());
  app.add_option(
      "--expected-records", o->expected_records,
      "Size the table for so many; fewer than --records makes it grow (default: --records)");
  app.add_option("--ops", o->ops,
                 "Operations a repeat (default: --records; load always puts --records)");
  app.add_option("--batch", o->batch, "Operations a batch").shows_default().check(positive());
  app.add_option("--key-bytes", o->key_bytes).shows_default().check(range(8, 128));
  app.add_option("--value-bytes", o->value_bytes).shows_default().check(positive());
  app.add_option("--theta", o->theta, "Skew of the Zipfian choice; 0 = uniform")
      .shows_default()
      .check(range(0.0, 0.9999));
  app.add_option("--device", o->devices, "cpu, cuda, or both with a comma")
      .separated_by(',')
      .shows_default();
  app.add_option("--index", o->index, "Of workload e btree, which keeps keys in order; else gphash")
      .check(one_of(index_names()));
  app.add_option("--layout", o->layout, "word, in_place or log").shows_default();
  app.add_option("--shape", o->shape, "Levels, hash functions, slots").shows_default();
  app.add_option("--residency", o->residency).shows_default().check(one_of(residency_names()));
  app.add_option("--cache", o->caches,
                 "Share of the records (layout in_place: of the buckets) that the cache has room "
                 "for; of word it needs a mirror. Several with commas are measured one after the "
                 "other on one pool (d and e: on pools of their own), and the JSON is a list")
      .separated_by(',')
      .shows_default()
      .check(range(0.0, 2.0));
  app.add_option("--cache-policy", o->cache_policies,
                 "lfu, lru or random; of several each --cache is measured with each")
      .separated_by(',')
      .shows_default()
      .check(one_of(cache_policy_names()));
  app.add_option("--arrays", o->arrays,
                 "Where arrays lie: near the device, or both there and in host memory, by turns")
      .shows_default()
      .check(one_of({"near", "both"}));
  app.add_option("--threads", o->threads, "CPU workers; 0 = one a core").shows_default();
  app.add_option("--pool", o->pool,
                 "Where the pool is made; removed in the end (default: a file in /dev/shm)");
  app.add_flag("--count-accesses,!--no-count-accesses", o->count_accesses,
               "Count PM accesses in a pass of their own (default: yes)");
  app.add_option("--repeats", o->repeats).shows_default().check(positive());
  app.add_option("--seed", o->seed).shows_default();
  app.add_flag("--verify-reads,!--no-verify-reads", o->verify_reads,
               "Have the store check each record's checksum on get (default: yes)");
  app.add_option("--json", o->json, "Write the results to this file; - = standard output")
      .check(new_file());
  return {&app, [o] { return run(*o); }};
}

}  // namespace perdure::bench
