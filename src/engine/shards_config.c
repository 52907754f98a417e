/* Reads and checks the options of a configuration that concern the place of its shards. */
#include <string.h>

#include "base/core/variables.h"
#include "engine/shards.h"

tess_status tess_shards_read(const tess_config *config, tess_shards_choice *choice)
{
    const char *text = tess_variable_value(TESS_VAR_SHARDS);
    *choice = (tess_shards_choice)config->job.shards;
    if (*choice != TESS_SHARDS_AUTO || text == NULL || text[0] == '\0')
        return TESS_OK;
    *choice = strcmp(text, "device") == 0 ? TESS_SHARDS_DEVICE : TESS_SHARDS_HOST;
    TESS_CHECK(*choice == TESS_SHARDS_DEVICE || strcmp(text, "host") == 0, TESS_E_INVALID,
               "TESSERA_SHARDS '%s' is unknown: choose host or device", text);
    return TESS_OK;
}

/* Refuses options that do not work with shards on a device. */
tess_status tess_shards_check_config(const tess_config *c)
{
    const tess_optimizer_options optimizer = tess_engine_optimizer(c);
    return tess_optimizer_check_device(&optimizer);
}

bool tess_shards_is_gpu(const char *device)
{
    return device != NULL && strncmp(device, "cuda", strlen("cuda")) == 0;
}

bool tess_shards_expected(const tess_config *config)
{
    tess_shards_choice choice;
    const char *device =
        tess_config_device(config) != NULL ? tess_config_device(config) : tess_variable_value(TESS_VAR_DEVICE);
    bool expected = tess_shards_read(config, &choice) == TESS_OK &&
                    (choice == TESS_SHARDS_DEVICE || (choice == TESS_SHARDS_AUTO && tess_shards_is_gpu(device) &&
                                                      tess_shards_check_config(config) == TESS_OK));
    tess_error_clear();
    return expected;
}
