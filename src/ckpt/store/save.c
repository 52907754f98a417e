/* All ranks save together: each writes its rows, the first of a folder commits what all wrote. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/rng.h"
#include "base/os/os.h"
#include "ckpt/agree.h"
#include "ckpt/store/part.h"
#include "ckpt/store/store_impl.h"

typedef struct save {
    tess_mem *mem;
    tess_team *team;              /* all ranks */
    const tess_ckpt_hosts *hosts; /* each keeps a folder of its own; NULL: one folder for all */
    tess_team *writers;           /* those of one folder */
    bool first;                   /* of them: makes and shows the folder */
    const char *dir;
    int64_t step;
    const json_t *meta;
    const tess_store_options *options;
    const tess_ckpt_tensor *tensors; /* primary rows: those to write */
    int n;
    tess_ckpt_tensor *own; /* of a host's part: `tensors` with the rows that it gets */
    tess_store_piece *pieces;
    char (*names)[TESS_STORE_NAME];
    json_t **parts; /* of all writers, on the first; own on others */
} save;

static tess_status allocate(save *s)
{
    size_t n = (size_t)s->n;
    tess_mem *mem = s->mem;
#define ARRAY(field, count) \
    tess_mem_alloc_array(mem, TESS_POOL_MISC, count, sizeof(s->field[0]), "checkpoint tables", (void **)&s->field)
    TESS_TRY(ARRAY(own, n));
    TESS_TRY(ARRAY(pieces, n));
    TESS_TRY(ARRAY(names, n));
    TESS_TRY(ARRAY(parts, (size_t)tess_ckpt_world(s->writers)));
#undef ARRAY
    return TESS_OK;
}

static void release(save *s)
{
    for (int i = 0; s->parts != NULL && i < tess_ckpt_world(s->writers); i++)
        json_decref(s->parts[i]);
    tess_mem_free(s->mem, s->parts);
    tess_mem_free(s->mem, s->names);
    tess_mem_free(s->mem, s->pieces);
    tess_mem_free(s->mem, s->own);
}

static tess_status prepare(save *s)
{
    char folder[TESS_CKPT_PATH];
    TESS_TRY(tess_ckpt_check_tensors(s->tensors, s->n));
    TESS_TRY(tess_ckpt_folder(s->dir, s->step, TESS_CKPT_TEMPORARY, folder));
    return allocate(s);
}

/* Ranks that see different models must not write one checkpoint. */
static uint64_t fingerprint(const save *s)
{
    uint64_t hash = (uint64_t)s->step * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < s->n; i++) {
        const tess_ckpt_tensor *t = &s->tensors[i];
        int32_t facts[2] = {(int32_t)t->kind, (int32_t)t->stored};
        hash = tess_hash_bytes(t->name, strlen(t->name) + 1, hash);
        hash = tess_hash_bytes(facts, sizeof(facts), hash);
        hash = tess_hash_bytes(t->shape.dim, (size_t)t->shape.n_dims * sizeof(t->shape.dim[0]), hash);
    }
    return hash;
}

/* The host's share of the rows takes the place of the job's. */
static tess_status take_share(save *s)
{
    if (s->hosts == NULL)
        return TESS_OK;
    TESS_TRY(tess_ckpt_share(s->mem, s->hosts, s->tensors, s->n, s->own));
    s->tensors = s->own;
    return TESS_OK;
}

/* ---- Writing ---- */
static void describe_piece(save *s, int i)
{
    const tess_ckpt_tensor *t = &s->tensors[i];
    tess_store_tensor_name(t->kind, t->name, s->names[i]);
    s->pieces[i] = (tess_store_piece){.name = s->names[i],
                                      .stored = t->stored,
                                      .given = TESS_F32,
                                      .shape = t->shape,
                                      .row_begin = t->primary_rows > 0 ? t->primary_begin : 0,
                                      .n_rows = t->primary_rows,
                                      .rank = tess_ckpt_rank(s->team),
                                      .data = tess_ckpt_primary_data(t)};
}

static tess_status write_own(save *s)
{
    char folder[TESS_CKPT_PATH], file[64];
    TESS_TRY(tess_ckpt_folder(s->dir, s->step, TESS_CKPT_TEMPORARY, folder));
    snprintf(file, sizeof(file), "rank-%05d.data", tess_ckpt_rank(s->team));
    for (int i = 0; i < s->n; i++)
        describe_piece(s, i);
    return tess_store_write_part(s->mem, s->options, folder, file, s->pieces, s->n, &s->parts[0]);
}

static tess_status begin(const save *s)
{
    char folder[TESS_CKPT_PATH];
    return tess_store_begin(s->options->io, s->dir, s->step, folder);
}

/* ---- What is where, told to the first ---- */
static tess_status parse_parts(save *s, const char *texts, size_t bytes)
{
    for (int i = 1; i < tess_ckpt_world(s->writers); i++) {
        const char *text = texts + (size_t)i * bytes;
        TESS_TRY(tess_part_parse(text, strnlen(text, bytes), "what a rank wrote", &s->parts[i]));
    }
    return TESS_OK;
}

/* `text`: of this rank, with room for `words`. */
static tess_status gather(save *s, const char *text, size_t words)
{
    char *all = NULL;
    size_t world = s->first ? (size_t)tess_ckpt_world(s->writers) : 1;
    tess_status status =
        tess_mem_alloc_array(s->mem, TESS_POOL_MISC, world * words, sizeof(int64_t), "parts", (void **)&all);
    status = tess_team_agree(s->team, status);
    if (status == TESS_OK)
        status = tess_gather(s->writers, text, all, words, TESS_I64, 0, NULL);
    if (status == TESS_OK && s->first)
        status = parse_parts(s, all, words * sizeof(int64_t));
    tess_mem_free(s->mem, all);
    return tess_team_agree(s->team, status);
}

static tess_status pad(tess_mem *mem, const char *text, size_t words, char **padded)
{
    TESS_TRY(tess_mem_alloc_array(mem, TESS_POOL_MISC, words, sizeof(int64_t), "part", (void **)padded));
    memcpy(*padded, text, strlen(text));
    return TESS_OK;
}

static tess_status gather_parts(save *s)
{
    char *text = NULL, *padded = NULL;
    int64_t words = 0;
    if (tess_ckpt_world(s->team) == 1)
        return TESS_OK;
    tess_status status = tess_team_agree(s->team, tess_part_format(s->parts[0], &text));
    if (status == TESS_OK) {
        words = (int64_t)(strlen(text) / sizeof(int64_t)) + 1;
        status = tess_all_reduce(s->team, &words, &words, 1, TESS_I64, TESS_MAX, NULL);
    }
    if (status == TESS_OK)
        status = tess_team_agree(s->team, pad(s->mem, text, (size_t)words, &padded));
    if (status == TESS_OK)
        status = gather(s, padded, (size_t)words);
    tess_mem_free(s->mem, padded);
    free(text);
    return status;
}

/* ---- All of it ---- */
static tess_status seal(const save *s)
{
    const tess_store_facts facts = {s->meta, tess_ckpt_world(s->team), s->hosts};
    return tess_store_seal(s->options->io, s->dir, s->step, s->parts, tess_ckpt_world(s->writers), &facts);
}

static tess_status show(const save *s)
{
    return tess_store_show(s->options->io, s->dir, s->step);
}

/* No folder is shown before all are whole. */
static tess_status run(save *s)
{
    TESS_TRY(tess_team_agree(s->team, s->first ? begin(s) : TESS_OK));
    TESS_TRY(tess_team_agree(s->team, write_own(s)));
    TESS_TRY(gather_parts(s));
    TESS_TRY(tess_team_agree(s->team, s->first ? seal(s) : TESS_OK));
    return tess_team_agree(s->team, s->first ? show(s) : TESS_OK);
}

static tess_status save_all(save *s)
{
    static const tess_store_options none = {0};
    s->options = s->options != NULL ? s->options : &none;
    tess_status status = tess_team_agree(s->team, prepare(s));
    if (status == TESS_OK)
        status = tess_ckpt_agree_same(s->team, fingerprint(s), "names, kinds or shapes");
    if (status == TESS_OK)
        status = tess_team_agree(s->team, take_share(s));
    if (status == TESS_OK) {
        status = run(s);
        if (status != TESS_OK && s->first)
            status = tess_store_abandon(s->options->io, s->dir, s->step, status);
    }
    release(s);
    return status == TESS_OK ? TESS_OK : tess_fail_context(status, "save checkpoint of step %" PRId64, s->step);
}

tess_status tess_ckpt_save(tess_mem *mem, tess_team *team, const char *dir, int64_t step, const json_t *meta,
                           const tess_ckpt_tensor *tensors, int n_tensors, const tess_store_options *options)
{
    save s = {.mem = mem, .team = team, .writers = team, .first = tess_ckpt_rank(team) == 0};
    s.dir = dir, s.step = step, s.meta = meta, s.options = options;
    s.tensors = tensors, s.n = n_tensors;
    return save_all(&s);
}

tess_status tess_ckpt_save_local(tess_mem *mem, const tess_ckpt_hosts *hosts, const char *dir, int64_t step,
                                 const json_t *meta, const tess_ckpt_tensor *tensors, int n_tensors,
                                 const tess_store_options *options)
{
    if (hosts->n == 1)
        return tess_ckpt_save(mem, hosts->all, dir, step, meta, tensors, n_tensors, options);
    save s = {.mem = mem, .team = hosts->all, .hosts = hosts, .writers = hosts->mine};
    s.first = tess_ckpt_hosts_is_first(hosts);
    s.dir = dir, s.step = step, s.meta = meta, s.options = options;
    s.tensors = tensors, s.n = n_tensors;
    return save_all(&s);
}
