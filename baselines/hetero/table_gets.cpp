// Gets of a shared table: a batch by one side or by both, and a caller's own.
#include <algorithm>
#include <chrono>

#include "shared_table.hpp"
#include "update.hpp"

namespace perdure::hetero {
namespace {

constexpr std::uint32_t kAhead = 20;  // keys; Figure 4.20 finds 13 or more enough

// A way of the face that a batch can go is one of exec::Split's, by its number.
static_assert(static_cast<int>(Way::host) == static_cast<int>(exec::SplitWay::host) &&
              static_cast<int>(Way::device) == static_cast<int>(exec::SplitWay::device) &&
              static_cast<int>(Way::both) == static_cast<int>(exec::SplitWay::both));

double since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class CallerOf final : public Caller {
 public:
  CallerOf(SharedTable& table, std::unique_ptr<Queue> queue)
      : table_(table), queue_(std::move(queue)) {}

  void get_here(Keys keys, std::span<std::uint64_t> values, std::uint32_t ahead) override {
    table_.sides().thread().get(table_.host_view(), {keys.data(), values.data(), keys.size()},
                                std::min(ahead, kMostAheadAsked));
  }
  Status put_here(Keys keys, Keys values) override {
    if (Status s = one_copy(Where::host); !s.ok()) return s;
    exec::Counts const counts = table_.sides().thread().put(
        table_.host_view(), {keys.data(), values.data(), keys.size()}, 0);
    return counts[TableCounts::full] == 0 ? Status{} : table_.full();
  }
  Status begin_get(Copy copy, Keys keys, std::span<std::uint64_t> values) override {
    bool const there =
        copy == Copy::host ? table_.where() != Where::device : table_.where() != Where::host;
    if (!there)
      return {Code::invalid_argument, "the table has no such copy: see TableOptions::where"};
    return queue_->get(table_.device_view(copy), {keys.data(), values.data(), keys.size()});
  }
  Status begin_put(Keys keys, Keys values) override {
    if (Status s = one_copy(Where::device); !s.ok()) return s;
    putting_ = true;
    return queue_->put(table_.device_view(Copy::device), {keys.data(), values.data(), keys.size()});
  }
  Result<bool> done() override { return queue_->done(); }
  Status wait() override {
    if (Status s = queue_->wait(); !s.ok()) return s;
    if (!std::exchange(putting_, false)) return {};
    return queue_->counts()[TableCounts::full] == 0 ? Status{} : table_.full();
  }

 private:
  static constexpr std::uint32_t kMostAheadAsked = 64;

  /// Of two copies, one would be left behind.
  [[nodiscard]] Status one_copy(Where where) const {
    if (table_.where() == where) return {};
    return {Code::invalid_argument,
            "a caller's own puts need a table in host memory alone, or in the device's: "
            "of one that lies twice, use Table::put"};
  }

  SharedTable& table_;
  std::unique_ptr<Queue> queue_;
  bool putting_ = false;
};

}  // namespace

Result<std::unique_ptr<Caller>> SharedTable::caller() {
  auto queue = sides_->device().queue();
  if (!queue) return queue.status();
  return std::unique_ptr<Caller>(new CallerOf(*this, std::move(*queue)));
}

Status SharedTable::get(Keys keys, std::span<std::uint64_t> values, Way way) {
  if (Status s = check(keys, values.size()); !s.ok()) return s;
  if (keys.empty()) return {};
  if (where_ == Where::device && way == Way::automatic) way = Way::device;
  if (where_ == Where::device && way != Way::device)
    return {Code::invalid_argument,
            "the table lies in the device's memory alone, where host threads cannot look keys up"};
  auto const choice = way == Way::automatic
                          ? split_.next(keys.size())
                          : split_.asked(static_cast<exec::SplitWay>(way), keys.size());
  exec::Split::Times times;
  if (Status s = get_split(keys, values, choice, times); !s.ok()) return s;
  if (way == Way::automatic) split_.noted(choice, keys.size(), times);
  if (way == Way::both) split_.parted(choice, keys.size(), times);
  return {};
}

SplitStats SharedTable::split(std::uint64_t batch) const {
  exec::Split::Report const report = split_.report(batch);
  auto const us = [&](exec::SplitWay way) {
    return report.seconds[static_cast<std::size_t>(way)] * 1e6;
  };
  return {report.batch,
          report.share,
          us(exec::SplitWay::host),
          us(exec::SplitWay::device),
          us(exec::SplitWay::both),
          static_cast<Way>(report.best),
          report.contests,
          report.spent,
          report.on_contests};
}

/// The device's part is under way while the host's threads answer the rest (approach 2).
Status SharedTable::get_split(Keys keys, std::span<std::uint64_t> values,
                              exec::Split::Choice const& choice, exec::Split::Times& times) {
  auto const start = std::chrono::steady_clock::now();
  std::size_t const first = choice.device_n, rest = keys.size() - first;
  if (first > 0) {
    View const view = device_view(where_ == Where::host ? Copy::host : Copy::device);
    if (Status s = queue_->get(view, {keys.data(), values.data(), first}); !s.ok()) return s;
  }
  if (rest > 0) {
    sides_->share_out(rest, [&](std::size_t begin, std::size_t end) {
      GetArrays const part{keys.data() + first + begin, values.data() + first + begin, end - begin};
      sides_->thread().get(host_, part, kAhead);
    });
  }
  times.host_seconds = since(start);
  if (first > 0) {
    if (rest > 0) {
      auto done = queue_->done();
      if (!done) return done.status();
      times.device_first = *done;
    }
    if (Status s = queue_->wait(); !s.ok()) return s;
  }
  times.seconds = since(start);
  return {};
}

}  // namespace perdure::hetero
