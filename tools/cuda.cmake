# libtessera_cuda.so: the kernels of src/device/cuda for NVIDIA GPUs, with CUDA's runtime inside, where nvcc is installed. The
# command loads it when a GPU is asked for (src/device/cuda/cuda_load.c); nothing else needs it.
set(TESS_CUDA_ARCHITECTURES "80;90a;100;120" CACHE STRING "GPUs that the plug-in has code for, of those that nvcc knows: A100 is 80, H100 90a, B200 100")

# Both sides must agree on what they hand each other.
set(shared include/tessera/types.h src/base/core/exact_sum.h src/device/fp8.h src/device/kernel_args.h src/device/kernels.h src/device/gemm_check.h
    src/device/cuda/cuda_plugin.h)
set(digests "")
foreach(header ${shared})
  file(SHA256 ${CMAKE_SOURCE_DIR}/${header} digest)
  string(APPEND digests ${digest})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${header})
endforeach()
string(SHA256 digest "${digests}")
string(SUBSTRING ${digest} 0 12 digest)
set(TESS_CUDA_BUILD "${PROJECT_VERSION}-${digest}")
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/device/cuda/cuda_load.c PROPERTIES COMPILE_DEFINITIONS TESS_CUDA_BUILD="${TESS_CUDA_BUILD}")

if(NOT TESS_CUDA OR NOT TESS_SANITIZE STREQUAL "" OR NOT TARGET tessera)
  return()
endif()
find_program(TESS_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda/bin)
if(NOT TESS_NVCC)
  message(NOTICE "no plug-in for NVIDIA GPUs: nvcc is not installed (Debian: nvidia-cuda-toolkit, or cuda-nvcc of NVIDIA's repository)")
  return()
endif()
execute_process(COMMAND ${TESS_NVCC} --list-gpu-code OUTPUT_VARIABLE known OUTPUT_STRIP_TRAILING_WHITESPACE)
string(REGEX MATCHALL "sm_[0-9]+" known "${known}")
set(codes "")
set(generate "")
foreach(architecture ${TESS_CUDA_ARCHITECTURES})
  string(REPLACE "a" "" number ${architecture})
  if("sm_${number}" IN_LIST known)
    list(APPEND codes sm_${architecture})
    list(APPEND generate -gencode=arch=compute_${architecture},code=sm_${architecture})
  endif()
endforeach()
if(NOT codes)
  message(FATAL_ERROR "${TESS_NVCC} knows none of the GPUs ${TESS_CUDA_ARCHITECTURES}: set TESS_CUDA_ARCHITECTURES, or TESS_CUDA=OFF")
endif()
string(REPLACE ";" " " codes_text "${codes}")

# No contraction and no approximation, as in the host's kernels.
set(flags -std=c++17 -O3 -fmad=false -Werror all-warnings -Xptxas -v -Xcompiler=-fPIC,-fvisibility=hidden -D_GNU_SOURCE -I${CMAKE_SOURCE_DIR}/src
    -I${CMAKE_SOURCE_DIR}/include)
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/device/cuda/*.cu ${CMAKE_SOURCE_DIR}/src/device/cuda/kernels/*.cu)
set(objects "")
foreach(source ${sources})
  get_filename_component(name ${source} NAME_WE)
  set(object ${CMAKE_BINARY_DIR}/cuda/${name}.o)
  set(own "")
  if(name STREQUAL "cuda_plugin")
    set(own "-DTESS_CUDA_BUILD=\"${TESS_CUDA_BUILD}\"" "-DTESS_CUDA_CODES=\"${codes_text}\"")
  endif()
  add_custom_command(OUTPUT ${object}
                     COMMAND ${CMAKE_SOURCE_DIR}/tools/cuda-object ${CMAKE_BINARY_DIR}/cuda/${name}.log ${CMAKE_C_COMPILER_LAUNCHER}
                             ${TESS_NVCC} ${flags} ${generate} ${own} -MD -MF ${object}.d -c ${source} -o ${object}
                     DEPENDS ${source} ${CMAKE_SOURCE_DIR}/tools/cuda-object DEPFILE ${object}.d COMMENT "CUDA: ${name}.cu" VERBATIM)
  list(APPEND objects ${object})
endforeach()
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/cuda)
set(plugin ${CMAKE_BINARY_DIR}/libtessera_cuda.so)
add_custom_command(OUTPUT ${plugin}
                   COMMAND ${TESS_NVCC} -shared -cudart static ${generate} -Xlinker --exclude-libs,ALL,-z,defs -o ${plugin} ${objects}
                   DEPENDS ${objects} COMMENT "Linking libtessera_cuda.so" VERBATIM)
add_custom_target(tessera_cuda DEPENDS ${plugin})
add_dependencies(tessera tessera_cuda) # the command finds it beside itself
include(GNUInstallDirs)
install(PROGRAMS ${plugin} DESTINATION ${CMAKE_INSTALL_LIBDIR}/tessera)
