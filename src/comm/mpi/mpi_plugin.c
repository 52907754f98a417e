/* The plug-in's function table, and the start and end of MPI. */
#include "comm/mpi/mpi_impl.h"

#include <ctype.h>
#include <hwloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* MPI belongs to the process: it can be initialised only once. */
mpi_state mpi;

int mpi_fail(char error[WIRE_ERROR_BYTES], int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(error, WIRE_ERROR_BYTES, format, arguments);
    va_end(arguments);
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(code, text, &length);
    for (char *c = text; *c != '\0'; c++) { /* MPICH's text is a stack with one line for each function */
        if (*c == '\n')
            *c = ' ';
    }
    if (n >= 0 && n < WIRE_ERROR_BYTES)
        snprintf(error + n, (size_t)(WIRE_ERROR_BYTES - n), ": %s", text);
    return -1;
}

/* "Open MPI v4.1.4, package: ..." and "MPICH Version:\t4.0.2\n..." become "Open MPI 4.1.4" and "MPICH 4.0.2". */
static void name_library(char *name, size_t size)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, ",\n")] = '\0';
    name[0] = '\0';
    size_t n = 0;
    char *rest = NULL;
    for (char *word = strtok_r(text, " \t", &rest); word != NULL; word = strtok_r(NULL, " \t", &rest)) {
        if (strcmp(word, "Version:") == 0)
            continue;
        if (word[0] == 'v' && isdigit((unsigned char)word[1]))
            word++;
        if (n < size)
            n += (size_t)snprintf(name + n, size - n, "%s%s", n > 0 ? " " : "", word);
    }
}

/* Uses an MPI that the program has already initialised. The program finalizes it. */
static int initialize(int *level, char error[WIRE_ERROR_BYTES])
{
    int begun = 0, over = 0;
    MPI_Finalized(&over);
    if (over) {
        snprintf(error, WIRE_ERROR_BYTES, "MPI was finalized in this process and cannot be initialised again");
        return -1;
    }
    MPI_Initialized(&begun);
    mpi.finalizes = !begun;
    /* Makes Open MPI use several connections, unless the user has chosen a number. It requests the parts of a large
     * message over the connection that carries the data of the other direction, and the request waits in that queue.
     * With one connection, the two directions therefore alternate (0.4 GB/s each over a link of 5 Gbit/s, 0.56 with
     * two). */
    if (!begun)
        setenv("OMPI_MCA_btl_tcp_links", "2", 0);
    /* Starts MPI. Until this returns, no communicator can have an error handler, so most MPIs end the process if
     * they fail. */
    int code = begun ? MPI_Query_thread(level) : MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, level);
    return code == MPI_SUCCESS ? 0 : mpi_fail(error, code, begun ? "MPI_Query_thread" : "MPI_Init_thread");
}

/* Returns the first core that this process may use, in hwloc's order of cores; -1: not known. */
static int first_core(void)
{
    hwloc_topology_t machine;
    if (hwloc_topology_init(&machine) != 0)
        return -1;
    hwloc_obj_t core = NULL;
    hwloc_cpuset_t mine = hwloc_bitmap_alloc();
    if (hwloc_topology_load(machine) == 0 && hwloc_get_cpubind(machine, mine, HWLOC_CPUBIND_PROCESS) == 0)
        core = hwloc_get_next_obj_covering_cpuset_by_type(machine, mine, HWLOC_OBJ_CORE, NULL);
    int index = core != NULL ? (int)core->logical_index : -1;
    hwloc_bitmap_free(mine);
    hwloc_topology_destroy(machine);
    return index;
}

static int open_mpi(wire_process *process, char error[WIRE_ERROR_BYTES])
{
    int level;
    if (initialize(&level, error) != 0)
        return -1;
    name_library(process->library, sizeof(process->library));
    if (level < MPI_THREAD_FUNNELED) {
        snprintf(
            error, WIRE_ERROR_BYTES,
            "%s offers MPI_THREAD_SINGLE only, and Tessera's ranks have several threads: use an MPI that was built "
            "with threads%s",
            process->library, mpi.finalizes ? "" : ", or initialise it with MPI_Init_thread(MPI_THREAD_FUNNELED)");
        if (mpi.finalizes)
            MPI_Finalize();
        return -1;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    mpi.world.comm = MPI_COMM_WORLD;
    MPI_Comm_rank(MPI_COMM_WORLD, &mpi.world.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &mpi.world.size);
    bool is_less = process->part_bytes > 0 && process->part_bytes < MPI_PART_BYTES;
    mpi.part_bytes = is_less ? process->part_bytes : MPI_PART_BYTES;

    int *most_tag, reported = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most_tag, &reported);
    process->most_tag = reported ? *most_tag : 32767; /* the minimum that the standard allows */
    process->rank = mpi.world.rank;
    process->size = mpi.world.size;
    process->first_core = first_core();
    process->funneled = level == MPI_THREAD_FUNNELED;
    process->world = &mpi.world;
    return 0;
}

/* Frees the oldest group first: all members created their groups in one order, and MPI_Comm_free is collective. */
static void free_communicators(wire_group *newest)
{
    if (newest == NULL)
        return;
    free_communicators(newest->next);
    MPI_Comm_free(&newest->comm);
}

static void close_mpi(bool orderly)
{
    if (orderly) {
        free_communicators(mpi.groups);
        if (mpi.finalizes)
            MPI_Finalize();
    }
    while (mpi.groups != NULL) {
        wire_group *group = mpi.groups;
        mpi.groups = group->next;
        free(group);
    }
    mpi_requests_free();
}

static int create(wire_group *group, const int *ranks, int n, int tag, char error[WIRE_ERROR_BYTES])
{
    MPI_Group all, some;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    int code = MPI_Group_incl(all, n, ranks, &some);
    MPI_Group_free(&all);
    if (code != MPI_SUCCESS)
        return mpi_fail(error, code, "MPI_Group_incl of %d ranks", n);
    code = MPI_Comm_create_group(MPI_COMM_WORLD, some, tag, &group->comm);
    MPI_Group_free(&some);
    if (code != MPI_SUCCESS)
        return mpi_fail(error, code, "MPI_Comm_create_group of %d ranks", n);
    MPI_Comm_set_errhandler(group->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(group->comm, &group->rank);
    MPI_Comm_size(group->comm, &group->size);
    return 0;
}

static int make_group(const int *ranks, int n, int tag, wire_group **group, char error[WIRE_ERROR_BYTES])
{
    wire_group *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        snprintf(error, WIRE_ERROR_BYTES, "out of memory");
        return -1;
    }
    if (create(made, ranks, n, tag, error) != 0) {
        free(made);
        return -1;
    }
    made->next = mpi.groups;
    mpi.groups = made;
    *group = made;
    return 0;
}

/* MPI_Comm_free may wait for other members, which may be gone, so the communicator is kept until close. */
static void free_group(wire_group **group)
{
    *group = NULL;
}

/* Any call into MPI makes it progress, so a cheap one suffices. */
static void poll_mpi(void)
{
    int there;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &there, MPI_STATUS_IGNORE);
}

__attribute__((visibility("default"))) extern const wire_table tess_wire_plugin;

const wire_table tess_wire_plugin = {
    .version = WIRE_VERSION,
    .name = "mpi",
    .open = open_mpi,
    .close = close_mpi,
    .make_group = make_group,
    .free_group = free_group,
    .send = mpi_send,
    .recv = mpi_recv,
    .all_gather = mpi_all_gather,
    .all_reduce = mpi_all_reduce,
    .reduce_scatter = mpi_reduce_scatter,
    .test = mpi_request_test,
    .poll = poll_mpi,
    .cancel = mpi_request_cancel,
};
