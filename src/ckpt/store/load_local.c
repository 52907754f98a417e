/* Going on from folders of which every host has its own. */
#include <inttypes.h>
#include <stdio.h>

#include "ckpt/agree.h"
#include "ckpt/store/store_impl.h"

/* A row that some rank needs and its host's folder does not hold; of all that are missing the first. */
typedef struct missing_row {
    int tensor;
    int64_t row;
} missing_row;

enum { ROW_BITS = 40 }; /* tensor and row in one number, so that a minimum finds the first */

static const int64_t none = INT64_MAX;

static int64_t first_missing(const tess_ckpt_load_state *l)
{
    for (int i = 0; i < l->n; i++) {
        char name[1024];
        const tess_ckpt_tensor *t = &l->tensors[i];
        tess_ckpt_tensor_name(t, name, sizeof(name));
        int64_t row = tess_ckpt_first_missing(l->meta, name, t->row_begin, t->n_rows);
        if (row >= 0)
            return (int64_t)i << ROW_BITS | row;
    }
    return none;
}

/* The text that the save left about the hosts it ran on. */
static void format_saved_hosts(const json_t *meta, char *text, size_t size)
{
    const json_t *list = json_object_get(json_object_get(meta, "part"), "hosts");
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < json_array_size(list) && at < size; i++) {
        const char *host = json_string_value(json_array_get(list, i));
        at += (size_t)snprintf(text + at, size - at, "%s%s", i > 0 ? ", " : "", host != NULL ? host : "?");
    }
}

static tess_status refuse(const tess_ckpt_load_state *l, const tess_ckpt_hosts *hosts, const missing_row *m,
                          int64_t needs, int64_t has)
{
    char name[1024], saved[512], needing[TESS_CKPT_HOST_TEXT], holding[TESS_CKPT_HOST_TEXT + 8] = "no host";
    tess_ckpt_tensor_name(&l->tensors[m->tensor], name, sizeof(name));
    format_saved_hosts(l->meta, saved, sizeof(saved));
    if (has < hosts->n)
        tess_ckpt_hosts_format(hosts, (int)has, holding);
    return TESS_FAIL(TESS_E_INVALID,
                     "%s needs row %" PRId64 " of '%s', which its folder does not hold; %s has it: with "
                     "checkpoint.host_local=true a run goes on with the ranks on every host that its save had (%s)",
                     tess_ckpt_hosts_format(hosts, (int)needs, needing), m->row, name, holding, saved);
}

/* Whether every host has what its ranks need; else every rank tells who has the first row that is missing. */
static tess_status check_rows(const tess_ckpt_load_state *l, const tess_ckpt_hosts *hosts)
{
    int64_t mine = first_missing(l), first, words[2];
    TESS_TRY(tess_all_reduce(hosts->all, &mine, &first, 1, TESS_I64, TESS_MIN, NULL));
    if (first == none)
        return TESS_OK;
    char name[1024];
    missing_row m = {(int)(first >> ROW_BITS), first & (((int64_t)1 << ROW_BITS) - 1)};
    tess_ckpt_tensor_name(&l->tensors[m.tensor], name, sizeof(name));
    words[0] = mine == first ? hosts->host : hosts->n;
    words[1] = tess_ckpt_first_missing(l->meta, name, m.row, 1) < 0 ? hosts->host : hosts->n;
    TESS_TRY(tess_all_reduce(hosts->all, words, words, 2, TESS_I64, TESS_MIN, NULL));
    return refuse(l, hosts, &m, words[0], words[1]);
}

/* Rows [begin, end) of a tensor in the file, of which this rank takes its share. */
static uint64_t checksum_share(const tess_ckpt_hosts *hosts, const tess_st_tensor *found, size_t row_bytes,
                               int64_t begin, int64_t end)
{
    int64_t first, n;
    tess_shard_rows(end - begin, tess_team_size(hosts->mine), tess_team_rank(hosts->mine), &first, &n);
    first += begin;
    return tess_ckpt_checksum(found->data + (size_t)first * row_bytes, first, n, row_bytes);
}

/* What this rank adds to the checksum of one tensor: a share of all rows that the folder holds, whoever needs them. */
static tess_status checksum_tensor(const tess_ckpt_load_state *l, const tess_ckpt_hosts *hosts, int i,
                                   const tess_st_tensor *found, uint64_t *sum)
{
    char name[1024];
    int64_t begin = 0, end = 0, rows = tess_shape_rows(&l->tensors[i].shape);
    size_t row_bytes = tess_ckpt_row_bytes(&l->tensors[i]);
    *sum = 0;
    if (!tess_ckpt_is_part(l->meta)) {
        *sum = checksum_share(hosts, found, row_bytes, 0, rows);
        return TESS_OK;
    }
    tess_ckpt_tensor_name(&l->tensors[i], name, sizeof(name));
    const json_t *ranges = tess_ckpt_rows_of(l->meta, name);
    for (size_t k = 0; tess_ckpt_range_at(ranges, k, &begin, &end); k++) {
        TESS_CHECK(0 <= begin && begin <= end && end <= rows, TESS_E_FORMAT,
                   "%s/meta.json: rows [%" PRId64 ", %" PRId64 ") of '%s', which has %" PRId64, l->folder, begin, end,
                   name, rows);
        *sum += checksum_share(hosts, found, row_bytes, begin, end);
    }
    return TESS_OK;
}

static tess_status verify(const tess_ckpt_load_state *l, const tess_ckpt_hosts *hosts,
                          const tess_st_tensor *const *found, uint64_t *sums)
{
    tess_status status = TESS_OK;
    for (int i = 0; i < l->n && status == TESS_OK; i++)
        status = checksum_tensor(l, hosts, i, found[i], &sums[i]);
    TESS_TRY(tess_ckpt_agree(hosts->all, status));
    TESS_TRY(tess_ckpt_sum(l->mem, hosts->mine, sums, l->n));
    for (int i = 0; i < l->n && status == TESS_OK; i++)
        status = tess_ckpt_load_compare(l, i, sums[i]);
    return tess_ckpt_agree(hosts->all, status);
}

static tess_status load(tess_ckpt_load_state *l, const tess_ckpt_hosts *hosts, const char *dir, int64_t step,
                        const tess_st_tensor **found, uint64_t *sums)
{
    TESS_TRY(tess_ckpt_agree(hosts->all, tess_ckpt_load_open(l, dir, step, found)));
    TESS_TRY(check_rows(l, hosts));
    TESS_TRY(verify(l, hosts, found, sums));
    return tess_ckpt_agree(hosts->all, tess_ckpt_load_rows(l, found));
}

tess_status tess_ckpt_load_local(tess_mem *mem, const tess_ckpt_hosts *hosts, const char *dir, int64_t step,
                                 const tess_ckpt_tensor *tensors, int n_tensors, json_t **meta)
{
    if (hosts->n == 1)
        return tess_ckpt_load(mem, hosts->all, dir, step, tensors, n_tensors, meta);
    tess_ckpt_load_state l = {.mem = mem, .tensors = tensors, .n = n_tensors};
    const tess_st_tensor **found = NULL;
    uint64_t *sums = NULL;
    size_t n = (size_t)n_tensors;
    tess_status status =
        tess_mem_alloc_array(mem, TESS_POOL_MISC, n, sizeof(*found), "checkpoint tables", (void **)&found);
    if (status == TESS_OK)
        status = tess_mem_alloc_array(mem, TESS_POOL_MISC, n, sizeof(*sums), "checkpoint tables", (void **)&sums);
    status = tess_ckpt_agree(hosts->all, status);
    if (status == TESS_OK)
        status = load(&l, hosts, dir, step, found, sums);
    if (meta != NULL)
        *meta = status == TESS_OK ? json_incref(json_object_get(l.meta, "user")) : NULL;
    tess_ckpt_load_close(&l);
    tess_mem_free(mem, sums);
    tess_mem_free(mem, found);
    return status == TESS_OK ? TESS_OK : tess_fail_context(status, "load checkpoint of step %" PRId64, step);
}

/* ---- The newest that all have
 * ----------------------------------------------------------------------------------------- */
static tess_status newest_here(const char *dir, int64_t limit, int64_t *step)
{
    tess_status status = tess_ckpt_latest_until(dir, limit, step);
    if (status != TESS_E_NOT_FOUND)
        return status;
    tess_error_clear();
    *step = -1;
    return TESS_OK;
}

/* Newest steps of all hosts: the lowest and highest, and a host of each. */
typedef struct newest {
    int64_t lowest, highest;
    int low_host, high_host;
} newest;

static tess_status ask_hosts(const tess_ckpt_hosts *hosts, const char *dir, int64_t limit, newest *all)
{
    int64_t mine = -1, words[2], who[2];
    TESS_TRY(tess_ckpt_agree(hosts->all, newest_here(dir, limit, &mine)));
    words[0] = mine;
    words[1] = -mine;
    TESS_TRY(tess_all_reduce(hosts->all, words, words, 2, TESS_I64, TESS_MIN, NULL));
    all->lowest = words[0];
    all->highest = -words[1];
    who[0] = mine == all->lowest ? hosts->host : hosts->n;
    who[1] = mine == all->highest ? hosts->host : hosts->n;
    TESS_TRY(tess_all_reduce(hosts->all, who, who, 2, TESS_I64, TESS_MIN, NULL));
    all->low_host = (int)who[0];
    all->high_host = (int)who[1];
    return TESS_OK;
}

tess_status tess_ckpt_latest_local(const tess_ckpt_hosts *hosts, const char *dir, int64_t *step, int64_t *highest)
{
    newest all;
    TESS_TRY(ask_hosts(hosts, dir, INT64_MAX, &all));
    *highest = all.highest;
    TESS_CHECK(all.highest >= 0, TESS_E_NOT_FOUND, "%s: no complete checkpoint there on any host", dir);
    while (all.lowest != all.highest) {
        char without[TESS_CKPT_HOST_TEXT], with[TESS_CKPT_HOST_TEXT];
        TESS_CHECK(all.lowest >= 0, TESS_E_INVALID,
                   "%s: %s has no complete checkpoint there, but %s has one of step %" PRId64
                   ": bring its folder back, "
                   "or start anew with checkpoint.resume=false",
                   dir, tess_ckpt_hosts_format(hosts, all.low_host, without),
                   tess_ckpt_hosts_format(hosts, all.high_host, with), all.highest);
        TESS_TRY(ask_hosts(hosts, dir, all.lowest, &all));
    }
    *step = all.lowest;
    return TESS_OK;
}
