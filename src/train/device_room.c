#include "train/device_room.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/device.h"

/* The child's message. */
typedef struct room_answer {
    int64_t bytes;
    int32_t status;
    char message[1024];
} room_answer;

enum { MOST_PLACES = 64, OPEN_S = 120 }; /* OPEN_S: a driver that hangs ends the child after that time */

/* A GPU, and the ranks that use it. */
typedef struct room_place {
    char place[32];
    size_t left;
    int n_ranks;
} room_place;

static tess_status look_at(tess_mem *mem, const char *name, int rank, room_place *places, int *n)
{
    tess_device *device;
    size_t left;
    TESS_TRY(tess_device_open(mem, name, rank, &device));
    const tess_status status = tess_device_memory_left(device, &left);
    const char *place = tess_device_get_properties(device)->place;
    int i = 0;
    while (i < *n && strcmp(places[i].place, place) != 0)
        i++;
    if (i == *n && *n < MOST_PLACES) {
        places[i] = (room_place){.left = left};
        snprintf(places[i].place, sizeof(places[i].place), "%s", place);
        ++*n;
    }
    places[i < MOST_PLACES ? i : MOST_PLACES - 1].n_ranks++;
    tess_device_close(&device);
    return status;
}

static tess_status find_room(tess_mem *mem, const tess_config *config, int n_ranks, int64_t *bytes)
{
    room_place places[MOST_PLACES];
    int n = 0;
    *bytes = n_ranks > 0 ? INT64_MAX : 0;
    for (int rank = 0; rank < n_ranks; rank++)
        TESS_TRY(look_at(mem, tess_config_device(config), rank, places, &n));
    for (int i = 0; i < n; i++) {
        const int64_t share = (int64_t)(places[i].left / (size_t)places[i].n_ranks);
        if (places[i].left == SIZE_MAX) {
            *bytes = 0;
            return TESS_OK;
        }
        *bytes = share < *bytes ? share : *bytes;
    }
    return TESS_OK;
}

static _Noreturn void answer(const tess_config *config, int n_ranks, int to)
{
    tess_mem *mem;
    room_answer a = {.bytes = 0};
    alarm(OPEN_S);
    tess_status status = tess_mem_create(&mem);
    if (status == TESS_OK)
        status = find_room(mem, config, n_ranks, &a.bytes);
    a.status = (int32_t)status;
    if (status != TESS_OK)
        snprintf(a.message, sizeof(a.message), "%s", tess_error_message());
    _exit(write(to, &a, sizeof(a)) == (ssize_t)sizeof(a) ? 0 : 1);
}

/* Reads the answer, which is shorter than what a pipe holds. Returns whether it is whole. */
static bool read_answer(int from, room_answer *a)
{
    ssize_t n;
    do
        n = read(from, a, sizeof(*a));
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof(*a);
}

tess_status tess_device_room(const tess_config *config, int n_ranks, int64_t *bytes)
{
    int ends[2];
    room_answer a;
    TESS_CHECK(pipe2(ends, O_CLOEXEC) == 0, TESS_E_IO, "a pipe to look at the GPUs: %s", strerror(errno));
    const pid_t child = fork();
    if (child == 0)
        answer(config, n_ranks, ends[1]);
    close(ends[1]);
    const bool whole = child > 0 && read_answer(ends[0], &a);
    close(ends[0]);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        continue;
    TESS_CHECK(whole, TESS_E_IO,
               "the process that looks at the memory of the GPUs has ended early: set training.memory_budget");
    *bytes = a.bytes;
    return a.status == TESS_OK ? TESS_OK : TESS_FAIL((tess_status)a.status, "%s", a.message);
}
