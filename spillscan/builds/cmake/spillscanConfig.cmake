# find_package(spillscan), after CUDA is enabled and before targets are made: CUDA sources are compiled through the
# launcher, and the target spillscan-check builds what `all` builds, then judges it. ${SPILLSCAN_ARGUMENTS} go to `check`.
cmake_minimum_required(VERSION 3.19)  # DEFER
find_program(SPILLSCAN_COMMAND spillscan
  HINTS "${CMAKE_CURRENT_LIST_DIR}/../../../bin" "${CMAKE_CURRENT_LIST_DIR}/../../../Scripts")
if(NOT SPILLSCAN_COMMAND)
  set(spillscan_FOUND FALSE)
  set(spillscan_NOT_FOUND_MESSAGE "the command spillscan is not on the PATH")
  return()
endif()

if(NOT CMAKE_CUDA_COMPILER_LAUNCHER MATCHES "spillscan")  # the user's own, or that of `spillscan run`
  list(PREPEND CMAKE_CUDA_COMPILER_LAUNCHER "${SPILLSCAN_COMMAND}" wrap -v --)
endif()

if(NOT TARGET spillscan-check)
  add_custom_target(spillscan-check
    COMMAND "${SPILLSCAN_COMMAND}" check "${CMAKE_BINARY_DIR}" ${SPILLSCAN_ARGUMENTS}
    WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}" USES_TERMINAL VERBATIM)

  function(_spillscan_builds_first folder)
    get_property(targets DIRECTORY "${folder}" PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target IN LISTS targets)
      get_target_property(apart ${target} EXCLUDE_FROM_ALL)
      get_target_property(kind ${target} TYPE)
      if(NOT apart AND kind MATCHES "EXECUTABLE|LIBRARY" AND NOT kind STREQUAL "INTERFACE_LIBRARY")
        add_dependencies(spillscan-check ${target})
      endif()
    endforeach()
    get_property(folders DIRECTORY "${folder}" PROPERTY SUBDIRECTORIES)
    foreach(below IN LISTS folders)
      get_property(apart DIRECTORY "${below}" PROPERTY EXCLUDE_FROM_ALL)
      if(NOT apart)
        _spillscan_builds_first("${below}")
      endif()
    endforeach()
  endfunction()
  cmake_language(EVAL CODE
    "cmake_language(DEFER DIRECTORY [[${CMAKE_SOURCE_DIR}]] CALL _spillscan_builds_first [[${CMAKE_SOURCE_DIR}]])")
endif()
