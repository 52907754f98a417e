#include "comm/box_move.h"

#include "base/core/round_up.h"
#include "base/mem/scoped.h"
#include "comm/agree.h"
#include "comm/dry/dry_runtime.h"
#include "comm/ondevice/ondevice.h"

enum {
    AREAS = 2, /* used in turn: before a rank writes an area again, it has met all others after they read it */
    LINE = 64
};

struct tess_box_room {
    tess_team *team;
    tess_stream *stream;
    size_t most, area; /* bytes of an area: `most`, rounded up to cache lines */
    bool on_device;
    uint8_t *shared; /* host: (size, AREAS, area) memory that all ranks share; NULL: there is none */
    uint8_t *window; /* device: (AREAS, area) this rank's areas */
    uint8_t **areas; /* (size) areas of each rank, in this process; NULL: ranks do not read each other's memory */
    int turn;        /* the area that the newest move used */
    /* If ranks do not read each other's memory: what is packed, and received */
    uint8_t *sends, *gets; /* (area), (size, area) */
    tess_box *parts;       /* (2, size) */
    size_t *numbers;       /* (4, size) */
};

/* ---- Copies ---- */
/* The layout of a box in memory. */
typedef struct box_memory {
    const tess_box *box;
    int64_t pitch; /* 0: rows have no gap */
    uint8_t *at;
} box_memory;

/* Returns the elements between two neighbours in dimension `dim`. */
static int64_t stride_of(const box_memory *m, int n_dims, int dim)
{
    int64_t stride = 1;
    for (int d = n_dims - 1; d > dim; d--)
        stride *= d == n_dims - 1 && m->pitch > 0 ? m->pitch : m->box->size[d];
    return stride;
}

/* Returns the offset in elements of the first element of `part`. */
static int64_t offset_of(const box_memory *m, int n_dims, const tess_box *part)
{
    int64_t offset = 0;
    for (int d = 0; d < n_dims; d++)
        offset += (part->begin[d] - m->box->begin[d]) * stride_of(m, n_dims, d);
    return offset;
}

/* Copies the elements of `part` in dimensions `dim` and later, from the given offsets on. */
static tess_status copy_from_dim(tess_stream *stream, const tess_box_move *m, int dim, const tess_box *part,
                                 const box_memory *from, int64_t x, const box_memory *to, int64_t y)
{
    const int64_t element = (int64_t)m->element;
    const int rows = m->n_dims - 2; /* the dimension of rows; -1: there is one row */
    if (dim < rows) {
        for (int64_t i = 0; i < part->size[dim]; i++)
            TESS_TRY(copy_from_dim(stream, m, dim + 1, part, from, x + i * stride_of(from, m->n_dims, dim), to,
                                   y + i * stride_of(to, m->n_dims, dim)));
        return TESS_OK;
    }
    return tess_stream_kernels(stream)->copy_rows(
        stream, &(tess_copy_rows_args){.x = from->at + x * element,
                                       .x_stride = stride_of(from, m->n_dims, rows) * element,
                                       .y = to->at + y * element,
                                       .y_stride = stride_of(to, m->n_dims, rows) * element,
                                       .n = rows < 0 ? 1 : part->size[rows],
                                       .row_bytes = part->size[m->n_dims - 1] * element});
}

static tess_status copy_part(tess_stream *stream, const tess_box_move *m, const tess_box *part, const box_memory *from,
                             const box_memory *to)
{
    if (tess_box_count(m->n_dims, part) == 0)
        return TESS_OK;
    return copy_from_dim(stream, m, 0, part, from, offset_of(from, m->n_dims, part), to,
                         offset_of(to, m->n_dims, part));
}

static tess_box common(const tess_box_move *m, const tess_box *a, const tess_box *b)
{
    tess_box both;
    return tess_box_meet(m->n_dims, a, b, &both) ? both : (tess_box){.begin = {0}};
}

static size_t bytes_of(const tess_box_move *m, const tess_box *box)
{
    return (size_t)tess_box_count(m->n_dims, box) * m->element;
}

static box_memory input_of(const tess_box_move *m, int rank)
{
    return (box_memory){&m->had[rank], m->in_pitch, (uint8_t *)(uintptr_t)m->in};
}

static box_memory output_of(const tess_box_move *m, int rank)
{
    return (box_memory){&m->gets[rank], m->out_pitch, m->out};
}

/* Copies the elements that this rank has and gets, unless they are in place. */
static tess_status keep(const tess_box_room *room, const tess_box_move *m)
{
    const box_memory from = input_of(m, room->team->rank), to = output_of(m, room->team->rank);
    const tess_box own = common(m, from.box, to.box);
    if (bytes_of(m, &own) == 0 || from.at + (size_t)offset_of(&from, m->n_dims, &own) * m->element ==
                                      to.at + (size_t)offset_of(&to, m->n_dims, &own) * m->element)
        return TESS_OK;
    return copy_part(room->stream, m, &own, &from, &to);
}

/* ---- Areas that all ranks read ---- */
static tess_status move_by_areas(tess_box_room *room, const tess_box_move *m, size_t *received)
{
    const tess_team *team = room->team;
    const box_memory mine = input_of(m, team->rank), out = output_of(m, team->rank);
    TESS_TRY(keep(room, m));
    room->turn = (room->turn + 1) % AREAS;
    const size_t turn = (size_t)room->turn * room->area;
    TESS_TRY(copy_part(room->stream, m, mine.box, &mine, &(box_memory){mine.box, 0, room->areas[team->rank] + turn}));
    TESS_TRY(tess_stream_synchronize(room->stream)); /* also ends the reads of the previous move */
    TESS_TRY(tess_barrier(room->team, NULL));
    for (int i = 1; i < team->size; i++) { /* each rank begins with a different peer */
        const int r = (team->rank + i) % team->size;
        const tess_box part = common(m, &m->had[r], out.box);
        TESS_TRY(copy_part(room->stream, m, &part, &(box_memory){&m->had[r], 0, room->areas[r] + turn}, &out));
        *received += bytes_of(m, &part);
    }
    return TESS_OK;
}

/* ---- Parts for each rank ---- */
/* The parts that this rank sends or receives, packed one after the other. */
typedef struct parcels {
    tess_box *parts;          /* (size) */
    size_t *counts, *offsets; /* (size) in bytes */
    size_t bytes;
    uint8_t *data;
} parcels;

/* Lays out the parts that `mine` has in common with the others' boxes. A part that neighbours both want is sent from
 * one place. */
static parcels lay_out(const tess_box_room *room, const tess_box_move *m, bool sends)
{
    const int size = room->team->size, me = room->team->rank, which = sends ? 0 : 1;
    const tess_box *mine = sends ? &m->had[me] : &m->gets[me], *others = sends ? m->gets : m->had;
    parcels p = {.parts = room->parts + which * size, .counts = room->numbers + 2 * which * size};
    p.offsets = p.counts + size;
    for (int r = 0, newest = -1; r < size; r++) {
        p.parts[r] = common(m, mine, &others[r]);
        p.counts[r] = r != me ? bytes_of(m, &p.parts[r]) : 0;
        p.offsets[r] = p.bytes;
        if (p.counts[r] == 0)
            continue;
        if (sends && newest >= 0 && tess_box_equal(m->n_dims, &p.parts[r], &p.parts[newest]))
            p.offsets[r] = p.offsets[newest];
        else
            p.bytes += p.counts[r];
        newest = r;
    }
    return p;
}

static tess_status exchange(const tess_box_room *room, const tess_box_move *m, const parcels *send, const parcels *take)
{
    tess_team *team = room->team;
    const box_memory in = input_of(m, team->rank), out = output_of(m, team->rank);
    size_t packed = 0;
    /* A dry rank's host copies nothing that is read later, and its memory would need pages. */
    const bool copies = room->stream != NULL || team->runtime->dry == NULL;
    for (int r = 0; r < team->size; r++) {
        if (!copies || send->counts[r] == 0 || send->offsets[r] < packed)
            continue;
        TESS_TRY(
            copy_part(room->stream, m, &send->parts[r], &in, &(box_memory){&send->parts[r], 0, send->data + packed}));
        packed += send->counts[r];
    }
    TESS_TRY(tess_stream_synchronize(room->stream));
    TESS_TRY(tess_all_to_all_v(team, send->data, send->counts, send->offsets, take->data, take->counts, take->offsets,
                               TESS_U8, NULL));
    for (int r = 0; r < team->size; r++)
        if (copies && take->counts[r] > 0)
            TESS_TRY(copy_part(room->stream, m, &take->parts[r],
                               &(box_memory){&take->parts[r], 0, take->data + take->offsets[r]}, &out));
    return TESS_OK;
}

static tess_status alloc_lists(tess_box_room *room, tess_scope *own)
{
    const size_t n = (size_t)room->team->size;
    TESS_TRY(TESS_NEW_IN(own, 2 * n, "boxes", &room->parts));
    return TESS_NEW_IN(own, 4 * n, "boxes", &room->numbers);
}

/* Moves the boxes through the room's memory, or, if it has none, through memory that is allocated for this call. */
static tess_status move_by_parcels(tess_box_room *room, const tess_box_move *m, size_t *received)
{
    parcels send = lay_out(room, m, true), take = lay_out(room, m, false);
    const size_t n = (size_t)room->team->size;
    if (room->gets == NULL) {
        TESS_TRY(TESS_NEW(room->team->runtime->mem, send.bytes + take.bytes, "packed boxes", &room->gets));
        room->sends = room->gets + take.bytes;
    } else {
        TESS_CHECK(send.bytes <= room->area && take.bytes <= n * room->area, TESS_E_INVALID,
                   "boxes: this rank sends %zu and gets %zu bytes, there is room for %zu and %zu", send.bytes,
                   take.bytes, room->area, n * room->area);
    }
    send.data = room->sends;
    take.data = room->gets;
    *received += take.bytes;
    TESS_TRY(keep(room, m));
    return exchange(room, m, &send, &take);
}

/* Moves boxes in memory of the host, without a room that was created before. */
static tess_status move_without_room(tess_team *team, const tess_box_move *m, size_t *received)
{
    TESS_AUTO(tess_scope_end) tess_scope own = {.mem = team->runtime->mem};
    tess_box_room room = {.team = team, .stream = team->runtime->stream};
    TESS_TRY(alloc_lists(&room, &own));
    const tess_status status = move_by_parcels(&room, m, received);
    tess_mem_drop(&room.gets);
    return status;
}

tess_status tess_move_boxes(tess_team *team, tess_box_room *room, const tess_box_move *m, size_t *received)
{
    *received = 0;
    if (room == NULL)
        return move_without_room(team, m, received);
    for (int r = 0; r < team->size; r++)
        TESS_CHECK(bytes_of(m, &m->had[r]) <= room->most, TESS_E_INVALID,
                   "rank %d of the team holds %zu bytes, there is room for %zu", r, bytes_of(m, &m->had[r]),
                   room->most);
    if (room->areas == NULL)
        return move_by_parcels(room, m, received);
    TESS_TRY(move_by_areas(room, m, received));
    tess_dry_runtime_read(team, *received);
    return TESS_OK;
}

/* ---- Rooms ---- */
static size_t lines(size_t bytes)
{
    return tess_round_up(bytes, LINE);
}

static size_t window_bytes(const tess_box_room *room)
{
    const size_t bytes = AREAS * room->area;
    return bytes > TESS_DEVICE_WINDOW_LEAST ? bytes : TESS_DEVICE_WINDOW_LEAST;
}

size_t tess_box_room_device_bytes(const tess_team *team, size_t most)
{
    const tess_box_room room = {.area = lines(most)};
    return window_bytes(&room) + (tess_team_is_local(team) ? 0 : (size_t)team->size * room.area);
}

/* Finds the areas of ranks on this host in the memory that they share. */
static tess_status find_areas(tess_box_room *room)
{
    const tess_team *team = room->team;
    const ondevice_window *window = room->on_device ? ondevice_find(team, room->window) : NULL;
    const bool is_dry = team->runtime->dry != NULL; /* a dry rank counts windows as ones that all can read */
    if (!tess_team_is_local(team) || (room->on_device && window == NULL && !is_dry))
        return TESS_OK;
    TESS_TRY(TESS_PART(room, team->size, "areas of ranks", &room->areas));
    for (int r = 0; r < team->size; r++)
        room->areas[r] = !room->on_device            ? room->shared + (size_t)r * AREAS * room->area
                         : is_dry || r == team->rank ? room->window
                                                     : window->peers[r];
    return TESS_OK;
}

static tess_status alloc_parcels(tess_box_room *room)
{
    tess_device *device = tess_stream_device(room->stream);
    const size_t n = (size_t)room->team->size;
    if (room->areas != NULL)
        return TESS_OK;
    TESS_TRY(alloc_lists(room, tess_scope_of(room)));
    room->sends = room->window; /* NCCL sends from windows */
    if (room->sends == NULL)
        TESS_TRY(tess_device_alloc(device, TESS_POOL_COMM, room->area, "exchanges", (void **)&room->sends));
    return tess_device_alloc(device, TESS_POOL_COMM, n * room->area, "exchanges", (void **)&room->gets);
}

static tess_status alloc(tess_box_room *room)
{
    const size_t n = (size_t)room->team->size;
    void **out = room->on_device ? (void **)&room->window : (void **)&room->shared;
    if (room->on_device)
        TESS_TRY(tess_device_window_alloc(room->team, TESS_POOL_COMM, window_bytes(room), "exchanges", out));
    else if (tess_team_is_local(room->team))
        TESS_TRY(tess_shared_alloc(room->team, TESS_POOL_COMM, AREAS * n * room->area, "exchanges", out));
    tess_status status = find_areas(room);
    return tess_team_agree(room->team, status == TESS_OK ? alloc_parcels(room) : status);
}

tess_status tess_box_room_create(tess_team *team, tess_stream *stream, size_t most, tess_box_room **out)
{
    TESS_AUTO(tess_box_room_destroy) tess_box_room *room = NULL;
    *out = NULL;
    TESS_TRY(TESS_NEW(team->runtime->mem, 1, "room for boxes", &room));
    *room = (tess_box_room){.team = team,
                            .stream = stream,
                            .most = most,
                            .area = lines(most),
                            .on_device = !tess_stream_device(stream)->properties.host_memory};
    TESS_TRY(alloc(room));
    *out = TESS_GIVE(room);
    return TESS_OK;
}

void tess_box_room_destroy(tess_box_room **handle)
{
    tess_box_room *room = *handle;
    if (room == NULL)
        return;
    tess_device *device = tess_stream_device(room->stream);
    if (tess_stream_synchronize(room->stream) != TESS_OK) /* it may still read the peers' windows */
        tess_error_clear();
    tess_device_window_free(room->team, room->window);
    tess_shared_free(room->team, room->shared);
    tess_device_free(device, room->gets);
    if (room->window == NULL)
        tess_device_free(device, room->sends);
    tess_mem_drop(handle);
}
