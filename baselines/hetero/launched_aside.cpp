// The second group of CPU warps as a device whose launches return at once, as a GPU's do: each
// queue has a thread beside it that makes them. Invariant: the thread runs a launch only between
// its handing over and done(), so the caller's side is not touched by two.
#include "exec/aside.hpp"
#include "sides.hpp"

namespace perdure::hetero {
namespace {

class QueueAside final : public Queue {
 public:
  explicit QueueAside(std::unique_ptr<Queue> queue) : queue_(std::move(queue)) {}

  Status get(View const& table, GetArrays const& batch) override {
    return hand([this, table, batch] { return queue_->get(table, batch); });
  }
  Status put(View const& table, PutArrays const& batch) override {
    return hand([this, table, batch] { return queue_->put(table, batch); });
  }
  Status copy(View const& table, Rows const& rows) override {
    return hand([this, table, rows] { return queue_->copy(table, rows); });
  }
  Result<bool> done() override { return aside_.done(); }
  Status wait() override {
    aside_.wait();
    return status_;
  }
  [[nodiscard]] exec::Counts counts() const override { return queue_->counts(); }

 private:
  template <class Launch>
  Status hand(Launch launch) {
    if (Status s = wait(); !s.ok()) return s;
    aside_.hand([this, launch] {
      status_ = launch();
      if (status_.ok()) status_ = queue_->wait();
    });
    return {};
  }

  std::unique_ptr<Queue> queue_;
  Status status_;
  exec::Aside aside_;  // ends before what it uses
};

class DeviceAside final : public Device {
 public:
  explicit DeviceAside(std::unique_ptr<Device> device) : device_(std::move(device)) {}

  Result<std::unique_ptr<Queue>> queue() override {
    auto made = device_->queue();
    if (!made) return made.status();
    return std::unique_ptr<Queue>(new QueueAside(std::move(*made)));
  }
  Result<std::byte*> memory(std::size_t bytes) override { return device_->memory(bytes); }
  Status upload(std::byte* to, std::byte const* from, std::size_t bytes) override {
    return device_->upload(to, from, bytes);
  }
  Status download(std::byte* to, std::byte const* from, std::size_t bytes) override {
    return device_->download(to, from, bytes);
  }
  [[nodiscard]] std::string describe() const override {
    return "no GPU: a second group of CPU warps, " + device_->describe();
  }

 private:
  std::unique_ptr<Device> device_;
};

}  // namespace

std::unique_ptr<Device> launched_aside(std::unique_ptr<Device> device) {
  return std::make_unique<DeviceAside>(std::move(device));
}

}  // namespace perdure::hetero
