/* Messages of any size, in parts of at most mpi.part_bytes under one tag, which MPI keeps in order.
 *
 * The last part is always shorter than a full one (empty where the size divides). So both sides see where a message
 * ends, and always notice a message of another size than the receiver expects. */
#include "comm/mpi/mpi_impl.h"

static size_t count_parts(size_t bytes)
{
    return bytes / mpi.part_bytes + 1;
}

static size_t part_at(size_t bytes, size_t offset)
{
    return bytes - offset < mpi.part_bytes ? bytes - offset : mpi.part_bytes;
}

int mpi_send(wire_group *group, const void *data, size_t bytes, int to, int tag, wire_request **request,
             char error[WIRE_ERROR_BYTES])
{
    size_t n_parts = count_parts(bytes);
    wire_request *sent = mpi_request_take(REQUEST_SEND, n_parts, error);
    if (sent == NULL)
        return -1;
    for (size_t i = 0; i < n_parts; i++, sent->n_parts++) {
        size_t offset = i * mpi.part_bytes;
        int code = MPI_Isend((const char *)data + offset, (int)part_at(bytes, offset), MPI_BYTE, to, tag, group->comm,
                             &sent->parts[i]);
        if (code != MPI_SUCCESS) {
            mpi_request_cancel(&sent);
            return mpi_fail(error, code, "sending %zu bytes to %d with tag %d", bytes, to, tag);
        }
    }
    *request = sent;
    return 0;
}

int mpi_recv(wire_group *group, void *data, size_t bytes, int from, int tag, wire_request **request,
             char error[WIRE_ERROR_BYTES])
{
    size_t n_parts = count_parts(bytes);
    wire_request *received = mpi_request_take(REQUEST_RECV, n_parts, error);
    if (received == NULL)
        return -1;
    received->bytes = bytes;
    received->from = from;
    for (size_t i = 0; i < n_parts; i++, received->n_parts++) {
        size_t offset = i * mpi.part_bytes;
        int code = MPI_Irecv((char *)data + offset, (int)part_at(bytes, offset), MPI_BYTE, from, tag, group->comm,
                             &received->parts[i]);
        if (code != MPI_SUCCESS) {
            mpi_request_cancel(&received);
            return mpi_fail(error, code, "receiving %zu bytes from %d with tag %d", bytes, from, tag);
        }
    }
    *request = received;
    return 0;
}
