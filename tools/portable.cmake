# Programs and a library that run from any folder of other systems (tools/package). They are linked next to the usual ones, from
# the same objects. A program with the property TESS_ARCHIVES has archives inside in place of shared libraries, with what they
# need themselves. What remains is libc. The archives do not fit in a shared library, because libdw.a is not
# position-independent: libtessera.so finds the shared libraries in the folder tessera next to itself.
foreach(package YAML JANSSON PCRE2 NCURSES UTF8PROC DW ZSTD ZLIB)
  set(archives "")
  foreach(library ${${package}_STATIC_LIBRARIES})
    if(library MATCHES "^(c|m|dl|pthread|rt)$")
      continue()
    endif()
    find_library(TESS_ARCHIVE_${library} lib${library}.a HINTS ${${package}_STATIC_LIBRARY_DIRS} REQUIRED)
    list(APPEND archives ${TESS_ARCHIVE_${library}})
  endforeach()
  get_target_property(shared PkgConfig::${package} INTERFACE_LINK_LIBRARIES)
  set_target_properties(PkgConfig::${package} PROPERTIES INTERFACE_LINK_LIBRARIES
                        "$<IF:$<BOOL:$<TARGET_PROPERTY:TESS_ARCHIVES>>,${archives},${shared}>")
endforeach()

# `cmake --install BUILD --component portable` puts them over the usual ones.
function(tess_portable_targets)
  foreach(program tessera tessera-doctor)
    get_target_property(sources ${program} SOURCES)
    add_executable(${program}_portable ${sources})
    target_link_libraries(${program}_portable PRIVATE tess_cli)
    set_target_properties(${program}_portable PROPERTIES TESS_ARCHIVES ON)
  endforeach()
  get_target_property(libraries tessera_shared LINK_LIBRARIES)
  get_target_property(sources tessera_shared SOURCES)
  add_library(tessera_shared_portable SHARED ${sources})
  target_link_libraries(tessera_shared_portable PRIVATE ${libraries})
  # A path of the old kind also serves what the libraries need themselves.
  set_target_properties(tessera_shared_portable PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0 LINK_DEPENDS ${TESS_SYMBOLS}
                        INSTALL_RPATH "\$ORIGIN/tessera" BUILD_WITH_INSTALL_RPATH ON)
  target_link_options(tessera_shared_portable PRIVATE -Wl,--version-script=${TESS_SYMBOLS} -Wl,--disable-new-dtags)
  foreach(target tessera tessera-doctor tessera_shared)
    get_target_property(name ${target} OUTPUT_NAME)
    if(NOT name)
      set(name ${target})
    endif()
    set_target_properties(${target}_portable PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/portable
                          LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/portable)
    install(TARGETS ${target}_portable RUNTIME COMPONENT portable EXCLUDE_FROM_ALL LIBRARY COMPONENT portable EXCLUDE_FROM_ALL)
  endforeach()
endfunction()
