// The explorer's runner: batches by themselves, as device sessions, as transactions. Invariant:
// before a batch may leave anything, expect() has said what a crash may leave from then on, and
// once it is acknowledged, that nothing but its effect may be there.
#include <algorithm>
#include <array>
#include <cstring>

#include "explore/judging.hpp"
#include "explore/runner.hpp"
#include "store/gphash/device_access.hpp"

namespace perdure::explore {
namespace {

constexpr std::uint32_t kMostWarps = 16;

/// A scan that goes on a page at a time between batches: what is there all the while it finds once,
/// unless it says that keys moved.
class PagedScan {
 public:
  explicit PagedScan(std::size_t limit) : limit_(limit) {}

  /// One page more, and from the last one on a new scan. What is wrong, if anything is.
  std::optional<std::string> go_on(Store& store, Scenario const& s, Contents const& contents) {
    if (!begun_) begin(contents);
    for (std::size_t k = 0; k < kKeys; ++k) stayed_[k] = stayed_[k] && contents[k];
    auto page = store.scan(cursor_, limit_);
    if (page.status().code() == Code::busy) {
      begun_ = false;
      return std::nullopt;
    }
    if (!page) return "a page of a scan: " + page.status().message();
    for (std::size_t i = 0; i + 1 < page->keys.offsets.size(); ++i) {
      std::uint64_t value = 0;
      std::memcpy(&value, page->values.data.data() + page->values.offsets[i], sizeof value);
      auto const at = page->keys.offsets[i];
      std::size_t const k = s.find_key(page->keys.data.data() + at,
                                       static_cast<std::size_t>(page->keys.offsets[i + 1] - at));
      if (k == kKeys || contents[k] != value) return "a page of a scan finds what is not there";
      if (seen_[k] && stayed_[k]) return "a scan page by page finds " + name_of(k) + " twice";
      seen_[k] = true;
    }
    cursor_ = page->next;
    if (!cursor_.done) return std::nullopt;
    begun_ = false;
    for (std::size_t k = 0; k < kKeys; ++k)
      if (stayed_[k] && !seen_[k]) return "a scan page by page misses " + name_of(k);
    return std::nullopt;
  }
  [[nodiscard]] bool under_way() const { return begun_; }

 private:
  void begin(Contents const& contents) {
    begun_ = true;
    cursor_ = {};
    seen_ = {};
    for (std::size_t k = 0; k < kKeys; ++k) stayed_[k] = contents[k].has_value();
  }

  std::size_t limit_;
  bool begun_ = false;
  ScanCursor cursor_;
  std::array<bool, kKeys> seen_{}, stayed_{};
};

}  // namespace

std::optional<std::string> Runner::run_batch(Store& store, Batch const& batch, Contents& contents) {
  Oracle oracle{contents, contents};
  CallOptions how;
  how.atomic = scenario_->writing == Writing::atomically;
  oracle.whole = how.atomic || scenario_->layout == Layout::log;
  apply(batch, oracle.fresh);
  Columns columns(*scenario_, batch);
  expect(std::move(oracle));
  Status const s = columns.apply(store, how);
  bool const full = s.code() == Code::no_space && scenario_->superblocks != 0;
  if (!s.ok() && !full) return "a batch failed: " + s.message();
  auto const refused = columns.refused(batch);
  // Of layout `log` each operation needs an entry.
  bool const all_need = scenario_->layout == Layout::log;
  for (std::size_t k = 0; k < kKeys; ++k)
    if (refused[k] && (!full || (contents[k] && !all_need)))
      return name_of(k) + " is refused, and needs no room";
  auto const answers = apply_but(refused, batch, contents);
  if (Totals* const t = progress_.counted()) t->met.batches_refused += full;
  if (Totals* const t = progress_.counted()) t->met.inside_growths += store.stats().units_left > 0;
  expect({contents, contents});  // acknowledged
  tracker_.recorder.cut(true);
  return columns.check(batch, answers);
}

/// The batch as a device session: what its operations may answer depends on how their warps met.
std::optional<std::string> Runner::run_session(Store& store, Batch const& batch,
                                               Contents& contents) {
  std::size_t const n = batch.operations.size();
  Columns columns(*scenario_, batch);
  std::vector<std::uint64_t> began(n), ended(n);
  SessionSeen session;
  session.warps = scenario_->machine.warps;
  session.acknowledged = static_cast<std::uint32_t>(arena_.words() - kMostWarps * ++sessions_);
  expect({contents, contents, false, false, session});
  std::size_t const mine = oracles_.size() - 1;
  auto begun = DeviceAccess::open(store, {scenario_->seed % 8 == 0 ? n / 2 : n});
  if (!begun) return "a device session does not begin: " + begun.status().message();
  DeviceOps const ops{columns.key_column(),
                      Columns::column(columns.values),
                      columns.out_column(),
                      columns.kinds,
                      batch.rmw == Rmw::add,
                      session.warps,
                      columns.statuses,
                      began,
                      ended,
                      reinterpret_cast<std::uint64_t*>(arena_.data()) + session.acknowledged};
  if (Status const s = DeviceAccess::run(*begun, ops); !s.ok())
    return "a device session fails: " + s.message();
  if (Status const s = begun->end(); !s.ok())
    return "a device session does not end: " + s.message();
  Oracle& oracle = oracles_[mine];
  for (std::size_t i = 0; i < n; ++i) {
    Operation const& o = batch.operations[i];
    oracle.session->keys.push_back(o.key);
    oracle.session->seen.push_back({o.kind, batch.rmw == Rmw::add, o.operand, columns.statuses[i],
                                    columns.out[i], began[i], ended[i], true, Rmw::replace,
                                    scenario_->layout == Layout::log});
    if (Totals* const t = progress_.counted()) ++t->met.session_operations;
    if (Totals* const t = progress_.counted())
      t->met.session_refusals += columns.statuses[i] == KeyStatus::no_space;
  }
  tracker_.recorder.cut(false);  // the kernels have ended: all they wrote is there
  if (auto wrong = scan_contents(store, *scenario_, contents)) return wrong;
  oracle.fresh = contents;
  if (auto wrong = explain(oracle, contents)) return wrong;
  if (store.stats().records != count(contents))
    return "a device session counts its records wrongly";
  expect({contents, contents});
  tracker_.recorder.cut(true);
  return std::nullopt;
}

/// Whether what a device session left is what some order of its acknowledged operations, and of any
/// of the others, comes to.
std::optional<std::string> Runner::explain(Oracle const& oracle, Contents const& found) {
  SessionSeen const& session = *oracle.session;
  auto const* const done =
      reinterpret_cast<std::uint64_t const*>(arena_.data()) + session.acknowledged;
  tracker_.will_read(done, session.warps * sizeof *done);
  for (std::size_t k = 0; k < kKeys; ++k) {
    std::vector<Seen> mine;
    for (std::size_t i = 0; i < session.seen.size(); ++i) {
      if (session.keys[i] != k) continue;
      mine.push_back(session.seen[i]);
      mine.back().acknowledged = i / session.warps < done[i % session.warps];
    }
    if (explained(mine, oracle.old[k], found[k])) continue;
    std::string text = "no order of its operations explains k" + std::to_string(k) +
                       ", which was " + shown(oracle.old[k]) + " and is " + shown(found[k]) + ":";
    for (Seen const& s : mine)
      text += " [" + std::to_string(s.began) + "-" + std::to_string(s.ended) + " kind " +
              std::to_string(static_cast<int>(s.kind)) + "=" + std::to_string(s.operand) +
              " status " + std::to_string(static_cast<int>(s.status)) + " value " +
              std::to_string(s.value) + (s.acknowledged ? "]" : " not acknowledged]");
    return text;
  }
  return std::nullopt;
}

/// One after the other, each as a batch of its own, while a scan goes through the table page by
/// page.
std::optional<std::string> Runner::run_batches(Store& store, Scenario const& scenario,
                                               Contents& contents) {
  PagedScan scan(1 + scenario.seed % 3);
  for (Batch const& batch : scenario.batches) {
    if (scenario.machine.cached) {
      if (auto const loaded = store.load_cache(); !loaded)
        return "load_cache: " + loaded.status().message();
    }
    if (auto wrong = scan.go_on(store, scenario, contents)) return wrong;
    if (auto wrong = run_batch(store, batch, contents)) return wrong;
  }
  do {
    if (auto wrong = scan.go_on(store, scenario, contents)) return wrong;
  } while (scan.under_way());
  return std::nullopt;
}

/// These batches as one. A batch that finds no room fails whole, and the others count.
std::optional<std::string> Runner::run_transaction(Store& store, std::span<Batch const> batches,
                                                   bool commits, Contents& contents) {
  Scenario const& scenario = *scenario_;
  TransactionOptions options;
  options.max_operations = 0;
  for (Batch const& batch : batches) options.max_operations += batch.operations.size();
  Contents fresh = contents;
  expect({contents, contents});
  auto transaction = store.begin(options);
  if (!transaction) return "begin: " + transaction.status().message();
  CallOptions how;
  how.transaction = &*transaction;
  for (Batch const& batch : batches) {
    Contents after = fresh;
    auto const answers = apply(batch, after);
    Columns columns(scenario, batch);
    Status const s = columns.apply(store, how);
    if (s.code() == Code::no_space) {
      if (Totals* const t = progress_.counted()) ++t->met.batches_refused;
    } else if (!s.ok()) {
      return "a batch of a transaction failed: " + s.message();
    } else if (auto wrong = columns.check(batch, answers)) {
      return wrong;
    } else {
      fresh = after;
    }
    if (auto wrong = check_gets(store, scenario, fresh)) return "inside a transaction, " + *wrong;
  }
  if (commits) {
    Oracle oracle{contents, fresh};
    oracle.whole = true;
    contents = fresh;
    expect(std::move(oracle));
  }
  if (Status const s = commits ? transaction->commit() : transaction->abort(); !s.ok())
    return "the end of a transaction: " + s.message();
  expect({contents, contents});
  tracker_.recorder.cut(true);
  return std::nullopt;
}

}  // namespace perdure::explore
