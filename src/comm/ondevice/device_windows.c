/* Device memory that ranks read from each other: the public functions. */
#include "comm/agree.h"
#include "comm/ondevice/ondevice.h"

/* Creates the team's state for operations on the device, on all ranks or on none. */
static tess_status begin(tess_team *team, const char *call)
{
    TESS_CHECK(team != NULL && team->runtime->device != NULL, TESS_E_INVALID,
               "%s: there is no team, or its runtime has no device (tess_runtime_use_device)", call);
    return team->on_device != NULL ? TESS_OK : tess_team_agree(team, tess_ondevice_begin(team));
}

/* A team over several hosts with windows has a link. If creating the link fails, the window is hidden again. */
static tess_status link_hosts(tess_team *team, void *window, const void *site)
{
    tess_status status = team->runtime->dry != NULL || tess_team_is_local(team) ? TESS_OK : tess_hosts_link(team);
    if (status != TESS_OK)
        ondevice_window_hide(team, window, site);
    return status;
}

static tess_status alloc(tess_team *team, tess_pool pool, size_t bytes, const char *what, const void *site, void **out)
{
    *out = NULL;
    if (team->runtime->dry != NULL)
        return tess_device_alloc(team->runtime->dry->device, pool, bytes, what, out);
    TESS_TRY(begin(team, "tess_device_window_alloc"));
    TESS_TRY_CTX(ondevice_window_alloc(team, pool, bytes, what, site, out), "window '%s' of team '%s'", what,
                 team->name);
    return TESS_OK;
}

tess_status tess_device_window_alloc(tess_team *team, tess_pool pool, size_t bytes, const char *what, void **out)
{
    const void *site = __builtin_return_address(0);
    TESS_TRY(alloc(team, pool, bytes, what, site, out));
    tess_status status = link_hosts(team, *out, site);
    if (status != TESS_OK)
        *out = NULL;
    return status;
}

tess_status tess_device_outbox_alloc(tess_team *team, tess_pool pool, size_t bytes, const char *what, void **out)
{
    return alloc(team, pool, bytes, what, __builtin_return_address(0), out);
}

tess_status tess_device_window_show(tess_team *team, void *memory, size_t bytes, const char *what)
{
    const void *site = __builtin_return_address(0);
    if (team->runtime->dry != NULL)
        return TESS_OK;
    TESS_TRY(begin(team, "tess_device_window_show"));
    TESS_TRY_CTX(ondevice_window_show(team, TESS_OK, memory, bytes, false, what, site), "window '%s' of team '%s'",
                 what, team->name);
    return link_hosts(team, memory, site);
}

void tess_device_window_free(tess_team *team, void *window)
{
    if (team->runtime->dry == NULL)
        ondevice_window_hide(team, window, __builtin_return_address(0));
    else if (window != NULL)
        tess_device_free(team->runtime->dry->device, window);
}

void tess_device_window_hide(tess_team *team, void *memory)
{
    if (team->runtime->dry == NULL)
        ondevice_window_hide(team, memory, __builtin_return_address(0));
}
