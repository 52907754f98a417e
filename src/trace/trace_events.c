#include "trace/trace_events.h"

#include <errno.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/text.h"

tess_status tess_trace_events_open(tess_trace_events *out, const char *path)
{
    *out = (tess_trace_events){.path = path};
    int n = snprintf(out->part, sizeof(out->part), "%s.part", path);
    TESS_CHECK(n > 0 && (size_t)n < sizeof(out->part), TESS_E_INVALID, "%s: the path is too long", path);
    out->file = fopen(out->part, "wb");
    if (out->file == NULL)
        return tess_os_error("create", out->part);
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", out->file);
    return TESS_OK;
}

static void note_error(tess_trace_events *out)
{
    if (ferror(out->file) && out->error == 0)
        out->error = errno != 0 ? errno : EIO;
}

tess_status tess_trace_events_close(tess_trace_events *out, tess_status status)
{
    fputs("\n]}\n", out->file);
    note_error(out);
    if (fclose(out->file) != 0 && out->error == 0)
        out->error = errno;
    out->file = NULL;
    if (status == TESS_OK && out->error != 0) {
        errno = out->error;
        status = tess_os_error("write", out->path);
    }
    if (status == TESS_OK)
        status = tess_os_rename(out->part, out->path);
    if (status != TESS_OK)
        tess_os_remove(out->part);
    return status;
}

/* Writes a JSON string. Bytes that are not UTF-8 become U+FFFD. */
static void put_text(tess_trace_events *out, const char *text)
{
    size_t n = strlen(text);
    putc('"', out->file);
    for (size_t i = 0; i < n;) {
        uint32_t code_point;
        int bytes = tess_utf8_decode((const uint8_t *)text + i, n - i, &code_point);
        if (bytes == 0)
            fputs("\\ufffd", out->file);
        else if (code_point < ' ' || text[i] == '"' || text[i] == '\\')
            fprintf(out->file, "\\u%04x", code_point);
        else
            fwrite(text + i, 1, (size_t)bytes, out->file);
        i += bytes == 0 ? 1 : (size_t)bytes;
    }
    putc('"', out->file);
}

void tess_trace_events_begin(tess_trace_events *out, char kind, int pid, uint32_t tid, const char *name)
{
    fprintf(out->file, "%s\n{\"ph\":\"%c\",\"pid\":%d,\"tid\":%u,\"name\":", out->has_events ? "," : "", kind, pid,
            tid);
    put_text(out, name);
    out->has_events = true;
}

/* Writes the key, with a comma before it unless it is the first argument. */
static void put_key(tess_trace_events *out, const char *key)
{
    fprintf(out->file, "%s\"%s\":", out->in_args == 1 ? "" : ",", key);
    out->in_args += out->in_args == 1;
}

void tess_trace_events_time(tess_trace_events *out, const char *key, uint64_t ns)
{
    put_key(out, key);
    fprintf(out->file, "%llu.%03llu", (unsigned long long)(ns / 1000), (unsigned long long)(ns % 1000));
}

void tess_trace_events_text(tess_trace_events *out, const char *key, const char *text)
{
    put_key(out, key);
    put_text(out, text);
}

void tess_trace_events_int(tess_trace_events *out, const char *key, int64_t value)
{
    put_key(out, key);
    fprintf(out->file, "%lld", (long long)value);
}

void tess_trace_events_args(tess_trace_events *out)
{
    fputs(",\"args\":{", out->file);
    out->in_args = 1;
}

void tess_trace_events_end(tess_trace_events *out)
{
    fputs(out->in_args > 0 ? "}}" : "}", out->file);
    out->in_args = 0;
    note_error(out);
}
