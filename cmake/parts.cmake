# The parts that stand on the library: each is a directory with an option. Benchmarks and tests
# share the baselines that they measure and test.
if(PERDURE_BENCH OR PERDURE_TESTS)
  add_subdirectory(baselines/cpu)
  add_subdirectory(baselines/gpu)
  add_subdirectory(baselines/hetero)
endif()
foreach(part IN ITEMS python bench tests)
  string(TOUPPER "PERDURE_${part}" wanted)
  if(NOT ${wanted})
    continue()
  endif()
  if(NOT EXISTS "${PROJECT_SOURCE_DIR}/${part}/CMakeLists.txt")
    message(FATAL_ERROR "${wanted}=ON, but ${part}/ is not in this source tree: configure with -D${wanted}=OFF")
  endif()
  add_subdirectory("${part}")
endforeach()

if(PERDURE_EXAMPLES)
  add_subdirectory(examples)
endif()

# perdure_package: what the Python package installs (component python), and no more.
add_custom_target(perdure_package)
foreach(target IN ITEMS _native _rocks perdure-bench perdure-bench-rocks perdure-gpmbench perdure-explore perdure_rocks_preload)
  if(TARGET ${target})
    add_dependencies(perdure_package ${target})
  endif()
endforeach()
