/* Any bytes as a job's traces: a ring as it lies in a file, or small events in sound rings next to a job.json. An error
 * or a verdict about ranks that there are, in words. */
#include <stdlib.h>
#include <string.h>

#include "doctor/job/job_report.h"
#include "doctor/job/job_impl.h"
#include "trace/job_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RING_EVENTS = 64, EVENT_BYTES = 12, MOST_WORLD = 4, N_TEAMS = 3 };

typedef struct input {
    const uint8_t *at;
    size_t size;
} input;

static uint8_t next(input *in)
{
    if (in->size == 0)
        return 0;
    in->size--;
    return *in->at++;
}

static void expect(bool right)
{
    if (!right)
        abort();
}

static void expect_ranks(const int *ranks, int n, int world)
{
    expect(n >= 0 && n <= world);
    for (int i = 0; i < n; i++)
        expect(ranks[i] >= 0 && ranks[i] < world && (i == 0 || ranks[i] > ranks[i - 1]));
}

static void judge(tess_mem *mem, const tess_history *history)
{
    tess_report report;
    tess_buffer out = {.mem = mem};
    expect(tess_report_make(history, 0.75, &report) == TESS_OK);
    expect_ranks(report.diagnosis.ranks, report.diagnosis.n_ranks, history->world);
    expect_ranks(report.diagnosis.waiting, report.diagnosis.n_waiting, history->world);
    expect(report.diagnosis.headline[0] != '\0');
    expect(tess_report_put(&report, TESS_FORM_TEXT, &out) == TESS_OK);
    expect(tess_report_put(&report, TESS_FORM_JSON, &out) == TESS_OK);
    expect(tess_report_last(&report, 0, 20, &out) == TESS_OK);
    tess_buffer_free(&out);
    tess_report_free(&report);
}

static void walk_objects(const tess_trace_objects *objects)
{
    uint32_t id;
    const char *path;
    for (size_t at = 0; (path = tess_trace_objects_next(objects, &at, &id)) != NULL;)
        expect(path + strlen(path) + 1 == objects->bytes + at && at <= sizeof(objects->bytes));
}

static void read_raw_ring(tess_mem *mem, const uint8_t *data, size_t size)
{
    void *memory;
    tess_history *history;
    tess_sites_source source;
    const tess_trace_ring *ring;
    uint64_t n_slots;
    expect(tess_mem_alloc(mem, TESS_POOL_MISC, size, "ring", &memory) == TESS_OK);
    memcpy(memory, data, size);
    if (tess_trace_open_cut(memory, size, &ring, &n_slots) == TESS_OK && ring->world >= 1 &&
        ring->world <= MOST_WORLD) {
        expect(tess_history_create(mem, TESS_HISTORY_RINGS, (int)ring->world, &history) == TESS_OK);
        if (ring->rank < ring->world && tess_ring_add(history, (int)ring->rank, ring, n_slots, &source) == TESS_OK) {
            walk_objects(&source.objects);
            judge(mem, history);
        }
        tess_history_destroy(&history);
    }
    tess_mem_free(mem, memory);
}

/* Few values of everything, so that ranks meet. */
static tess_trace_event make_event(input *in, uint64_t *now_ns)
{
    uint8_t b[EVENT_BYTES];
    for (int i = 0; i < EVENT_BYTES; i++)
        b[i] = next(in);
    *now_ns += (uint64_t)b[11] * 10000000u;
    tess_trace_event event = {.time_ns = *now_ns,
                              .team = b[0] % (N_TEAMS + 1),
                              .sequence = b[1] % 16,
                              .count = b[2] % 4,
                              .tag = b[3] % 2,
                              .call_site = b[4] % 4,
                              .label = b[5] % 4,
                              .step = b[6] % 8,
                              .detail = b[6] / 8,
                              .completed_ns = b[8] % 4 >= 2 ? *now_ns + 1000 : 0,
                              .root = b[7] % 5 - 1,
                              .op = (uint8_t)(b[9] % 32),
                              .state = b[8] % 8,
                              .dtype = b[10] % 8,
                              .reduce_op = b[10] / 8};
    memcpy(event.phase, "forward", 8);
    return event;
}

static void fill_ring(input *in, tess_trace_ring *ring, int world)
{
    uint64_t now_ns = 1000000000;
    for (int t = 0; t < N_TEAMS; t++)
        tess_trace_add_team(ring, (uint64_t)t, "team", t == 2 ? 2 : world, (int)ring->rank);
    for (int n = next(in); n > 0 && in->size > 0; n--) {
        tess_trace_event event = make_event(in, &now_ns);
        uint64_t number = tess_trace_emit(ring, &event, event.time_ns);
        if (event.state > TESS_TRACE_ENQUEUED && event.state <= TESS_TRACE_FAILED)
            tess_trace_update(ring, number, (tess_trace_state)event.state, now_ns + 1000);
    }
}

static void read_job(tess_mem *mem, const tess_job_file *file, input *in)
{
    tess_history *history;
    expect(tess_history_create(mem, TESS_HISTORY_RINGS, file->world, &history) == TESS_OK);
    expect(tess_job_file_add(history, file) == TESS_OK);
    for (int r = 0; r < file->world && in->size > 0; r++) {
        void *memory;
        tess_trace_ring *ring;
        tess_sites_source source;
        expect(tess_mem_alloc(mem, TESS_POOL_MISC, tess_trace_bytes(RING_EVENTS), "ring", &memory) == TESS_OK);
        expect(tess_trace_init(memory, RING_EVENTS, r, file->world, &ring) == TESS_OK);
        fill_ring(in, ring, file->world);
        expect(tess_ring_add(history, r, ring, RING_EVENTS, &source) == TESS_OK);
        tess_mem_free(mem, memory);
    }
    expect(tess_history_infer_members(history) == TESS_OK);
    history->now_ns = file->end_ns != 0 ? file->end_ns : UINT64_C(100000000000);
    judge(mem, history);
    tess_history_destroy(&history);
}

/* Up to the first NUL it is job.json. */
static void read_parts(tess_mem *mem, const uint8_t *data, size_t size)
{
    const uint8_t *end = memchr(data, 0, size);
    size_t text = end != NULL ? (size_t)(end - data) : size;
    tess_job_file file;
    input in = {.at = end != NULL ? end + 1 : data + size, .size = end != NULL ? size - text - 1 : 0};
    if (tess_job_file_parse(mem, (const char *)data, text, "job.json", &file) != TESS_OK)
        return;
    if (file.world <= MOST_WORLD)
        read_job(mem, &file, &in);
    tess_job_file_free(mem, &file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tess_mem *mem;
    expect(tess_mem_create(&mem) == TESS_OK);
    if (size >= 8 && memcmp(data, "TESSRING", 8) == 0)
        read_raw_ring(mem, data, size);
    else
        read_parts(mem, data, size);
    expect(tess_mem_destroy(&mem) == 0);
    return 0;
}
