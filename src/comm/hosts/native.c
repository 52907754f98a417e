/* Reductions performed by MPI itself (comm.reduction=native). Their order of summation depends on the number of
 * ranks and on the MPI library, so results differ from those of one rank. */
#include "comm/hosts/hosts_impl.h"

/* Converts a dtype to MPI's. Returns false for 16-bit floats, which MPI does not have. */
static bool find_type(tess_dtype dtype, wire_type *type)
{
    *type = dtype == TESS_I32 ? WIRE_I32 : dtype == TESS_I64 ? WIRE_I64 : dtype == TESS_U8 ? WIRE_U8 : WIRE_F32;
    return dtype != TESS_BF16 && dtype != TESS_F16;
}

static bool find_op(tess_op op, wire_op *found)
{
    *found = op == TESS_SUM ? WIRE_SUM : op == TESS_MAX ? WIRE_MAX : WIRE_MIN;
    return op != TESS_AVG;
}

bool hosts_is_native(const tess_work *work)
{
    wire_type type;
    wire_op op;
    bool reduces = work->fp.kind == TESS_TRACE_ALL_REDUCE || work->fp.kind == TESS_TRACE_REDUCE_SCATTER;
    return work->team->runtime->native_reductions && reduces && find_type(work->dtype, &type) && find_op(work->op, &op);
}

tess_status hosts_begin_native(tess_work *work)
{
    comm_hosts *h = hosts_of(work->team);
    wire_request **request = &h->rounds->native;
    wire_type type = WIRE_F32;
    wire_op op = WIRE_SUM;
    find_type(work->dtype, &type);
    find_op(work->op, &op);
    if (work->fp.kind == TESS_TRACE_ALL_REDUCE)
        return tess_wire_all_reduce(h->group, work->in, work->out, work->n, type, op, request);
    return tess_wire_reduce_scatter(h->group, work->in, work->out, work->n, type, op, request);
}
