/* Writes a file of trace events in JSON, for ui.perfetto.dev and chrome://tracing. Events are written one by one.
 * The first failure is kept until tess_trace_events_close reports it. */
#ifndef TESS_TRACE_TRACE_EVENTS_H
#define TESS_TRACE_TRACE_EVENTS_H

#include <stdio.h>

#include "tessera/types.h"

typedef struct tess_trace_events {
    FILE *file;
    const char *path;
    char part[4096]; /* name of the file until it is complete */
    int error;       /* errno of the first failure */
    bool has_events;
    int in_args; /* inside the arguments of an event: 1: none written yet, 2: some; 0: outside */
} tess_trace_events;

tess_status tess_trace_events_open(tess_trace_events *out, const char *path);
/* Moves the file to its final name, or removes it after a failure. */
tess_status tess_trace_events_close(tess_trace_events *out, tess_status status);

/* Begins an event, {"ph":"X","pid":3,"tid":1,"name":"...". Members can be added until tess_trace_events_end. */
void tess_trace_events_begin(tess_trace_events *out, char kind, int pid, uint32_t tid, const char *name);
/* Writes a time in microseconds, exact to the nanosecond. */
void tess_trace_events_time(tess_trace_events *out, const char *key, uint64_t ns);
void tess_trace_events_text(tess_trace_events *out, const char *key, const char *text);
void tess_trace_events_int(tess_trace_events *out, const char *key, int64_t value);
/* Begins the event's arguments: all following members belong to them. */
void tess_trace_events_args(tess_trace_events *out);
void tess_trace_events_end(tess_trace_events *out);

#endif
