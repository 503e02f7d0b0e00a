// CPU-assisted data management (section 2.1.3, the blue line of figure 1): what lies in GPU memory
// is copied to the CPU, the CPU's index serves the batch and gathers values, and they are copied
// back. Columns in host memory are used where they lie, and then no GPU takes part. The index is
// any Baseline: those of the paper's comparison (Clevel, Dash, SEPH; section 4.1), and Perdure's
// own on CPU warps.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "baseline.hpp"
#include "exec/workers.hpp"

namespace perdure::baselines {

template <class Machine>
class Assisted final : public Baseline {
 public:
  Assisted(std::unique_ptr<Baseline> index, typename Machine::Shared machine,
           std::shared_ptr<exec::Workers> workers)
      : index_(std::move(index)),
        workers_(std::move(workers)),
        shared_(std::move(machine)),
        machine_(shared_) {}

  Status get(Column const& keys, MutableColumn const& values,
             std::span<KeyStatus> statuses) override {
    auto const mine = on_host(keys, 0);
    if (!mine) return mine.status();
    auto const out = machine_.host_room(values);
    if (!out) return out.status();
    if (Status s = machine_.wait(); !s.ok()) return s;
    if (Status s = index_->get(
            mine.value(), {out.value(), values.width, values.count, MemorySpace::host}, statuses);
        !s.ok())
      return s;
    if (Status s = machine_.send_back(values); !s.ok()) return s;
    return machine_.wait();
  }

  Status put(Column const& keys, Column const& values, std::span<KeyStatus> statuses) override {
    return change(keys, values, statuses, &Baseline::put);
  }
  Status update(Column const& keys, Column const& values, std::span<KeyStatus> statuses) override {
    return change(keys, values, statuses, &Baseline::update);
  }
  Status erase(Column const& keys, std::span<KeyStatus> statuses) override {
    auto const mine = on_host(keys, 0);
    if (!mine) return mine.status();
    if (Status s = machine_.wait(); !s.ok()) return s;
    return index_->erase(mine.value(), statuses);
  }

  [[nodiscard]] BaselineStats stats() const override { return index_->stats(); }
  void reset_counts() override { index_->reset_counts(); }

 private:
  Result<Column> on_host(Column const& column, int which) {
    if (Status s = machine_.begin(nullptr); !s.ok()) return s;
    return machine_.download_column(column, which);
  }

  Status change(Column const& keys, Column const& values, std::span<KeyStatus> statuses,
                Status (Baseline::*verb)(Column const&, Column const&, std::span<KeyStatus>)) {
    auto const mine = on_host(keys, 0);
    if (!mine) return mine.status();
    auto const operands = machine_.download_column(values, 1);
    if (!operands) return operands.status();
    if (Status s = machine_.wait(); !s.ok()) return s;
    return (index_.get()->*verb)(mine.value(), operands.value(), statuses);
  }

  std::unique_ptr<Baseline> index_;
  std::shared_ptr<exec::Workers> workers_;  // that the machine uses
  typename Machine::Shared shared_;
  Machine machine_;
};

}  // namespace perdure::baselines
