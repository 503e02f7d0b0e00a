# Decides whether GPU code is built, and says so. Leaves PERDURE_CUDA as ON or OFF for the rest of
# this configure run (the cache keeps what the user asked for), and enables the language when ON.
# Leaves perdure_cuda_root too, the directory of the toolkit.

set(perdure_cuda_at_least 13.0)

string(TOUPPER "${PERDURE_CUDA}" perdure_cuda_wanted)
if(perdure_cuda_wanted MATCHES "^(ON|TRUE|YES|1)$")
  set(perdure_cuda_wanted ON)
elseif(perdure_cuda_wanted MATCHES "^(OFF|FALSE|NO|0)$")
  set(perdure_cuda_wanted OFF)
elseif(NOT perdure_cuda_wanted STREQUAL "AUTO")
  message(FATAL_ERROR "PERDURE_CUDA is '${PERDURE_CUDA}': give AUTO, ON or OFF")
endif()

# Sets `found` to the nvcc to use, or to an empty string. A compiler named by the user wins; then
# the one that scripts/setup.sh put into .venv (it does so only where no other was good enough).
function(perdure_find_nvcc found)
  if(CMAKE_CUDA_COMPILER)
    set(${found} "${CMAKE_CUDA_COMPILER}" PARENT_SCOPE)
    return()
  endif()
  if(DEFINED ENV{CUDACXX})
    set(${found} "$ENV{CUDACXX}" PARENT_SCOPE)
    return()
  endif()
  file(GLOB in_venv LIST_DIRECTORIES true "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cu13/bin")
  find_program(nvcc nvcc HINTS ${in_venv} PATHS /usr/local/cuda/bin NO_CACHE)
  if(nvcc)
    set(${found} "${nvcc}" PARENT_SCOPE)
  else()
    set(${found} "" PARENT_SCOPE)
  endif()
endfunction()

# Sets `version` to for example 13.0, or to an empty string when the compiler does not run.
function(perdure_nvcc_version nvcc version)
  execute_process(COMMAND "${nvcc}" --version OUTPUT_VARIABLE said ERROR_QUIET RESULT_VARIABLE status)
  set(${version} "" PARENT_SCOPE)
  if(status EQUAL 0 AND said MATCHES "release ([0-9]+\\.[0-9]+)")
    set(${version} "${CMAKE_MATCH_1}" PARENT_SCOPE)
  endif()
endfunction()

# Sets `why_not` to the reason why GPU code cannot be built, or to an empty string.
function(perdure_cuda_obstacle nvcc why_not)
  set(${why_not} "" PARENT_SCOPE)
  if(PERDURE_SANITIZE)
    set(${why_not} "sanitizers check host code (PERDURE_SANITIZE=${PERDURE_SANITIZE})" PARENT_SCOPE)
    return()
  endif()
  if(NOT nvcc)
    set(${why_not} "no nvcc in .venv, PATH or /usr/local/cuda (scripts/setup.sh installs one)" PARENT_SCOPE)
    return()
  endif()
  perdure_nvcc_version("${nvcc}" version)
  if(NOT version)
    set(${why_not} "${nvcc} does not run" PARENT_SCOPE)
  elseif(version VERSION_LESS perdure_cuda_at_least)
    set(${why_not} "${nvcc} is ${version}, at least ${perdure_cuda_at_least} is needed" PARENT_SCOPE)
  endif()
endfunction()

# A machine with a GPU compiles for that GPU alone; others for Hopper, with PTX for Ampere and
# all later ones (before Ampere there is no warp-wide reduction).
function(perdure_default_architectures)
  if(DEFINED CMAKE_CUDA_ARCHITECTURES OR DEFINED ENV{CUDAARCHS})
    return()
  endif()
  set(architectures "80-virtual;90-real")
  if(EXISTS /dev/nvidiactl)
    set(architectures native)
  endif()
  set(CMAKE_CUDA_ARCHITECTURES "${architectures}" CACHE STRING "GPU architectures to compile for")
endfunction()

set(PERDURE_CUDA OFF)
if(NOT perdure_cuda_wanted STREQUAL "OFF")
  perdure_find_nvcc(perdure_nvcc)
  perdure_cuda_obstacle("${perdure_nvcc}" perdure_cuda_why_not)
  if(NOT perdure_cuda_why_not)
    set(PERDURE_CUDA ON)
  elseif(perdure_cuda_wanted STREQUAL "ON")
    message(FATAL_ERROR "PERDURE_CUDA=ON, but ${perdure_cuda_why_not}")
  endif()
else()
  set(perdure_cuda_why_not "PERDURE_CUDA=OFF")
endif()

if(PERDURE_CUDA)
  perdure_default_architectures()
  set(CMAKE_CUDA_COMPILER "${perdure_nvcc}" CACHE FILEPATH "nvcc")
  # a machine without driver or toolkit must load what we build
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  enable_language(CUDA)
  # Not find_package(CUDAToolkit): that of CMake 3.25 stops at the wheels' layout, which lacks
  # nvToolsExt. dependencies.cmake finds the runtime under this directory.
  cmake_path(GET CMAKE_CUDA_COMPILER PARENT_PATH perdure_cuda_root)
  cmake_path(GET perdure_cuda_root PARENT_PATH perdure_cuda_root)
  message(STATUS "CUDA: on (${CMAKE_CUDA_COMPILER} ${CMAKE_CUDA_COMPILER_VERSION}, "
                 "architectures ${CMAKE_CUDA_ARCHITECTURES})")
else()
  message(STATUS "CUDA: off (${perdure_cuda_why_not})")
endif()

# Programs whose kernels can be made to abort (tests/soak, bench/gpm): minutes of nvcc, which only a
# machine with a GPU can use. perdure_trap_programs says whether they are built.
set(perdure_trap_programs OFF)
if(PERDURE_CUDA AND PERDURE_TESTS)
  set(perdure_trap_programs "${PERDURE_TRAP_PROGRAMS}")
  if(perdure_trap_programs STREQUAL "AUTO")
    execute_process(COMMAND nvidia-smi -L RESULT_VARIABLE no_gpu OUTPUT_VARIABLE gpus ERROR_QUIET)
    set(perdure_trap_programs OFF)
    if(no_gpu EQUAL 0 AND gpus)
      set(perdure_trap_programs ON)
    endif()
  endif()
endif()
