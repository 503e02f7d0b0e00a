#include "host_sides.hpp"

#include "exec/cuda/cuda_info.hpp"

namespace perdure::hetero {
namespace {

Result<CpuSides> cpu_sides(exec::Workers* second) {
  CpuSides made;
#if defined(PERDURE_HAS_AVX512)
  if (__builtin_cpu_supports("x86-64-v4")) {
    perdure_cpu_hetero_avx512(second, made);
    return made;
  }
#endif
  if (!__builtin_cpu_supports("x86-64-v3"))
    return Status{Code::unsupported, "this processor lacks AVX2, which the CPU warps need"};
  perdure_cpu_hetero_avx2(second, made);
  return made;
}

class WordsInRegion final : public Words {
 public:
  WordsInRegion(Region region, std::size_t n) : region_(std::move(region)), n_(n) {}
  [[nodiscard]] std::span<std::uint64_t> all() override {
    return {reinterpret_cast<std::uint64_t*>(region_.data()), n_};
  }

 private:
  Region region_;
  std::size_t n_;
};

}  // namespace

Result<std::shared_ptr<Sides>> HostSides::open(perdure::Device device, std::uint32_t threads) {
  bool const on_gpu = device == perdure::Device::cuda;
  auto sides = std::shared_ptr<HostSides>(new HostSides(on_gpu, threads));
  auto cpu = cpu_sides(on_gpu ? nullptr : &sides->second_);
  if (!cpu) return cpu.status();
  sides->thread_ = std::move(cpu->thread);
  sides->device_ = on_gpu ? nullptr : launched_aside(std::move(cpu->device));
  if (on_gpu) {
    if (Status s = exec::check_gpu(); !s.ok()) return s;
    auto gpu = device_on_cuda(sides->workers_);
    if (!gpu) return gpu.status();
    sides->device_ = std::move(*gpu);
  }
  return std::shared_ptr<Sides>(std::move(sides));
}

Result<std::shared_ptr<Sides>> open_sides(perdure::Device device, std::uint32_t threads) {
  return HostSides::open(device, threads);
}

Result<std::unique_ptr<Words>> shared_words(std::shared_ptr<Sides> const& sides, std::size_t n) {
  auto region = HostSides::of(*sides).region(n * sizeof(std::uint64_t));
  if (!region) return region.status();
  return std::unique_ptr<Words>(new WordsInRegion(std::move(*region), n));
}

}  // namespace perdure::hetero
