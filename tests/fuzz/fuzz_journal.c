/* The journal of rollouts, and the samples in it. */
#include <stdlib.h>
#include <string.h>

#include "rl/rl_journal.h"

static tess_status take(void *self, int64_t round, const void *bytes, size_t size)
{
    rl_sample sample = {.finish = RL_UNFINISHED};
    size_t used;
    (void)round;
    if (rl_sample_read(self, bytes, size, &sample, &used) == TESS_OK && used > size)
        abort();
    rl_sample_free(self, &sample);
    return TESS_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tess_mem *mem;
    tess_status status;
    const rl_origin origin = {1, 2, 0};
    rl_sample sample = {.finish = RL_UNFINISHED};
    size_t used;
    if (tess_mem_create(&mem) != TESS_OK)
        abort();
    rl_journal_parse(data, size, &origin, take, mem, &status);
    if (size >= 8 + sizeof(rl_origin)) { /* any origin, as a reader for people takes it from the file */
        rl_origin own;
        memcpy(&own, data + 8, sizeof(own));
        rl_journal_parse(data, size, &own, take, mem, &status);
    }
    if (rl_sample_read(mem, data, size, &sample, &used) == TESS_OK && used > size)
        abort();
    rl_sample_free(mem, &sample);
    tess_mem_destroy(&mem);
    return 0;
}
