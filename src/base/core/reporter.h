/* A callback for lines that people should read. Library code, which prints nothing itself, reports through it. */
#ifndef TESS_BASE_CORE_REPORTER_H
#define TESS_BASE_CORE_REPORTER_H

/* Receives a line for people, without a line end. */
typedef struct tess_reporter {
    void (*line)(void *self, const char *text); /* NULL: lines are dropped */
    void *self;
} tess_reporter;

/* Formats a line and reports it. Does nothing if the reporter drops lines. A line of more than 20 KiB is cut. */
void tess_report_line(const tess_reporter *reporter, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
