/* Operations through the host: device data is copied to pinned memory, the team's own backend works there, and the
 * results are copied back. */
#include "base/core/round_up.h"
#include "comm/ondevice/ondevice.h"

enum { STEP_READY, STEP_FETCHED, STEP_HOST, STEP_RETURNED };
enum { ALIGN = 256 };

static size_t aligned(size_t bytes)
{
    return tess_round_up(bytes, ALIGN);
}

/* Returns the bytes of a shard, including gaps between its pieces. */
static size_t shard_bytes(const tess_work *work, tess_dtype dtype)
{
    size_t end = 0;
    for (size_t k = 0; k < work->pieces.n; k++) {
        const tess_piece *piece = &work->pieces.pieces[k];
        int64_t begin, rows;
        tess_shard_rows((int64_t)piece->n_rows, work->team->size, work->team->rank, &begin, &rows);
        size_t last = piece->shard_offset + (size_t)rows * piece->row;
        end = rows > 0 && last > end ? last : end;
    }
    return end * tess_dtype_size(dtype);
}

static size_t in_bytes(const tess_work *work)
{
    return work->fp.kind == TESS_TRACE_ALL_GATHER_PIECES ? shard_bytes(work, work->in_dtype) : work->in_bytes;
}

static size_t out_bytes(const tess_work *work)
{
    bool sums = work->fp.kind == TESS_TRACE_REDUCE_SCATTER_PIECES;
    return !sums ? work->out_bytes : work->steps == NULL ? shard_bytes(work, TESS_F32) : 0;
}

/* Whether the old content must be copied to the host as well: the operation adds to it, or leaves gaps between
 * pieces unchanged. */
static bool keeps_old(const tess_work *work)
{
    return work->fp.kind == TESS_TRACE_ALL_GATHER_PIECES || work->fp.kind == TESS_TRACE_REDUCE_SCATTER_PIECES ||
           work->fp.kind == TESS_TRACE_ALL_TO_ALL_V;
}

tess_status ondevice_take_stage(const tess_work *work, ondevice_stage *stage, size_t bytes, const char *what)
{
    tess_device *device = work->team->runtime->device->device;
    if (stage->memory != NULL && bytes <= stage->bytes)
        return TESS_OK;
    tess_device_free_pinned(device, stage->memory);
    *stage = (ondevice_stage){.memory = NULL};
    TESS_TRY(tess_device_alloc_pinned(device, TESS_POOL_COMM, bytes, what, (void **)&stage->memory));
    stage->bytes = bytes;
    return TESS_OK;
}

/* ---- Leaf steps: the sums that they name, each once ---- */
static int number_of(const struct comm_device_team *t, const float *sum)
{
    int i = 0;
    while (i < t->given.n_sums && t->given.sums[i] != sum)
        i++;
    return i;
}

static void add_sum(struct comm_device_team *t, const float *sum)
{
    int i = number_of(t, sum);
    if (sum != NULL && i == t->given.n_sums)
        t->given.sums[t->given.n_sums++] = (float *)(uintptr_t)sum;
}

static tess_status find_sums(const tess_work *work)
{
    struct comm_device_team *t = ondevice_of(work);
    size_t n = work->steps != NULL ? (size_t)work->n_steps : 0;
    t->given.n_sums = 0;
    TESS_TRY(tess_mem_grow(work->team->runtime->mem, TESS_POOL_MISC,
                           n * (sizeof(tess_leaf_step) + 2 * sizeof(float *)) + 1, "steps of a collective", &t->runs));
    t->given.sums = (float **)(void *)((tess_leaf_step *)t->runs + n);
    for (size_t i = 0; i < n; i++) {
        add_sum(t, work->steps[i].y);
        add_sum(t, work->steps[i].x);
    }
    return TESS_OK;
}

static uint8_t *sum_stage(const tess_work *work, int i)
{
    return ondevice_of(work)->sums_stage + (size_t)i * aligned(shard_bytes(work, TESS_F32));
}

/* Copies the steps, and makes them point to the staged sums. */
static const tess_leaf_step *copy_steps(const tess_work *work)
{
    struct comm_device_team *t = ondevice_of(work);
    tess_leaf_step *copies = t->runs;
    for (int i = 0; i < work->n_steps; i++) {
        copies[i] = work->steps[i];
        copies[i].y = (float *)(void *)sum_stage(work, number_of(t, work->steps[i].y));
        if (work->steps[i].x != NULL)
            copies[i].x = (float *)(void *)sum_stage(work, number_of(t, work->steps[i].x));
    }
    return copies;
}

static tess_status move_sums(const tess_work *work, bool back)
{
    struct comm_device_team *t = ondevice_of(work);
    size_t bytes = shard_bytes(work, TESS_F32);
    for (int i = 0; i < t->given.n_sums; i++) {
        uint8_t *stage = sum_stage(work, i);
        TESS_TRY(back ? tess_stream_copy(t->stream, t->given.sums[i], stage, bytes)
                      : tess_stream_copy(t->stream, stage, t->given.sums[i], bytes));
    }
    return TESS_OK;
}

/* ---- The staging buffer: `in`, `out`, the sums. If `in` is a part of `out`, so is its copy. ---- */
/* Copies the operation's input to the host, and sets the work's pointers to the copies. */
static tess_status fetch(tess_work *work)
{
    struct comm_device_team *t = ondevice_of(work);
    size_t in = in_bytes(work), out = out_bytes(work);
    TESS_TRY(find_sums(work));
    TESS_TRY(ondevice_take_stage(
        work, &t->stage, aligned(in) + aligned(out) + (size_t)t->given.n_sums * aligned(shard_bytes(work, TESS_F32)),
        "collectives through the host"));
    uint8_t *to_in = t->stage.memory, *to_out = to_in + aligned(in);
    t->sums_stage = to_out + aligned(out);
    t->given.in = work->in;
    t->given.out = work->out;
    t->given.steps = work->steps;
    if (keeps_old(work) && work->out != NULL)
        TESS_TRY(tess_stream_copy(t->stream, to_out, work->out, out));
    if (work->in != NULL && work->out != NULL && work->in >= work->out && work->in < work->out + out)
        to_in = to_out + (work->in - work->out);
    if (work->in != NULL)
        TESS_TRY(tess_stream_copy(t->stream, to_in, work->in, in));
    TESS_TRY(move_sums(work, false));
    work->in = work->in != NULL ? to_in : NULL;
    work->out = work->out != NULL ? to_out : NULL;
    work->steps = work->steps != NULL ? copy_steps(work) : NULL;
    return tess_event_record(t->moved, t->stream);
}

/* Copies the operation's output to the device, and restores the caller's pointers in the work. */
static tess_status give_back(tess_work *work)
{
    struct comm_device_team *t = ondevice_of(work);
    const uint8_t *from = work->out;
    work->in = t->given.in;
    work->out = t->given.out;
    work->steps = t->given.steps;
    if (work->out != NULL)
        TESS_TRY(tess_stream_copy(t->stream, work->out, from, out_bytes(work)));
    TESS_TRY(move_sums(work, true));
    return tess_event_record(t->moved, t->stream);
}

/* ---- Progress ---- */
static void start(tess_work *work)
{
    atomic_fetch_add(&work->team->runtime->device->n_under_way, 1);
    work->status = tess_event_record(ondevice_ready(work), work->team->runtime->device->after);
}

/* Continues after the device has reached `event`: enqueues or begins the next part. */
static bool go_on(tess_work *work, tess_event *event, tess_status (*next)(tess_work *work))
{
    if (!ondevice_passed(work, event))
        return false;
    if (work->status == TESS_OK)
        work->status = next(work);
    return true;
}

static tess_status begin_on_host(tess_work *work)
{
    work->team->backend->start(work);
    return work->status;
}

static bool advance(tess_work *work)
{
    while (work->status == TESS_OK) {
        ondevice_await(work, work->device.step != STEP_HOST);
        switch (work->device.step) {
        case STEP_READY:
            if (!go_on(work, ondevice_ready(work), fetch))
                return false;
            break;
        case STEP_FETCHED:
            if (!go_on(work, ondevice_of(work)->moved, begin_on_host))
                return false;
            break;
        case STEP_HOST:
            if (!work->team->backend->advance(work))
                return false;
            if (work->status == TESS_OK)
                work->status = give_back(work);
            break;
        default:
            if (!ondevice_passed(work, ondevice_of(work)->moved))
                return false;
            return true;
        }
        work->device.step++;
    }
    return true;
}

const comm_backend ondevice_staged = {.name = "device through the host", .start = start, .advance = advance};
