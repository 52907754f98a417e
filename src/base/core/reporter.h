/* A callback for lines that people should read. Library code, which prints nothing itself, reports through it. */
#ifndef TESS_BASE_CORE_REPORTER_H
#define TESS_BASE_CORE_REPORTER_H

/* Gets a line for people, without its end. */
typedef struct tess_reporter {
    void (*line)(void *self, const char *text); /* NULL: nobody listens */
    void *self;
} tess_reporter;

/* Formats a line and reports it. Nothing happens when nobody listens. A line of more than 20 KiB is cut. */
void tess_report_line(const tess_reporter *reporter, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
