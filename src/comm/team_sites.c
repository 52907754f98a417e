/* Call sites as numbers that mean the same on every rank. A team looks each up once; later calls take no lock and no
 * system call. An address keeps its number even if another shared object is loaded there later. */
#include "base/os/objects.h"
#include "comm/comm_impl.h"
#include "trace/call_site.h"

static uint64_t find_site(tess_runtime *rt, const void *address)
{
    tess_object object;
    if (!tess_object_find(address, &object))
        return tess_call_site_at_address((uintptr_t)address);
    tess_recorder_add_object(rt, &object);
    return tess_call_site_in_object(object.id, (uintptr_t)address - object.begin);
}

uint64_t tess_team_call_site(tess_team *team, const void *address)
{
    const tess_runtime *rt = team->runtime;
    uintptr_t at = (uintptr_t)address;
    if (at >= rt->program_begin && at < rt->program_end)
        return at - rt->program_begin;
    comm_site *known = &team->sites[(at ^ at >> 7) % COMM_SITES];
    if (known->address != address)
        *known = (comm_site){.address = address, .number = find_site(team->runtime, address)};
    return known->number;
}
