/* Reports, in sentences, what this machine has for NVIDIA GPUs and what is missing. */
#ifndef TESS_DEVICE_CUDA_CUDA_REPORT_H
#define TESS_DEVICE_CUDA_CUDA_REPORT_H

#include <stdbool.h>

#include "tessera/status.h"

#define TESS_NCCL_PATTERN "libnccl.so.2*"
#define TESS_NCCL_PACKAGES "NCCL (Debian: libnccl2; pip: nvidia-nccl-cu13)"

typedef struct tess_cuda_fact {
    char name[16]; /* "plug-in", "driver", "gpu 0", "peers", "cublas", "nccl" */
    bool missing;  /* whether it is missing; the text then says what to install */
    char text[640];
} tess_cuda_fact;

enum { TESS_CUDA_SOFTWARE = 3, TESS_CUDA_GPUS = 32 };

/* Reports the plug-in, cublasLt and NCCL. Does not start the driver. */
void tess_cuda_software(tess_cuda_fact facts[TESS_CUDA_SOFTWARE]);

/* Reports the driver, each GPU, and which GPUs can read each other's memory. Starts the driver, so the process must not
 * fork processes that use GPUs afterwards. Returns the number of facts, at most TESS_CUDA_GPUS + 2. */
int tess_cuda_hardware(tess_cuda_fact facts[TESS_CUDA_GPUS + 2]);

#endif
