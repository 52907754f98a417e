/* Finds and loads the plug-in with the kernels. */
#ifndef TESS_DEVICE_CUDA_CUDA_LOAD_H
#define TESS_DEVICE_CUDA_CUDA_LOAD_H

#include "device/cuda/cuda_plugin.h"

/* Loads it once a process; it stays. The environment's TESSERA_CUDA names its file, else it lies next to the program.
 * *path: of the file, also where it does not load. TESS_E_NOT_FOUND: there is none; TESS_E_UNSUPPORTED: it is not this
 * program's. */
tess_status tess_cuda_load(const cuda_plugin **plugin, const char **path);

/* Whether the driver, of this version of CUDA, can run the plug-in: TESS_E_UNSUPPORTED. */
tess_status tess_cuda_check_driver(const cuda_plugin *plugin, int version);

/* Whether the plug-in has kernels for a GPU of this compute capability: TESS_E_UNSUPPORTED. */
tess_status tess_cuda_check_architecture(const cuda_plugin *plugin, int major, int minor);

#endif
