#include "trace/job_file.h"

#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"

static const size_t most_bytes = 256u << 20;

tess_status tess_job_file_create(tess_mem *mem, int world, tess_job_file *file)
{
    *file = (tess_job_file){.world = world};
    TESS_CHECK(world >= 1 && world <= TESS_JOB_FILE_MAX_RANKS, TESS_E_INVALID,
               "a job of %d ranks: 1 to %d are possible", world, TESS_JOB_FILE_MAX_RANKS);
    TESS_TRY(TESS_NEW(mem, world, "job.json", &file->ranks));
    for (int r = 0; r < world; r++)
        file->ranks[r] = (tess_job_file_rank){.blames = -1};
    tess_status status = TESS_NEW(mem, TESS_NOTICES, "job.json", &file->notices);
    if (status != TESS_OK)
        tess_job_file_free(mem, file);
    return status;
}

void tess_job_file_free(tess_mem *mem, tess_job_file *file)
{
    tess_mem_free(mem, file->ranks);
    tess_mem_free(mem, file->notices);
    *file = (tess_job_file){0};
}

/* ---- Writing ---- */
static json_t *json_of_rank(const tess_job_file_rank *rank, int number)
{
    return json_pack("{s:i, s:i, s:s, s:b, s:b, s:i, s:i, s:I, s:i, s:s, s:o, s:o}", "rank", number, "pid", rank->pid,
                     "host", rank->host, "ended", rank->ended, "asked", rank->asked, "signal", rank->signal,
                     "exit_code", rank->exit_code, "ended_ns", (json_int_t)rank->ended_ns, "blames", rank->blames,
                     "situation", rank->situation, "why", tess_json_text(rank->why), "error",
                     tess_json_text(rank->error));
}

static json_t *json_of_notice(const tess_notice *notice)
{
    return json_pack("{s:I, s:s, s:i, s:I, s:o}", "wall_ns", (json_int_t)notice->wall_ns, "kind",
                     tess_notice_name(notice->kind), "rank", (int)notice->rank, "step", (json_int_t)notice->step,
                     "text", tess_json_text(notice->text));
}

/* Writes "ranks" as the last member: if a file is truncated, all members after the cut are lost. */
static json_t *json_of_job(const tess_job_file *file)
{
    json_t *ranks = json_array(), *notices = json_array();
    for (int i = 0; i < file->n_notices; i++)
        json_array_append_new(notices, json_of_notice(&file->notices[i]));
    for (int r = 0; r < file->world; r++)
        json_array_append_new(ranks, json_of_rank(&file->ranks[r], r));
    return json_pack("{s:i, s:i, s:I, s:I, s:i, s:o, s:o, s:I, s:o, s:o}", "version", TESS_JOB_FILE_VERSION, "world",
                     file->world, "begin_ns", (json_int_t)file->begin_ns, "end_ns", (json_int_t)file->end_ns,
                     "exit_code", file->exit_code, "command", tess_json_text(file->command), "verdict",
                     tess_json_text(file->diagnosis), "n_told", (json_int_t)file->n_reported, "notices", notices,
                     "ranks", ranks);
}

tess_status tess_job_file_write(const tess_job_file *file, const char *path)
{
    return tess_json_write(json_of_job(file), JSON_INDENT(1) | JSON_PRESERVE_ORDER, path);
}

/* ---- Reading ---- */
static tess_status get_time(const json_t *object, const char *key, const char *what, uint64_t *value)
{
    int64_t number = 0;
    TESS_TRY(tess_json_get_int(object, key, what, &number));
    TESS_CHECK(number >= 0, TESS_E_FORMAT, "%s: '%s' is %lld", what, key, (long long)number);
    *value = (uint64_t)number;
    return TESS_OK;
}

static tess_status read_rank(const json_t *json, const char *what, tess_job_file *file)
{
    int number = -1;
    TESS_CHECK(json_is_object(json), TESS_E_FORMAT, "%s: an entry of 'ranks' is not an object", what);
    TESS_TRY(tess_json_get_small_int(json, "rank", what, &number));
    TESS_CHECK(number >= 0 && number < file->world, TESS_E_FORMAT, "%s: 'rank' is %d in a job of %d", what, number,
               file->world);
    tess_job_file_rank *rank = &file->ranks[number];
    TESS_TRY(tess_json_get_small_int(json, "pid", what, &rank->pid));
    TESS_TRY(tess_json_get_bool(json, "ended", what, &rank->ended));
    TESS_TRY(tess_json_get_bool(json, "asked", what, &rank->asked));
    TESS_TRY(tess_json_get_small_int(json, "signal", what, &rank->signal));
    TESS_TRY(tess_json_get_small_int(json, "exit_code", what, &rank->exit_code));
    TESS_TRY(tess_json_get_small_int(json, "blames", what, &rank->blames));
    TESS_CHECK(rank->blames >= -1 && rank->blames < file->world, TESS_E_FORMAT, "%s: 'blames' is %d in a job of %d",
               what, rank->blames, file->world);
    TESS_TRY(get_time(json, "ended_ns", what, &rank->ended_ns));
    TESS_TRY(tess_json_copy_string(json, "host", what, rank->host, sizeof(rank->host)));
    TESS_TRY(tess_json_copy_string(json, "situation", what, rank->situation, sizeof(rank->situation)));
    TESS_TRY(tess_json_copy_string(json, "why", what, rank->why, sizeof(rank->why)));
    return tess_json_copy_string(json, "error", what, rank->error, sizeof(rank->error));
}

static tess_status read_notice(const json_t *json, const char *what, tess_job_file *file)
{
    char kind[32] = "";
    int rank = -1;
    tess_notice *notice = &file->notices[file->n_notices];
    TESS_CHECK(json_is_object(json), TESS_E_FORMAT, "%s: an entry of 'notices' is not an object", what);
    *notice = (tess_notice){.step = -1};
    TESS_TRY(get_time(json, "wall_ns", what, &notice->wall_ns));
    TESS_TRY(tess_json_copy_string(json, "kind", what, kind, sizeof(kind)));
    TESS_TRY(tess_json_get_small_int(json, "rank", what, &rank));
    TESS_CHECK(rank >= -1, TESS_E_FORMAT, "%s: a notice is about rank %d", what, rank);
    TESS_TRY(tess_json_get_int(json, "step", what, &notice->step));
    TESS_TRY(tess_json_copy_string(json, "text", what, notice->text, sizeof(notice->text)));
    notice->rank = rank;
    notice->kind = tess_notice_kind_of(kind);
    file->n_notices++;
    return TESS_OK;
}

static tess_status read_notices(const json_t *json, const char *what, tess_job_file *file)
{
    size_t i;
    json_t *entry, *notices = json_object_get(json, "notices");
    TESS_TRY(get_time(json, "n_told", what, &file->n_reported));
    TESS_CHECK(notices == NULL || json_is_array(notices), TESS_E_FORMAT, "%s: 'notices' is not a list", what);
    TESS_CHECK(json_array_size(notices) <= TESS_NOTICES, TESS_E_FORMAT, "%s: %zu notices, at most %d are kept", what,
               json_array_size(notices), TESS_NOTICES);
    json_array_foreach (notices, i, entry)
        TESS_TRY(read_notice(entry, what, file));
    return TESS_OK;
}

static tess_status read_job(const json_t *json, const char *what, tess_job_file *file)
{
    size_t i;
    json_t *entry, *ranks = json_object_get(json, "ranks");
    TESS_TRY(get_time(json, "begin_ns", what, &file->begin_ns));
    TESS_TRY(get_time(json, "end_ns", what, &file->end_ns));
    TESS_TRY(tess_json_get_small_int(json, "exit_code", what, &file->exit_code));
    TESS_TRY(tess_json_copy_string(json, "command", what, file->command, sizeof(file->command)));
    TESS_TRY(tess_json_copy_string(json, "verdict", what, file->diagnosis, sizeof(file->diagnosis)));
    TESS_TRY(read_notices(json, what, file));
    TESS_CHECK(ranks == NULL || json_is_array(ranks), TESS_E_FORMAT, "%s: 'ranks' is not a list", what);
    json_array_foreach (ranks, i, entry)
        TESS_TRY(read_rank(entry, what, file));
    return TESS_OK;
}

static tess_status read_json(tess_mem *mem, const json_t *json, const char *what, tess_job_file *file)
{
    int version = 0, world = 0;
    TESS_CHECK(json_is_object(json), TESS_E_FORMAT, "%s: not a JSON object", what);
    TESS_TRY(tess_json_get_small_int(json, "version", what, &version));
    TESS_CHECK(version == TESS_JOB_FILE_VERSION, TESS_E_FORMAT, "%s: version %d; this program reads version %d", what,
               version, TESS_JOB_FILE_VERSION);
    TESS_TRY(tess_json_get_small_int(json, "world", what, &world));
    TESS_CHECK(world >= 1 && world <= TESS_JOB_FILE_MAX_RANKS, TESS_E_FORMAT, "%s: 'world' is %d", what, world);
    TESS_TRY(tess_job_file_create(mem, world, file));
    tess_status status = read_job(json, what, file);
    if (status != TESS_OK)
        tess_job_file_free(mem, file);
    return status;
}

tess_status tess_job_file_parse(tess_mem *mem, const char *text, size_t size, const char *what, tess_job_file *file)
{
    json_auto_t *json = NULL;
    *file = (tess_job_file){0};
    TESS_TRY(tess_json_parse(text, size, what, false, &json));
    return read_json(mem, json, what, file);
}

tess_status tess_job_file_read(tess_mem *mem, const char *path, tess_job_file *file)
{
    json_auto_t *json = NULL;
    *file = (tess_job_file){0};
    TESS_TRY(tess_json_load(path, most_bytes, &json));
    return read_json(mem, json, path, file);
}

/* Parses a truncated file. Cuts the text after each '}' in turn, beginning with the last one. "ranks" is the last
 * member, so text that ends after a complete rank can be closed to a complete job. A later '}' may be part of a text
 * in the truncated rank. */
static tess_status parse_cut(tess_mem *mem, char *text, size_t size, const char *path, tess_job_file *file)
{
    enum { MOST_TRIES = 16 };
    tess_status status = TESS_FAIL(TESS_E_FORMAT, "%s: no complete rank in it", path);
    int n_tries = 0;
    for (size_t i = size; i-- > 0 && n_tries < MOST_TRIES && status == TESS_E_FORMAT;) {
        if (text[i] != '}')
            continue;
        memcpy(text + i + 1, "]}", 2);
        status = tess_job_file_parse(mem, text, i + 3, path, file);
        n_tries++;
    }
    return status;
}

tess_status tess_job_file_read_cut(tess_mem *mem, const char *path, tess_job_file *file)
{
    TESS_AUTO(tess_os_unmap) tess_mapping map = {0};
    TESS_AUTO(tess_mem_drop) void *text = NULL;
    *file = (tess_job_file){0};
    TESS_TRY(tess_os_map(path, &map));
    size_t size = map.size < most_bytes ? map.size : most_bytes;
    TESS_TRY(tess_mem_alloc(mem, TESS_POOL_MISC, size + 2, "job.json", &text));
    memcpy(text, map.data, size);
    return parse_cut(mem, text, size, path, file);
}
