/* A file of trace events in JSON, for ui.perfetto.dev and chrome://tracing, written as the events are made. It holds
 * its first failure until tess_trace_events_close reports it. */
#ifndef TESS_TRACE_TRACE_EVENTS_H
#define TESS_TRACE_TRACE_EVENTS_H

#include <stdio.h>

#include "tessera/types.h"

typedef struct tess_trace_events {
    FILE *file;
    const char *path;
    char part[4096]; /* the file's name until it is complete */
    int error;       /* errno */
    bool has_events;
    int in_args; /* 1: no argument yet, 2: some */
} tess_trace_events;

tess_status tess_trace_events_open(tess_trace_events *out, const char *path);
/* Moves the file to its place, or removes it after a failure. */
tess_status tess_trace_events_close(tess_trace_events *out, tess_status status);

/* {"ph":"X","pid":3,"tid":1,"name":"...": begins an event, open for further members until tess_trace_events_end. */
void tess_trace_events_begin(tess_trace_events *out, char kind, int pid, uint32_t tid, const char *name);
/* Writes microseconds, exact to the nanosecond. */
void tess_trace_events_time(tess_trace_events *out, const char *key, uint64_t ns);
void tess_trace_events_text(tess_trace_events *out, const char *key, const char *text);
void tess_trace_events_int(tess_trace_events *out, const char *key, int64_t value);
/* The members that follow are the event's arguments. */
void tess_trace_events_args(tess_trace_events *out);
void tess_trace_events_end(tess_trace_events *out);

#endif
