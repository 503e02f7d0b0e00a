# What a build by itself is compiled with where the user says nothing: read before project(), so
# that what a user gives in CMAKE_CXX_FLAGS_RELEASE, or a parent project has, stands as it is. For
# profilers add -g1 (CUDA: -lineinfo); the preset `dev` has it.
set(perdure_own_release_flags "-O2 -DNDEBUG")
if(CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)
  set(CMAKE_CXX_FLAGS_RELEASE "${perdure_own_release_flags}" CACHE STRING "Flags of Release builds")
  set(CMAKE_CXX_FLAGS_DEBUG "-g -O1" CACHE STRING "Flags of Debug builds")
  set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -DNDEBUG" CACHE STRING "Flags of Release builds for CUDA")
endif()
