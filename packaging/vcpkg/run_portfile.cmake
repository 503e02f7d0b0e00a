# Runs the portfile without vcpkg: each of vcpkg's functions that it calls does here, with the
# distribution's libraries, what the portfile needs of it. scripts/packages.sh runs it; it shows that
# the options and paths of the portfile are right, and nothing of vcpkg's own ports.
#   cmake -DWORK=DIR -P packaging/vcpkg/run_portfile.cmake
cmake_minimum_required(VERSION 3.25)
set(PORT perdure)
set(CURRENT_PACKAGES_DIR "${WORK}/packages")

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(vcpkg_check_features)
  cmake_parse_arguments(asked "" "OUT_FEATURE_OPTIONS" "FEATURES" ${ARGN})
  set(options "")
  while(asked_FEATURES)
    list(POP_FRONT asked_FEATURES feature option)
    list(APPEND options "-D${option}=OFF")
  endwhile()
  set(${asked_OUT_FEATURE_OPTIONS} "${options}" PARENT_SCOPE)
endfunction()

function(vcpkg_cmake_configure)
  cmake_parse_arguments(asked "" "SOURCE_PATH" "OPTIONS" ${ARGN})
  run(${CMAKE_COMMAND} -G Ninja -S "${asked_SOURCE_PATH}" -B "${WORK}/build" ${asked_OPTIONS}
    -DCMAKE_BUILD_TYPE=Release "-DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR}"
    -DCMAKE_INSTALL_LIBDIR=lib)
endfunction()

function(vcpkg_cmake_install)
  run(${CMAKE_COMMAND} --build "${WORK}/build")
  run(${CMAKE_COMMAND} --install "${WORK}/build")
endfunction()

# vcpkg moves the config to share/, two folders below the prefix instead of three.
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(asked "" "PACKAGE_NAME;CONFIG_PATH" "" ${ARGN})
  set(from "${CURRENT_PACKAGES_DIR}/${asked_CONFIG_PATH}")
  set(to "${CURRENT_PACKAGES_DIR}/share/${asked_PACKAGE_NAME}")
  file(GLOB files "${from}/*.cmake")
  if(NOT files)
    message(FATAL_ERROR "the portfile names ${asked_CONFIG_PATH}, which has no config")
  endif()
  file(MAKE_DIRECTORY "${to}")
  foreach(file IN LISTS files)
    file(READ "${file}" text)
    string(REPLACE "\${CMAKE_CURRENT_LIST_DIR}/../../../" "\${CMAKE_CURRENT_LIST_DIR}/../../" text "${text}")
    string(REPLACE [[get_filename_component(_IMPORT_PREFIX "${_IMPORT_PREFIX}" PATH)
get_filename_component(_IMPORT_PREFIX "${_IMPORT_PREFIX}" PATH)
get_filename_component(_IMPORT_PREFIX "${_IMPORT_PREFIX}" PATH)]] [[get_filename_component(_IMPORT_PREFIX "${_IMPORT_PREFIX}" PATH)
get_filename_component(_IMPORT_PREFIX "${_IMPORT_PREFIX}" PATH)]] text "${text}")
    cmake_path(GET file FILENAME name)
    file(WRITE "${to}/${name}" "${text}")
  endforeach()
  file(REMOVE_RECURSE "${from}")
endfunction()

function(vcpkg_fixup_pkgconfig)
  if(NOT EXISTS "${CURRENT_PACKAGES_DIR}/lib/pkgconfig/perdure.pc")
    message(FATAL_ERROR "no perdure.pc to fix up")
  endif()
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(asked "" "" "FILE_LIST" ${ARGN})
  foreach(file IN LISTS asked_FILE_LIST)
    if(NOT EXISTS "${file}")
      message(FATAL_ERROR "no ${file}")
    endif()
  endforeach()
endfunction()

# Included from where it lies, as vcpkg does, so that its CMAKE_CURRENT_LIST_DIR is its own.
include("${CMAKE_CURRENT_LIST_DIR}/perdure/portfile.cmake")
