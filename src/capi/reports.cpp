// What stores say of themselves, and the machines that there are.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "capi/growing.hpp"
#include "capi/guard.hpp"

namespace perdure::capi {
namespace {

perdure_stats stats_of(Stats const& from) {
  perdure_stats s = {};
  s.records = from.records;
  s.slots = from.slots;
  s.load_factor = from.load_factor;
  s.growths = from.growths;
  s.units_left = from.units_left;
  s.batches = from.batches;
  s.pm_reads = from.accesses.pm_reads;
  s.pm_writes = from.accesses.pm_writes;
  s.orders = from.accesses.orders;
  s.cache_hits = from.accesses.cache_hits;
  s.pool_bytes = from.space.pool_bytes;
  s.used_bytes = from.space.used_bytes;
  s.mirror_bytes = from.memory.mirror_bytes;
  s.index_bytes = from.index_bytes;
  s.log_used_bytes = from.log.used_bytes;
  s.checkpoints = from.log.checkpoints;
  s.value_log_used_bytes = from.value_log.used_bytes;
  s.value_log_outdated_bytes = from.value_log.outdated_bytes;
  s.key_bytes = from.key_bytes;
  s.value_bytes = from.value_bytes;
  s.max_key_bytes = from.max_key_bytes;
  s.max_value_bytes = from.max_value_bytes;
  s.index = static_cast<std::uint32_t>(from.index);
  s.layout = static_cast<std::uint32_t>(from.layout);
  s.device = static_cast<std::uint32_t>(from.device);
  s.medium = static_cast<std::uint32_t>(from.medium);
  s.damaged = from.damage.empty() ? 0 : 1;
  return s;
}

perdure_survival survival_of(Survival const& from) {
  perdure_survival s = {};
  s.kernel_abort = from.kernel_abort;
  s.process_kill = from.process_kill;
  s.gpu_reset = from.gpu_reset;
  s.os_crash = from.os_crash;
  s.power_loss = from.power_loss;
  s.basis = static_cast<std::uint32_t>(from.basis);
  std::string const text = from.describe();
  text.copy(s.description, sizeof(s.description) - 1);
  return s;
}

perdure_recovery recovery_of(RecoveryReport const& from) {
  perdure_recovery r = {};
  r.records = from.records;
  r.dropped = from.dropped;
  r.undone = from.undone;
  r.duplicates = from.duplicates;
  r.replayed = from.replayed;
  r.recover_seconds = from.recover_seconds;
  r.clean = from.clean;
  r.counted = from.counted;
  r.resize_resumed = from.resize_resumed;
  r.repaired = from.repaired;
  r.lost_acknowledged = from.lost_acknowledged;
  return r;
}

std::vector<std::string> said(RecoveryReport const& from) {
  std::vector<std::string> lines;
  if (!from.why_dropped.empty()) lines.push_back(from.why_dropped);
  if (!from.log_report.empty()) lines.push_back(from.log_report);
  lines.insert(lines.end(), from.changes.begin(), from.changes.end());
  return lines;
}

/// Lines for a caller who asked for them.
Status give_lines(std::vector<std::string> lines, perdure_lines** given) {
  if (given == nullptr) return {};
  return make(given, "lines", [&](perdure_lines& object) -> Status {
    object.lines = std::move(lines);
    return {};
  });
}

DeviceInfo const* device_at(perdure_devices const* devices, std::size_t i) {
  return devices != nullptr && i < devices->devices.size() ? &devices->devices[i] : nullptr;
}

}  // namespace
}  // namespace perdure::capi

using perdure::Status;
using perdure::Store;
namespace capi = perdure::capi;

static_assert(PERDURE_MEDIUM_HUGETLBFS == static_cast<int>(perdure::Medium::hugetlbfs));
static_assert(PERDURE_MEDIUM_MEMFD == static_cast<int>(perdure::Medium::memfd));
static_assert(PERDURE_MEDIUM_FILE == static_cast<int>(perdure::Medium::file));
static_assert(PERDURE_BASIS_DECLARED == static_cast<int>(perdure::Basis::declared));
static_assert(PERDURE_BASIS_ASSERTED == static_cast<int>(perdure::Basis::asserted));
static_assert(PERDURE_BASIS_EMULATED == static_cast<int>(perdure::Basis::emulated));

extern "C" {

perdure_code perdure_get_stats(perdure_store const* store, perdure_stats* stats,
                               perdure_error** error) {
  return capi::in_store(store, error, [&](Store const& open) -> Status {
    if (Status s = open.belongs_here(); !s.ok()) return s;
    return capi::write_report(capi::stats_of(open.stats()), stats, "stats");
  });
}

perdure_code perdure_survives(perdure_store const* store, perdure_survival* survival,
                              perdure_error** error) {
  return capi::in_store(store, error, [&](Store const& open) -> Status {
    if (Status s = open.belongs_here(); !s.ok()) return s;
    return capi::write_report(capi::survival_of(open.survives()), survival, "survival");
  });
}

perdure_code perdure_get_recovery(perdure_store const* store, perdure_recovery* recovery,
                                  perdure_lines** lines, perdure_error** error) {
  capi::clear(lines);
  return capi::in_store(store, error, [&](Store const& open) -> Status {
    if (Status s = capi::write_report(capi::recovery_of(open.recovery()), recovery, "recovery");
        !s.ok())
      return s;
    return capi::give_lines(capi::said(open.recovery()), lines);
  });
}

perdure_code perdure_acknowledge_repair(perdure_store* store, perdure_error** error) {
  return capi::in_store(store, error, [](Store& open) { return open.acknowledge_repair(); });
}

perdure_code perdure_verify(perdure_store* store, perdure_stop const* stop,
                            perdure_verification* verification, perdure_lines** faults,
                            perdure_error** error) {
  capi::clear(faults);
  return capi::in_store(store, error, [&](Store& open) -> Status {
    perdure_verification const nothing = {};  // asked first, for the rest takes a while
    if (Status s = capi::write_report(nothing, verification, "verification"); !s.ok()) return s;
    auto report = open.verify(stop != nullptr ? &stop->stopped : nullptr);
    if (!report.ok()) return report.status();
    perdure_verification const found = {0, report->records, report->dropped, report->fault_count};
    if (Status s = capi::write_report(found, verification, "verification"); !s.ok()) return s;
    return capi::give_lines(std::move(report->faults), faults);
  });
}

std::size_t perdure_lines_count(perdure_lines const* lines) {
  return lines != nullptr ? lines->lines.size() : 0;
}

char const* perdure_lines_at(perdure_lines const* lines, std::size_t i) {
  return i < perdure_lines_count(lines) ? lines->lines[i].c_str() : "";
}

void perdure_lines_free(perdure_lines* lines) { delete lines; }

perdure_code perdure_find_devices(perdure_devices** devices, perdure_error** error) {
  capi::clear(devices);
  return capi::guarded(error, [&] {
    return capi::make(devices, "devices", [](perdure_devices& object) -> Status {
      object.devices = perdure::devices();
      return {};
    });
  });
}

std::size_t perdure_devices_count(perdure_devices const* devices) {
  return devices != nullptr ? devices->devices.size() : 0;
}

std::uint32_t perdure_devices_kind(perdure_devices const* devices, std::size_t i) {
  auto const* const device = capi::device_at(devices, i);
  return device != nullptr ? static_cast<std::uint32_t>(device->device) : 0;
}

std::uint32_t perdure_devices_available(perdure_devices const* devices, std::size_t i) {
  auto const* const device = capi::device_at(devices, i);
  return device != nullptr && device->available ? 1 : 0;
}

char const* perdure_devices_description(perdure_devices const* devices, std::size_t i) {
  auto const* const device = capi::device_at(devices, i);
  if (device == nullptr) return "";
  return device->available ? device->description.c_str() : device->why_not.c_str();
}

void perdure_devices_free(perdure_devices* devices) { delete devices; }

}  // extern "C"
