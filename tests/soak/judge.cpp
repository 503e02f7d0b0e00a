#include "soak/judge.hpp"

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "crash/pool_file.hpp"

namespace perdure::test {
namespace {

using Value = std::optional<std::string>;

Value value_in(Model const& model, std::string const& key) {
  auto const it = model.find(key);
  return it == model.end() ? Value() : Value(it->second);
}

std::string to_hex(std::string const& bytes) {
  std::string text;
  char two[3];
  for (char const c : bytes) {
    std::snprintf(two, sizeof two, "%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    text += two;
  }
  return text;
}

std::string text_of(Value const& value) { return value ? to_hex(*value) : "none"; }

std::string scan_into(Model& found, Store& store) {
  for (ScanCursor cursor; !cursor.done;) {
    auto page = store.scan(cursor, 10'000);
    if (!page) return "a scan fails: " + page.status().message();
    for (std::size_t i = 0; i + 1 < page->keys.offsets.size(); ++i) {
      std::string const key = text_at(page->keys, i);
      if (!found.emplace(key, text_at(page->values, i)).second)
        return "a scan finds key " + to_hex(key) + " twice";
    }
    cursor = page->next;
  }
  return "";
}

/// Compares keys one by one.
class Comparison {
 public:
  Comparison(Model const& before, Step const& in_flight, Model const& found, bool whole,
             bool one_by_one)
      : before_(before),
        in_flight_(in_flight),
        found_(found),
        whole_(whole),
        one_by_one_(one_by_one),
        after_(before) {
    apply_to(after_, in_flight);
  }

  std::string run(std::uint64_t& keys) {
    for (Batch const& batch : in_flight_.batches)
      for (auto const& op : batch.operations) touched_.emplace(op.key, "");
    for (Model const* const all : {&before_, static_cast<Model const*>(&touched_)}) {
      for (auto const& [key, ignored] : *all) {
        if (all == &touched_ && before_.contains(key)) continue;
        ++keys;
        if (std::string wrong = compare(key); !wrong.empty()) return wrong;
      }
    }
    for (auto const& [key, value] : found_) {
      if (!before_.contains(key) && !touched_.contains(key))
        return "a key is there that nobody put, or that was erased" + describe(key);
    }
    if (whole_ && !old_.empty() && !new_.empty())
      return "half of what was in flight is there" + describe(old_) + describe(new_);
    return "";
  }

 private:
  std::string compare(std::string const& key) {
    Value const was = value_in(before_, key);
    Value const is = value_in(found_, key);
    Value const next = touched_.contains(key) ? value_in(after_, key) : was;
    if (is != was && is != next && !(one_by_one_ && is_on_the_way(key, is)))
      return (is ? "a key has a value that nobody gave it" : "an acknowledged key is gone") +
             describe(key);
    if (was != next) (is == was ? old_ : new_) = key;
    return "";
  }

  [[nodiscard]] bool is_on_the_way(std::string const& key, Value const& is) const {
    auto const values = on_the_way(before_, in_flight_, key);
    return std::find(values.begin(), values.end(), is) != values.end();
  }

  [[nodiscard]] std::string describe(std::string const& key) const {
    static constexpr char const* kHow[] = {"plain", "atomic", "a transaction to commit",
                                           "a transaction to abort"};
    std::ostringstream text;
    text << ": key " << to_hex(key) << ", before " << text_of(value_in(before_, key)) << ", found "
         << text_of(value_in(found_, key)) << ", after " << text_of(value_in(after_, key))
         << "; what was in flight (" << kHow[static_cast<std::size_t>(in_flight_.how)] << ", "
         << in_flight_.operations() << " operations) has for it";
    for (Batch const& batch : in_flight_.batches)
      for (auto const& op : batch.operations)
        if (op.key == key) text << ' ' << static_cast<int>(op.kind) << ':' << to_hex(op.value);
    return text.str();
  }

  Model const& before_;
  Step const& in_flight_;
  Model const& found_;
  bool const whole_, one_by_one_;
  Model after_, touched_;
  std::string old_,
      new_;  // a key that what was in flight has not changed, one that it has; empty = none
};

std::string answers(Store& store, Model const& found) {
  std::vector<std::string> keys;
  keys.reserve(found.size());
  for (auto const& [key, value] : found) keys.push_back(key);
  auto const got = get_all(store, keys);
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (got[i].status != KeyStatus::ok || got[i].value != found.at(keys[i]))
      return "get and scan differ over key " + to_hex(keys[i]);
  return "";
}

std::string check_report(RecoveryReport const& r, Kind const& kind, Expected const& expected,
                         std::size_t found) {
  if (r.clean && expected.unclean && !kind.power)
    return "the pool says that it was closed in order";
  if (r.lost_acknowledged) return "the log is damaged: " + r.log_report;
  if (r.why_dropped.find("lead to no record") != std::string::npos) return r.why_dropped;
  if (r.counted && found != r.records)
    return "recovery counts " + std::to_string(r.records) + " records, a scan finds " +
           std::to_string(found);
  return "";
}

std::string examine(Store& store, Kind const& kind, Expected const& expected, Verdict& v) {
  if (std::string wrong = scan_into(v.found, store); !wrong.empty()) return wrong;
  if (std::string wrong = check_report(v.recovery, kind, expected, v.found.size()); !wrong.empty())
    return wrong;
  Step const in_flight = expected.in_flight.value_or(Step{});
  bool const whole = kind.power || in_flight.how != Step::How::plain;
  bool const one_by_one = kind.index != Index::gphash;
  if (std::string wrong =
          Comparison(expected.before, in_flight, v.found, whole, one_by_one).run(v.keys);
      !wrong.empty())
    return wrong;
  if (std::string wrong = answers(store, v.found); !wrong.empty()) return wrong;
  auto verified = store.verify();
  if (!verified) return "verify: " + verified.status().message();
  if (verified->fault_count != 0) return "verify: " + verified->faults.at(0);
  return "";
}

}  // namespace

Verdict judge(PoolFiles const& files, Kind const& kind, Device device, Expected const& expected) {
  Verdict v;
  auto store = open_pool(files, device);
  if (!store) {
    v.open = store.status();
    v.wrong = "the pool does not open: " + v.open.message();
    return v;
  }
  v.recovery = store->recovery();
  v.top_level = store->stats().top_level;
  v.wrong = examine(*store, kind, expected, v);
  if (Status s = store->close(); !s.ok() && v.wrong.empty()) v.wrong = "closing it: " + s.message();
  return v;
}

}  // namespace perdure::test
