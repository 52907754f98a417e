/* Writes trace events to a file as they are made. The stream holds its first failure until stream_close reports it. */
#ifndef TESS_DOCTOR_PERFETTO_PERFETTO_STREAM_IMPL_H
#define TESS_DOCTOR_PERFETTO_PERFETTO_STREAM_IMPL_H

#include <stdio.h>

#include "tessera/types.h"

typedef struct perfetto_stream {
    FILE *file;
    const char *path;
    char part[4096]; /* the file's name until it is complete */
    int error;       /* errno */
    bool has_events;
    int in_args; /* 1: no argument yet, 2: some */
} perfetto_stream;

tess_status stream_open(perfetto_stream *out, const char *path);
/* Moves the file to its place, or removes it after a failure. */
tess_status stream_close(perfetto_stream *out, tess_status status);

/* {"ph":"X","pid":3,"tid":1,"name":"...": begins an event, open for further members; stream_end closes it. */
void stream_begin(perfetto_stream *out, char kind, int pid, uint32_t tid, const char *name);
void stream_time(perfetto_stream *out, const char *key, uint64_t ns); /* as microseconds, to the nanosecond */
void stream_text(perfetto_stream *out, const char *key, const char *text);
void stream_int(perfetto_stream *out, const char *key, int64_t value);
void stream_args(perfetto_stream *out); /* the members that follow are the event's arguments */
void stream_end(perfetto_stream *out);

#endif
