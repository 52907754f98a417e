/* Requests of the plug-in. A request consists of one or several MPI requests, and is complete when all of them are. */
#include "comm/mpi/mpi_impl.h"

#include <stdio.h>
#include <stdlib.h>

enum { LEAST_ROOM = 4 };

static int make_room(wire_request *request, size_t n_parts)
{
    if (request->room >= n_parts)
        return 0;
    size_t room = n_parts > LEAST_ROOM ? n_parts : LEAST_ROOM;
    MPI_Request *parts = realloc(request->parts, room * sizeof(*parts));
    if (parts == NULL)
        return -1;
    request->parts = parts;
    request->room = room;
    return 0;
}

static void make_idle(wire_request *request)
{
    for (int i = 0; i < 2; i++) {
        if (request->types[i] != MPI_DATATYPE_NULL)
            MPI_Type_free(&request->types[i]);
    }
    request->next = mpi.idle;
    mpi.idle = request;
}

wire_request *mpi_request_take(mpi_request_kind kind, size_t n_parts, char error[WIRE_ERROR_BYTES])
{
    wire_request *request = mpi.idle;
    if (request != NULL) {
        mpi.idle = request->next;
    } else if ((request = calloc(1, sizeof(*request))) != NULL) {
        request->types[0] = request->types[1] = MPI_DATATYPE_NULL;
    }
    if (request == NULL || make_room(request, n_parts) != 0) {
        if (request != NULL)
            make_idle(request);
        snprintf(error, WIRE_ERROR_BYTES, "out of memory");
        return NULL;
    }
    request->kind = kind;
    request->n_parts = request->n_done = 0;
    return request;
}

/* MPI cannot cancel a send or a collective, so those continue. It forbids freeing the request of a collective in
 * flight, so that handle is only forgotten. */
void mpi_request_cancel(wire_request **request)
{
    wire_request *given = *request;
    *request = NULL;
    if (given == NULL)
        return;
    for (size_t i = given->n_done; i < given->n_parts && given->kind != REQUEST_COLLECTIVE; i++) {
        if (given->parts[i] == MPI_REQUEST_NULL)
            continue;
        if (given->kind == REQUEST_RECV)
            MPI_Cancel(&given->parts[i]);
        MPI_Request_free(&given->parts[i]);
    }
    make_idle(given);
}

/* Every part but the last is full, and the last is not (mpi_message.c), so a message of another size shows in the
 * size of a part. */
static size_t wanted(const wire_request *request)
{
    bool last = request->n_done + 1 == request->n_parts;
    return last ? request->bytes % mpi.part_bytes : mpi.part_bytes;
}

static int other_size(const wire_request *request, const char *at_least, size_t got, char error[WIRE_ERROR_BYTES])
{
    snprintf(error, WIRE_ERROR_BYTES, "a message from %d has %s%zu bytes, but %zu were expected", request->from,
             at_least, request->n_done * mpi.part_bytes + got, request->bytes);
    return -1;
}

static size_t count_bytes(const MPI_Status *status)
{
    int n = 0;
    MPI_Get_count(status, MPI_BYTE, &n);
    return n > 0 ? (size_t)n : 0;
}

static int receive_failed(const wire_request *request, int code, const MPI_Status *status, char error[WIRE_ERROR_BYTES])
{
    int class = MPI_SUCCESS;
    MPI_Error_class(code, &class);
    if (class != MPI_ERR_TRUNCATE)
        return mpi_fail(error, code, "receiving %zu bytes from %d", request->bytes, request->from);
    /* Open MPI reports the size of the part that was sent; MPICH does not. After a full part, more may follow. */
    size_t got = count_bytes(status), want = wanted(request);
    return got > want && got < mpi.part_bytes ? other_size(request, "", got, error)
                                              : other_size(request, "at least ", want + 1, error);
}

static int test_part(wire_request *request, int *done, char error[WIRE_ERROR_BYTES])
{
    MPI_Status status = {0};
    int code = MPI_Test(&request->parts[request->n_done], done, &status);
    if (request->kind == REQUEST_RECV && code != MPI_SUCCESS)
        return receive_failed(request, code, &status, error);
    if (code != MPI_SUCCESS)
        return mpi_fail(error, code, request->kind == REQUEST_SEND ? "sending" : "collective");
    if (!*done || request->kind != REQUEST_RECV)
        return 0;
    size_t got = count_bytes(&status), want = wanted(request);
    bool may_be_shorter = request->n_parts == 1; /* the status of a single part gives its size */
    return got == want || (may_be_shorter && got < want) ? 0 : other_size(request, "", got, error);
}

int mpi_request_test(wire_request **request, char error[WIRE_ERROR_BYTES])
{
    wire_request *tested = *request;
    for (; tested->n_done < tested->n_parts; tested->n_done++) {
        int done = 0;
        if (test_part(tested, &done, error) != 0) {
            mpi_request_cancel(request);
            return -1;
        }
        if (!done)
            return 0;
    }
    make_idle(tested);
    *request = NULL;
    return 1;
}

void mpi_requests_free(void)
{
    while (mpi.idle != NULL) {
        wire_request *request = mpi.idle;
        mpi.idle = request->next;
        free(request->parts);
        free(request);
    }
}
