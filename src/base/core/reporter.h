/* A place for lines to people from code that prints nothing. */
#ifndef TESS_BASE_CORE_REPORTER_H
#define TESS_BASE_CORE_REPORTER_H

/* Gets a line for people. */
typedef struct tess_reporter {
    void (*line)(void *self, const char *text);
    void *self;
} tess_reporter;

#endif
