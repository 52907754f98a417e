/* Any line from the ranks of another host: neither a failure nor faults of a drill, or one that says the same when it
 * is written again. */
#include <stdlib.h>
#include <string.h>

#include "job/lives.h"
#include "job/failure.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_faults(const char *text)
{
    char line[TESS_LIVES_LINE_BYTES];
    enum { RANKS = 512 };
    static tess_rank_past past[RANKS], again[RANKS];
    memset(past, 0, sizeof(past));
    memset(again, 0, sizeof(again));
    if (!tess_lives_line_read(text, past, RANKS))
        return;
    for (int r = 0; r < RANKS; r++)
        if (past[r].faults_before != 0 &&
            !tess_lives_line_read(tess_lives_line_write(r, past[r].faults_before, line), again, RANKS))
            abort();
    if (memcmp(past, again, sizeof(past)) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[4096], line[TESS_FAILURE_LINE_BYTES], again[TESS_FAILURE_LINE_BYTES];
    tess_failure failure;
    size = size < sizeof(text) ? size : sizeof(text) - 1;
    memcpy(text, data, size);
    text[size] = '\0';
    read_faults(text);
    if (!tess_failure_line_read(text, &failure))
        return 0;
    tess_failure_line_write(&failure, line);
    if (!tess_failure_line_read(line, &failure) || strcmp(tess_failure_line_write(&failure, again), line) != 0)
        abort();
    return 0;
}
