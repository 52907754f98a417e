/* Collectives performed by MPI itself. Data larger than a part is moved in rounds, which are all in flight at once. */
#include "comm/mpi/mpi_impl.h"

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t count_rounds(size_t n, size_t step)
{
    return n == 0 ? 1 : (n + step - 1) / step;
}

static int failed(wire_request *request, int code, const char *what, char error[WIRE_ERROR_BYTES])
{
    mpi_request_cancel(&request);
    return mpi_fail(error, code, "%s", what);
}

/* ---- All-gather ---- */

/* A block of `bytes` bytes. Blocks of consecutive ranks are `stride` bytes apart. */
static int make_piece(size_t bytes, size_t stride, MPI_Datatype *piece)
{
    MPI_Datatype dense;
    int code = MPI_Type_contiguous((int)bytes, MPI_BYTE, &dense);
    if (code != MPI_SUCCESS)
        return code;
    code = MPI_Type_create_resized(dense, 0, (MPI_Aint)stride, piece);
    MPI_Type_free(&dense);
    return code == MPI_SUCCESS ? MPI_Type_commit(piece) : code;
}

int mpi_all_gather(wire_group *group, const void *in, void *out, size_t bytes, wire_request **request,
                   char error[WIRE_ERROR_BYTES])
{
    size_t step = mpi.part_bytes, n_rounds = count_rounds(bytes, step);
    wire_request *gathered = mpi_request_take(REQUEST_COLLECTIVE, n_rounds, error);
    if (gathered == NULL)
        return -1;
    int code = MPI_SUCCESS;
    if (n_rounds > 1)
        code = make_piece(step, bytes, &gathered->types[0]);
    if (n_rounds > 1 && code == MPI_SUCCESS && bytes % step != 0)
        code = make_piece(bytes % step, bytes, &gathered->types[1]);
    for (size_t i = 0; i < n_rounds && code == MPI_SUCCESS; i++) {
        size_t at = i * step, n = smaller(step, bytes - at);
        if (n_rounds == 1)
            code = MPI_Iallgather(in, (int)n, MPI_BYTE, out, (int)n, MPI_BYTE, group->comm, &gathered->parts[i]);
        else
            code = MPI_Iallgather((const char *)in + at, (int)n, MPI_BYTE, (char *)out + at, 1,
                                  gathered->types[n == step ? 0 : 1], group->comm, &gathered->parts[i]);
        gathered->n_parts += code == MPI_SUCCESS;
    }
    if (code != MPI_SUCCESS)
        return failed(gathered, code, "MPI_Iallgather", error);
    *request = gathered;
    return 0;
}

/* ---- Reductions ---- */

typedef struct reduction {
    MPI_Datatype type;
    MPI_Op op;
    size_t width; /* bytes per element */
} reduction;

static reduction describe(wire_type type, wire_op op)
{
    const reduction types[] = {[WIRE_F32] = {MPI_FLOAT, MPI_OP_NULL, 4},
                               [WIRE_I32] = {MPI_INT32_T, MPI_OP_NULL, 4},
                               [WIRE_I64] = {MPI_INT64_T, MPI_OP_NULL, 8},
                               [WIRE_U8] = {MPI_UINT8_T, MPI_OP_NULL, 1}};
    const MPI_Op ops[] = {[WIRE_SUM] = MPI_SUM, [WIRE_MAX] = MPI_MAX, [WIRE_MIN] = MPI_MIN};
    reduction found = types[type];
    found.op = ops[op];
    return found;
}

static size_t elements_a_part(size_t width)
{
    return mpi.part_bytes > width ? mpi.part_bytes / width : 1;
}

int mpi_all_reduce(wire_group *group, const void *in, void *out, size_t n, wire_type type, wire_op op,
                   wire_request **request, char error[WIRE_ERROR_BYTES])
{
    reduction by = describe(type, op);
    size_t step = elements_a_part(by.width), n_rounds = count_rounds(n, step);
    wire_request *reduced = mpi_request_take(REQUEST_COLLECTIVE, n_rounds, error);
    if (reduced == NULL)
        return -1;
    for (size_t i = 0; i < n_rounds; i++, reduced->n_parts++) {
        size_t at = i * step;
        const void *from = in == out ? MPI_IN_PLACE : (const char *)in + at * by.width;
        int code = MPI_Iallreduce(from, (char *)out + at * by.width, (int)smaller(step, n - at), by.type, by.op,
                                  group->comm, &reduced->parts[i]);
        if (code != MPI_SUCCESS)
            return failed(reduced, code, "MPI_Iallreduce", error);
    }
    *request = reduced;
    return 0;
}

/* MPI reduces only contiguous data. A round of a large reduce-scatter is not contiguous, so each rank and round has
 * its own reduction. */
static int reduce_to_each(wire_group *group, const char *in, char *out, size_t n, const reduction *by,
                          wire_request *request)
{
    size_t step = elements_a_part(by->width);
    for (int root = 0; root < group->size; root++) {
        for (size_t at = 0; at < n; at += step, request->n_parts++) {
            const char *from = in + ((size_t)root * n + at) * by->width;
            int code = MPI_Ireduce(from, out + at * by->width, (int)smaller(step, n - at), by->type, by->op, root,
                                   group->comm, &request->parts[request->n_parts]);
            if (code != MPI_SUCCESS)
                return code;
        }
    }
    return MPI_SUCCESS;
}

int mpi_reduce_scatter(wire_group *group, const void *in, void *out, size_t n, wire_type type, wire_op op,
                       wire_request **request, char error[WIRE_ERROR_BYTES])
{
    reduction by = describe(type, op);
    size_t n_ranks = (size_t)group->size;
    bool at_once = n <= elements_a_part(by.width) / n_ranks;
    size_t n_parts = at_once ? 1 : n_ranks * count_rounds(n, elements_a_part(by.width));
    wire_request *reduced = mpi_request_take(REQUEST_COLLECTIVE, n_parts, error);
    if (reduced == NULL)
        return -1;
    int code;
    if (at_once) {
        code = MPI_Ireduce_scatter_block(in, out, (int)n, by.type, by.op, group->comm, &reduced->parts[0]);
        reduced->n_parts = code == MPI_SUCCESS;
    } else {
        code = reduce_to_each(group, in, out, n, &by, reduced);
    }
    if (code != MPI_SUCCESS)
        return failed(reduced, code, at_once ? "MPI_Ireduce_scatter_block" : "MPI_Ireduce", error);
    *request = reduced;
    return 0;
}
