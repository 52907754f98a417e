/* Loads from one folder per host. */
#include <inttypes.h>
#include <stdio.h>

#include "base/text/text.h"
#include "comm/agree.h"
#include "ckpt/store/load_impl.h"

/* The first row that some rank needs and its host's folder lacks. */
enum { ROW_BITS = 40 }; /* tensor and row in one number, so that a minimum finds the first */

static const int64_t none = INT64_MAX;

static tess_status first_missing(const tess_load *l, int64_t *first)
{
    *first = none;
    for (int i = 0; i < l->n && *first == none; i++) {
        int64_t row;
        TESS_TRY(tess_load_first_missing(l, i, &row));
        if (row >= 0)
            *first = (int64_t)i << ROW_BITS | row;
    }
    return TESS_OK;
}

static bool holds_row(const tess_load *l, int tensor, int64_t row)
{
    bool missing;
    int64_t at[TESS_CATALOG_DIMS];
    const tess_catalog_tensor *t = l->requests[tensor].tensor;
    tess_box box = tess_catalog_rows(t, row, 1);
    return tess_catalog_first_missing(l->catalog, t, &box, &missing, at) == TESS_OK && !missing;
}

/* Formats the hosts of the save, as the manifest lists them. */
static void format_saved_hosts(const tess_load *l, char *text, size_t size)
{
    const json_t *list = json_object_get(json_object_get(l->catalog->meta, "host"), "of");
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *host = json_string_value(json_array_get(list, i));
        at = tess_text_add(text, size, at, "%s%s", i > 0 ? ", " : "", host != NULL ? host : "?");
    }
}

/* `needs`: the first host that lacks the row; `has`: the first host with it. */
static tess_status refuse(const tess_load *l, const tess_ckpt_hosts *hosts, int tensor, int64_t row, int64_t needs,
                          int64_t has)
{
    char saved[512], needing[TESS_CKPT_HOST_TEXT], holding[TESS_CKPT_HOST_TEXT + 8] = "no host";
    format_saved_hosts(l, saved, sizeof(saved));
    if (has < hosts->n)
        tess_ckpt_hosts_format(hosts, (int)has, holding);
    return TESS_FAIL(TESS_E_INVALID,
                     "%s needs row %" PRId64 " of '%s', which its folder does not hold; %s has it: with "
                     "checkpoint.host_local=true a run goes on with the ranks on every host that its save had (%s)",
                     tess_ckpt_hosts_format(hosts, (int)needs, needing), row, l->requests[tensor].tensor->name, holding,
                     saved);
}

/* Whether every host has what its ranks need. If not, every rank reports which host has the first missing row. */
static tess_status check_rows(const tess_load *l, const tess_ckpt_hosts *hosts)
{
    int64_t mine, first, words[2];
    TESS_TRY(tess_team_agree(hosts->all, first_missing(l, &mine)));
    TESS_TRY(tess_all_reduce(hosts->all, &mine, &first, 1, TESS_I64, TESS_MIN, NULL));
    if (first == none)
        return TESS_OK;
    int tensor = (int)(first >> ROW_BITS);
    int64_t row = first & (((int64_t)1 << ROW_BITS) - 1);
    words[0] = mine == first ? hosts->host : hosts->n;
    words[1] = holds_row(l, tensor, row) ? hosts->host : hosts->n;
    TESS_TRY(tess_all_reduce(hosts->all, words, words, 2, TESS_I64, TESS_MIN, NULL));
    return refuse(l, hosts, tensor, row, words[0], words[1]);
}

tess_status tess_ckpt_load_local(tess_mem *mem, const tess_ckpt_hosts *hosts, const char *dir, int64_t step,
                                 const tess_ckpt_tensor *tensors, int n_tensors, const tess_ckpt_load_options *options,
                                 json_t **meta)
{
    if (hosts->n == 1)
        return tess_ckpt_load(mem, hosts->all, dir, step, tensors, n_tensors, options, meta);
    tess_load l = {.mem = mem, .tensors = tensors, .n = n_tensors};
    if (options != NULL)
        l.options = *options;
    tess_status status = tess_team_agree(hosts->all, tess_load_open(&l, dir, step));
    if (status == TESS_OK)
        status = check_rows(&l, hosts);
    if (status == TESS_OK)
        status = tess_load_read(&l, hosts->all);
    return tess_load_finish(&l, status, step, meta);
}
