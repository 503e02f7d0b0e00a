// Memory that the host must not touch, as a GPU's is, on a machine without one: each array has two
// mappings, of which the one that callers know cannot be read or written. Copies are made when they
// are waited for, and not before; a stream's work is done when somebody waits for the stream.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/device_arrays.hpp"
#include "perdure/batch.h"

namespace perdure::test {

class FakeDevice {
 public:
  /// What a kernel that is still running will have done.
  struct Stream {
    std::function<void()> work;
    [[nodiscard]] CUstream_st* handle() { return reinterpret_cast<CUstream_st*>(this); }
  };

  FakeDevice() = default;
  FakeDevice(FakeDevice const&) = delete;
  FakeDevice& operator=(FakeDevice const&) = delete;
  ~FakeDevice() {
    for (Array const& array : arrays_) {
      munmap(array.theirs, array.bytes);
      munmap(array.ours, array.bytes);
    }
  }

  std::byte* allocate(std::size_t bytes) {
    int const file = memfd_create("perdure-fake-device", MFD_CLOEXEC);
    EXPECT_EQ(ftruncate(file, static_cast<off_t>(bytes)), 0);
    auto const map = [&](int protection) {
      void* const at = mmap(nullptr, bytes, protection, MAP_SHARED, file, 0);
      EXPECT_NE(at, MAP_FAILED);
      return static_cast<std::byte*>(at);
    };
    arrays_.push_back({map(PROT_NONE), map(PROT_READ | PROT_WRITE), bytes});
    close(file);
    return arrays_.back().theirs;
  }
  template <class T>
  std::span<T> array_of(std::vector<T> const& elements) {
    std::size_t const bytes = elements.size() * sizeof(T);
    std::byte* const at = allocate(bytes + 1);
    std::memcpy(memory_at(at), elements.data(), bytes);
    return {reinterpret_cast<T*>(at), elements.size()};
  }
  template <class T>
  std::vector<T> read(std::span<T> array) {
    auto const* const at =
        reinterpret_cast<T*>(memory_at(reinterpret_cast<std::byte*>(array.data())));
    return {at, at + array.size()};
  }
  template <class T>
  void write(std::span<T> array, std::vector<T> const& elements) {
    std::memcpy(memory_at(reinterpret_cast<std::byte*>(array.data())), elements.data(),
                elements.size() * sizeof(T));
  }
  /// Where the host may touch what a caller knows; memory of the host is where it is.
  std::byte* memory_at(std::byte const* at) {
    for (Array const& array : arrays_)
      if (at >= array.theirs && at < array.theirs + array.bytes)
        return array.ours + (at - array.theirs);
    return const_cast<std::byte*>(at);
  }

  /// A way to it, for lsm::DeviceWays.
  Result<std::unique_ptr<exec::DeviceArrays>> way() {
    if (!why_not_.empty()) return Status{Code::unsupported, why_not_};
    ++ways_;
    return std::unique_ptr<exec::DeviceArrays>(std::make_unique<Way>(*this));
  }
  void take_away(std::string why) { why_not_ = std::move(why); }
  /// Whether an engine runs on it. None does: it is for who asks where arrays are.
  void set_near(bool near) { near_ = near; }
  /// After so many more copies each fails, until it is called again.
  void fail_after(std::size_t copies) { left_ = copies; }
  [[nodiscard]] std::size_t ways() const { return ways_; }
  [[nodiscard]] std::size_t sent() const { return sent_; }

 private:
  struct Array {
    std::byte* theirs;
    std::byte* ours;
    std::size_t bytes;
  };

  class Way final : public exec::DeviceArrays {
   public:
    explicit Way(FakeDevice& device) : device_(device) {}
    Status begin(CUstream_st* stream) override {
      stream_ = reinterpret_cast<Stream*>(stream);
      return {};
    }
    Result<std::byte*> room(std::size_t which, std::size_t bytes) override {
      EXPECT_LT(which, kRooms);
      rooms_[which].assign(bytes, std::byte{0xAA});
      return rooms_[which].data();
    }
    Status bring(std::byte* to, std::byte const* from, std::size_t bytes) override {
      return add(to, from, bytes);
    }
    Status send(std::byte* to, std::byte const* from, std::size_t bytes) override {
      device_.sent_ += bytes;
      return add(to, from, bytes);
    }
    [[nodiscard]] bool is_near(std::byte const*) const override { return device_.near_; }
    Status wait() override {
      if (stream_ != nullptr && stream_->work) std::exchange(stream_->work, nullptr)();
      for (Copy const& one : copies_)
        std::memcpy(device_.memory_at(one.to), device_.memory_at(one.from), one.bytes);
      copies_.clear();
      return {};
    }
    [[nodiscard]] std::size_t bytes() const override { return 0; }

   private:
    struct Copy {
      std::byte* to;
      std::byte const* from;
      std::size_t bytes;
    };
    Status add(std::byte* to, std::byte const* from, std::size_t bytes) {
      if (device_.left_ == 0) return {Code::device_error, "GPU: copying: planted failure"};
      --device_.left_;
      copies_.push_back({to, from, bytes});
      return {};
    }
    FakeDevice& device_;
    Stream* stream_ = nullptr;
    std::vector<Copy> copies_;
    std::vector<std::byte> rooms_[kRooms];
  };

  std::vector<Array> arrays_;
  std::string why_not_;
  bool near_ = false;
  std::size_t left_ = ~std::size_t{0};
  std::size_t ways_ = 0, sent_ = 0;
};

}  // namespace perdure::test
