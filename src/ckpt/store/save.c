#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/rng.h"
#include "base/text/json.h"
#include "ckpt/agree.h"
#include "base/os/os.h"
#include "ckpt/safetensors/safetensors.h"
#include "ckpt/store/store_impl.h"

enum { NAME_SIZE = 1024 };

typedef struct save {
    tess_mem *mem;
    tess_team *team;              /* all ranks */
    const tess_ckpt_hosts *hosts; /* each keeps a folder of its own; NULL: one folder for all */
    bool first;                   /* this rank makes and shows the folder */
    const char *dir;
    int64_t step;
    const tess_ckpt_tensor *tensors; /* primary rows: those to write */
    int n;
    tess_ckpt_tensor *own; /* of a host's part: `tensors` with the rows that it gets */
    json_t *part;          /* of a host's part: what its meta file says of it */
    char temporary[TESS_CKPT_PATH], final[TESS_CKPT_PATH];
    tess_st_tensor *described;
    char (*names)[NAME_SIZE];
    int *members; /* tensors of the file being written */
    uint64_t *checksums, *rows;
} save;

static tess_status allocate(save *s)
{
    size_t n = (size_t)s->n;
    tess_mem *mem = s->mem;
#define ARRAY(field) \
    tess_mem_alloc_array(mem, TESS_POOL_MISC, n, sizeof(s->field[0]), "checkpoint tables", (void **)&s->field)
    TESS_TRY(ARRAY(own));
    TESS_TRY(ARRAY(described));
    TESS_TRY(ARRAY(names));
    TESS_TRY(ARRAY(members));
    TESS_TRY(ARRAY(checksums));
    TESS_TRY(ARRAY(rows));
#undef ARRAY
    return TESS_OK;
}

static void release(save *s)
{
    json_decref(s->part);
    tess_mem_free(s->mem, s->own);
    tess_mem_free(s->mem, s->described);
    tess_mem_free(s->mem, s->names);
    tess_mem_free(s->mem, s->members);
    tess_mem_free(s->mem, s->checksums);
    tess_mem_free(s->mem, s->rows);
}

/* Ranks that see different models must not write one file. */
static uint64_t fingerprint(const save *s)
{
    uint64_t hash = (uint64_t)s->step * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < s->n; i++) {
        const tess_ckpt_tensor *t = &s->tensors[i];
        int32_t kind = (int32_t)t->kind;
        hash = tess_hash_bytes(t->name, strlen(t->name) + 1, hash);
        hash = tess_hash_bytes(&kind, sizeof(kind), hash);
        hash = tess_hash_bytes(t->shape.dim, (size_t)t->shape.n_dims * sizeof(t->shape.dim[0]), hash);
    }
    return hash;
}

static tess_status make_temporary(save *s)
{
    TESS_TRY(tess_os_make_dirs(s->dir));
    TESS_TRY(tess_os_remove_tree(s->temporary)); /* of a save that was killed */
    return tess_os_make_dir(s->temporary);
}

static tess_status write_own_rows(save *s, tess_st_writer *writer, int n_members)
{
    for (int i = 0; i < n_members; i++) {
        const tess_ckpt_tensor *t = &s->tensors[s->members[i]];
        TESS_TRY(tess_st_write_rows(writer, i, t->primary_begin, t->primary_rows, tess_ckpt_primary_data(t)));
    }
    return TESS_OK;
}

/* How many bytes all ranks are about to write of the file's members. */
static tess_status count_bytes(const save *s, int n_members, uint64_t *bytes)
{
    int64_t sum = 0;
    for (int i = 0; i < n_members; i++) {
        const tess_ckpt_tensor *t = &s->tensors[s->members[i]];
        sum += t->primary_rows * (int64_t)tess_ckpt_row_bytes(t);
    }
    TESS_TRY(tess_all_reduce(s->team, &sum, &sum, 1, TESS_I64, TESS_SUM, NULL));
    *bytes = (uint64_t)sum;
    return TESS_OK;
}

static tess_status begin_file(save *s, const char *stem, int n_members, tess_st_writer **writer)
{
    tess_st_part part = {.first = s->first};
    if (s->hosts == NULL)
        return tess_st_write_begin(s->mem, s->team, s->temporary, stem, s->described, n_members, SIZE_MAX, writer);
    TESS_TRY(count_bytes(s, n_members, &part.bytes));
    return tess_st_write_begin_part(s->mem, s->team, s->temporary, stem, s->described, n_members, &part, writer);
}

/* One file of the checkpoint: the tensors whose kind goes there. */
static tess_status write_file(save *s, const char *stem)
{
    int n = 0;
    tess_st_writer *writer;
    for (int i = 0; i < s->n; i++) {
        const tess_ckpt_tensor *t = &s->tensors[i];
        if (strcmp(tess_ckpt_stem(t->kind), stem) != 0)
            continue;
        tess_ckpt_tensor_name(t, s->names[n], NAME_SIZE);
        tess_st_entry entry = {.name = s->names[n], .dtype = TESS_F32, .shape = t->shape};
        TESS_TRY(tess_st_describe(&entry, &s->described[n]));
        s->members[n++] = i;
    }
    TESS_TRY(begin_file(s, stem, n, &writer));
    return tess_st_write_finish(&writer, write_own_rows(s, writer, n));
}

static tess_status note_file(const save *s, json_t *files, const char *name)
{
    char path[TESS_CKPT_PATH];
    uint64_t size;
    TESS_TRY(tess_os_join(path, sizeof(path), s->temporary, name));
    TESS_TRY(tess_os_file_size(path, &size));
    json_object_set_new(files, name, json_pack("{s:I}", "bytes", (json_int_t)size));
    return TESS_OK;
}

static json_t *checksum_table(const save *s)
{
    json_t *table = json_object();
    for (int i = 0; i < s->n; i++) {
        char name[NAME_SIZE], text[20];
        tess_ckpt_tensor_name(&s->tensors[i], name, sizeof(name));
        snprintf(text, sizeof(text), "%016" PRIx64, s->checksums[i]);
        json_object_set_new(table, name, json_string(text));
    }
    return table;
}

static tess_status write_meta(const save *s, const json_t *user)
{
    char path[TESS_CKPT_PATH];
    json_t *files = json_object();
    tess_status status = note_file(s, files, "model.safetensors");
    if (status == TESS_OK)
        status = note_file(s, files, "optimizer.safetensors");
    int format = s->part != NULL ? TESS_CKPT_FORMAT : TESS_CKPT_FORMAT_WHOLE;
    json_t *meta = json_pack("{s:i, s:I, s:i, s:o, s:s, s:o, s:O*, s:O?}", "format", format, "step",
                             (json_int_t)s->step, "world_size", tess_ckpt_world(s->team), "files", files, "checksum",
                             "sum over rows of XXH3-64(row, seed = row number)", "tensors", checksum_table(s), "part",
                             s->part, "user", (json_t *)user);
    char *text = meta == NULL ? NULL : json_dumps(meta, JSON_INDENT(1));
    if (status == TESS_OK && text == NULL)
        status = TESS_FAIL(TESS_E_NOMEM, "%s: meta.json", s->temporary);
    if (status == TESS_OK)
        status = tess_os_join(path, sizeof(path), s->temporary, "meta.json");
    if (status == TESS_OK)
        status = tess_os_write_atomic(path, text, strlen(text));
    free(text);
    json_decref(meta);
    return status;
}

/* The moment at which the checkpoint begins to exist. An older one of the same step changes places with it. */
static tess_status show(const save *s)
{
    char parent[TESS_CKPT_PATH];
    if (tess_os_is_dir(s->final)) {
        TESS_TRY(tess_os_exchange(s->temporary, s->final));
        tess_os_remove_tree(s->temporary); /* what stays of it is not a checkpoint, and the next prune removes it */
    } else {
        TESS_TRY(tess_os_rename(s->temporary, s->final));
    }
    TESS_TRY(tess_os_fsync_dir(s->dir));
    TESS_TRY(tess_os_join(parent, sizeof(parent), s->dir, ".."));
    return tess_os_fsync_dir(parent);
}

static tess_status sum_checksums(save *s)
{
    tess_ckpt_local_checksums(s->tensors, s->n, s->checksums, s->rows);
    return tess_ckpt_sum(s->mem, s->hosts != NULL ? s->hosts->mine : s->team, s->checksums, s->n);
}

/* No folder is shown before all are whole. */
static tess_status run(save *s, const json_t *meta)
{
    TESS_TRY(tess_ckpt_agree(s->team, s->first ? make_temporary(s) : TESS_OK));
    TESS_TRY(write_file(s, "model"));
    TESS_TRY(write_file(s, "optimizer"));
    TESS_TRY(sum_checksums(s));
    TESS_TRY(tess_ckpt_agree(s->team, s->first ? write_meta(s, meta) : TESS_OK));
    return tess_ckpt_agree(s->team, s->first ? show(s) : TESS_OK);
}

static tess_status prepare(save *s)
{
    TESS_TRY(tess_ckpt_check_tensors(s->tensors, s->n));
    TESS_TRY(tess_ckpt_folder(s->dir, s->step, TESS_CKPT_TEMPORARY, s->temporary));
    TESS_TRY(tess_ckpt_folder(s->dir, s->step, "", s->final));
    return allocate(s);
}

/* The host's share of the rows takes the place of the job's. */
static tess_status take_share(save *s)
{
    if (s->hosts == NULL)
        return TESS_OK;
    TESS_TRY(tess_ckpt_share(s->mem, s->hosts, s->tensors, s->n, s->own, &s->part));
    s->tensors = s->own;
    return TESS_OK;
}

static tess_status save_all(save *s, const json_t *meta)
{
    tess_status status = tess_ckpt_agree(s->team, prepare(s));
    if (status == TESS_OK)
        status = tess_ckpt_agree_same(s->team, fingerprint(s), "names, kinds or shapes");
    if (status == TESS_OK)
        status = tess_ckpt_agree(s->team, take_share(s));
    if (status == TESS_OK) {
        status = run(s, meta);
        if (status != TESS_OK && s->first)
            tess_os_remove_tree(s->temporary);
    }
    release(s);
    return status == TESS_OK ? TESS_OK : tess_fail_context(status, "save checkpoint of step %" PRId64, s->step);
}

tess_status tess_ckpt_save(tess_mem *mem, tess_team *team, const char *dir, int64_t step, const json_t *meta,
                           const tess_ckpt_tensor *tensors, int n_tensors)
{
    save s = {.mem = mem, .team = team, .dir = dir, .step = step, .tensors = tensors, .n = n_tensors};
    s.first = tess_ckpt_rank(team) == 0;
    return save_all(&s, meta);
}

tess_status tess_ckpt_save_local(tess_mem *mem, const tess_ckpt_hosts *hosts, const char *dir, int64_t step,
                                 const json_t *meta, const tess_ckpt_tensor *tensors, int n_tensors)
{
    if (hosts->n == 1)
        return tess_ckpt_save(mem, hosts->all, dir, step, meta, tensors, n_tensors);
    save s = {.mem = mem, .hosts = hosts, .dir = dir, .step = step, .tensors = tensors, .n = n_tensors};
    s.team = hosts->all;
    s.first = tess_ckpt_hosts_is_first(hosts);
    return save_all(&s, meta);
}
