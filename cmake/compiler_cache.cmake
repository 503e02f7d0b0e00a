# ccache, where it is installed: in the user's own cache folder, so that a second clone of this
# repository, and a second build folder of one clone, compile little. CCACHE_DIR and ccache's own
# configuration have their say; a launcher that the user names in CMAKE_CXX_COMPILER_LAUNCHER, or an
# empty one, is left alone.
#
# Paths are taken relative to the checkout, so that they are the same in every clone: build folders
# must lie equally deep (build/NAME). Compilers are told apart by what they hold, for each clone has
# an nvcc of its own.
option(PERDURE_CCACHE "Compile through ccache where it is installed" ${PROJECT_IS_TOP_LEVEL})
if(PERDURE_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(perdure_ccache ccache)
  mark_as_advanced(perdure_ccache)
endif()
if(PERDURE_CCACHE AND perdure_ccache AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1 CCACHE_COMPILERCHECK=content
    "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime" ${perdure_ccache})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>)
  message(STATUS "Compiler cache: ${perdure_ccache}")
elseif(PERDURE_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  message(STATUS "Compiler cache: none (no ccache), so another build folder compiles everything again")
endif()
