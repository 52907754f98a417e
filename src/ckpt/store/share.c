/* Checkpoints of which every host keeps a part: the rows that its ranks hold, in files of the full layout.
 *
 * Ranks of a host that hold the same rows (replicas, or all of them where nothing is sharded) share the writing of
 * them. So a host's folder has all that its ranks need to go on, whoever counts the rows in norms and sums. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/agree.h"
#include "ckpt/store/store_impl.h"

typedef struct range {
    int64_t begin, n;
} range;

/* Rows of `tensor` that each rank of the host holds: (size of the host's team, n_tensors). */
typedef struct holdings {
    const range *all;
    int n_ranks, n_tensors, me;
} holdings;

static const range *held_by(const holdings *h, int rank, int tensor)
{
    return &h->all[(size_t)rank * (size_t)h->n_tensors + (size_t)tensor];
}

static bool same_rows(const range *a, const range *b)
{
    return a->begin == b->begin && a->n == b->n;
}

static bool overlap(const range *a, const range *b)
{
    return a->n > 0 && b->n > 0 && a->begin < b->begin + b->n && b->begin < a->begin + a->n;
}

static tess_status divide(const holdings *h, int tensor, tess_ckpt_tensor *own)
{
    const range *mine = held_by(h, h->me, tensor);
    int n_sharing = 0, number = 0;
    for (int rank = 0; rank < h->n_ranks; rank++) {
        const range *theirs = held_by(h, rank, tensor);
        bool same = same_rows(mine, theirs);
        TESS_CHECK(same || !overlap(mine, theirs), TESS_E_INVALID,
                   "checkpoint: ranks of a host hold rows [%" PRId64 ", +%" PRId64 ") and [%" PRId64 ", +%" PRId64
                   ") of '%s': neither the same nor apart",
                   mine->begin, mine->n, theirs->begin, theirs->n, own->name);
        n_sharing += same;
        number += same && rank < h->me;
    }
    tess_shard_rows(mine->n, n_sharing, number, &own->primary_begin, &own->primary_rows);
    own->primary_begin += own->row_begin;
    return TESS_OK;
}

static int by_begin(const void *a, const void *b)
{
    int64_t x = ((const range *)a)->begin, y = ((const range *)b)->begin;
    return x < y ? -1 : x > y;
}

/* [[begin, end], ...]: in order, adjacent ones merged. `scratch` has room for n_ranks ranges. */
static json_t *list_ranges(const holdings *h, int tensor, range *scratch)
{
    json_t *list = json_array();
    int64_t begin = -1, end = -1;
    for (int rank = 0; rank < h->n_ranks; rank++)
        scratch[rank] = *held_by(h, rank, tensor);
    qsort(scratch, (size_t)h->n_ranks, sizeof(scratch[0]), by_begin);
    for (int i = 0; i <= h->n_ranks; i++) {
        bool over = i == h->n_ranks;
        if (!over && scratch[i].n == 0)
            continue;
        if (begin >= 0 && (over || scratch[i].begin > end))
            json_array_append_new(list, json_pack("[I,I]", (json_int_t)begin, (json_int_t)end));
        if (over)
            break;
        begin = begin < 0 || scratch[i].begin > end ? scratch[i].begin : begin;
        end = scratch[i].begin + scratch[i].n;
    }
    return list;
}

static json_t *describe_rows(tess_mem *mem, const holdings *h, const tess_ckpt_tensor *tensors)
{
    range *scratch;
    if (tess_mem_alloc_array(mem, TESS_POOL_MISC, (size_t)h->n_ranks, sizeof(*scratch), "rows", (void **)&scratch) !=
        TESS_OK)
        return NULL;
    json_t *rows = json_object();
    for (int i = 0; i < h->n_tensors; i++) {
        char name[1024];
        tess_ckpt_tensor_name(&tensors[i], name, sizeof(name));
        json_object_set_new(rows, name, list_ranges(h, i, scratch));
    }
    tess_mem_free(mem, scratch);
    return rows;
}

static json_t *describe_hosts(const tess_ckpt_hosts *hosts)
{
    json_t *list = json_array();
    for (int host = 0; host < hosts->n; host++) {
        char text[TESS_CKPT_HOST_TEXT];
        json_array_append_new(list, json_string(tess_ckpt_hosts_format(hosts, host, text)));
    }
    return list;
}

tess_status tess_ckpt_share(tess_mem *mem, const tess_ckpt_hosts *hosts, const tess_ckpt_tensor *tensors, int n,
                            tess_ckpt_tensor *own, json_t **part)
{
    holdings h = {.n_ranks = tess_team_size(hosts->mine), .n_tensors = n, .me = tess_team_rank(hosts->mine)};
    range *mine, *all;
    *part = NULL;
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, ((size_t)h.n_ranks + 1) * (size_t)n, sizeof(*all), "rows",
                                  (void **)&all));
    mine = all + (size_t)h.n_ranks * (size_t)n;
    for (int i = 0; i < n; i++)
        mine[i] = (range){tensors[i].row_begin, tensors[i].n_rows};
    tess_status status = n > 0 ? tess_all_gather(hosts->mine, mine, all, 2 * (size_t)n, TESS_I64, NULL) : TESS_OK;
    h.all = all;
    for (int i = 0; i < n && status == TESS_OK; i++) {
        own[i] = tensors[i];
        status = divide(&h, i, &own[i]);
    }
    if (status == TESS_OK) {
        *part = json_pack("{s:i, s:o, s:o}", "host", hosts->host, "hosts", describe_hosts(hosts), "rows",
                          describe_rows(mem, &h, tensors));
        status = *part != NULL ? TESS_OK : TESS_FAIL(TESS_E_NOMEM, "no memory to describe a host's part");
    }
    tess_mem_free(mem, all);
    return status;
}

/* ---- Reading
 * ---------------------------------------------------------------------------------------------------------- */
bool tess_ckpt_is_part(const json_t *meta)
{
    return json_is_object(json_object_get(meta, "part"));
}

const json_t *tess_ckpt_rows_of(const json_t *meta, const char *name)
{
    return json_object_get(json_object_get(json_object_get(meta, "part"), "rows"), name);
}

bool tess_ckpt_range_at(const json_t *ranges, size_t i, int64_t *begin, int64_t *end)
{
    const json_t *pair = json_array_get(ranges, i);
    *begin = json_integer_value(json_array_get(pair, 0));
    *end = json_integer_value(json_array_get(pair, 1));
    return i < json_array_size(ranges);
}

int64_t tess_ckpt_first_missing(const json_t *meta, const char *name, int64_t begin, int64_t n)
{
    int64_t at = begin, from, to;
    const json_t *ranges = tess_ckpt_rows_of(meta, name);
    if (!tess_ckpt_is_part(meta) || n == 0)
        return -1;
    for (size_t i = 0; tess_ckpt_range_at(ranges, i, &from, &to); i++)
        if (from <= at && at < to)
            at = to;
    return at < begin + n ? at : -1;
}
