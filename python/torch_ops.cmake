# perdure/_torch_ops.so: operators for PyTorch, over the headers of its stable ABI. It is built against
# whatever PyTorch is here, and loads beside any from the version on that TORCH_TARGET_VERSION names.
if(NOT PERDURE_TORCH)
  return()
endif()

set(torch_package "${PERDURE_TORCH}")
if(PERDURE_TORCH MATCHES "^(AUTO|ON|TRUE|YES|1)$")
  # Without importing it, which takes seconds.
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
            "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE torch_package OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
find_path(PERDURE_TORCH_INCLUDE torch/csrc/stable/library.h PATHS "${torch_package}/include" NO_DEFAULT_PATH NO_CACHE)
find_library(PERDURE_TORCH_LIBRARY torch PATHS "${torch_package}/lib" NO_DEFAULT_PATH NO_CACHE)
set(torch_version 0)
set(torch_header "${PERDURE_TORCH_INCLUDE}/torch/headeronly/version.h")
if(torch_package AND PERDURE_TORCH_INCLUDE AND PERDURE_TORCH_LIBRARY AND EXISTS "${torch_header}")
  file(STRINGS "${torch_header}" torch_numbers REGEX "TORCH_VERSION_(MAJOR|MINOR) [0-9]")
  string(REGEX MATCH "MAJOR ([0-9]+).*MINOR ([0-9]+)" torch_numbers "${torch_numbers}")
  set(torch_version "${CMAKE_MATCH_1}.${CMAKE_MATCH_2}")
endif()
if(torch_version VERSION_LESS 2.10)
  if(PERDURE_TORCH STREQUAL "AUTO")
    message(STATUS "PyTorch: no operators (${Python_EXECUTABLE} has no PyTorch of 2.10 or later)")
    return()
  endif()
  message(FATAL_ERROR "PERDURE_TORCH is '${PERDURE_TORCH}', and there is no PyTorch of 2.10 or later with its headers: "
                      "install it into ${Python_EXECUTABLE} (pip install torch), name the folder of a torch package, "
                      "or configure with -DPERDURE_TORCH=OFF")
endif()
message(STATUS "PyTorch: operators built with ${torch_version} (${torch_package})")

add_library(_torch_ops MODULE native/torch_ops.cpp)
set(torch_exports ${CMAKE_CURRENT_SOURCE_DIR}/native/torch_exports.map)
target_include_directories(_torch_ops SYSTEM PRIVATE "${PERDURE_TORCH_INCLUDE}")
target_compile_definitions(_torch_ops PRIVATE TORCH_TARGET_VERSION=0x020a000000000000)  # 2.10
target_compile_options(_torch_ops PRIVATE -fvisibility=hidden)
# libtorch.so by its name alone: the process has loaded it before, from wherever its PyTorch is.
target_link_libraries(_torch_ops PRIVATE "${PERDURE_TORCH_LIBRARY}" $<BUILD_INTERFACE:perdure_warnings>)
target_link_options(_torch_ops PRIVATE LINKER:--version-script=${torch_exports} LINKER:--gc-sections)
set_target_properties(_torch_ops PROPERTIES PREFIX "" LINK_DEPENDS ${torch_exports} BUILD_WITH_INSTALL_RPATH ON
                                            SKIP_BUILD_RPATH ON)
list(APPEND python_modules _torch_ops)
