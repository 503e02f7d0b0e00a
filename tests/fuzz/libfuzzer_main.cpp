// The entry that libFuzzer calls: one program a target, which PERDURE_FUZZ_TARGET names. Only with
// clang and -DPERDURE_FUZZ=ON.
#include "targets.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  perdure::test::PERDURE_FUZZ_TARGET(data, size);
  return 0;
}
