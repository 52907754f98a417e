#include "trace/error_file.h"

#include <stdio.h>
#include <string.h>

#include "base/text/json.h"

static const size_t most_bytes = 4 << 20;

/* ---- Writing ---- */
static json_t *number_or_null(int64_t number, bool known)
{
    return known ? json_integer(number) : json_null();
}

static json_t *json_of_messages(const tess_error_file *file)
{
    json_t *messages = json_array();
    for (int i = 0; i < file->n_messages; i++)
        json_array_append_new(messages, json_pack("{s:i, s:o}", "rank", file->messages[i].rank, "message",
                                                  tess_json_text(file->messages[i].text)));
    return messages;
}

/* The part that torchrun reads. It has no "py_callstack", because torchrun would show that in place of the message. */
static json_t *json_for_torchrun(const tess_error_file *file)
{
    char seconds[24];
    snprintf(seconds, sizeof(seconds), "%llu", (unsigned long long)(file->time_ns / 1000000000));
    return json_pack("{s:o, s:{s:s}}", "message", tess_json_text(file->cause), "extraInfo", "timestamp", seconds);
}

static json_t *json_of_file(const tess_error_file *f)
{
    json_t *json = json_pack("{s:o, s:i, s:s, s:I, s:o, s:o, s:i, s:o}", "message", json_for_torchrun(f), "format",
                             TESS_ERROR_FILE_VERSION, "version", f->version, "time_ns", (json_int_t)f->time_ns, "job",
                             tess_json_text(f->folder), "command", tess_json_text(f->command), "attempt", f->attempt,
                             "world", number_or_null(f->world, f->world > 0));
    json_t *end = json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:o, s:o, s:o, s:o}", "kind", f->kind, "cause",
                            tess_json_text(f->cause), "advice", tess_json_text(f->advice), "rank",
                            number_or_null(f->rank, f->rank >= 0), "host", tess_json_text(f->host), "pid",
                            number_or_null(f->pid, f->pid > 0), "signal", number_or_null(f->signal, f->signal != 0),
                            "exit_code", f->exit_code, "step", number_or_null(f->step, f->step >= 0), "steps_done",
                            number_or_null(f->steps_done, f->steps_done >= 0), "phase", tess_json_text(f->phase),
                            "messages", json_of_messages(f));
    if (json == NULL || end == NULL || json_object_update(json, end) != 0) {
        json_decref(json);
        json = NULL;
    }
    json_decref(end);
    if (json == NULL)
        return NULL;
    tess_json_put_int(json, "job_exit_code", f->job_code);
    json_object_set_new(json, "output_file", tess_json_text(f->output_file));
    json_object_set_new(json, "output", tess_json_text(f->output));
    return json;
}

tess_status tess_error_file_write(const tess_error_file *file, const char *path)
{
    return tess_json_write(json_of_file(file), JSON_INDENT(1) | JSON_PRESERVE_ORDER, path);
}

/* ---- Reading ---- */
/* Reads torchelastic's part: a text, or an object with a text. */
static tess_status read_message(const json_t *json, const char *what, tess_error_file *f)
{
    const json_t *message = json_object_get(json, "message");
    if (json_is_string(message))
        return tess_json_copy_string(json, "message", what, f->cause, sizeof(f->cause));
    TESS_CHECK(json_is_object(message), TESS_E_FORMAT, "%s: there is no 'message'", what);
    return tess_json_copy_string(message, "message", what, f->cause, sizeof(f->cause));
}

static tess_status read_messages(const json_t *json, const char *what, tess_error_file *f)
{
    const json_t *messages = json_object_get(json, "messages");
    for (size_t i = 0; i < json_array_size(messages) && f->n_messages < TESS_ERROR_MESSAGES; i++) {
        const json_t *entry = json_array_get(messages, i);
        tess_error_of_rank *message = &f->messages[f->n_messages++];
        TESS_CHECK(json_is_object(entry), TESS_E_FORMAT, "%s: an entry of 'messages' is not an object", what);
        message->rank = -1;
        TESS_TRY(tess_json_get_small_int(entry, "rank", what, &message->rank));
        TESS_TRY(tess_json_copy_string(entry, "message", what, message->text, sizeof(message->text)));
    }
    return TESS_OK;
}

static tess_status read_end(const json_t *json, const char *what, tess_error_file *f)
{
    TESS_TRY(tess_json_copy_string(json, "kind", what, f->kind, sizeof(f->kind)));
    TESS_TRY(tess_json_copy_string(json, "cause", what, f->cause, sizeof(f->cause)));
    TESS_TRY(tess_json_copy_string(json, "advice", what, f->advice, sizeof(f->advice)));
    TESS_TRY(tess_json_get_small_int(json, "rank", what, &f->rank));
    TESS_TRY(tess_json_copy_string(json, "host", what, f->host, sizeof(f->host)));
    TESS_TRY(tess_json_get_small_int(json, "pid", what, &f->pid));
    TESS_TRY(tess_json_get_small_int(json, "signal", what, &f->signal));
    TESS_TRY(tess_json_get_small_int(json, "exit_code", what, &f->exit_code));
    TESS_TRY(tess_json_get_small_int(json, "job_exit_code", what, &f->job_code));
    TESS_TRY(tess_json_get_int(json, "step", what, &f->step));
    TESS_TRY(tess_json_get_int(json, "steps_done", what, &f->steps_done));
    TESS_TRY(tess_json_copy_string(json, "phase", what, f->phase, sizeof(f->phase)));
    TESS_TRY(tess_json_copy_string(json, "output_file", what, f->output_file, sizeof(f->output_file)));
    return tess_json_copy_string(json, "output", what, f->output, sizeof(f->output));
}

static tess_status read_all(const json_t *json, const char *what, tess_error_file *f)
{
    int64_t time_ns = 0;
    *f = (tess_error_file){.rank = -1, .step = -1, .steps_done = -1};
    TESS_CHECK(json_is_object(json), TESS_E_FORMAT, "%s: it is not an object", what);
    TESS_TRY(read_message(json, what, f));
    if (!tess_json_has(json, "format"))
        return TESS_OK;
    TESS_TRY(tess_json_copy_string(json, "version", what, f->version, sizeof(f->version)));
    TESS_TRY(tess_json_get_int(json, "time_ns", what, &time_ns));
    f->time_ns = time_ns > 0 ? (uint64_t)time_ns : 0;
    TESS_TRY(tess_json_copy_string(json, "job", what, f->folder, sizeof(f->folder)));
    TESS_TRY(tess_json_copy_string(json, "command", what, f->command, sizeof(f->command)));
    TESS_TRY(tess_json_get_small_int(json, "attempt", what, &f->attempt));
    TESS_TRY(tess_json_get_small_int(json, "world", what, &f->world));
    TESS_TRY(read_end(json, what, f));
    return read_messages(json, what, f);
}

tess_status tess_error_file_parse(const char *text, size_t size, const char *what, tess_error_file *file)
{
    json_t *json;
    TESS_TRY(tess_json_parse(text, size, what, false, &json));
    tess_status status = read_all(json, what, file);
    json_decref(json);
    return status;
}

tess_status tess_error_file_read(const char *path, tess_error_file *file)
{
    json_t *json;
    TESS_TRY(tess_json_load(path, most_bytes, &json));
    tess_status status = read_all(json, path, file);
    json_decref(json);
    return status;
}
