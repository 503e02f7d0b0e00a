// A device on a machine, once for all of them: its memory, and what its queues launch. Launches on
// CPU warps return when they have ended, those on a GPU before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pm/memory.hpp"
#include "sides.hpp"
#include "update.hpp"

namespace perdure::hetero {

template <class Machine>
class QueueOn final : public Queue {
 public:
  explicit QueueOn(typename Machine::Shared& shared) : machine_(shared) {}

  Status prepare() {
    if (Status s = machine_.begin(); !s.ok()) return s;
    return counts_.resize(1);
  }

  Status get(View const& table, GetArrays const& batch) override {
    return launch(table, batch.n, GetBody{table, batch.keys, batch.values}, nullptr);
  }
  Status put(View const& table, PutArrays const& batch) override {
    if (Status s = machine_.fill(counts_.data(), 0, 1); !s.ok()) return s;
    counts_asked_ = true;
    return launch(table, batch.n, PutBody{table, batch.keys, batch.values}, counts_.data());
  }
  Status copy(View const& table, Rows const& rows) override {
    auto const words = static_cast<std::uint32_t>(rows.of_buckets ? kEntries : 2);
    return launch(table, rows.n, CopyBody{table, rows.ids, rows.contents, words, rows.of_buckets},
                  nullptr);
  }

  Result<bool> done() override {
    if constexpr (requires(Machine& m) { m.done(); }) {
      return machine_.done();
    } else {
      return true;
    }
  }
  Status wait() override {
    if (!std::exchange(counts_asked_, false)) return machine_.wait();
    auto const counted = machine_.fetch(counts_, 1);
    if (!counted) return counted.status();
    last_ = counted.value()[0];
    return {};
  }
  [[nodiscard]] exec::Counts counts() const override { return last_; }

 private:
  template <class Body>
  Status launch(View const& table, std::size_t n, Body const& body, exec::Counts* counts) {
    return machine_.template warps<typename Machine::Solo>(n, body, pm::Memory(table.base), counts);
  }

  Machine machine_;
  typename Machine::template Buffer<exec::Counts> counts_;
  exec::Counts last_;
  bool counts_asked_ = false;
};

template <class Machine>
class DeviceOn final : public Device {
  using Bytes = typename Machine::template Buffer<std::byte>;

 public:
  explicit DeviceOn(typename Machine::Shared shared)
      : shared_(std::move(shared)), machine_(shared_) {}

  Result<std::unique_ptr<Queue>> queue() override {
    auto made = std::make_unique<QueueOn<Machine>>(shared_);
    if (Status s = made->prepare(); !s.ok()) return s;
    return std::unique_ptr<Queue>(std::move(made));
  }
  Result<std::byte*> memory(std::size_t bytes) override {
    auto buffer = std::make_unique<Bytes>();
    if (Status s = machine_.begin(); !s.ok()) return s;
    if (Status s = buffer->resize(bytes); !s.ok()) return s;
    if (Status s = machine_.fill(buffer->data(), 0, bytes); !s.ok()) return s;
    if (Status s = machine_.wait(); !s.ok()) return s;
    held_.push_back(std::move(buffer));
    return held_.back()->data();
  }
  Status upload(std::byte* to, std::byte const* from, std::size_t bytes) override {
    if (Status s = machine_.send(to, from, bytes); !s.ok()) return s;
    return machine_.wait();
  }
  Status download(std::byte* to, std::byte const* from, std::size_t bytes) override {
    if constexpr (Machine::kPoolIsFar) {
      if (Status s = machine_.download_bytes(to, from, bytes); !s.ok()) return s;
      return machine_.wait();
    } else {
      return machine_.send(to, from, bytes);
    }
  }
  [[nodiscard]] std::string describe() const override { return shared_.describe(); }

 private:
  typename Machine::Shared shared_;
  Machine machine_;
  std::vector<std::unique_ptr<Bytes>> held_;
};

}  // namespace perdure::hetero
