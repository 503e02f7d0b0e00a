// Which orders of memory accesses, and which atomics, hold between threads of the host and a GPU on
// this machine: litmus tests, run millions of times. What Perdure relies on is named; `sound` says
// whether all of that held. A test that sees nothing proves nothing: it has only not been seen.
//
// Without a GPU, threads of the host are tested alone, and the report says so.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "perdure/export.h"
#include "perdure/status.h"

namespace perdure {

/// Where the words lie that both sides access.
enum class LitmusMemory : std::uint8_t {
  pinned,  // host memory, registered with the GPU as pools are
  managed,  // the driver moves pages between host and GPU
  system,  // of the process, as malloc gives it, where the GPU reaches that
};

struct LitmusOptions {
  std::uint64_t runs = 10'000'000;  // of each test
  double seconds = 60;  // of all tests together; one that is cut short says how often it ran
  LitmusMemory memory = LitmusMemory::pinned;
};

enum class LitmusVerdict : std::uint8_t {
  holds,  // the model forbids the outcome, and it was not seen
  not_seen,  // the model allows it, and it was not seen
  weak,  // the model allows it, and it was seen
  broken,  // the model forbids it, and it was seen
};
[[nodiscard]] PERDURE_API std::string_view name(LitmusVerdict verdict);

/// One test between these sides, by accesses of this order.
struct LitmusLine {
  std::string test;  // MP, SB, LB, IRIW; add, cas, swap; handover
  std::string sides;  // who runs which thread of it, as in "cpu -> gpu"
  std::string order;  // relaxed, release-acquire, fenced, sequential
  std::string scope;  // of a GPU's accesses: system or device; "-" without a GPU
  std::string memory;
  std::uint64_t runs = 0;
  std::uint64_t seen = 0;  // outcomes that the order would forbid among threads of one device;
                           // of atomics: updates that were lost
  bool allowed = false;  // by the memory model
  LitmusVerdict verdict = LitmusVerdict::not_seen;
  std::string relied_on;  // what of Perdure relies on it; empty: nothing
  double seconds = 0;
};

struct LitmusReport {
  std::vector<LitmusLine> lines;
  std::string cpu, gpu;  // which were tested; no GPU: empty
  std::string why_no_gpu;
  bool sound = true;  // what Perdure relies on held
};

/// Called between tests, with the share that is done: false stops them (Code::stopped).
using GoOn = std::function<bool(double done)>;

/// Where the report is kept for later: stores of this user then refuse, on this machine, what it
/// says has failed, with the reason; a sound report takes that back. Answers the file:
/// $PERDURE_LITMUS, else perdure/litmus below $XDG_STATE_HOME or ~/.local/state.
PERDURE_API Result<std::string> record_litmus(LitmusReport const& report);

PERDURE_API Result<LitmusReport> litmus(LitmusOptions const& options = {}, GoOn const& go_on = {});

}  // namespace perdure
