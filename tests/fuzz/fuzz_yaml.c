/* A run's configuration file. Its lists are the same after they have been written and read again. */
#include "config/config.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_and_read_again(const tess_config *config)
{
    tess_config again = {0};
    static char text[32 + 2 * TESS_LIST_SIZE * TESS_TEXT_SIZE] = "rollout.stop=";
    int n_tables;
    const size_t key = strlen("rollout.stop=");
    const tess_option_table *tables = tess_config_tables(&n_tables);
    if (tess_options_format_key(tables, n_tables, config, "rollout.stop", text + key, sizeof(text) - key) != TESS_OK ||
        tess_config_override(&again, text) != TESS_OK || again.rollout.stop.n != config->rollout.stop.n)
        __builtin_trap();
    for (int i = 0; i < again.rollout.stop.n; i++)
        if (strcmp(again.rollout.stop.item[i], config->rollout.stop.item[i]) != 0)
            __builtin_trap();
    tess_config_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tess_config config;
    tess_mem *mem;
    if (tess_mem_create(&mem) != TESS_OK)
        return 0;
    if (tess_config_parse(mem, (const char *)data, size, "fuzz.yaml", &config) == TESS_OK) {
        write_and_read_again(&config);
        (void)tess_config_check(&config, 1 + (int)(size % 8));
    }
    tess_config_free(&config);
    if (tess_mem_destroy(&mem) != 0)
        __builtin_trap(); /* a leak */
    return 0;
}
