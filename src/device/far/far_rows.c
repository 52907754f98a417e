/* The rows of the far device. Each copies its arguments, adds the constant to the device's pointers, and enqueues the
 * same row of the host's table. */
#include "device/far/far_impl.h"

typedef struct far_mover {
    const far_device *device;
    const char *row;
    tess_status status;
} far_mover;

/* Converts one of the caller's pointers to that which kernels use. */
static void *move(void *self, const void *p, tess_access access)
{
    far_mover *m = self;
    if (far_is_mine(m->device, p) && access != TESS_HOST_ONLY)
        return (char *)p + m->device->constant;
    if (m->status == TESS_OK)
        m->status = access == TESS_HOST_ONLY
                        ? TESS_FAIL(TESS_E_UNSUPPORTED,
                                    "%s on device far: a record for recovery is written by the host alone; call it "
                                    "without one",
                                    m->row)
                        : TESS_FAIL(TESS_E_INVALID, "%s: %p is not memory of device far; allocate it there and upload",
                                    m->row, p);
    return NULL;
}

static tess_status run_row(tess_stream *inner, const far_call *call)
{
    return call->row->call(inner->kernels, inner, call->tail);
}

static tess_status enqueue_row(tess_stream *s, tess_kernel_row_id id, const void *args)
{
    const tess_kernel_row *row = tess_kernel_row_of(id);
    far_mover m = {(const far_device *)s->device, row->name, TESS_OK};
    const far_call call = {.name = row->name,
                           .run = run_row,
                           .row = row,
                           .log_bytes = id == TESS_ROW_copy ? (size_t)((const tess_copy_args *)args)->bytes : 0};
    far_command *command;
    TESS_TRY(far_command_create((far_stream *)s, &call, tess_kernel_args_bytes(row, args), &command));
    tess_kernel_args_copy(row, args, move, &m, command->tail);
    if (m.status != TESS_OK) {
        tess_mem_free(s->mem, command);
        return m.status;
    }
    far_enqueue((far_stream *)s, command);
    return TESS_OK;
}

#define ENQUEUE(name, type, ...)                              \
    static tess_status name(tess_stream *s, const type *args) \
    {                                                         \
        return enqueue_row(s, TESS_ROW_##name, args);         \
    }
TESS_KERNEL_ROWS(ENQUEUE)

void far_rows(tess_kernels *table, const tess_kernels *inner)
{
#define REPLACE(name, ...) table->name = name;
    *table = *inner; /* functions that are no rows work on the host's memory, as they do there */
    TESS_KERNEL_ROWS(REPLACE)
}
