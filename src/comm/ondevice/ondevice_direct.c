/* Operations through windows: ranks meet as on host memory, then one kernel reads the memory that all ranks show. */
#include "comm/ondevice/ondevice.h"

enum { STEP_MEET, STEP_READY, STEP_MOVE, STEP_MOVED, STEP_LEAVE };

/* A team of one rank has nobody to meet. */
static bool is_alone(const tess_work *work)
{
    return work->team->size == 1;
}

static void arrive(tess_work *work)
{
    if (!is_alone(work))
        shm_arrive(work);
}

static bool all_arrived(const tess_work *work)
{
    return is_alone(work) || shm_phase_over(work);
}

/* Posts the place of this rank's memory in its window, and next to it the offsets of pieces in its shard. */
static void post(tess_work *work)
{
    tess_team *team = work->team;
    const ondevice_window *window = ondevice_find(team, work->in);
    tess_post *post = shm_post_on_device(work);
    post->in_offset = window != NULL ? (uint64_t)(work->in - window->memory) : CONTROL_PRIVATE;
    post->out_offset =
        /* an injected fault: the rank meets the others but moves nothing */
        window != NULL ? window->number : CONTROL_PRIVATE;
    if (work->fp.kind != TESS_TRACE_ALL_GATHER_PIECES)
        return;
    uint64_t *offsets =
        (uint64_t *)(void *)tess_control_inline(team->control, team->size, work->fp.sequence, team->rank);
    for (size_t k = 0; k < work->pieces.n; k++)
        offsets[k] = work->pieces.pieces[k].shard_offset;
    post->beside = work->pieces.n * sizeof(uint64_t);
}

static void start(tess_work *work)
{
    atomic_fetch_add(&work->team->runtime->device->n_under_way, 1);
    work->status = tess_event_record(ondevice_ready(work), work->team->runtime->device->after);
    if (!is_alone(work))
        post(work);
    arrive(work);
}

static void move(tess_work *work)
{
    work->status = ondevice_enqueue(work);
    if (work->status == TESS_OK)
        work->status = tess_event_record(ondevice_of(work)->moved, ondevice_of(work)->stream);
}

/* Advances the operation. Returns true when it is complete or has failed. */
static bool complete(tess_work *work)
{
    return is_alone(work) || shm_complete(work);
}

static bool advance(tess_work *work)
{
    while (work->status == TESS_OK) {
        ondevice_await(work, work->device.step == STEP_READY || work->device.step == STEP_MOVED);
        switch (work->device.step) {
        case STEP_MEET:
            if (!all_arrived(work))
                return false;
            if (is_alone(work) ? work->fp.count == 0 : shm_meet(work))
                return true;
            break;
        case STEP_READY:
            if (!ondevice_passed(work, ondevice_ready(work)))
                return false;
            arrive(work);
            break;
        case STEP_MOVE:
            if (!all_arrived(work))
                return false;
            move(work);
            break;
        case STEP_MOVED:
            if (!ondevice_passed(work, ondevice_of(work)->moved))
                return false;
            tess_work_note(work, ondevice_look(work));
            arrive(work);
            break;
        default:
            if (!all_arrived(work))
                return false;
            return complete(work);
        }
        work->device.step++;
    }
    return true;
}

const comm_backend ondevice_direct = {.name = "device windows", .start = start, .advance = advance};
