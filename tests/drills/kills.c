/* Kills ranks and launchers at random moments, and compares their traces with the log that each rank wrote after every
 * event. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/rng.h"
#include "base/os/os.h"
#include "drills/drill.h"
#include "drills/spawn.h"
#include "tessera/comm.h"
#include "trace/trace_folder.h"
#include "trace/ring.h"

enum { RANKS = 4, NOTE_BYTES = 4096, RING_EVENTS = 16384, MOST_DELAY_US = 20000 };

static const double patience_s = 300;

/* The counts of what a rank has written to its ring. */
typedef struct note {
    _Atomic int64_t pid, n_phases, n_operations;
} note;

static void note_path(int rank, char *path, size_t size)
{
    snprintf(path, size, "note-%d", rank);
}

/* ---- A rank ---- */
int drill_count(void)
{
    tess_runtime *runtime;
    void *memory;
    char path[64];
    if (tess_runtime_create(NULL, &runtime) != TESS_OK)
        return 1;
    note_path(tess_runtime_rank(runtime), path, sizeof(path));
    if (tess_os_map_new(path, NOTE_BYTES, &memory) != TESS_OK)
        return 1;
    note *n = memory;
    tess_status status = TESS_OK;
    for (int64_t i = 1; status == TESS_OK; i++) {
        tess_runtime_phase(runtime, "count", i, -1);
        atomic_store(&n->n_phases, i);
        status = tess_barrier(tess_runtime_team(runtime), NULL);
        if (status == TESS_OK)
            atomic_store(&n->n_operations, i);
        atomic_store(&n->pid, getpid());
    }
    tess_runtime_destroy(&runtime);
    return 1;
}

/* ---- The traces afterwards ---- */
static bool read_note(const char *folder, int rank, note *n)
{
    char name[64], path[160];
    tess_mapping map;
    note_path(rank, name, sizeof(name));
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (tess_os_map(path, &map) != TESS_OK)
        return false;
    bool whole = map.size == NOTE_BYTES; /* or it is being made */
    if (whole)
        memcpy(n, map.data, sizeof(*n));
    tess_os_unmap(&map);
    return whole && n->pid != 0;
}

/* The newest phase and the newest operation that all ranks made, from the ring. */
static bool read_ring(const char *folder, int rank, int64_t *phase, int64_t *operation)
{
    static tess_trace_event events[RING_EVENTS];
    char trace[160], path[256];
    tess_mapping map;
    const tess_trace_ring *ring;
    *phase = *operation = 0;
    snprintf(trace, sizeof(trace), "%s/trace", folder);
    if (tess_trace_ring_path(trace, rank, path, sizeof(path)) != TESS_OK || tess_os_map(path, &map) != TESS_OK)
        return false;
    bool readable = tess_trace_open(map.data, map.size, &ring) == TESS_OK;
    size_t n = readable ? tess_trace_read(ring, ring->capacity, events, RING_EVENTS) : 0;
    for (size_t i = 0; i < n; i++) {
        if (events[i].op == TESS_TRACE_PHASE && strcmp(events[i].phase, "count") == 0)
            *phase = events[i].step;
        else if (events[i].op == TESS_TRACE_BARRIER && events[i].state == TESS_TRACE_COMPLETED)
            *operation = events[i].step;
    }
    tess_os_unmap(&map);
    return readable;
}

/* A rank dies between the event and the note, too: the ring may be one ahead. */
static bool ring_is_right(const char *folder, int rank)
{
    note n;
    int64_t phase, operation;
    if (!read_note(folder, rank, &n) || !read_ring(folder, rank, &phase, &operation)) {
        printf("  rank %d: no readable ring\n", rank);
        return false;
    }
    bool right = phase >= n.n_phases && phase <= n.n_phases + 1 && operation >= n.n_operations &&
                 operation <= n.n_operations + 1;
    if (!right)
        printf("  rank %d: it noted %lld phases and %lld operations, its ring has %lld and %lld\n", rank,
               (long long)n.n_phases, (long long)n.n_operations, (long long)phase, (long long)operation);
    return right;
}

static bool all_have_begun(const char *folder)
{
    note n;
    for (double end_s = tess_os_now_s() + patience_s; tess_os_now_s() < end_s; usleep(500)) {
        int begun = 0;
        for (int rank = 0; rank < RANKS; rank++)
            begun += read_note(folder, rank, &n);
        if (begun == RANKS)
            return true;
    }
    return false;
}

/* A killed rank dies at once; ranks without a launcher do, too, and those without a peer end by themselves. */
static bool all_have_ended(const note notes[RANKS])
{
    for (double end_s = tess_os_now_s() + patience_s; tess_os_now_s() < end_s; usleep(500)) {
        int alive = 0;
        for (int rank = 0; rank < RANKS; rank++) {
            char state = tess_os_process_state((int)notes[rank].pid);
            alive += state != '\0' && state != 'Z';
        }
        if (alive == 0)
            return true;
    }
    return false;
}

/* Kills one of the ranks, or the launcher, and looks at all rings. */
static bool kill_one(const char *tessera, const char *folder, uint64_t draw)
{
    drill_child child;
    note notes[RANKS] = {0};
    if (!drill_spawn_ranks(tessera, RANKS, folder, NULL, "--count", "", &child))
        return false;
    bool right = all_have_begun(folder);
    for (int rank = 0; rank < RANKS && right; rank++)
        right = read_note(folder, rank, &notes[rank]);
    usleep((useconds_t)(draw % MOST_DELAY_US));
    int victim = (int)((draw >> 32) % (RANKS + 1));
    pid_t pid = victim < RANKS && right ? (pid_t)notes[victim].pid : child.launcher;
    right = right && pid > 1 && kill(pid, SIGKILL) == 0 && all_have_ended(notes); /* 0 and -1 would be other people */
    drill_reap(&child);
    for (int rank = 0; rank < RANKS && right; rank++)
        right = ring_is_right(folder, rank);
    if (!right)
        printf("  killed: %s %d\n", victim < RANKS ? "rank" : "launcher", victim);
    return right;
}

int drill_kills(const char *tessera, int n, uint64_t seed)
{
    int n_right = 0;
    for (int i = 0; i < n; i++) {
        char folder[] = "/tmp/tess_drill_XXXXXX";
        if (mkdtemp(folder) == NULL)
            return 2;
        n_right += kill_one(tessera, folder, tess_rng_u64(seed, TESS_RNG_FAULT, 100, (uint64_t)i));
        tess_os_remove_tree(folder);
    }
    printf("%d kills of a rank or the launcher: %d times all rings were readable, up to the last event\n", n, n_right);
    return n_right < n;
}
