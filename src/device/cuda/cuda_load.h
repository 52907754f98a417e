/* Finds and loads the plug-in that contains the kernels. */
#ifndef TESS_DEVICE_CUDA_CUDA_LOAD_H
#define TESS_DEVICE_CUDA_CUDA_LOAD_H

#include "device/cuda/cuda_plugin.h"

/* Loads the plug-in once per process; it is never closed. TESSERA_CUDA names its file; otherwise the file is in the
 * program's folder. Sets *path to the file's path, even if it cannot be loaded. TESS_E_NOT_FOUND: there is no file.
 * TESS_E_UNSUPPORTED: it belongs to another version of the program. */
tess_status tess_cuda_load(const cuda_plugin **plugin, const char **path);

/* TESS_E_UNSUPPORTED: the driver, which supports this version of CUDA, cannot run the plug-in. */
tess_status tess_cuda_check_driver(const cuda_plugin *plugin, int version);

/* TESS_E_UNSUPPORTED: the plug-in has no kernels for a GPU of this compute capability. */
tess_status tess_cuda_check_architecture(const cuda_plugin *plugin, int major, int minor);

#endif
