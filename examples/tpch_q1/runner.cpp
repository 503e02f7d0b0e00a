#include "runner.hpp"

#include <array>
#include <chrono>
#include <string>
#include <utility>

namespace perdure::q1 {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<std::pair<Mode, std::string_view>, 4> kModes = {{
    {Mode::cpu, "cpu"},
    {Mode::gpu, "gpu"},
    {Mode::both, "both"},
    {Mode::gpu_memory, "gpu-memory"},
}};

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

std::string_view name(Mode mode) {
  for (auto const& [one, name] : kModes)
    if (one == mode) return name;
  return {};
}

Result<Mode> mode_of(std::string_view name) {
  for (auto const& [mode, one] : kModes)
    if (one == name) return mode;
  return Status{Code::invalid_argument,
                "mode '" + std::string(name) + "': give cpu, gpu, both or gpu-memory"};
}

HostThreads::HostThreads(unsigned count) {
  threads_.reserve(count);
  for (unsigned i = 0; i < count; ++i) threads_.emplace_back([this, i] { serve(i); });
}

HostThreads::~HostThreads() {
  ended_ = true;
  ++round_;
  round_.notify_all();
}

void HostThreads::begin(std::function<void(std::size_t)> job) {
  job_ = std::move(job);
  busy_ = static_cast<std::uint32_t>(threads_.size());
  ++round_;
  round_.notify_all();
}

void HostThreads::finish() {
  for (std::uint32_t left = busy_; left != 0; left = busy_) busy_.wait(left);
}

void HostThreads::serve(std::size_t number) {
  for (std::uint32_t seen = 0;; ++seen) {
    round_.wait(seen);
    if (ended_) return;
    job_(number);
    if (--busy_ == 0) busy_.notify_all();
  }
}

Result<double> Runner::prepare(Mode mode) {
  if (mode == Mode::cpu) return 0.0;
  if (!gpu_) {
    auto gpu = Gpu::open();
    if (!gpu) return gpu.status();
    gpu_ = std::move(*gpu);
  }
  auto const begin = Clock::now();
  Status const s = mode == Mode::gpu_memory ? gpu_->copy(*table_) : gpu_->pin(*table_);
  if (!s.ok()) return s;
  return since(begin);
}

Result<Answer> Runner::run(Mode mode, Query query, Stage stage) {
  Work const work{table_->blocks, table_->form, query, stage, mode == Mode::both};
  bool const with_host = mode == Mode::cpu || mode == Mode::both;
  auto const begin = Clock::now();
  BlockQueue queue(work.blocks.size());
  std::vector<Totals> parts(threads_.count() + 1);
  if (with_host)
    threads_.begin([&](std::size_t number) { run_on_host(work, queue, parts[number]); });
  Status s;
  if (mode != Mode::cpu) s = gpu_->run(work, mode == Mode::gpu_memory, queue, parts.back());
  if (with_host) threads_.finish();
  if (!s.ok()) return s;
  Answer answer;
  auto const merge = Clock::now();
  for (Totals const& part : parts) answer.totals.add(part);
  answer.merge_seconds = since(merge);
  answer.seconds = since(begin);
  if (answer.totals.lost() > 0)
    return Status{Code::unsupported,
                  "l_returnflag and l_linestatus have more than " + std::to_string(kSlots) +
                      " pairs of values, and the query's table has a slot for so many: " +
                      std::to_string(answer.totals.lost()) + " rows found none"};
  return answer;
}

}  // namespace perdure::q1
