#include "store/gphash/shared_gets.hpp"

#include <chrono>
#include <string_view>
#include <utility>

#include "base/assert.hpp"
#include "base/caught.hpp"
#include "batch/pieces.hpp"
#include "store/gphash/side.hpp"

namespace perdure {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_of_gets_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Why the gets of such a store are its device's, unless something else is asked for; empty:
/// they are shared.
std::string_view not_by_itself(Core const& core) {
  if (core.in_place()) return "layout in_place is as published: its gets are the device's";
  if (core.options.count_accesses) return "accesses are counted, which are to be the device's";
  if (core.options.memory.cache_bytes != 0)
    return "records are cached by what the device's gets ask for";
  return {};
}

GetsBy by(exec::SplitWay way) {
  if (way == exec::SplitWay::host) return GetsBy::host;
  return way == exec::SplitWay::device ? GetsBy::device : GetsBy::both;
}

}  // namespace

SharedGets::SharedGets(Core& core) : core_(core), by_(core.options.gets_by) {
  if (by_ != GetsBy::device && core.logged()) {
    why_not_ = "layout log has its index in the device's memory: gets are the device's";
    by_ = GetsBy::device;
  }
  if (by_ == GetsBy::automatic) {
    bool const on_gpu = core.options.device == Device::cuda;
    if (on_gpu) why_not_ = not_by_itself(core);
    by_ = on_gpu && why_not_.empty() ? GetsBy::measured : GetsBy::device;
  }
  if (by_ != GetsBy::device && core.pool.header().value_bytes == 0) {
    why_not_ = "values have any length, and the device gets them alone";
    by_ = GetsBy::device;
  }
}

bool SharedGets::takes(Call const& call) const {
  return by_ != GetsBy::device && !off_.load(std::memory_order_relaxed) &&
         call.keys.space == MemorySpace::host && call.out.space == MemorySpace::host &&
         call.stream == nullptr && call.device_statuses == nullptr;
}

Status SharedGets::get(Call const& call, std::span<std::uint8_t const> first,
                       std::span<KeyStatus> statuses) {
  std::size_t const n = call.keys.count;
  PERDURE_ASSERT(n > 0 && call.kind == OpKind::get && call.kinds.empty());
  if (Status s = follow(); !s.ok()) return s;
  Choice const choice =
      off_.load(std::memory_order_relaxed) ? Choice{exec::SplitWay::device, n} : choose(n);
  Times times;
  if (Status s = answered(choice, call, first, statuses, times); !s.ok()) return s;
  host_keys_.fetch_add(n - choice.device_n, std::memory_order_relaxed);
  device_keys_.fetch_add(choice.device_n, std::memory_order_relaxed);
  if (choice.device_n == 0) batches_of_host_.fetch_add(1, std::memory_order_relaxed);
  note(choice, n, times);
  return {};
}

/// The table as it is now. Whoever gets passes here, so the first after a change finds no session
/// of host_ running. Without memory for it the device is alone.
Status SharedGets::follow() {
  if (generation_.load(std::memory_order_acquire) == core_.generation &&
      pool_bytes_.load(std::memory_order_acquire) == core_.table.view().pool_bytes)
    return {};
  MutexLock const lock(mutex_);
  if (off_.load(std::memory_order_relaxed)) return {};
  Status const s = follow_now();
  if (s.code() != Code::no_space && s.code() != Code::unsupported) return s;
  failed_ = s.message();
  off_.store(true, std::memory_order_relaxed);
  return {};
}

Status SharedGets::follow_now() {
  if (host_ == nullptr) {
    EngineOptions options = core_.engine_options;
    options.mirrored = false;
    options.gets_only = true;
    options.cache_bytes = 0;
    host_ = make_cpu_engine(options);
    if (host_ == nullptr)
      return {Code::unsupported, "this processor lacks AVX2, which the CPU warps need"};
  }
  if (generation_ != core_.generation) {
    if (Status s = host_->set_table(core_.table.view(), core_.table.slots()); !s.ok()) return s;
  } else if (pool_bytes_ != core_.table.view().pool_bytes) {
    host_->set_pool_bytes(core_.table.view().pool_bytes);
  }
  generation_.store(core_.generation, std::memory_order_release);
  pool_bytes_.store(core_.table.view().pool_bytes, std::memory_order_release);
  return {};
}

Status SharedGets::answered(Choice const& choice, Call const& call,
                            std::span<std::uint8_t const> first, std::span<KeyStatus> statuses,
                            Times& times) {
  auto const start = Clock::now();
  bool const by_host = choice.device_n == 0;
  times.learning = !by_host && core_.engine->is_learning(choice.device_n);
  if (!by_host && choice.device_n < call.keys.count)
    return answered_by_both(choice.device_n, call, first, statuses, times);
  Status s = by_host ? get_by(*host_, sessions_, call, first, statuses)
                     : get_by(*core_.engine, core_.sessions, call, first, statuses);
  times.seconds = seconds_of_gets_since(start);
  return s;
}

/// The device's part is under way while the host's threads answer the rest.
Status SharedGets::answered_by_both(std::size_t device_n, Call const& call,
                                    std::span<std::uint8_t const> first,
                                    std::span<KeyStatus> statuses, Times& times) {
  std::size_t const rest = call.keys.count - device_n;
  auto const part = [&](auto all, std::size_t begin, std::size_t n) {
    return all.empty() ? all : all.subspan(begin, n);
  };
  Call const of_device = part_of(call, 0, device_n), of_host = part_of(call, device_n, rest);
  auto aside = take_aside();
  Status by_device;
  auto const start = Clock::now();
  aside->hand([&] {
    by_device = caught([&] {
      return get_by(*core_.engine, core_.sessions, of_device, part(first, 0, device_n),
                    part(statuses, 0, device_n));
    });
    times.device_seconds = seconds_of_gets_since(start);
  });
  Status by_host = caught([&] {
    return get_by(*host_, sessions_, of_host, part(first, device_n, rest),
                  part(statuses, device_n, rest));
  });
  times.host_seconds = seconds_of_gets_since(start);
  aside->wait();
  times.seconds = seconds_of_gets_since(start);
  times.device_first = times.device_seconds < times.host_seconds;
  give_aside(std::move(aside));
  return by_device.ok() ? by_host : by_device;
}

SharedGets::Choice SharedGets::choose(std::size_t n) {
  MutexLock const lock(mutex_);
  if (by_ == GetsBy::measured) return split_.next(n);
  return split_.asked(by_ == GetsBy::host ? exec::SplitWay::host : exec::SplitWay::both, n);
}

void SharedGets::note(Choice const& choice, std::size_t n, Times const& times) {
  if (choice.way == exec::SplitWay::both && times.host_seconds == 0) return;  // one key
  MutexLock const lock(mutex_);
  if (by_ == GetsBy::measured) split_.noted(choice, n, times);
  if (by_ == GetsBy::both) split_.parted(choice, n, times);
}

std::unique_ptr<exec::Aside> SharedGets::take_aside() {
  {
    MutexLock const lock(mutex_);
    if (!asides_.empty()) {
      auto aside = std::move(asides_.back());
      asides_.pop_back();
      return aside;
    }
  }
  return std::make_unique<exec::Aside>();
}

void SharedGets::give_aside(std::unique_ptr<exec::Aside> aside) {
  MutexLock const lock(mutex_);
  asides_.push_back(std::move(aside));
}

SharingStats SharedGets::stats() const {
  SharingStats stats;
  stats.host_keys = host_keys_;
  stats.device_keys = device_keys_;
  stats.shared = by_ != GetsBy::device && !off_;
  MutexLock const lock(mutex_);
  stats.note = failed_.empty() ? why_not_ : failed_;
  for (exec::Split::Report const& report : split_.reports()) {
    auto const us = [&](exec::SplitWay way) {
      return report.seconds[static_cast<std::size_t>(way)] * 1e6;
    };
    stats.sizes.push_back({report.batch, by(report.best), report.share, us(exec::SplitWay::host),
                           us(exec::SplitWay::device), us(exec::SplitWay::both), report.contests,
                           report.spent, report.on_contests});
  }
  return stats;
}

exec::Counts SharedGets::take_counts() {
  MutexLock const lock(mutex_);
  return host_ != nullptr ? host_->report().gets : exec::Counts{};
}

void SharedGets::clear() {
  sessions_.clear();
  MutexLock const lock(mutex_);
  asides_.clear();
  host_.reset();
}

}  // namespace perdure
