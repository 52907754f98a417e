/* The writer's process: sleeps until a save is staged, writes it, says how it went. */
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "ckpt/async/async_impl.h"

static const uint64_t look_ns = 500000000; /* between looks at whether the owner still runs */

bool async_owner_has_ended(const async_writer *w)
{
    struct pollfd owner = {.fd = w->owner_fd, .events = POLLIN};
    return poll(&owner, 1, 0) > 0;
}

static void write_one(async_writer *w, async_write_fn write)
{
    async_header *header = w->area->header;
    async_outcome outcome = {.step = -1};
    header->attempts++;
    outcome.status = (int32_t)write(w, &outcome);
    if (outcome.status != TESS_OK)
        snprintf(outcome.message, sizeof(outcome.message), "%s", tess_error_message());
    outcome.seconds = (double)(tess_os_now_ns() - atomic_load(&header->queued_ns)) * 1e-9;
    async_end(header, ASYNC_WRITING, &outcome);
}

void async_writer_run(const async_area *area, int owner_fd, async_write_fn write)
{
    async_header *header = area->header;
    async_writer w = {.area = area, .owner_fd = owner_fd};
    if (tess_mem_create(&w.mem) != TESS_OK)
        return;
    atomic_store(&header->writer_pid, (int32_t)getpid());
    for (;;) {
        uint32_t ticket = atomic_load(&header->doorbell);
        if (async_step(header, ASYNC_QUEUED, ASYNC_WRITING))
            write_one(&w, write);
        else if (atomic_load(&header->closing) != 0 || async_owner_has_ended(&w))
            break;
        else
            tess_os_futex_wait((const uint32_t *)&header->doorbell, ticket, look_ns);
    }
    for (int i = 0; i < w.n_faults; i++)
        tess_faults_destroy(w.mem, &w.faults[i]);
    tess_mem_free(w.mem, w.faults);
    tess_mem_destroy(&w.mem);
}
