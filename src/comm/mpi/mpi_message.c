/* Sends and receives messages of any size in parts of at most mpi.part_bytes. All parts have one tag; MPI keeps
 * their order.
 *
 * The last part is always shorter than a full one (it is empty if the size divides evenly). So both sides see where
 * a message ends, and always notice if the size is not the one that the receiver expects. */
#include "comm/mpi/mpi_impl.h"

static int begin(mpi_request_kind kind, wire_group *group, void *data, size_t bytes, int peer, int tag,
                 wire_request **request, char error[WIRE_ERROR_BYTES])
{
    size_t n_parts = bytes / mpi.part_bytes + 1;
    wire_request *begun = mpi_request_take(kind, n_parts, error);
    if (begun == NULL)
        return -1;
    begun->bytes = bytes;
    begun->from = peer;
    for (size_t i = 0; i < n_parts; i++, begun->n_parts++) {
        size_t offset = i * mpi.part_bytes;
        char *at = (char *)data + offset;
        int part = (int)(bytes - offset < mpi.part_bytes ? bytes - offset : mpi.part_bytes);
        int code = kind == REQUEST_SEND ? MPI_Isend(at, part, MPI_BYTE, peer, tag, group->comm, &begun->parts[i])
                                        : MPI_Irecv(at, part, MPI_BYTE, peer, tag, group->comm, &begun->parts[i]);
        if (code != MPI_SUCCESS) {
            mpi_request_cancel(&begun);
            return mpi_fail(error, code,
                            kind == REQUEST_SEND ? "sending %zu bytes to %d with tag %d"
                                                 : "receiving %zu bytes from %d with tag %d",
                            bytes, peer, tag);
        }
    }
    *request = begun;
    return 0;
}

int mpi_send(wire_group *group, const void *data, size_t bytes, int to, int tag, wire_request **request,
             char error[WIRE_ERROR_BYTES])
{
    return begin(REQUEST_SEND, group, (void *)(uintptr_t)data, bytes, to, tag, request, error);
}

int mpi_recv(wire_group *group, void *data, size_t bytes, int from, int tag, wire_request **request,
             char error[WIRE_ERROR_BYTES])
{
    return begin(REQUEST_RECV, group, data, bytes, from, tag, request, error);
}
