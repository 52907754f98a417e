/* Memory of fsdp. Gathered copies and gradient windows are shared with the peers. A rank without peers uses private
 * memory, because systems give huge pages to private memory far sooner than to shared memory; the first touch then
 * takes a third of the time. With a device, this memory is on the device: every rank then has gathered copies of its
 * own, and memory that collectives read is opened to the peers (comm/device_windows.h). Weights and sums of gradients
 * have a home (device/home/home.h). */
#include "parallel/fsdp/fsdp_impl.h"

#include <stdio.h>

#include "comm/device_windows.h"

/* Returns the ranks that share gathered copies if they are on one host. Groups gather at different times, so each
 * group has its own copies. */
static tess_team *copy_team(const tess_fsdp_family *family)
{
    return family->teams.group_team != NULL ? family->teams.group_team : family->teams.shard_team;
}

tess_status tess_fsdp_copy_alloc(tess_fsdp_family *family, size_t bytes, void **out)
{
    static const char what[] = "gathered parameters";
    if (family->fsdp->place.device != NULL)
        return tess_device_alloc(family->fsdp->place.device, TESS_POOL_COMM, bytes, what, out);
    return family->facts.alone ? tess_mem_alloc(family->fsdp->place.mem, TESS_POOL_COMM, bytes, what, out)
                               : tess_shared_alloc(copy_team(family), TESS_POOL_COMM, bytes, what, out);
}

void tess_fsdp_copy_free(tess_fsdp_family *family, void *copy)
{
    if (family->fsdp->place.device != NULL)
        tess_device_free(family->fsdp->place.device, copy);
    else if (family->facts.alone)
        tess_mem_free(family->fsdp->place.mem, copy);
    else
        tess_shared_free(copy_team(family), copy);
}

tess_status tess_fsdp_window_alloc(tess_fsdp_family *family, size_t bytes, void **out)
{
    static const char what[] = "gradient window";
    if (family->fsdp->place.device != NULL)
        return family->facts.alone
                   ? tess_device_alloc(family->fsdp->place.device, TESS_POOL_COMM, bytes, what, out)
                   : tess_device_window_alloc(family->teams.shard_team, TESS_POOL_COMM, bytes, what, out);
    return family->facts.alone ? tess_mem_alloc(family->fsdp->place.mem, TESS_POOL_COMM, bytes, what, out)
                               : tess_window_alloc(family->teams.shard_team, TESS_POOL_COMM, bytes, what, out);
}

void tess_fsdp_window_free(tess_fsdp_family *family, void *window)
{
    if (family->fsdp->place.device != NULL && family->facts.alone)
        tess_device_free(family->fsdp->place.device, window);
    else if (family->fsdp->place.device != NULL)
        tess_device_window_free(family->teams.shard_team, window);
    else if (family->facts.alone)
        tess_mem_free(family->fsdp->place.mem, window);
    else
        tess_window_free(family->teams.shard_team, window);
}

tess_status tess_fsdp_alloc(const tess_fsdp_place *place, tess_pool pool, size_t elements, const char *what,
                            float **out)
{
    if (place->device == NULL)
        return tess_mem_alloc_array(place->mem, pool, elements, sizeof(float), what, (void **)out);
    TESS_CHECK(elements <= SIZE_MAX / sizeof(float), TESS_E_NOMEM, "%s: too many elements", what);
    return tess_device_alloc(place->device, pool, elements * sizeof(float), what, (void **)out);
}

void tess_fsdp_free(const tess_fsdp_place *place, float *memory)
{
    if (place->device == NULL)
        tess_mem_free(place->mem, memory);
    else
        tess_device_free(place->device, memory);
}

tess_status tess_fsdp_show(tess_fsdp_family *family, tess_team *team, float *memory, size_t elements, const char *what)
{
    return family->fsdp->place.device == NULL || family->facts.alone
               ? TESS_OK
               : tess_device_window_show(team, memory, elements * sizeof(float), what);
}

void tess_fsdp_hide(tess_fsdp_family *family, tess_team *team, float *memory)
{
    if (family->fsdp->place.device != NULL && !family->facts.alone)
        tess_device_window_hide(team, memory);
}

tess_status tess_fsdp_persist_alloc(tess_unit *unit, tess_pool pool, const char *what, int number, size_t elements,
                                    float **out, bool *found)
{
    char name[112];
    size_t bytes;
    tess_home_block *block;
    TESS_CHECK(!__builtin_mul_overflow(elements, sizeof(float), &bytes), TESS_E_NOMEM, "unit '%s': too many elements",
               unit->name);
    if (number >= 0)
        snprintf(name, sizeof(name), "%s %d of %s", what, number, unit->name);
    else
        snprintf(name, sizeof(name), "%s of %s", what, unit->name);
    TESS_TRY(tess_home_alloc(unit->fsdp->home, pool, pool == TESS_POOL_PARAMS, bytes, name, &block, found));
    *out = block->at;
    return TESS_OK;
}

void tess_fsdp_persist_free(const tess_unit *unit, float *memory)
{
    tess_home_free(unit->fsdp->home, tess_home_find(unit->fsdp->home, memory));
}

static size_t codes_elements(const tess_unit *unit)
{
    return (unit->layout.codes_bytes + sizeof(float) - 1) / sizeof(float);
}

/* Returns the memory that gathers read of this rank: the codes of the unit, or its master weights. NULL: gathers do not
 * read masters that are away from the device. */
static float *shard_of(const tess_unit *unit)
{
    if (unit->layout.coded)
        return (float *)(void *)unit->codes;
    return tess_home_is_away(unit->fsdp->home, TESS_POOL_PARAMS) ? NULL : unit->master;
}

/* The replicas read the sum over a replica's shards. */
static bool shows_gradient(const tess_unit *unit)
{
    return unit->family->facts.divides && !tess_home_is_away(unit->fsdp->home, TESS_POOL_GRADS);
}

tess_status tess_fsdp_show_shard(tess_unit *unit)
{
    tess_fsdp_family *family = unit->family;
    const size_t elements = unit->layout.coded ? codes_elements(unit) : unit->layout.master_elements;
    if (shard_of(unit) != NULL)
        TESS_TRY(tess_fsdp_show(family, family->teams.shard_team, shard_of(unit), elements, "shard of a unit"));
    unit->shard_shown = true;
    return shows_gradient(unit) ? tess_fsdp_show(family, family->teams.replicate_team, unit->gradient,
                                                 unit->layout.gradient_elements, "gradient of shards")
                                : TESS_OK;
}

void tess_fsdp_hide_shard(tess_unit *unit)
{
    if (unit->shard_shown && shard_of(unit) != NULL)
        tess_fsdp_hide(unit->family, unit->family->teams.shard_team, shard_of(unit));
    if (unit->shard_shown && shows_gradient(unit))
        tess_fsdp_hide(unit->family, unit->family->teams.replicate_team, unit->gradient);
    unit->shard_shown = false;
}

/* The codes of a unit with narrow parameters are in named memory, like master weights, because they are the only
 * copy. Other codes can be computed again. */
tess_status tess_fsdp_codes_alloc(tess_unit *unit)
{
    static const char what[] = "gathered form";
    bool found;
    float **codes = (float **)&unit->codes;
    if (unit->layout.codes_bytes == 0)
        return TESS_OK;
    return unit->layout.narrow
               ? tess_fsdp_persist_alloc(unit, TESS_POOL_PARAMS, what, -1, codes_elements(unit), codes, &found)
               : tess_fsdp_alloc(&unit->fsdp->place, TESS_POOL_PARAMS, codes_elements(unit), what, codes);
}

void tess_fsdp_codes_free(tess_unit *unit)
{
    float *codes = (float *)(void *)unit->codes;
    if (unit->layout.narrow)
        tess_fsdp_persist_free(unit, codes);
    else
        tess_fsdp_free(&unit->fsdp->place, codes);
    unit->codes = NULL;
}
