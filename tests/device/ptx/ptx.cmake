# The interpreter of PTX, and tests of the rows on it: the host code of src/device/cuda as nvcc makes it, with PTX for every
# architecture, linked with a runtime that interprets the kernels (tests/device/ptx/ptx_cudart.c).
file(GLOB ptx_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/device/ptx/ptx_*.c)
set(ptx_parser ${ptx_sources})
list(FILTER ptx_parser INCLUDE REGEX "ptx_(tokens|parse[a-z_]*|decode|operations|integer|float|convert)\\.c$")
add_library(tess_ptx_parser STATIC ${ptx_parser})
target_include_directories(tess_ptx_parser PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_options(tess_ptx_parser PRIVATE -Wno-missing-field-initializers)
if(TESS_FUZZ)
  target_compile_options(tess_ptx_parser PRIVATE -fsanitize=fuzzer-no-link)
endif()
target_link_libraries(tess_ptx_parser PUBLIC m)

# The library has the process's malloc, which sanitizers have, too. They see the parser (tests/fuzz/fuzz_ptx.c).
if(NOT TESS_SANITIZE STREQUAL "")
  return()
endif()
set(ptx_folder ${CMAKE_CURRENT_BINARY_DIR}/ptx)
add_library(tess_ptx SHARED ${ptx_sources})
target_include_directories(tess_ptx PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_options(tess_ptx PRIVATE -Wno-missing-field-initializers -fno-builtin-malloc)
target_compile_definitions(tess_ptx PRIVATE PTX_CHUNK_BYTES=65536)
target_link_libraries(tess_ptx PRIVATE m Threads::Threads)
target_link_options(tess_ptx PRIVATE -Wl,-Bsymbolic-functions) # calls within the library are direct
set_target_properties(tess_ptx PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${ptx_folder})
target_compile_options(tess_ptx PRIVATE -fvisibility=default)

add_executable(test_device_ptx ${CMAKE_CURRENT_SOURCE_DIR}/device/ptx/test_ptx.c)
target_link_libraries(test_device_ptx PRIVATE tess_ptx tess_test)
add_test(NAME test_device_ptx COMMAND test_device_ptx)
set_tests_properties(test_device_ptx PROPERTIES TIMEOUT 600)

# Tests of the rows, with their kernels on the interpreter. nvcc takes minutes for them, so TESS_PTX asks for them. They are
# registered without it, too, so that what is left out shows.
set(ptx_rows convert copy_rows cross_entropy cuda_tensor embedding gemm gemm_fused gemm_grouped gemm_leaves glu attention norm
    reduce rope routing rows adamw)
add_test(NAME test_device_ptx_rows COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/device/ptx/interpret.sh ${CMAKE_BINARY_DIR} quick)
set_tests_properties(test_device_ptx_rows PROPERTIES TIMEOUT 1800 SKIP_RETURN_CODE 77)
add_test(NAME test_device_ptx_planted COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/device/ptx/planted.sh ${CMAKE_BINARY_DIR})
set_tests_properties(test_device_ptx_planted PROPERTIES TIMEOUT 1800 SKIP_RETURN_CODE 77)
if(NOT TESS_PTX OR NOT TESS_CUDA OR NOT TESS_NVCC)
  file(REMOVE_RECURSE ${CMAKE_BINARY_DIR}/tests/ptx) # those of an earlier build with TESS_PTX are out of date
  return()
endif()
execute_process(COMMAND ${TESS_NVCC} --list-gpu-arch OUTPUT_VARIABLE ptx_known OUTPUT_STRIP_TRAILING_WHITESPACE)
string(REGEX MATCHALL "compute_[0-9]+" ptx_known "${ptx_known}")
set(TESS_PTX_ARCHITECTURES "" CACHE STRING "GPUs whose PTX is interpreted; empty: those of TESS_CUDA_ARCHITECTURES")
set(ptx_architectures ${TESS_PTX_ARCHITECTURES})
if(NOT ptx_architectures)
  set(ptx_architectures ${TESS_CUDA_ARCHITECTURES})
endif()
set(ptx_generate "")
foreach(architecture ${ptx_architectures})
  string(REPLACE "a" "" number ${architecture})
  if("compute_${number}" IN_LIST ptx_known)
    list(APPEND ptx_generate -gencode=arch=compute_${architecture},code=compute_${architecture})
  endif()
endforeach()
set(ptx_objects "")
file(GLOB ptx_kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/device/cuda/kernels/*.cu)
foreach(source ${ptx_kernels} ${CMAKE_SOURCE_DIR}/src/device/cuda/cuda_plugin.cu)
  get_filename_component(name ${source} NAME_WE)
  set(object ${ptx_folder}/${name}.o)
  # The flags of tools/cuda.cmake, without machine code; -lineinfo gives the lines of the source.
  add_custom_command(OUTPUT ${object}
                     COMMAND ${CMAKE_SOURCE_DIR}/tools/cuda-object ${ptx_folder}/${name}.log ${CMAKE_C_COMPILER_LAUNCHER} ${TESS_NVCC}
                             -std=c++17 -O3 -fmad=false -lineinfo --no-compress -Werror all-warnings
                             -Xcompiler=-fPIC,-fvisibility=hidden -D_GNU_SOURCE -I${CMAKE_SOURCE_DIR}/src -I${CMAKE_SOURCE_DIR}/include
                             -DTESS_CUDA_BUILD=\"${TESS_CUDA_BUILD}\" "-DTESS_CUDA_CODES=\"sm_80 sm_90a sm_100 sm_120\""
                             ${ptx_generate} -MD -MF ${object}.d -c ${source} -o ${object}
                     DEPENDS ${source} ${CMAKE_SOURCE_DIR}/tools/cuda-object DEPFILE ${object}.d COMMENT "PTX: ${name}.cu" VERBATIM)
  list(APPEND ptx_objects ${object})
endforeach()
set_source_files_properties(${ptx_objects} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
list(FILTER ptx_objects EXCLUDE REGEX "/cuda_plugin\\.o$")
add_custom_target(tess_ptx_objects DEPENDS ${ptx_objects} ${ptx_folder}/cuda_plugin.o)

# The plug-in, for tests with the driver that plays GPUs. The process loads libtess_ptx.so before libc (LD_PRELOAD).
add_library(tess_ptx_plugin MODULE ${ptx_objects} ${ptx_folder}/cuda_plugin.o)
set_target_properties(tess_ptx_plugin PROPERTIES OUTPUT_NAME tessera_cuda LINKER_LANGUAGE CXX LIBRARY_OUTPUT_DIRECTORY ${ptx_folder})
target_link_libraries(tess_ptx_plugin PRIVATE tess_ptx)
add_dependencies(tess_ptx_plugin tess_ptx_objects)

add_library(tess_ptx_rows STATIC ${CMAKE_CURRENT_SOURCE_DIR}/device/cuda_shim/cuda_shim_stream.c)
target_include_directories(tess_ptx_rows PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_definitions(tess_ptx_rows PUBLIC TESS_TEST_PTX)
target_link_libraries(tess_ptx_rows PUBLIC tess_ptx tess_device)
foreach(row ${ptx_rows} ptx_attention ptx_rows)
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/device/test_${row}.c)
  if(row MATCHES "^ptx_")
    set(source ${CMAKE_CURRENT_SOURCE_DIR}/device/ptx/test_${row}.c)
  endif()
  add_executable(ptx_${row} ${source} ${ptx_objects})
  set_target_properties(ptx_${row} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${ptx_folder} LINKER_LANGUAGE CXX)
  target_link_libraries(ptx_${row} PRIVATE tess_test tess_ptx_rows)
  add_dependencies(ptx_${row} tess_ptx_objects)
endforeach()
