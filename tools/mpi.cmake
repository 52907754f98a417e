# libtessera_mpi_openmpi.so and libtessera_mpi_mpich.so: src/comm/mpi once for each MPI that is installed. A job that an
# MPI has started loads the one that fits (src/comm/wire/load.c); nothing else needs them.
if(NOT TESS_MPI OR NOT TESS_SANITIZE STREQUAL "") # MPIs do not stand sanitizers
  return()
endif()
include(GNUInstallDirs)
pkg_check_modules(TESS_MPI_openmpi QUIET IMPORTED_TARGET ompi-c)
pkg_check_modules(TESS_MPI_mpich QUIET IMPORTED_TARGET mpich)
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/comm/mpi/*.c)
foreach(mpi openmpi mpich)
  if(NOT TESS_MPI_${mpi}_FOUND)
    continue()
  endif()
  add_library(tessera_mpi_${mpi} MODULE ${sources})
  target_include_directories(tessera_mpi_${mpi} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(tessera_mpi_${mpi} PRIVATE PkgConfig::TESS_MPI_${mpi})
  set_target_properties(tessera_mpi_${mpi} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
  install(TARGETS tessera_mpi_${mpi} DESTINATION ${CMAKE_INSTALL_LIBDIR}/tessera)
endforeach()
