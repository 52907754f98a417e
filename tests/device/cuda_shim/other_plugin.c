/* A plug-in that is not this program's: of another version of the table, or of another build. */
#include "device/cuda/cuda_plugin.h"

extern const struct {
    uint32_t version;
    const char *build;
} tess_cuda_plugin;
__attribute__((visibility("default")))
const __typeof__(tess_cuda_plugin) tess_cuda_plugin = {OTHER_VERSION, "0.0.0-other"};
