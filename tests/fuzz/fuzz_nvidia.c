/* The output of nvidia-smi: lines of fields and matrices of GPUs. The first byte chooses. */
#include <stdlib.h>
#include <string.h>

#include "doctor/probe/gpu_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static probe_gpus gpus;
    static tess_probe_findings findings;
    char *text = malloc(size + 1); /* a block of the exact size, so that a step beyond is seen */
    if (text == NULL || size == 0) {
        free(text);
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    memset(&gpus, 0, sizeof(gpus));
    findings.n = 0;
    if (text[0] == 'm') {
        gpus.n = 1;
        probe_gpu_parse_matrix(text + 1, &gpus.topology);
        gpus.peers = gpus.topology;
    } else {
        gpus.n = probe_gpu_parse(text + 1, gpus.gpu, PROBE_GPUS);
    }
    if (gpus.n > 0)
        probe_gpu_judge(&gpus, NULL, &findings);
    free(text);
    return 0;
}
