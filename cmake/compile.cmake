# Language level, optimisation, warnings and sanitizers. Nothing here names an instruction set: each
# target in src/ says its own, so that one library can hold several.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
if(PERDURE_CUDA AND NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  # nvcc has it since 12.0; CMake 3.25.1 does not know
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# perdure_warnings: the house set. CUDA gets it for host code, but -Wpedantic, which nvcc's own
# generated stubs do not pass. Clang takes libstdc++'s own stable_sort for a use of what is
# deprecated.
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
  # What gcc's flow analysis takes for an overflow differs from version to version, and from 13 on
  # it does so in libstdc++ and fmt: there it warns, and the build goes on.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    set(perdure_flow_warnings -Wno-error=array-bounds -Wno-error=stringop-overflow
      -Wno-error=stringop-overread -Wno-error=maybe-uninitialized -Wno-error=restrict)
    list(JOIN perdure_flow_warnings "," perdure_cuda_flow_warnings)
    target_compile_options(perdure_warnings INTERFACE
      $<$<COMPILE_LANGUAGE:CXX>:${perdure_flow_warnings}>
      $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${perdure_cuda_flow_warnings}>)
  endif()
endif()

if(PERDURE_SANITIZE)
  list(JOIN PERDURE_SANITIZE "," perdure_sanitizers)
  add_compile_options(-fsanitize=${perdure_sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${perdure_sanitizers})
  if(PERDURE_SANITIZE MATCHES "address")
    # A runtime that is linked into a program finds its own thread-local words without a call: a tenth
    # to a fifth of what tests take. Shared objects take that of the program.
    include(CheckLinkerFlag)
    check_linker_flag(CXX "-fsanitize=${perdure_sanitizers};-static-libasan" perdure_has_static_asan)
    if(perdure_has_static_asan)
      add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-static-libasan>)
    endif()
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Instrumented code hides from gcc what bounds its flow analysis knew: it warns of overflows
    # that are none.
    add_compile_options(-Wno-stringop-overflow -Wno-array-bounds -Wno-maybe-uninitialized)
  endif()
  if(PERDURE_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # TSan does not follow fences, and gcc warns of each. Ours order what reaches a pool's bytes; no
    # thread relies on them to meet another, or TSan would report that as a race.
    add_compile_options(-Wno-tsan)
  endif()
  message(STATUS "Sanitizers: ${perdure_sanitizers}")
endif()

# For a target whose own code takes little of its running time (tests, command lines, judges): half
# the time to compile. A level of optimisation that the user named in CMAKE_CXX_FLAGS comes first
# and so gives way; the library's does not.
function(perdure_compile_quickly target)
  if(PERDURE_SANITIZE MATCHES "address|undefined")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O0>)
  else()
    target_compile_options(${target} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)
  endif()
endfunction()

# For a target whose sources may share a translation unit, eight at a time: most of the time to compile
# one is that of its headers. Their names of file scope must differ, then. Sources with options of
# their own stay alone, and so do those that follow: they take as long as the others together.
# -DCMAKE_UNITY_BUILD_BATCH_SIZE=0 puts all of a target into one, and so finds all names that meet.
function(perdure_compile_together target)
  if(PERDURE_TOGETHER)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON)
    perdure_compile_alone(${ARGN})
  endif()
endfunction()

# CUDA sources must be named here, for newer versions of CMake would compile them together as well.
function(perdure_compile_alone)
  set_property(SOURCE ${ARGN} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# For sources that lose much speed by what -O2 does not do (docs/benchmarks/dash.md). Flags that
# the user or a parent project gave stand.
function(perdure_compile_for_speed)
  if(CMAKE_CXX_FLAGS_RELEASE STREQUAL perdure_own_release_flags AND NOT PERDURE_SANITIZE)
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>)
  endif()
endfunction()

# For sources that hold an engine whole: what UBSan checks in code that -O1 has inlined takes gcc twice
# as long to compile as with -Og.
function(perdure_compile_large)
  if(PERDURE_SANITIZE MATCHES "undefined" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS -Og)
  endif()
endfunction()

# For a target that is there to be measured, some of whose sources are compiled for speed. Where it
# is to be tested and no more, most of the time to compile it is saved; perdure-bench says so.
function(perdure_compile_to_measure target)
  if(PERDURE_SANITIZE)
    perdure_compile_quickly(${target})
  elseif(PERDURE_UNMEASURED)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O0>)
  else()
    perdure_compile_for_speed(${ARGN})
  endif()
endfunction()

# For sources that do little but read a command line, by header-only libraries that take long to
# compile.
function(perdure_compile_plainly)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS -O0 SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# What most of our sources include of the standard library, read once a target.
# -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON builds without, and so finds the include that a source
# forgot.
set(perdure_standard_headers <algorithm> <array> <atomic> <bit> <chrono> <condition_variable> <cstddef> <cstdint>
  <cstring> <functional> <map> <memory> <mutex> <optional> <span> <string> <thread> <utility> <vector>)

if(PERDURE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "PERDURE_FUZZ=ON needs clang (libFuzzer), not ${CMAKE_CXX_COMPILER_ID}: "
                        "configure with -DCMAKE_CXX_COMPILER=clang++-19, as scripts/fuzz.sh does")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)  # the target itself links with -fsanitize=fuzzer
endif()
