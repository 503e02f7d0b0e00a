# What a user may choose. Every option of the build is declared here, with its default.

# Inside a wheel build (scikit-build-core sets SKBUILD) only the Python module is wanted.
if(PROJECT_IS_TOP_LEVEL AND NOT SKBUILD)
  set(perdure_is_main ON)
else()
  set(perdure_is_main OFF)
endif()

set(PERDURE_CUDA "AUTO" CACHE STRING "Build the GPU code: AUTO (where an nvcc is found), ON or OFF")
set_property(CACHE PERDURE_CUDA PROPERTY STRINGS AUTO ON OFF)
set(PERDURE_CPU_ENGINES "avx2;avx512" CACHE STRING "Instruction sets of the CPU engines; the processor's best is used")
option(PERDURE_SHARED "Build libperdure.so beside libperdure.a (BUILD_SHARED_LIBS turns this on)" ${perdure_is_main})
option(PERDURE_PYTHON "Build the Python module (wheel builds turn this on)" OFF)
option(PERDURE_BENCH "Build the benchmarks" ${perdure_is_main})
option(PERDURE_TOGETHER "Compile the library's small sources several at a time: half of the work for who builds all of it" OFF)
option(PERDURE_UNMEASURED "Compile benchmarks and baselines without optimisation, to be tested and not to be measured" OFF)
set(PERDURE_ROCKS "AUTO" CACHE STRING "Build the RocksDB-compatible engine: AUTO (where RocksDB is found), ON or OFF")
set_property(CACHE PERDURE_ROCKS PROPERTY STRINGS AUTO ON OFF)
set(PERDURE_SERVE "AUTO" CACHE STRING "Build the server for Redis's clients: AUTO (where its libraries are found), ON or OFF")
set_property(CACHE PERDURE_SERVE PROPERTY STRINGS AUTO ON OFF)
set(PERDURE_TORCH "AUTO" CACHE STRING
  "Build the operators for PyTorch: AUTO (where the Python that builds has PyTorch), ON, OFF, or the folder of a torch package")
option(PERDURE_TESTS "Build the C++ tests" ${perdure_is_main})
option(PERDURE_EXAMPLES "Build examples/, some of which need CUDA" ${perdure_is_main})
set(PERDURE_TRAP_PROGRAMS "AUTO" CACHE STRING "Build the tests whose kernels abort: AUTO (where there is a GPU), ON or OFF")
set_property(CACHE PERDURE_TRAP_PROGRAMS PROPERTY STRINGS AUTO ON OFF)
# The explorer takes a minute of one core to compile, so packages do without it unless asked.
option(PERDURE_EXPLORE "Build perdure-explore even without the tests" OFF)
option(PERDURE_FUZZ "Build the fuzz targets, perdure_fuzz (clang alone)" OFF)
# Whoever only installs should not fail for what a compiler newer than ours has to say.
option(PERDURE_WERROR "Treat warnings as errors" ${PERDURE_TESTS})
set(PERDURE_SANITIZE "" CACHE STRING "Sanitizers: empty, \"address;undefined\" or \"thread\"")
set_property(CACHE PERDURE_SANITIZE PROPERTY STRINGS "" "address;undefined" "thread")

if(NOT PERDURE_SANITIZE MATCHES "^(|address;undefined|undefined;address|address|undefined|thread)$")
  message(FATAL_ERROR "PERDURE_SANITIZE is '${PERDURE_SANITIZE}': give nothing, 'address;undefined' or 'thread'")
endif()

# In another's project that names no build type, ours alone is Release: this scope ends with our
# folder.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  if(PERDURE_SANITIZE)
    set(default_build_type Debug)
  else()
    set(default_build_type Release)
  endif()
  if(PROJECT_IS_TOP_LEVEL)
    set(CMAKE_BUILD_TYPE ${default_build_type} CACHE STRING "Release, Debug or RelWithDebInfo" FORCE)
  else()
    set(CMAKE_BUILD_TYPE ${default_build_type})
  endif()
endif()

if(BUILD_SHARED_LIBS)
  set(PERDURE_SHARED ON)
endif()
if(PERDURE_SANITIZE)
  set(PERDURE_SHARED OFF)  # for sanitizers look into what it hides
endif()

# Packages unpacked by scripts/offline.sh on a machine without apt. What is built must find their
# shared objects at run time too, and these each other: hence DT_RPATH, which a DT_RUNPATH would not
# pass on.
set(perdure_unpacked "${PROJECT_SOURCE_DIR}/.deps/usr")
if(EXISTS "${perdure_unpacked}")
  list(PREPEND CMAKE_PREFIX_PATH "${perdure_unpacked}")
  list(APPEND CMAKE_INSTALL_RPATH "${perdure_unpacked}/lib/${CMAKE_LIBRARY_ARCHITECTURE}")
  add_link_options(LINKER:--disable-new-dtags)
endif()
