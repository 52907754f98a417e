#include "engine/compute.h"

#include "job/environment.h"

tess_status tess_compute_open(const char *name, int number, tess_stream *host, tess_compute *c)
{
    *c = (tess_compute){.stream = host};
    TESS_TRY(tess_device_open(tess_stream_mem(host), name, number, &c->device));
    c->apart = !tess_device_get_properties(c->device)->host_memory;
    return c->apart ? tess_device_stream(c->device, tess_threads_count(tess_stream_threads(host)),
                                         tess_stream_kernels(host)->name, &c->stream)
                    : TESS_OK;
}

/* If the launcher does not tell a rank its number on the host, the rank's global number serves: ranks of one host
 * have consecutive numbers, so they are spread over its devices, too. */
tess_status tess_compute_number(int rank, int *number)
{
    tess_environment environment;
    TESS_TRY(tess_environment_read(&environment));
    *number = environment.local_rank >= 0 ? environment.local_rank : rank;
    return TESS_OK;
}

tess_status tess_compute_open_of_rank(const char *name, int rank, tess_stream *host, tess_compute *c)
{
    int number;
    TESS_TRY(tess_compute_number(rank, &number));
    return tess_compute_open(name, number, host, c);
}

tess_status tess_compute_hooks(tess_compute *c, const tess_model *model, const tess_hooks *hooks,
                               const tess_staging_options *options)
{
    c->hooks = *hooks;
    if (!c->apart || c->resident)
        return TESS_OK;
    TESS_TRY(tess_staging_create(c->stream, model, hooks, options, &c->staging));
    c->hooks = tess_staging_hooks(c->staging);
    return TESS_OK;
}

void tess_compute_close(tess_compute *c)
{
    tess_staging_destroy(&c->staging);
    if (c->apart && c->stream != NULL)
        tess_stream_destroy(&c->stream);
    tess_device_close(&c->device);
}
