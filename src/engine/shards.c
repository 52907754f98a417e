#include "engine/shards.h"

#include <stdio.h>
#include <string.h>

#include "base/core/rng.h"
#include "base/core/variables.h"
#include "base/text/text.h"
#include "comm/agree.h"
#include "tessera/comm.h"

/* The fraction of a GPU's memory that shards may use. The rest is for contexts, libraries and work space of kernels. */
static const double usable = 0.9;

/* Reads job.shards; if it is AUTO, the environment variable TESSERA_SHARDS may replace it. */
static tess_status read_choice(const tess_config *config, tess_shards_choice *choice)
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
static tess_status check(const tess_engine *e)
{
    const tess_optimizer_options optimizer = tess_engine_optimizer(e->config);
    TESS_CHECK(e->compute.apart, TESS_E_INVALID,
               "the memory of job.device=cpu is the host's: set job.device=cuda, or job.shards=host");
    TESS_CHECK(e->at.world == tess_team_size(tess_runtime_team(e->runtime)), TESS_E_UNSUPPORTED,
               "ranks that only draw have no shards: set rollout.ranks=0, or job.shards=host");
    return tess_optimizer_check_device(&optimizer);
}

/* Counts the ranks of this host whose device has the same name. */
static tess_status count_sharers(const tess_engine *e, int *n)
{
    const int64_t mine[] = {tess_team_host(e->team, tess_team_rank(e->team)),
                            (int64_t)tess_hash_text(tess_device_get_properties(e->compute.device)->name)};
    TESS_AUTO(tess_mem_drop) int64_t(*all)[2] = NULL;
    TESS_TRY(TESS_NEW(e->mem, e->at.world, "devices of ranks", &all));
    TESS_TRY(tess_all_gather(e->team, mine, all, 2, TESS_I64, NULL));
    *n = 0;
    for (int r = 0; r < e->at.world; r++)
        *n += all[r][0] == mine[0] && all[r][1] == mine[1];
    return TESS_OK;
}

static tess_status fits(tess_engine *e, tess_device_need_fn device_need, bool *fit)
{
    char need_text[32], room_text[32];
    int n = 1;
    double bytes;
    double room = usable * (double)tess_device_get_properties(e->compute.device)->memory_bytes;
    TESS_TRY(count_sharers(e, &n));
    TESS_TRY(device_need(e->mem, e->config, e->whole, e->at.rank, &bytes));
    bytes *= n;
    *fit = room == 0 || bytes <= room;
    if (!*fit)
        snprintf(
            e->compute.shards_note, sizeof(e->compute.shards_note),
            "weights, gradients and moments stay in the host's memory: on the device, %d rank%s would need %s of %s", n,
            n > 1 ? "s" : "", tess_format_bytes(bytes, need_text, sizeof(need_text)),
            tess_format_bytes(room, room_text, sizeof(room_text)));
    return TESS_OK;
}

static tess_status choose_for_gpu(tess_engine *e, tess_device_need_fn device_need, bool *resident)
{
    *resident = device_need != NULL &&
                strncmp(tess_device_get_properties(e->compute.device)->name, "cuda", strlen("cuda")) == 0;
    if (!*resident)
        return TESS_OK;
    if (check(e) == TESS_OK)
        return fits(e, device_need, resident);
    *resident = false;
    snprintf(e->compute.shards_note, sizeof(e->compute.shards_note),
             "weights, gradients and moments stay in the host's memory: %s", tess_error_message());
    tess_error_clear();
    return TESS_OK;
}

tess_status tess_shards_choose(tess_engine *e, tess_device_need_fn device_need)
{
    tess_shards_choice choice;
    bool resident = false;
    if (e->is_second) /* a second engine: the runtime supports one device only */
        return TESS_OK;
    tess_status status = read_choice(e->config, &choice);
    if (status == TESS_OK && choice == TESS_SHARDS_DEVICE)
        status = check(e);
    TESS_TRY_CTX(tess_team_agree(e->team, status), "job.shards=device");
    if (choice == TESS_SHARDS_AUTO)
        TESS_TRY(tess_team_agree(e->team, choose_for_gpu(e, device_need, &resident)));
    int32_t all = choice == TESS_SHARDS_DEVICE || resident;
    TESS_TRY(tess_all_reduce(e->team, &all, &all, 1, TESS_I32, TESS_MIN, NULL));
    e->compute.resident = all != 0;
    if (e->compute.resident)
        snprintf(e->compute.shards_note, sizeof(e->compute.shards_note),
                 "weights, gradients and moments lie in the device's memory");
    return TESS_OK;
}
