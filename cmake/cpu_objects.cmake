# Code for CPU warps, compiled once for each instruction set in PERDURE_CPU_ENGINES. Each copy is
# linked by itself into one object whose only global symbol is its factory, so that no AVX-512 copy
# of an inline function can end up in a program that runs without AVX-512. Sanitizer builds leave
# that step out, for it would hide symbols they need, and so may have one copy only.

set(perdure_cpu_avx2 -march=x86-64-v3)
set(perdure_cpu_avx512 -march=x86-64-v4)

foreach(isa IN LISTS PERDURE_CPU_ENGINES)
  if(NOT DEFINED perdure_cpu_${isa})
    message(FATAL_ERROR "PERDURE_CPU_ENGINES names '${isa}': give avx2, or avx2 and avx512 as 'avx2;avx512'")
  endif()
endforeach()
if(NOT avx2 IN_LIST PERDURE_CPU_ENGINES)
  message(FATAL_ERROR "PERDURE_CPU_ENGINES is '${PERDURE_CPU_ENGINES}': avx2 must be among them, for the library falls back to it")
endif()

# Compiles the sources after AVX2 and AVX512 for that instruction set and adds the objects to the
# library `target`. They define a function with C linkage named PERDURE_CPU_FACTORY, which becomes
# FACTORY_avx2 and FACTORY_avx512. Code of the target sees PERDURE_HAS_AVX512 where the latter is
# there.
function(perdure_cpu_objects target factory)
  cmake_parse_arguments(of "" "" "AVX2;AVX512" ${ARGN})
  set(sets ${PERDURE_CPU_ENGINES})
  if(PERDURE_SANITIZE)
    set(sets avx2)
  endif()
  if(avx512 IN_LIST sets)
    target_compile_definitions(${target} PRIVATE PERDURE_HAS_AVX512)
  endif()
  foreach(isa IN LISTS sets)
    string(TOUPPER ${isa} of_isa)
    perdure_cpu_object(${target} ${factory}_${isa} "${perdure_cpu_${isa}}" "${of_${of_isa}}")
  endforeach()
endfunction()

function(perdure_cpu_object target name instructions sources)
  add_library(${name} OBJECT ${sources})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE perdure_warnings perdure_dep_hwy)
  target_compile_definitions(${name} PRIVATE PERDURE_CPU_FACTORY=${name})
  set_target_properties(${name} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(${name} PRIVATE ${instructions} -maes -mpclmul -ffunction-sections -fdata-sections
    $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)  # unique symbols cannot be made local
  if(PERDURE_SANITIZE)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${name}>)
    return()
  endif()
  set(whole ${CMAKE_CURRENT_BINARY_DIR}/${name}_whole.o)
  set(sealed ${CMAKE_CURRENT_BINARY_DIR}/${name}_sealed.o)
  add_custom_command(OUTPUT ${sealed}
    COMMAND ${CMAKE_LINKER} -r --force-group-allocation $<TARGET_OBJECTS:${name}> -o ${whole}
    COMMAND ${CMAKE_OBJCOPY} --keep-global-symbol=${name} ${whole} ${sealed}
    DEPENDS ${name} $<TARGET_OBJECTS:${name}>
    COMMAND_EXPAND_LISTS VERBATIM)
  set_source_files_properties(${sealed} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  target_sources(${target} PRIVATE ${sealed})
  set_property(TARGET ${target} APPEND PROPERTY perdure_sealed ${sealed})
endfunction()
