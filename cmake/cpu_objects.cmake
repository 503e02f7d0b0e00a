# Code for CPU warps, compiled once per instruction set. Each copy is linked by itself into one object
# whose only global symbol is its factory, so that no AVX-512 copy of an inline function can end up in
# a program that runs without AVX-512. Sanitizer builds leave that step out, for it would hide symbols
# they need, and so may have one copy only.

# Compiles the list `sources` as perdure_NAME with the options that follow, and adds it to the library `target`.
function(perdure_cpu_object target name sources keep)
  add_library(perdure_${name} OBJECT ${sources})
  target_include_directories(perdure_${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(perdure_${name} PRIVATE perdure_warnings perdure_dep_hwy)
  target_compile_options(perdure_${name} PRIVATE ${ARGN} -maes -mpclmul $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)  # unique symbols cannot be made local
  if(PERDURE_SANITIZE)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:perdure_${name}>)
    return()
  endif()
  set(whole ${CMAKE_CURRENT_BINARY_DIR}/${name}_whole.o)
  set(sealed ${CMAKE_CURRENT_BINARY_DIR}/${name}_sealed.o)
  add_custom_command(OUTPUT ${sealed}
    COMMAND ${CMAKE_LINKER} -r --force-group-allocation $<TARGET_OBJECTS:perdure_${name}> -o ${whole}
    COMMAND ${CMAKE_OBJCOPY} --wildcard --keep-global-symbol=${keep} ${whole} ${sealed}
    DEPENDS perdure_${name} $<TARGET_OBJECTS:perdure_${name}>
    COMMAND_EXPAND_LISTS VERBATIM)
  set_source_files_properties(${sealed} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  target_sources(${target} PRIVATE ${sealed})
endfunction()
