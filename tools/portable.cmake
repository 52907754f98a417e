# Links archives into the command in place of shared libraries, with what they need themselves. What remains is libc. The
# archives do not fit in a shared library, because libdw.a is not position-independent: libtessera.so finds the shared
# libraries in the folder tessera next to itself (tools/package/common.sh).
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
  list(APPEND TESS_SHARED_LIBRARIES ${shared})
  set_target_properties(PkgConfig::${package} PROPERTIES INTERFACE_LINK_LIBRARIES "${archives}")
endforeach()
