// The modes of `perdure-bench hetero`; cmd_hetero.cpp says what each measures.
#include <cstdio>
#include <utility>

#include "hetero_bench.hpp"
#include "turns.hpp"

namespace perdure::bench::shared {

/// From there up to all threads, doubling, and what lies three quarters up.
std::vector<std::uint32_t> Bench::steps(std::uint32_t from) const {
  std::vector<std::uint32_t> all{from, threads_, threads_ * 3 / 4};
  for (std::uint32_t n = 1; n < threads_; n *= 2) all.push_back(n);
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  std::erase_if(all, [&](std::uint32_t n) { return n < from; });
  return all;
}

void Bench::cpu(Table& table) {
  for (std::size_t d = 0; d < pools_.size(); ++d) {
    for (bool const puts : {false, true}) {
      for (std::uint32_t const n : steps(1)) {
        if (!in_time()) return;
        Member const member{Role::host, &table, pools_[d].get(), 4096, {}, 0, puts};
        add({{"mode", "cpu"}, {"op", puts ? "put" : "get"}, {"dist", o_.dists[d]}, {"threads", n}},
            crew(std::vector<Member>(n, member)));
      }
    }
  }
}

void Bench::prefetch(Table& table) {
  for (std::size_t d = 0; d < pools_.size(); ++d) {
    for (std::uint32_t const far : {0u, 1u, 2u, 4u, 6u, 8u, 10u, 13u, 16u, 20u, 32u, 48u, 64u}) {
      if (!in_time()) return;
      Member const member{Role::host, &table, pools_[d].get(), 4096, {}, far, false};
      add({{"mode", "prefetch"}, {"op", "get"}, {"dist", o_.dists[d]}, {"ahead", far}},
          crew(std::vector<Member>(threads_, member)));
    }
  }
}

void Bench::gpu_gets(Table& table) {
  for (std::size_t d = 0; d < pools_.size(); ++d) {
    for (auto const copy : {hetero::Copy::device, hetero::Copy::host}) {
      for (std::uint64_t const batch : o_.batches) {
        if (!in_time()) return;
        Member const member{Role::device, &table, pools_[d].get(), batch, copy, 0, false};
        add({{"mode", "gpu"},
             {"op", "get"},
             {"dist", o_.dists[d]},
             {"memory", copy == hetero::Copy::device ? "device" : "host"},
             {"batch", batch}},
            crew({member}));
      }
    }
  }
}

void Bench::gpu_puts(Table& table) {
  for (std::size_t d = 0; d < pools_.size(); ++d) {
    for (std::uint64_t const batch : o_.batches) {
      if (!in_time()) return;
      Member const member{Role::device, &table, pools_[d].get(), batch, {}, 0, true};
      add({{"mode", "gpu"},
           {"op", "put"},
           {"dist", o_.dists[d]},
           {"memory", "device"},
           {"batch", batch}},
          crew({member}));
    }
  }
}

/// k of the threads hand their batches over; the others answer themselves, where `both`.
void Bench::handed(Table& table, std::string const& mode, Role role, bool both) {
  for (auto const copy : {hetero::Copy::host, hetero::Copy::device}) {
    std::string const memory = copy == hetero::Copy::host ? "host" : "twice";
    for (std::uint32_t const k : steps(0)) {
      if (!in_time()) return;
      Member const device{role, &table, pools_[0].get(), kHanded, copy, 0, false};
      Member const host{Role::host, &table, pools_[0].get(), 4096, {}, 0, false};
      std::vector<Member> handing(k, device), others(threads_ - k, host);
      Rates rates;
      if (both) {
        handing.insert(handing.end(), others.begin(), others.end());
        rates = crew(handing);
      } else {
        if (k > 0) rates = crew(handing);
        Rates const here = others.empty() ? Rates{} : crew(others);
        rates.host_mops = here.host_mops;
        rates.checked += here.checked;
        rates.faults += here.faults;
      }
      add({{"mode", mode},
           {"op", "get"},
           {"dist", o_.dists[0]},
           {"memory", memory},
           {"batch", kHanded},
           {"device_threads", k}},
          rates);
    }
  }
}

void Bench::ahead(Table& table) {
  for (std::uint32_t const far : {0u, kAhead}) {
    for (std::uint64_t const batch : o_.batches) {
      if (!in_time()) return;
      Member const member{
          Role::overlapped, &table, pools_[0].get(), batch, hetero::Copy::device, far, false};
      add({{"mode", "ahead"},
           {"op", "get"},
           {"dist", o_.dists[0]},
           {"memory", "twice"},
           {"batch", batch},
           {"ahead", far}},
          crew(std::vector<Member>(threads_, member)));
    }
  }
}

/// Half of the threads hand over batches of all keys; the others ask a table of so many megabytes.
void Bench::hot_set(Table& table) {
  for (double mb = 0.25; mb <= 128; mb *= 2) {
    std::uint64_t hot = 1;
    while (static_cast<double>(hetero::table_bytes(2 * hot)) <= mb * (1 << 20)) hot *= 2;
    if (hot > o_.keys || !in_time()) break;
    auto const small = loaded(hetero::Where::host, hot);
    Pool const pool(sides_, std::clamp<std::size_t>(4 * hot, 1 << 16, 1 << 22), hot, 0);
    Member const host{Role::host, small.get(), &pool, 4096, {}, kAhead, false};
    Member const device{Role::device, &table, pools_[0].get(), kHanded, hetero::Copy::device, 0,
                        false};
    std::uint32_t const handing = std::max(1u, threads_ / 4);
    std::vector<Member> members(handing, device);
    members.insert(members.end(), std::max(1u, threads_ - handing), host);
    add({{"mode", "hot-set"},
         {"op", "get"},
         {"dist", "uniform"},
         {"memory", "hot and cold"},
         {"hot_mb", mb},
         {"hot_keys", hot},
         {"device_threads", handing}},
        crew(members));
  }
}

void Bench::put_twice(Table& table) {
  for (std::size_t d = 0; d < pools_.size(); ++d) {
    for (std::uint64_t const batch : o_.batches) {
      if (!in_time()) break;
      Walk walk(*pools_[d], 0);
      std::uint64_t done = 0;
      auto const start = Clock::now();
      double seconds = 0;
      for (; seconds < o_.seconds; done += batch) {
        std::size_t const at = walk.next(batch);
        require(table.put(walk.keys(at, batch), walk.values(at, batch)), "put");
        seconds = std::chrono::duration<double>(Clock::now() - start).count();
      }
      Rates rates;
      rates.host_mops = static_cast<double>(done) / seconds * 1e-6;
      add({{"mode", "put-twice"},
           {"op", "put"},
           {"dist", o_.dists[d]},
           {"memory", "twice"},
           {"batch", batch}},
          rates);
    }
  }
  if (require(table.copies_equal(), "comparing the copies")) return;
  ++faults_;
  if (o_.json != "-") std::printf("WRONG: the copies differ\n");
}

void Bench::check(hetero::Keys keys, Rates& rates) const {
  for (std::size_t i = 0; i < keys.size(); ++i)
    rates.faults += right(keys[i], answers_->all()[i]) ? 0 : 1;
  rates.checked += keys.size();
}

void Bench::split_batch(Table& table, std::string const& memory, std::size_t dist,
                        std::size_t batch) {
  constexpr hetero::Way kWays[] = {hetero::Way::host, hetero::Way::device, hetero::Way::automatic};
  Walk walk(*pools_[dist], 0);
  hetero::Keys keys;
  auto const one = [&](int way) {
    keys = walk.keys(walk.next(batch), batch);
    require(table.get(keys, answers_->all().first(batch), kWays[way]), "get");
  };
  let_settle([&] { one(2); });
  hetero::SplitStats const before = table.split(batch);
  Compared const compared = compare_in_turns(batch, o_.seconds, one);
  hetero::SplitStats const after = table.split(batch);
  Rates rates;
  one(2);
  check(keys, rates);
  hetero::SplitStats const stats = table.split(batch);
  char const* const names[] = {"host", "device", "both"};
  Json row{{"mode", "split"},
           {"op", "get"},
           {"dist", o_.dists[dist]},
           {"memory", memory},
           {"batch", batch},
           {"way", names[static_cast<int>(stats.way)]},
           {"device_share", stats.share}};
  row.update(row_of(compared, before, after));
  add(std::move(row), rates);
}

void Bench::split(Table& table, std::string const& memory) {
  answers_ =
      require(hetero::shared_words(sides_, *std::max_element(o_.batches.begin(), o_.batches.end())),
              "answers");
  for (std::size_t d = 0; d < pools_.size(); ++d) {
    for (std::uint64_t const batch : o_.batches)
      if (in_time()) split_batch(table, memory, d, batch);
  }
}

void Bench::hot_cold_by(hetero::HotCold& tables, std::size_t dist, std::string const& how) {
  std::uint64_t const batch = *std::max_element(o_.batches.begin(), o_.batches.end());
  Walk walk(*pools_[dist], 0);
  hetero::Keys keys;
  std::uint64_t const hot_before = tables.hot_gets(), all_before = tables.gets();
  std::uint64_t done = 0;
  double took = 0, migrating = 0;
  for (int number = 0; took < o_.seconds || number < 4; ++number) {
    keys = walk.keys(walk.next(batch), batch);
    auto const start = Clock::now();
    require(tables.get(keys, answers_->all().first(batch)), "get");
    took += std::chrono::duration<double>(Clock::now() - start).count();
    done += batch;
    if (how != "dynamic" || number % 8 != 1) continue;
    auto const moving = Clock::now();
    static_cast<void>(require(tables.migrate(), "migrating"));
    migrating += std::chrono::duration<double>(Clock::now() - moving).count();
  }
  Rates rates;
  check(keys, rates);
  auto const gets = static_cast<double>(tables.gets() - all_before);
  add({{"mode", "hot-cold"},
       {"op", "get"},
       {"dist", o_.dists[dist]},
       {"memory", how},
       {"batch", batch},
       {"hot_keys", tables.hot_keys()},
       {"hot_share", static_cast<double>(tables.hot_gets() - hot_before) / gets},
       {"mops", static_cast<double>(done) / took * 1e-6},
       {"migrating_ms", migrating * 1e3}},
      rates);
}

void Bench::hot_cold() {
  std::uint64_t const largest = *std::max_element(o_.batches.begin(), o_.batches.end());
  answers_ = require(hetero::shared_words(sides_, largest), "answers");
  std::uint64_t const hot = std::clamp<std::uint64_t>(o_.keys / 64, 1024, 1 << 16);
  auto const tables = require(hetero::create_hot_cold(sides_, {o_.keys, hot, kAhead}), "tables");
  constexpr std::size_t kBatch = 1 << 20;
  std::vector<std::uint64_t> keys, values;
  for (std::uint64_t first = 0; first < o_.keys; first += kBatch) {
    keys.clear();
    values.clear();
    for (std::uint64_t i = first; i < std::min(o_.keys, first + kBatch); ++i) {
      keys.push_back(key_of(i));
      values.push_back(value_of(keys.back(), 0));
    }
    require(tables->put(keys, values), "loading the tables");
  }
  begin("hot-cold");
  for (std::size_t d = 0; d < pools_.size() && in_time(); ++d) {
    require(tables->keep({}), "no hot keys");
    hot_cold_by(*tables, d, "device alone");
    Scramble const scramble(o_.keys);  // the highest ranks are the hottest
    std::vector<std::uint64_t> hottest;
    for (std::uint64_t rank = 0; rank < hot; ++rank) hottest.push_back(key_of(scramble(rank)));
    require(tables->keep(hottest), "the hot keys");
    hot_cold_by(*tables, d, "static");
    require(tables->keep({}), "no hot keys");
    hot_cold_by(*tables, d, "dynamic");
  }
}

}  // namespace perdure::bench::shared
