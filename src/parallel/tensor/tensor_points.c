#include "parallel/tensor/tensor_points.h"

#include <string.h>

#include "base/core/round_up.h"
#include "comm/agree.h"
#include "device/device.h"

enum { AREAS = 2, LINE = 64 };

/* A rank's part is packed in its area, without gaps between rows. Areas are used in turn: before a rank writes an
 * area again, it has met all others after they read it. */
struct tess_tensor {
    tess_mem *mem;
    tess_team *team;
    tess_stream *stream;
    int rank, degree;
    bool apart;        /* the host cannot read the matrices */
    size_t most, area; /* bytes of an area: `most`, rounded up to cache lines */
    char *shared;      /* (AREAS, degree, area) memory that all ranks share; NULL: the ranks are on several hosts */
    int turn;
    char *sends, *gets; /* over hosts: packed parts to send (area), and received ones (degree, area) */
    char *room;         /* matrices on a device: host memory for packing and unpacking (degree, area) */
    void *packed;       /* the same, in device memory */
    size_t *counts;     /* (4, degree) counts and offsets of all_to_all_v */
    uint64_t received;
};

/* A box of a matrix, as ranges of rows and columns. */
typedef struct matrix_part {
    int64_t begin[2], size[2];
} matrix_part;

static matrix_part part_of(const tess_cut cuts[2], int degree, int rank)
{
    matrix_part p;
    for (int d = 0; d < 2; d++)
        tess_cut_range(cuts[d], degree, rank, &p.begin[d], &p.size[d]);
    return p;
}

static matrix_part common(matrix_part a, matrix_part b)
{
    matrix_part both;
    for (int d = 0; d < 2; d++) {
        int64_t a_end = a.begin[d] + a.size[d], b_end = b.begin[d] + b.size[d];
        both.begin[d] = a.begin[d] > b.begin[d] ? a.begin[d] : b.begin[d];
        both.size[d] = (a_end < b_end ? a_end : b_end) - both.begin[d];
    }
    if (both.size[0] <= 0 || both.size[1] <= 0)
        both.size[0] = both.size[1] = 0;
    return both;
}

static size_t bytes_of(matrix_part p, size_t element)
{
    return (size_t)(p.size[0] * p.size[1]) * element;
}

/* Returns the offset in bytes of the first element of `p` in a matrix that begins with the first element of `in`. 0:
 * `p` is empty. */
static size_t offset_of(matrix_part p, matrix_part in, int64_t ld, size_t element)
{
    return p.size[0] > 0 ? (size_t)((p.begin[0] - in.begin[0]) * ld + p.begin[1] - in.begin[1]) * element : 0;
}

/* One exchange. */
typedef struct move {
    tess_tensor *t;
    const tess_exchange *x;
    matrix_part held, wanted; /* parts of this rank */
} move;

static matrix_part held_by(const move *m, int rank)
{
    return part_of(m->x->held, m->t->degree, rank);
}

static matrix_part wanted_by(const move *m, int rank)
{
    return part_of(m->x->wanted, m->t->degree, rank);
}

static tess_status copy(const move *m, const void *from, int64_t from_ld, void *to, int64_t to_ld, matrix_part p)
{
    int64_t element = (int64_t)m->x->element;
    if (p.size[0] == 0)
        return TESS_OK;
    return tess_stream_kernels(m->t->stream)
        ->copy_rows(m->t->stream, &(tess_copy_rows_args){.x = from,
                                                         .x_stride = from_ld * element,
                                                         .y = to,
                                                         .y_stride = to_ld * element,
                                                         .n = p.size[0],
                                                         .row_bytes = p.size[1] * element});
}

/* Packs part `p` of the matrix that this rank holds into `to` (host memory). */
static tess_status pack(const move *m, matrix_part p, char *to)
{
    const char *from = (const char *)m->x->mine + offset_of(p, m->held, m->x->ld, m->x->element);
    if (!m->t->apart)
        return copy(m, from, m->x->ld, to, p.size[1], p);
    TESS_TRY(copy(m, from, m->x->ld, m->t->packed, p.size[1], p));
    return p.size[0] > 0 ? tess_fetch(m->t->stream, to, m->t->packed, bytes_of(p, m->x->element)) : TESS_OK;
}

/* Copies part `p` of a host matrix, with rows `ld` apart, to its place in the matrix that this rank wants. */
static tess_status unpack(const move *m, matrix_part p, const char *from, int64_t ld)
{
    char *to = (char *)m->x->into + offset_of(p, m->wanted, m->x->into_ld, m->x->element);
    if (!m->t->apart || p.size[0] == 0)
        return copy(m, from, ld, to, m->x->into_ld, p);
    size_t row = (size_t)p.size[1] * m->x->element;
    for (int64_t i = 0; i < p.size[0]; i++)
        memcpy(m->t->room + (size_t)i * row, from + (size_t)(i * ld) * m->x->element, row);
    TESS_TRY(tess_stream_copy(m->t->stream, m->t->packed, m->t->room, bytes_of(p, m->x->element)));
    TESS_TRY(copy(m, m->t->packed, p.size[1], to, m->x->into_ld, p));
    return tess_stream_synchronize(m->t->stream); /* `room` and `packed` are free */
}

/* Copies the part that this rank both holds and wants, unless it is already in place. */
static tess_status keep(const move *m)
{
    const tess_exchange *x = m->x;
    matrix_part own = common(m->held, m->wanted);
    const char *from = (const char *)x->mine + offset_of(own, m->held, x->ld, x->element);
    char *to = (char *)x->into + offset_of(own, m->wanted, x->into_ld, x->element);
    return from == to ? TESS_OK : copy(m, from, x->ld, to, x->into_ld, own);
}

static char *area_of(const tess_tensor *t, int rank)
{
    return t->shared + (size_t)(t->turn * t->degree + rank) * t->area;
}

static tess_status exchange_here(const move *m)
{
    tess_tensor *t = m->t;
    t->turn = (t->turn + 1) % AREAS;
    TESS_TRY(pack(m, m->held, area_of(t, t->rank)));
    TESS_TRY(tess_stream_synchronize(t->stream));
    TESS_TRY(tess_barrier(t->team, NULL));
    for (int i = 1; i < t->degree; i++) { /* each rank begins with a different peer */
        int r = (t->rank + i) % t->degree;
        matrix_part held = held_by(m, r), p = common(held, m->wanted);
        TESS_TRY(unpack(m, p, area_of(t, r) + offset_of(p, held, held.size[1], m->x->element), held.size[1]));
    }
    return TESS_OK;
}

/* If all others want the same part of this rank, it is packed once. Otherwise `sends` has room for a part for each. */
static tess_status exchange_over_hosts(const move *m)
{
    tess_tensor *t = m->t;
    size_t *sends = t->counts, *from = sends + t->degree, *gets = from + t->degree, *to = gets + t->degree;
    size_t packed = 0, element = m->x->element;
    matrix_part newest = {0};
    size_t newest_from = 0;
    for (int r = 0; r < t->degree; r++) {
        matrix_part p = common(m->held, wanted_by(m, r));
        sends[r] = from[r] = gets[r] = 0;
        to[r] = (size_t)r * t->area;
        if (r == t->rank)
            continue;
        sends[r] = bytes_of(p, element);
        gets[r] = bytes_of(common(held_by(m, r), m->wanted), element);
        if (memcmp(&p, &newest, sizeof(p)) != 0) {
            TESS_TRY(pack(m, p, t->sends + packed));
            newest = p;
            newest_from = packed;
            packed += sends[r];
        }
        from[r] = newest_from;
    }
    TESS_TRY(tess_stream_synchronize(t->stream));
    TESS_TRY(tess_all_to_all_v(t->team, t->sends, sends, from, t->gets, gets, to, TESS_U8, NULL));
    for (int r = 0; r < t->degree; r++) {
        matrix_part p = common(held_by(m, r), m->wanted);
        if (r != t->rank)
            TESS_TRY(unpack(m, p, t->gets + to[r], p.size[1]));
    }
    return TESS_OK;
}

static tess_status exchange(void *self, const tess_exchange *x)
{
    tess_tensor *t = self;
    move m = {.t = t, .x = x};
    m.held = held_by(&m, t->rank);
    m.wanted = wanted_by(&m, t->rank);
    for (int r = 0; r < t->degree; r++)
        TESS_CHECK(bytes_of(held_by(&m, r), x->element) <= t->most, TESS_E_INVALID,
                   "exchange of '%s': rank %d of the team holds %zu bytes, there is room for %zu", x->what, r,
                   bytes_of(held_by(&m, r), x->element), t->most);
    TESS_TRY(keep(&m));
    tess_team_label(t->team, x->what, -1);
    tess_status status = t->shared != NULL ? exchange_here(&m) : exchange_over_hosts(&m);
    tess_team_label(t->team, NULL, -1);
    TESS_TRY_CTX(status, "exchange of '%s'", x->what);
    t->received += bytes_of(m.wanted, x->element) - bytes_of(common(m.held, m.wanted), x->element);
    return TESS_OK;
}

tess_points tess_tensor_points(tess_tensor *t)
{
    return (tess_points){t, t->rank, t->degree, exchange};
}

uint64_t tess_tensor_received(const tess_tensor *t)
{
    return t->received;
}

static size_t lines(size_t bytes)
{
    return tess_round_up(bytes, LINE);
}

size_t tess_tensor_shared_bytes(int degree, size_t most)
{
    return AREAS * (size_t)degree * lines(most);
}

static tess_status alloc_own(tess_tensor *t)
{
    tess_device *device = tess_stream_device(t->stream);
    size_t n = (size_t)t->degree;
    if (t->apart) {
        TESS_TRY(tess_device_alloc_pinned(device, TESS_POOL_COMM, t->area, "exchanges", (void **)&t->room));
        TESS_TRY(tess_device_alloc(device, TESS_POOL_COMM, t->area, "exchanges", &t->packed));
    }
    if (tess_team_is_local(t->team))
        return TESS_OK;
    TESS_TRY(tess_mem_alloc_array(t->mem, TESS_POOL_MISC, 4 * n, sizeof(*t->counts), "exchanges", (void **)&t->counts));
    TESS_TRY(tess_mem_alloc(t->mem, TESS_POOL_COMM, t->area, "exchanges", (void **)&t->sends));
    return tess_mem_alloc_array(t->mem, TESS_POOL_COMM, n, t->area, "exchanges", (void **)&t->gets);
}

static tess_status alloc(tess_tensor *t)
{
    TESS_TRY(tess_team_agree(t->team, alloc_own(t)));
    return tess_team_is_local(t->team)
               ? tess_shared_alloc(t->team, TESS_POOL_COMM, tess_tensor_shared_bytes(t->degree, t->most), "exchanges",
                                   (void **)&t->shared)
               : TESS_OK;
}

tess_status tess_tensor_create(tess_mem *mem, tess_team *team, tess_stream *stream, size_t most, tess_tensor **out)
{
    tess_tensor *t;
    *out = NULL;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, sizeof(*t), "points", (void **)&t));
    *t = (tess_tensor){.mem = mem,
                       .team = team,
                       .stream = stream,
                       .rank = tess_team_rank(team),
                       .degree = tess_team_size(team),
                       .apart = !tess_device_get_properties(tess_stream_device(stream))->host_memory,
                       .most = most,
                       .area = lines(most)};
    tess_status status = alloc(t);
    if (status != TESS_OK)
        tess_tensor_destroy(&t);
    *out = t;
    return status;
}

void tess_tensor_destroy(tess_tensor **handle)
{
    tess_tensor *t = *handle;
    if (t == NULL)
        return;
    tess_device *device = tess_stream_device(t->stream);
    if (t->shared != NULL)
        tess_shared_free(t->team, t->shared);
    tess_device_free(device, t->packed);
    tess_device_free_pinned(device, t->room);
    tess_mem_free(t->mem, t->gets);
    tess_mem_free(t->mem, t->sends);
    tess_mem_free(t->mem, t->counts);
    tess_mem_free(t->mem, t);
    *handle = NULL;
}
