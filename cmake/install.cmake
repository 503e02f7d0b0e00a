# What `cmake --install` lays down for a C++ user: headers, the library and a package for
# find_package(perdure) and pkg-config. Component `cpp`; the Python module is component `python`,
# which is installed where it is named and else left out.
include(CMakePackageConfigHelpers)

set(perdure_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/perdure")

set(perdure_libraries perdure)
if(PERDURE_SHARED)
  list(APPEND perdure_libraries perdure_shared)
endif()
install(TARGETS ${perdure_libraries} EXPORT perdureTargets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT cpp
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT cpp
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/perdure" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  COMPONENT cpp FILES_MATCHING PATTERN "*.h" PATTERN "rocks.h" EXCLUDE PATTERN "serve.h" EXCLUDE)
if(TARGET perdure_rocks)
  install(TARGETS perdure_rocks EXPORT perdureTargets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT cpp)
  install(FILES "${PROJECT_SOURCE_DIR}/include/perdure/rocks.h"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/perdure" COMPONENT cpp)
endif()
set(perdure_with_serve OFF)
if(TARGET perdure_serve)
  set(perdure_with_serve ON)
  install(TARGETS perdure_serve EXPORT perdureTargets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT cpp)
  install(FILES "${PROJECT_SOURCE_DIR}/include/perdure/serve.h"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/perdure" COMPONENT cpp)
endif()
# The public headers that include the engine's own, which lie below perdure/internal:
# perdure/gpm.hpp and gpm.h, and, for kernels on a GPU, perdure/libgpm.cuh and device.cuh.
# scripts/check_package.sh builds examples/ against them.
install(FILES "${PROJECT_SOURCE_DIR}/include/perdure/gpm.hpp"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/perdure" COMPONENT cpp)
install(FILES "${PROJECT_SOURCE_DIR}/include/perdure/libgpm.cuh"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/perdure" COMPONENT cpp)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/perdure/gpm_dialect"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/perdure" COMPONENT cpp FILES_MATCHING PATTERN "*.cuh")
set(perdure_internal_headers
  base/annotate.hpp base/assert.hpp base/hash.hpp base/hooks.hpp
  exec/counts.hpp exec/grid.hpp exec/cpu/grid_cpu.hpp exec/grid_sort.hpp exec/sort.hpp exec/workers.hpp
  gpm/gpm_checkpoint_file.hpp gpm/gpm_checkpoint_on.hpp gpm/gpm_ddio.hpp gpm/gpm_file.hpp gpm/gpm_format.hpp
  gpm/gpm_log.hpp gpm/gpm_log_file.hpp gpm/gpm_log_on.hpp gpm/gpm_memory_on.hpp gpm/gpm_path.hpp
  pm/file_lock.hpp pm/file_memory.hpp pm/flush.hpp pm/mapping.hpp pm/named_file.hpp pm/host_verbs.hpp)
if(PERDURE_CUDA)
  install(FILES "${PROJECT_SOURCE_DIR}/include/perdure/device.cuh"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/perdure" COMPONENT cpp)
  list(APPEND perdure_internal_headers
    base/offset.hpp batch/counts.hpp batch/key.hpp
    exec/bits.hpp exec/crc_tables.hpp exec/cuda/cuda_crc.cuh exec/cuda/cuda_status.cuh
    exec/cuda/cuda_warp.cuh
    exec/cuda/grid_cuda.cuh
    exec/warp_concept.hpp pm/memory_concept.hpp
    index/gphash/bucket_cache.hpp index/gphash/candidates.hpp index/gphash/in_place_ops.hpp
    index/gphash/layout.hpp
    index/gphash/mirror.hpp index/gphash/operation.hpp index/gphash/ops.hpp index/gphash/word_ops.hpp
    pm/pool_format.hpp pm/memory.hpp pm/record.hpp pm/record_shape.hpp
    store/gphash/kernels/device_entries.hpp store/gphash/kernels/device_table.hpp
    store/gphash/kernels/device_view.hpp store/gphash/kernels/record_map.hpp wal/entries.hpp)
  install(TARGETS perdure_device EXPORT perdureTargets COMPONENT cpp)
endif()
foreach(header IN LISTS perdure_internal_headers)
  cmake_path(GET header PARENT_PATH room)
  install(FILES "${PROJECT_SOURCE_DIR}/src/${header}"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/perdure/internal/${room}" COMPONENT cpp)
endforeach()
install(TARGETS perdure_gpm EXPORT perdureTargets COMPONENT cpp)
install(EXPORT perdureTargets NAMESPACE perdure:: DESTINATION "${perdure_package_dir}" COMPONENT cpp)

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/perdureConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/perdureConfig.cmake"
  INSTALL_DESTINATION "${perdure_package_dir}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/perdureConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)  # before 1.0 a minor version may break the API
install(FILES
  "${PROJECT_BINARY_DIR}/perdureConfig.cmake"
  "${PROJECT_BINARY_DIR}/perdureConfigVersion.cmake"
  "${CMAKE_CURRENT_LIST_DIR}/dependencies.cmake"
  DESTINATION "${perdure_package_dir}" COMPONENT cpp)
include(pkgconfig)
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/NOTICE"
  DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/perdure" COMPONENT cpp)
