/* A run's configuration file. */
#include "train/train_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tess_config config;
    tess_mem *mem;
    if (tess_mem_create(&mem) != TESS_OK)
        return 0;
    if (tess_config_parse(mem, (const char *)data, size, "fuzz.yaml", &config) == TESS_OK)
        (void)tess_config_check(&config, 1 + (int)(size % 8));
    if (tess_mem_destroy(&mem) != 0)
        __builtin_trap(); /* a leak */
    return 0;
}
