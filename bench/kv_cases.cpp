// Which stores and workloads `perdure-bench kv` runs.
#include "kv_cases.hpp"

#include <algorithm>

namespace perdure::bench {
namespace {

namespace kv = kv_baselines;

/// Media of the thesis's table 2.2, of the figures that it gives: where it gives a range its
/// middle, and where it gives an order of magnitude that. `near`: of a line beside one just read;
/// of all but Optane nothing is published, and it is taken as far as any other.
struct NamedMedium {
  char const* name;
  kv::Medium medium;
};
NamedMedium const kMedia[] = {
    {"optane", {}},                        // six modules: perdure-bench emulation
    {"optane-module", {6.6, 2.3, 300, 124}},  // one of them
    {"cmm-h", {2, 2, 600, 600}},
    {"cxl-ssd", {3, 3, 1000, 1000}},
    {"cxl-switch", {20, 20, 250, 250}},
};

kv::Medium medium_named(std::string const& name) {
  for (NamedMedium const& each : kMedia)
    if (name == each.name) return each.medium;
  throw Failure("--medium '" + name + "': no such medium");
}

kv::HostKind host_kind(std::string const& name) {
  if (name == "counted") return kv::HostKind::counted;
  return name == "emulated" ? kv::HostKind::emulated : kv::HostKind::flushed;
}

/// Of one store: every workload with every distribution of keys that it looks at.
std::vector<KvCase> cases_on(KvOptions const& o, KvCase const& store) {
  std::vector<KvCase> all;
  auto const add = [&](std::string const& workload, std::string const& keys) {
    KvCase one = store;
    one.workload = workload;
    one.keys = keys;
    if (workload != "recover") return all.push_back(one);
    for (std::uint32_t const threads : o.recovery_threads) {
      one.recovery_threads = threads;
      all.push_back(one);
    }
  };
  for (std::string const& workload : o.workloads) {
    // A store that is shared has each record deleted once.
    bool const once = o.share && (workload == "delete" || workload == "recover");
    for (std::string const& keys : o.keys)
      if (!once || keys == o.keys.front()) add(workload, keys);
  }
  if (o.share) std::ranges::stable_partition(all, [](auto& c) { return c.workload != "delete"; });
  return all;
}

/// Every combination, designs innermost.
std::vector<KvCase> stores_alone(KvOptions const& o) {
  std::vector<KvCase> all;
  for (std::uint32_t const threads : o.threads)
    for (std::string const& mode : o.modes)
      for (std::uint32_t const bytes : o.value_bytes)
        for (std::string const& caches : o.caches)
          for (std::string const& design : o.designs)
            all.push_back({design, "", mode, caches, "", bytes, threads, 0});
  return all;
}

void check(KvOptions const& o) {
  if (o.share && std::ranges::find(o.workloads, "insert") != o.workloads.end())
    throw Failure("--share: workload insert needs a store of its own; run it without --share");
  bool const several = std::ranges::any_of(o.recovery_threads, [](auto n) { return n > 1; });
  if (several && o.host != "flushed")
    throw Failure("--recovery-threads: one thread is timed or counted with --host " + o.host +
                  "; choose 1, or --host flushed");
  if (o.parts && o.share)
    throw Failure("--parts: a store that is shared tells no parts; leave out --share");
}

}  // namespace

std::vector<std::string> kv_media_names() {
  std::vector<std::string> names;
  for (NamedMedium const& each : kMedia) names.emplace_back(each.name);
  return names;
}

/// The thesis's cache, 36.75 MiB for 10 million records, by as many as there are.
std::uint64_t kv_cache_bytes(KvOptions const& o) {
  if (o.emulated_cache != 0) return o.emulated_cache;
  double const share = static_cast<double>(o.records) / 10e6;
  return std::max<std::uint64_t>(std::uint64_t{64} << 10,
                                 static_cast<std::uint64_t>(36.75 * 1024 * 1024 * share));
}

KvSetting kv_setting(KvOptions const& o, KvCase const& c, std::uint32_t repeat) {
  KvSetting s;
  s.store.design = c.design;
  s.store.host = host_kind(o.host);
  s.store.kept = c.caches == "kept";
  s.store.value_bytes = c.value_bytes;
  s.store.collectors = o.collectors;
  s.store.most_queued = o.most_queued;
  s.store.emulated_cache_bytes = kv_cache_bytes(o);
  s.store.medium = medium_named(o.medium);
  s.store.parts = o.parts;
  s.records = o.records;
  s.sustained = c.mode == "sustained";
  s.ops = std::max<std::uint64_t>(1, s.sustained ? 2 * o.records : o.records / 10);
  if (o.ops != 0) s.ops = o.ops;
  if (c.workload == "delete") s.ops = std::min(s.ops, o.records);
  s.threads = c.threads;
  s.batch = o.batch;
  s.seconds = o.seconds;
  s.age = o.age;
  s.series_ms = o.series_ms;
  s.seed = o.seed + repeat;
  s.pool = o.pool;
  return s;
}

std::vector<std::vector<KvCase>> kv_stores(KvOptions const& o) {
  check(o);
  std::vector<std::vector<KvCase>> shared;
  for (KvCase const& store : stores_alone(o)) shared.push_back(cases_on(o, store));
  if (o.share) return shared;
  // One a store, so that designs take turns: all first cases, all second ones.
  std::vector<std::vector<KvCase>> alone;
  std::size_t const each = o.designs.size();
  for (std::size_t from = 0; from < shared.size(); from += each)
    for (std::size_t i = 0; i < shared[from].size(); ++i)
      for (std::size_t d = 0; d < each; ++d) alone.push_back({shared[from + d][i]});
  return alone;
}

}  // namespace perdure::bench
