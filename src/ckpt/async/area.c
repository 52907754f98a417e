/* The memory ("area") that ranks share with the writer: its header, its stages, and its changes of state. */
#include <poll.h>

#include "base/core/round_up.h"
#include "base/core/variables.h"
#include "ckpt/async/async_impl.h"

static size_t stages_begin(void)
{
    return tess_round_up(sizeof(async_header), (size_t)2 << 20);
}

tess_status async_area_create(async_area *area)
{
    void *address;
    area->header = NULL;
    TESS_TRY(tess_os_memfd("tessera-saves", stages_begin() + ASYNC_SLOTS * ASYNC_STAGE_SPAN, &area->fd));
    tess_status status = tess_os_map_shared(area->fd, 0, sizeof(async_header), &address);
    if (status != TESS_OK) {
        tess_os_close(&area->fd);
        return status;
    }
    area->header = address;
    area->header->version = ASYNC_VERSION;
    return TESS_OK;
}

tess_status async_area_open(int fd, async_area *area)
{
    size_t size;
    void *address;
    TESS_TRY(tess_os_fd_size(fd, &size));
    TESS_CHECK(size == stages_begin() + ASYNC_SLOTS * ASYNC_STAGE_SPAN, TESS_E_INVALID,
               "%s=%d is not a memory file for saves", tess_variable_name(TESS_VAR_SAVES), fd);
    TESS_TRY(tess_os_map_shared(fd, 0, sizeof(async_header), &address));
    *area = (async_area){.header = address, .fd = fd};
    if (area->header->version == ASYNC_VERSION)
        return TESS_OK;
    tess_os_unmap_shared(address, sizeof(async_header));
    return TESS_FAIL(TESS_E_INVALID, "%s=%d is a memory file of another version of Tessera",
                     tess_variable_name(TESS_VAR_SAVES), fd);
}

void async_area_close(async_area *area, bool close_fd)
{
    if (area->header != NULL)
        tess_os_unmap_shared(area->header, sizeof(async_header));
    area->header = NULL;
    if (close_fd)
        tess_os_close(&area->fd);
}

tess_status async_area_map_stage(const async_area *area, int slot, size_t bytes, uint8_t **address)
{
    void *mapped;
    TESS_CHECK(bytes <= ASYNC_STAGE_SPAN, TESS_E_NOMEM, "a stage of %zu bytes is more than one rank may have", bytes);
    size_t whole = tess_round_up(bytes, 4096);
    TESS_TRY(tess_os_map_shared_huge(area->fd, stages_begin() + (size_t)slot * ASYNC_STAGE_SPAN, whole, &mapped));
    *address = mapped;
    return TESS_OK;
}

bool async_has_ended(int pid_fd)
{
    struct pollfd process = {.fd = pid_fd, .events = POLLIN};
    return poll(&process, 1, 0) > 0;
}

bool async_is_busy(const async_header *header)
{
    uint32_t state = atomic_load(&header->state);
    return state == ASYNC_QUEUED || state == ASYNC_WRITING;
}

static void ring(_Atomic uint32_t *bell)
{
    atomic_fetch_add(bell, 1);
    tess_os_futex_wake((const uint32_t *)bell, INT32_MAX);
}

bool async_step(async_header *header, async_state from, async_state to)
{
    uint32_t expected = from;
    if (!atomic_compare_exchange_strong(&header->state, &expected, to))
        return false;
    ring(&header->doorbell);
    ring(&header->changed);
    return true;
}

void async_end(async_header *header, async_state from, const async_outcome *outcome)
{
    header->outcome = *outcome;
    async_step(header, from, outcome->status == TESS_OK ? ASYNC_COMMITTED : ASYNC_FAILED);
}
