# The libraries that the engine stands on, each behind one imported target, whether they are
# installed by the distribution or unpacked under a prefix in CMAKE_PREFIX_PATH. This file is
# installed with the package and read again by its users: it must depend on nothing else here but
# PERDURE_CUDA, perdure_cuda_root, PERDURE_ROCKS, PERDURE_SERVE and perdure_dependencies_missing,
# which a user of the shared library alone sets: what is not found is then appended to it, and is no
# error.
#   perdure_dep_hwy          Highway, headers alone: CPU warps
#   perdure_dep_hwy_contrib  Highway with its library: vqsort
#   perdure_dep_isal         Intel ISA-L: CRC-32C
#   perdure_dep_uring        liburing: asynchronous writes of the redo log
#   perdure_dep_rocksdb      RocksDB: perdure::rocks; only where it is found
#   perdure_dep_hiredis      hiredis, and OpenSSL::SSL and ::Crypto beside it: perdure::serve; only where found
#   perdure_dep_cudart       the CUDA runtime, static; only where PERDURE_CUDA is ON. To link alone:
#                            nvcc knows its headers, and C++ that needs no CUDA compiles alike in
#                            builds with and without it

include_guard(GLOBAL)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

function(perdure_require found what package)
  if(NOT ${found} AND DEFINED perdure_dependencies_missing)
    set(perdure_dependencies_missing "${perdure_dependencies_missing};${what}" PARENT_SCOPE)
  elseif(NOT ${found})
    message(FATAL_ERROR "Perdure needs ${what}, which was not found: run 'apt-get install ${package}', "
                        "or name the prefix that holds it in CMAKE_PREFIX_PATH")
  endif()
endfunction()

find_path(perdure_hwy_include hwy/highway.h)
find_library(perdure_hwy_library hwy)
find_library(perdure_hwy_contrib_library hwy_contrib)
mark_as_advanced(perdure_hwy_include perdure_hwy_library perdure_hwy_contrib_library)
perdure_require(perdure_hwy_include "Highway (hwy/highway.h)" libhwy-dev)
perdure_require(perdure_hwy_library "Highway (libhwy)" libhwy-dev)
perdure_require(perdure_hwy_contrib_library "Highway (libhwy_contrib)" libhwy-dev)
if(NOT TARGET perdure_dep_hwy AND perdure_hwy_include AND perdure_hwy_contrib_library)
  add_library(perdure_dep_hwy INTERFACE IMPORTED GLOBAL)
  set_target_properties(perdure_dep_hwy PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${perdure_hwy_include}"
    INTERFACE_COMPILE_DEFINITIONS HWY_SHARED_DEFINE)  # as distributions build the library
  add_library(perdure_dep_hwy_contrib INTERFACE IMPORTED GLOBAL)
  set_target_properties(perdure_dep_hwy_contrib PROPERTIES
    INTERFACE_LINK_LIBRARIES "perdure_dep_hwy;${perdure_hwy_contrib_library};${perdure_hwy_library}")
endif()

find_path(perdure_isal_include isa-l/crc.h)
find_library(perdure_isal_library isal)
mark_as_advanced(perdure_isal_include perdure_isal_library)
perdure_require(perdure_isal_include "ISA-L (isa-l/crc.h)" libisal-dev)
perdure_require(perdure_isal_library "ISA-L (libisal)" libisal-dev)
if(NOT TARGET perdure_dep_isal AND perdure_isal_include AND perdure_isal_library)
  add_library(perdure_dep_isal UNKNOWN IMPORTED GLOBAL)
  set_target_properties(perdure_dep_isal PROPERTIES
    IMPORTED_LOCATION "${perdure_isal_library}"
    INTERFACE_INCLUDE_DIRECTORIES "${perdure_isal_include}")
endif()

find_path(perdure_uring_include liburing.h)
find_library(perdure_uring_library uring)
mark_as_advanced(perdure_uring_include perdure_uring_library)
perdure_require(perdure_uring_include "liburing (liburing.h)" liburing-dev)
perdure_require(perdure_uring_library "liburing" liburing-dev)
if(NOT TARGET perdure_dep_uring AND perdure_uring_include AND perdure_uring_library)
  add_library(perdure_dep_uring UNKNOWN IMPORTED GLOBAL)
  set_target_properties(perdure_dep_uring PROPERTIES
    IMPORTED_LOCATION "${perdure_uring_library}"
    INTERFACE_INCLUDE_DIRECTORIES "${perdure_uring_include}")
endif()

if(PERDURE_CUDA)
  set(perdure_cuda_dirs "${perdure_cuda_root}" "$ENV{CUDA_PATH}" /usr/local/cuda)
  set(perdure_cuda_suffixes include lib64 lib lib/x86_64-linux-gnu targets/x86_64-linux/include targets/x86_64-linux/lib)
  find_path(perdure_cudart_include cuda_runtime.h HINTS ${perdure_cuda_dirs} PATH_SUFFIXES ${perdure_cuda_suffixes})
  find_library(perdure_cudart_library cudart_static HINTS ${perdure_cuda_dirs} PATH_SUFFIXES ${perdure_cuda_suffixes})
  mark_as_advanced(perdure_cudart_include perdure_cudart_library)
  if((NOT perdure_cudart_include OR NOT perdure_cudart_library) AND DEFINED perdure_dependencies_missing)
    list(APPEND perdure_dependencies_missing "the CUDA runtime (cuda_runtime.h, libcudart_static.a)")
  elseif(NOT perdure_cudart_include OR NOT perdure_cudart_library)
    message(FATAL_ERROR "Perdure was built with CUDA and needs its runtime (cuda_runtime.h, libcudart_static.a), "
                        "which is not under ${perdure_cuda_root}: name the toolkit's directory in CUDA_PATH")
  endif()
  if(NOT TARGET perdure_dep_cudart AND perdure_cudart_library)
    add_library(perdure_dep_cudart INTERFACE IMPORTED GLOBAL)
    set_target_properties(perdure_dep_cudart PROPERTIES
      INTERFACE_LINK_LIBRARIES "${perdure_cudart_library};Threads::Threads;${CMAKE_DL_LIBS};rt")
  endif()
endif()

if(NOT PERDURE_ROCKS STREQUAL "OFF")
  find_path(perdure_rocksdb_include rocksdb/db.h)
  find_library(perdure_rocksdb_library rocksdb)
  mark_as_advanced(perdure_rocksdb_include perdure_rocksdb_library)
  if(PERDURE_ROCKS STREQUAL "ON")
    perdure_require(perdure_rocksdb_include "RocksDB (rocksdb/db.h) for PERDURE_ROCKS=ON" librocksdb-dev)
    perdure_require(perdure_rocksdb_library "RocksDB (librocksdb) for PERDURE_ROCKS=ON" librocksdb-dev)
  endif()
  if(perdure_rocksdb_include AND perdure_rocksdb_library)
    file(STRINGS "${perdure_rocksdb_include}/rocksdb/version.h" perdure_rocksdb_version
      REGEX "define ROCKSDB_(MAJOR|MINOR|PATCH) ")
    string(REGEX MATCHALL "[0-9]+" perdure_rocksdb_version "${perdure_rocksdb_version}")
    list(JOIN perdure_rocksdb_version "." perdure_rocksdb_version)
    set(perdure_rocksdb_fits TRUE)
    if(perdure_rocksdb_version VERSION_LESS 7.8 OR perdure_rocksdb_version VERSION_GREATER_EQUAL 11.9)
      set(perdure_rocksdb_fits FALSE)
      string(CONCAT perdure_rocksdb_refusal
        "RocksDB ${perdure_rocksdb_version} in ${perdure_rocksdb_include}: perdure::rocks is known to "
        "compile with 7.8 to 11.8 (name the prefix of such a one in CMAKE_PREFIX_PATH")
      if(PERDURE_ROCKS STREQUAL "ON")
        message(FATAL_ERROR "${perdure_rocksdb_refusal}, or give -DPERDURE_ROCKS=OFF)")
      endif()
      message(STATUS "${perdure_rocksdb_refusal}); it is left out")
    endif()
  endif()
  if(perdure_rocksdb_fits AND NOT TARGET perdure_dep_rocksdb)
    message(STATUS "RocksDB: ${perdure_rocksdb_version} (${perdure_rocksdb_library})")
    add_library(perdure_dep_rocksdb UNKNOWN IMPORTED GLOBAL)
    set_target_properties(perdure_dep_rocksdb PROPERTIES
      IMPORTED_LOCATION "${perdure_rocksdb_library}"
      INTERFACE_INCLUDE_DIRECTORIES "${perdure_rocksdb_include}")
  endif()
endif()

if(NOT PERDURE_SERVE STREQUAL "OFF")
  find_path(perdure_hiredis_include hiredis/read.h)
  find_library(perdure_hiredis_library NAMES libhiredis.a hiredis)
  mark_as_advanced(perdure_hiredis_include perdure_hiredis_library)
  find_package(OpenSSL QUIET)
  if(PERDURE_SERVE STREQUAL "ON")
    perdure_require(perdure_hiredis_include "hiredis (hiredis/read.h) for PERDURE_SERVE=ON" libhiredis-dev)
    perdure_require(perdure_hiredis_library "hiredis (libhiredis) for PERDURE_SERVE=ON" libhiredis-dev)
    perdure_require(OPENSSL_FOUND "OpenSSL for PERDURE_SERVE=ON" libssl-dev)
  endif()
  if(perdure_hiredis_include AND perdure_hiredis_library AND NOT TARGET perdure_dep_hiredis)
    add_library(perdure_dep_hiredis UNKNOWN IMPORTED GLOBAL)
    set_target_properties(perdure_dep_hiredis PROPERTIES
      IMPORTED_LOCATION "${perdure_hiredis_library}"
      INTERFACE_INCLUDE_DIRECTORIES "${perdure_hiredis_include}")
  endif()
endif()
