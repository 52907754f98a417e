/* Saves with all ranks together: each writes what it owns, and the first rank of a folder commits what all wrote. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/rng.h"
#include "base/os/os.h"
#include "comm/agree.h"
#include "base/text/json.h"
#include "ckpt/store/part.h"
#include "ckpt/store/store_impl.h"

typedef struct rank_save {
    tess_mem *mem;
    tess_scope scope;
    tess_team *team;              /* all ranks */
    const tess_ckpt_hosts *hosts; /* the hosts, if each has its own folder; NULL: one folder for all */
    tess_team *writers;           /* the ranks that write into one folder */
    bool first;                   /* whether this is the first of them, which creates and shows the folder */
    const char *dir;
    int64_t step;
    const json_t *meta;
    const tess_store_options *options;
    const tess_ckpt_tensor *tensors; /* the tensors; their primary boxes are written */
    int n;
    tess_ckpt_tensor *own; /* if hosts write parts: `tensors` with this rank's share as primary boxes */
    tess_store_piece *pieces;
    char (*names)[TESS_STORE_NAME];
    json_t *host; /* description of the host, if the save is a host's part */
} rank_save;

static tess_status prepare(rank_save *s)
{
    size_t n = (size_t)s->n;
    TESS_TRY(TESS_NEW_IN(&s->scope, n, "checkpoint tables", &s->own));
    TESS_TRY(TESS_NEW_IN(&s->scope, n, "checkpoint tables", &s->pieces));
    return TESS_NEW_IN(&s->scope, n, "checkpoint tables", &s->names);
}

/* Hashes what ranks must agree on: ranks with different models must not write one checkpoint. */
static uint64_t fingerprint(int64_t step, const tess_ckpt_tensor *tensors, int n)
{
    uint64_t hash = (uint64_t)step * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < n; i++) {
        const tess_ckpt_tensor *t = &tensors[i];
        const char *state = t->state != NULL ? t->state : "";
        int32_t stored = (int32_t)t->stored;
        hash = tess_hash_bytes(t->name, strlen(t->name) + 1, hash);
        hash = tess_hash_bytes(state, strlen(state) + 1, hash);
        hash = tess_hash_bytes(&stored, sizeof(stored), hash);
        hash = tess_hash_bytes(t->shape.dim, (size_t)t->shape.n_dims * sizeof(t->shape.dim[0]), hash);
    }
    return hash;
}

static tess_status check_own(tess_team *team, const char *dir, int64_t step, const tess_ckpt_tensor *tensors, int n)
{
    char folder[TESS_CKPT_PATH];
    TESS_TRY(tess_ckpt_check_tensors(tensors, n, tess_agree_rank(team)));
    return tess_ckpt_folder(dir, step, TESS_CKPT_TEMPORARY, folder); /* checks that the name fits */
}

tess_status tess_ckpt_check_save(tess_team *team, const char *dir, int64_t step, const tess_ckpt_tensor *tensors, int n)
{
    TESS_TRY(tess_team_agree(team, check_own(team, dir, step, tensors, n)));
    return tess_team_agree_same(team, fingerprint(step, tensors, n), "names, dtypes or shapes");
}

/* Replaces the job's primary boxes by this rank's share of its host's rows. */
static tess_status take_share(rank_save *s)
{
    if (s->hosts == NULL)
        return TESS_OK;
    TESS_TRY(tess_ckpt_share(s->mem, s->hosts, s->tensors, s->n, s->own));
    s->tensors = s->own;
    s->host = tess_store_describe_host(s->hosts);
    return s->host != NULL ? TESS_OK : TESS_FAIL(TESS_E_NOMEM, "no memory to describe the hosts of a checkpoint");
}

static void describe_piece(rank_save *s, int i)
{
    const tess_ckpt_tensor *t = &s->tensors[i];
    tess_store_piece *p = &s->pieces[i];
    tess_store_tensor_name(t->state, t->name, s->names[i]);
    *p = (tess_store_piece){.name = s->names[i],
                            .dtype = tess_store_dtype_text(t->stored),
                            .rounds = t->stored != t->dtype,
                            .n_dims = t->shape.n_dims,
                            .box = t->primary,
                            .rank = tess_agree_rank(s->team),
                            .data = t->data,
                            .held = t->box};
    memcpy(p->dim, t->shape.dim, sizeof(t->shape.dim));
}

/* ---- Ranks as peers of one save ---- */
static tess_status agree(void *self, tess_status status)
{
    return tess_team_agree(((rank_save *)self)->team, status);
}

static tess_status agree_on_folder(void *self, TESS_UNUSED const char *folder, tess_status made)
{
    return agree(self, made);
}

/* Merges the texts that follow the first rank's own. Each has `bytes` bytes. */
static tess_status merge_texts(const rank_save *s, const char *texts, size_t bytes, json_t *part)
{
    for (int i = 1; i < tess_agree_world(s->writers); i++) {
        const char *text = texts + (size_t)i * bytes;
        json_t *more;
        TESS_TRY(tess_json_parse(text, strnlen(text, bytes), "what a rank wrote", true, &more));
        tess_status status = tess_part_merge(part, more);
        json_decref(more);
        TESS_TRY(status);
    }
    return TESS_OK;
}

/* Gathers the texts of all ranks on the first rank and merges them. `words`: length of the longest text in 64-bit
 * words. */
static tess_status gather(const rank_save *s, const char *text, size_t words, json_t *part)
{
    TESS_AUTO(tess_mem_drop)
    int64_t *own = NULL; /* the text of this rank; on the first rank the texts of all ranks follow */
    size_t n = s->first ? (size_t)tess_agree_world(s->writers) + 1 : 1;
    tess_status status = tess_team_agree(s->team, TESS_NEW(s->mem, n * words, "parts", &own));
    if (status == TESS_OK) {
        memcpy(own, text, strlen(text));
        status = tess_gather(s->writers, own, s->first ? own + words : NULL, words, TESS_I64, 0, NULL);
    }
    if (status == TESS_OK && s->first)
        status = merge_texts(s, (const char *)(own + words), words * sizeof(own[0]), part);
    return tess_team_agree(s->team, status);
}

static tess_status collect(void *self, tess_status made, json_t *part)
{
    const rank_save *s = self;
    TESS_AUTO(tess_malloc_drop) char *text = NULL;
    if (tess_agree_world(s->team) == 1)
        return made;
    TESS_TRY(tess_team_agree(s->team, made == TESS_OK ? tess_part_format(part, &text) : made));
    int64_t words = text != NULL ? (int64_t)(strlen(text) / sizeof(int64_t)) + 1 : 0;
    TESS_TRY(tess_all_reduce(s->team, &words, &words, 1, TESS_I64, TESS_MAX, NULL));
    return gather(s, text, (size_t)words, part);
}

/* ---- The whole save ---- */
static tess_status run(rank_save *s)
{
    const tess_store_file file = {tess_agree_rank(s->team), s->n, s->pieces, s->options->io};
    const tess_store_peers peers = {s, agree_on_folder, collect, agree};
    tess_store_writer writer = {.mem = s->mem,
                                .dir = s->dir,
                                .step = s->step,
                                .options = s->options,
                                .facts = {s->meta, tess_agree_world(s->team), s->host},
                                .files = &file,
                                .n_files = 1,
                                .first = s->first,
                                .peers = &peers};
    for (int i = 0; i < s->n; i++)
        describe_piece(s, i);
    return tess_store_save(&writer);
}

tess_status tess_ckpt_save(tess_mem *mem, tess_team *team, const char *dir, int64_t step, const json_t *meta,
                           const tess_ckpt_tensor *tensors, int n_tensors, const tess_store_options *options)
{
    static const tess_store_options none = {0};
    rank_save s = {.mem = mem,
                   .scope.mem = mem,
                   .team = team,
                   .writers = team,
                   .first = tess_agree_rank(team) == 0,
                   .dir = dir,
                   .step = step,
                   .meta = meta,
                   .tensors = tensors,
                   .n = n_tensors,
                   .options = options != NULL ? options : &none};
    if (s.options->hosts != NULL && s.options->hosts->n > 1) {
        s.hosts = s.options->hosts;
        s.writers = s.hosts->mine;
        s.first = tess_ckpt_hosts_is_first(s.hosts);
    }
    tess_status status = tess_ckpt_check_save(team, dir, step, tensors, n_tensors);
    if (status == TESS_OK)
        status = tess_team_agree(team, prepare(&s));
    if (status == TESS_OK)
        status = tess_team_agree(team, take_share(&s));
    if (status == TESS_OK)
        status = run(&s);
    json_decref(s.host);
    tess_scope_end(&s.scope);
    return status == TESS_OK ? TESS_OK : tess_fail_context(status, "save checkpoint of step %" PRId64, step);
}
