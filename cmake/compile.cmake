# Language level, optimisation, warnings and sanitizers. Nothing here names an instruction set: each
# target in src/ says its own, so that one library can hold several.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
if(PERDURE_CUDA AND NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)  # nvcc has it since 12.0; CMake 3.25.1 does not know
endif()
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# -g1 keeps function names and lines for profilers and reports, at little cost in size.
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -g1 -DNDEBUG")
set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -lineinfo -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g")
if(PERDURE_CUDA_UNOPTIMISED)
  set(CMAKE_CUDA_FLAGS_RELEASE "-O1 -DNDEBUG -Xcicc=-O1 -Xptxas=-O1")
endif()

# perdure_warnings: the house set. CUDA gets it for host code, but -Wpedantic, which nvcc's own
# generated stubs do not pass. Clang takes libstdc++'s own stable_sort for a use of what is deprecated.
set(perdure_host_warnings -Wall -Wextra -Wshadow -Wconversion)
set(perdure_cuda_warnings -Wall,-Wextra,-Wshadow,-Wconversion)
add_library(perdure_warnings INTERFACE)
target_compile_options(perdure_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:${perdure_host_warnings};-Wpedantic>
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-deprecated-declarations>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${perdure_cuda_warnings}>)
if(PERDURE_WERROR)
  target_compile_options(perdure_warnings INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Werror>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Werror;-Werror=all-warnings>)
endif()

if(PERDURE_SANITIZE)
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -g1 -DNDEBUG")  # -O3 takes twice as long to compile
  set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")  # reports name functions and lines, no more
  list(JOIN PERDURE_SANITIZE "," perdure_sanitizers)
  add_compile_options(-fsanitize=${perdure_sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${perdure_sanitizers})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Instrumented code hides from gcc what bounds its flow analysis knew: it warns of overflows that are none.
    add_compile_options(-Wno-stringop-overflow -Wno-array-bounds -Wno-maybe-uninitialized)
  endif()
  if(PERDURE_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # TSan does not follow fences, and gcc warns of each. Ours order what reaches a pool's bytes; no
    # thread relies on them to meet another, or TSan would report that as a race.
    add_compile_options(-Wno-tsan)
  endif()
  message(STATUS "Sanitizers: ${perdure_sanitizers}")
endif()

# Compiles a target without optimisation under the address sanitizer, in half the time: for tests and what is tested
# lightly. What takes a test's time is the library.
function(perdure_plain_under_sanitizer target)
  if(PERDURE_SANITIZE MATCHES "address|undefined")
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

if(PERDURE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "PERDURE_FUZZ=ON needs clang (libFuzzer), not ${CMAKE_CXX_COMPILER_ID}: "
                        "configure with -DCMAKE_CXX_COMPILER=clang++-19, as scripts/fuzz.sh does")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)  # the target itself links with -fsanitize=fuzzer
endif()
