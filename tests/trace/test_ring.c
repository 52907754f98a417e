/* The ring of events: wrapping, readers of other processes, damaged memory. */
#include <stdlib.h>

#include "base/os/os.h"
#include "support/test.h"
#include "trace/ring.h"

static tess_trace_ring *make_ring(uint64_t capacity)
{
    void *memory = aligned_alloc(64, tess_trace_bytes(capacity));
    memset(memory, 0, tess_trace_bytes(capacity));
    tess_trace_ring *ring;
    EXPECT_OK(tess_trace_init(memory, capacity, 3, 8, &ring));
    return ring;
}

static void the_newest_events_are_kept_in_order(void)
{
    tess_trace_ring *ring = make_ring(16);
    tess_trace_event events[32];
    EXPECT_INT(tess_trace_read(ring, ring->capacity, events, 32), 0);
    for (uint64_t i = 0; i < 37; i++)
        tess_trace_emit(ring,
                        &(tess_trace_event){.sequence = i,
                                            .team = 11,
                                            .count = i * i,
                                            .root = -1,
                                            .op = TESS_TRACE_ALL_REDUCE,
                                            .state = TESS_TRACE_STARTED,
                                            .phase = "forward"},
                        i);
    EXPECT_INT(tess_trace_read(ring, ring->capacity, events, 32), 16);
    for (int i = 0; i < 16; i++) {
        EXPECT_INT(events[i].sequence, 21 + i);
        EXPECT_INT(events[i].count, (21 + i) * (21 + i));
        EXPECT_INT(events[i].root, -1);
        EXPECT_TEXT(events[i].phase, "forward");
        EXPECT(i == 0 || events[i].time_ns >= events[i - 1].time_ns);
    }
    EXPECT_INT(tess_trace_read(ring, ring->capacity, events, 3), 3);
    EXPECT_INT(events[0].sequence, 34);
    free(ring);
}

static void a_torn_event_is_left_out(void)
{
    tess_trace_ring *ring = make_ring(8);
    tess_trace_event events[8];
    for (uint64_t i = 0; i < 5; i++)
        tess_trace_emit(ring, &(tess_trace_event){.sequence = i}, i);
    tess_trace_event *third = (tess_trace_event *)((char *)ring + TESS_TRACE_HEADER_BYTES) + 2;
    atomic_store(&third->stamp, 0); /* a writer that dies while it writes leaves this */
    EXPECT_INT(tess_trace_read(ring, ring->capacity, events, 8), 4);
    EXPECT_INT(events[2].sequence, 3);
    free(ring);
}

static void what_becomes_of_an_operation_is_added_to_its_event(void)
{
    tess_trace_ring *ring = make_ring(4);
    tess_trace_event events[4];
    const tess_trace_event operation = {.root = -1, .op = TESS_TRACE_BROADCAST, .dtype = 3, .reduce_op = 2};
    uint64_t first = tess_trace_emit(ring, &operation, 10), second = tess_trace_emit(ring, &operation, 11);
    tess_trace_update(ring, first, TESS_TRACE_STARTED, 20);
    tess_trace_update(ring, first, TESS_TRACE_FAILED, 30);
    tess_trace_update(ring, second, TESS_TRACE_STARTED, 25);
    EXPECT_INT(tess_trace_read(ring, ring->capacity, events, 4), 2);
    EXPECT_INT(events[0].state, TESS_TRACE_FAILED);
    EXPECT_INT(events[0].started_ns, 20);
    EXPECT_INT(events[0].completed_ns, 30);
    EXPECT_INT(events[0].root, -1);
    EXPECT_INT(events[0].op, TESS_TRACE_BROADCAST);
    EXPECT_INT(events[0].dtype, 3);
    EXPECT_INT(events[0].reduce_op, 2);
    EXPECT_INT(events[1].state, TESS_TRACE_STARTED);
    EXPECT_INT(events[1].completed_ns, 0);
    for (int i = 0; i < 4; i++)
        tess_trace_emit(ring, &operation, 40);
    tess_trace_update(ring, second, TESS_TRACE_COMPLETED, 50); /* a newer event has its slot */
    EXPECT_INT(tess_trace_read(ring, ring->capacity, events, 4), 4);
    EXPECT_INT(events[1].completed_ns, 0);
    free(ring);
}

static void a_ring_goes_on_in_another(void)
{
    tess_trace_ring *from = make_ring(4), *to = make_ring(16);
    tess_trace_event events[16];
    tess_trace_add_team(from, 77, "world", 8, 3);
    for (uint64_t i = 0; i < 6; i++)
        tess_trace_emit(from, &(tess_trace_event){.sequence = i}, i);
    tess_trace_copy(to, from);
    tess_trace_update(to, 5, TESS_TRACE_COMPLETED, 9);
    tess_trace_emit(to, &(tess_trace_event){.sequence = 6}, 6);
    EXPECT_INT(tess_trace_read(to, to->capacity, events, 16), 5);
    for (int i = 0; i < 5; i++)
        EXPECT_INT(events[i].sequence, 2 + i);
    EXPECT_INT(events[3].completed_ns, 9);
    EXPECT_INT(to->n_teams, 1);
    EXPECT_TEXT(to->teams[0].name, "world");
    free(from);
    free(to);
}

static void a_file_keeps_what_was_emitted(void)
{
    char path[512];
    tess_trace_ring *ring;
    tess_mapping file;
    const tess_trace_ring *loaded;
    tess_trace_event events[8];
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "rank-00002.ring"));
    EXPECT_OK(tess_trace_create(path, 8, 2, 4, &ring));
    tess_trace_emit(ring, &(tess_trace_event){.sequence = 5, .op = TESS_TRACE_BARRIER}, 1);
    EXPECT_OK(tess_os_map(path, &file)); /* while its writer lives, or after it was killed */
    EXPECT_OK(tess_trace_open(file.data, file.size, &loaded));
    EXPECT_INT(tess_trace_read(loaded, loaded->capacity, events, 8), 1);
    EXPECT_INT(events[0].sequence, 5);
    tess_os_unmap(&file);
    tess_trace_close(&ring);
    EXPECT(ring == NULL);
}

static void a_saved_ring_reads_back(void)
{
    tess_trace_ring *ring = make_ring(8);
    tess_trace_emit(ring, &(tess_trace_event){.sequence = 42, .op = TESS_TRACE_BARRIER}, 7);
    char path[512];
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "ring.trace"));
    EXPECT_OK(tess_os_write_atomic(path, ring, tess_trace_bytes(ring->capacity)));
    tess_mapping file;
    const tess_trace_ring *loaded;
    tess_trace_event event;
    EXPECT_OK(tess_os_map(path, &file));
    EXPECT_OK(tess_trace_open(file.data, file.size, &loaded));
    EXPECT_INT(loaded->rank, 3);
    EXPECT_INT(loaded->world, 8);
    EXPECT_INT(tess_trace_read(loaded, loaded->capacity, &event, 1), 1);
    EXPECT_INT(event.sequence, 42);
    EXPECT_TEXT(tess_trace_op_name(event.op), "barrier");
    tess_os_unmap(&file);
    free(ring);
}

static void lying_headers_are_refused(void)
{
    tess_trace_ring *ring = make_ring(8);
    const tess_trace_ring *seen = NULL;
    size_t bytes = tess_trace_bytes(8);
    EXPECT_FAILS(tess_trace_open(ring, 100, &seen), TESS_E_FORMAT, "100 bytes");
    EXPECT_FAILS(tess_trace_open(ring, bytes - 1, &seen), TESS_E_FORMAT, "truncated");
    ring->capacity = 7;
    EXPECT_FAILS(tess_trace_open(ring, bytes, &seen), TESS_E_FORMAT, "power of two");
    ring->capacity = UINT64_C(1) << 60;
    EXPECT_FAILS(tess_trace_open(ring, bytes, &seen), TESS_E_FORMAT, "power of two");
    ring->version = 9;
    EXPECT_FAILS(tess_trace_open(ring, bytes, &seen), TESS_E_FORMAT, "version 9");
    ring->magic[0] = 'x';
    EXPECT_FAILS(tess_trace_open(ring, bytes, &seen), TESS_E_FORMAT, "TESSRING");
    EXPECT_FAILS(tess_trace_init(ring, 12, 0, 1, &ring), TESS_E_INVALID, "power of two");
    EXPECT_TEXT(tess_trace_op_name(200), "unknown");
    free(ring);
}

/* The time is printed for people; the test only checks that an emit waits for nothing. */
static void an_event_waits_for_nothing(void)
{
    enum { N = 50000 };
    tess_trace_ring *ring = make_ring(4096);
    tess_trace_event event = {.sequence = 1, .op = TESS_TRACE_ALL_GATHER};
    uint64_t best = UINT64_MAX;
    for (int round = 0; round < 5; round++) {
        uint64_t begin = tess_os_now_ns();
        for (int i = 0; i < N; i++)
            tess_trace_emit(ring, &event, tess_os_now_ns());
        uint64_t ns = tess_os_now_ns() - begin;
        best = ns < best ? ns : best;
    }
    printf("    %.1f ns an event\n", (double)best / N);
    EXPECT(best / N < 60000); /* the goal is 100 ns; a write to a file takes some 100 us */
    free(ring);
}

static const test_case cases[] = {
    CASE(the_newest_events_are_kept_in_order),
    CASE(a_torn_event_is_left_out),
    CASE(what_becomes_of_an_operation_is_added_to_its_event),
    CASE(a_ring_goes_on_in_another),
    CASE(a_file_keeps_what_was_emitted),
    CASE(a_saved_ring_reads_back),
    CASE(lying_headers_are_refused),
    CASE(an_event_waits_for_nothing),
};
TEST_MAIN(cases)
