// What iterating applications share (GPM section 4.2): they run kernels again and again, and
// checkpoint registered memory with a word: the number of the iteration, and above it 32 bits that
// say of which inputs. Invariant: a resumed run begins after the iteration that the newest
// checkpoint names, with the memory as it was then; so it repeats at most `every` iterations. A
// checkpoint of other inputs is refused.
#pragma once

#include <unistd.h>

#include <functional>
#include <string>

#include "app.hpp"

namespace perdure::bench::gpm {

struct Element {
  void* at;  // machine memory
  std::size_t bytes;
};

/// What iterations begin with follows from these; 0 in the bits where their number stands.
[[nodiscard]] inline std::uint64_t inputs_of(AppOptions const& options, std::size_t bytes) {
  std::uint64_t const folder =
      digest_of(std::vector<char>(options.data.begin(), options.data.end()));
  std::vector<std::uint64_t> const all{bytes, static_cast<std::uint64_t>(options.size),
                                       options.seed, folder};
  return digest_of(all) >> 32 << 32;
}

/// `step(i)` launches iteration i, from 0. The elements are all that iterations need besides inputs
/// that never change.
template <class Grid>
AppReport iterate(Grid& grid, AppOptions const& options, std::uint32_t iterations,
                  std::vector<Element> const& elements,
                  std::function<void(std::uint32_t)> const& step) {
  using Checkpoint = perdure::gpm::Checkpoint<Grid>;
  std::size_t bytes = 0;
  for (Element const& element : elements) bytes += element.bytes;
  typename Checkpoint::Options const how{options.path, options.flush_threads};
  std::string const file = file_of(options, "checkpoint");
  std::uint64_t const inputs = inputs_of(options, bytes);
  bool const goes_on = options.resume && access(file.c_str(), F_OK) == 0;
  auto checkpoint =
      require(goes_on ? Checkpoint::open(grid, file, how)
                      : Checkpoint::create(grid, file, bytes,
                                           static_cast<std::uint32_t>(elements.size()), 1, how),
              "checkpoint");
  for (Element const& element : elements)
    require(checkpoint.add(element.at, element.bytes, 0), "checkpoint");

  AppReport report;
  if (goes_on) {
    auto const from = checkpoint.restore(0);
    if (from.ok() && from.value() >> 32 << 32 != inputs)
      throw Failure(file + " is of another size, seed or data; resume it as it was run");
    if (from.ok()) {
      report.began_at = from.value() - inputs;
    } else if (from.status().code() != Code::not_found) {  // none yet: from the beginning
      require(from.status(), "restoring");
    }
  }
  Stopwatch watch;
  for (std::uint64_t i = report.began_at; i < iterations; ++i) {
    step(static_cast<std::uint32_t>(i));
    ++report.steps;
    if ((i + 1) % options.every != 0 && i + 1 != iterations) continue;
    require(grid.order(), "iterations");
    report.run_s += watch.lap();
    require(checkpoint.checkpoint(0, inputs | (i + 1)), "checkpointing");
    double const took = watch.lap();
    report.run_s += took;
    report.durable_s += took;
    report.durable_bytes += bytes;
  }
  watch.lap();
  require(checkpoint.restore(0).status(),
          "restoring");  // what a resumed run would wait for; changes nothing
  report.recovery_s = watch.lap();
  return report;
}

}  // namespace perdure::bench::gpm
