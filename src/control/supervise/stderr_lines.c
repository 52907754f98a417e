#include "control/supervise/stderr_lines.h"

#include <stddef.h>
#include <stdio.h>

#include "tessera/export.h"

static void write_line(TESS_UNUSED void *self, const char *text)
{
    fprintf(stderr, "tessera: %s\n", text);
}

static void write_plain_line(TESS_UNUSED void *self, const char *text)
{
    fprintf(stderr, "%s\n", text);
}

const tess_reporter tess_stderr_lines = {write_line, NULL}, tess_stderr_plain_lines = {write_plain_line, NULL};
