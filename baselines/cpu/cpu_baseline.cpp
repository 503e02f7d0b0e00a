#include "cpu_baseline.hpp"

#include <algorithm>

#include "table_on.hpp"

namespace perdure::cpu_baselines {
namespace {

std::vector<Maker> const& makers() {
  static std::vector<Maker> const all = [] {
    std::vector<Maker> list{dash_eh(), dash_lh(), cceh(), level(), clevel(), seph()};
    for (auto const& more : {dash_without_parts(), volatile_tables()})
      list.insert(list.end(), more.begin(), more.end());
    return list;
  }();
  return all;
}

Result<Maker const*> find(std::string const& name) {
  for (Maker const& each : makers()) {
    if (each.name == name) return &each;
  }
  std::string known;
  for (std::string const& each : names()) known += (known.empty() ? "" : ", ") + each;
  return Status{Code::invalid_argument, "index '" + name + "' is not known: choose from " + known};
}

}  // namespace

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (Maker const& each : makers()) all.emplace_back(each.name);
  return all;
}

Result<std::unique_ptr<Table>> create(std::string const& path, Options const& options) {
  auto maker = find(options.index);
  if (!maker) return maker.status();
  return (*maker)->create(path, options);
}

Result<std::unique_ptr<Table>> open(std::string const& path, Options const& options) {
  auto maker = find(options.index);
  if (!maker) return maker.status();
  return (*maker)->open(path, options);
}

std::vector<EmulationPoint> emulation_points() {
  std::vector<EmulationPoint> points;
  for (pm::CalibrationPoint const& each : pm::calibration())
    points.push_back({each.what, each.unit, each.published, each.modelled});
  return points;
}

double emulated_read_ns() {
  // A ring of lines in no order, each of which leads to the next; far larger than the cache that is
  // modelled.
  constexpr std::size_t kLines = std::size_t{1} << 20, kWords = 8, kParts = 101, kReads = 2000;
  std::vector<std::uint64_t> words(kLines * kWords);
  for (std::size_t i = 0; i < kLines; ++i)
    words[i * kWords] = (i * 0x9e3779b1u + 0x85ebca6bu) % kLines;
  pm::EmulatedMedium medium;
  pm::EmulatedHost host(medium, pm::DurableRange(std::as_bytes(std::span(words))),
                        std::uint64_t{1} << 20);
  std::vector<double> parts;
  std::uint64_t at = 0;
  for (std::size_t part = 0; part < kParts; ++part) {
    double const begin = host.now();
    for (std::size_t i = 0; i < kReads; ++i) at = host.load(&words[at * kWords]);
    parts.push_back((host.now() - begin) / kReads);
  }
  std::nth_element(parts.begin(), parts.begin() + kParts / 2, parts.end());
  return parts[kParts / 2];
}

}  // namespace perdure::cpu_baselines
