#include "common.hpp"
#include "device_arrays.hpp"

namespace perdure::bench {

DeviceArray::DeviceArray(std::size_t) {
  throw Failure("--device cuda: this build has no CUDA; configure with -DPERDURE_CUDA=ON");
}

DeviceArray::~DeviceArray() = default;
void DeviceArray::upload(std::span<std::byte const>) {}
void DeviceArray::download(std::span<std::byte>) const {}
void DeviceArray::zero(std::size_t) {}

}  // namespace perdure::bench
