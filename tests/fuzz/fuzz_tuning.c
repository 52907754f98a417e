/* A tuning table: what is taken is complete, and can be written. */
#include "comm/hosts/choice.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tess_mem *mem;
    tess_tuning *tuning;
    if (tess_mem_create(&mem) != TESS_OK)
        return 0;
    if (tess_tuning_parse(mem, (const char *)data, size, "fuzz.json", &tuning) == TESS_OK) {
        for (int kind = 0; kind < TESS_TRACE_OP_COUNT; kind++) {
            tess_hosts_choice choice = tess_hosts_choose(tuning, kind, size * size);
            if (choice.way < 0 || choice.way >= HOSTS_WAYS || choice.round_bytes < HOSTS_LEAST_ROUND_BYTES ||
                choice.round_bytes > HOSTS_MOST_ROUND_BYTES)
                __builtin_trap();
        }
        if (tess_tuning_write(tuning, NULL, 0, "/dev/null/none") == TESS_E_INVALID)
            __builtin_trap(); /* incomplete */
        tess_tuning_free(&tuning);
    }
    if (tess_mem_destroy(&mem) != 0)
        __builtin_trap(); /* a leak */
    return 0;
}
