// The entry that libFuzzer calls. Only with clang and -DPERDURE_FUZZ=ON.
#include "fuzz_open.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  perdure::test::fuzz_one(data, size);
  return 0;
}
