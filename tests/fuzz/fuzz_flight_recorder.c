/* Dumps of PyTorch's flight recorder, pickle and JSON: one rank's, next to a good one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor/flight_recorder/flight_recorder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char good[] =
    "{\"version\":\"2.10\",\"pg_config\":{\"0\":{\"name\":\"0\",\"desc\":\"default_pg\",\"ranks\":\"[0, 1]\"}},"
    "\"entries\":[{\"process_group\":[\"0\",\"default_pg\"],\"collective_seq_id\":1,\"profiling_name\":\"nccl:"
    "barrier\","
    "\"time_created_ns\":5,\"state\":\"scheduled\"}]}";

static tess_mem *mem;
static char folder[512];

static void put(const char *name, const void *data, size_t size)
{
    char path[600];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, size, file) != size)
        abort();
    fclose(file);
}

static void finish(void)
{
    char path[600];
    snprintf(path, sizeof(path), "%s/rank_0", folder);
    unlink(path);
    snprintf(path, sizeof(path), "%s/rank_1", folder);
    unlink(path);
    rmdir(folder);
}

static void start(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof(folder), "%s/fuzz-recorder-XXXXXX", base != NULL ? base : P_tmpdir);
    if (mkdtemp(folder) == NULL || tess_mem_create(&mem) != TESS_OK)
        abort();
    put("rank_1", good, strlen(good));
    atexit(finish);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (mem == NULL)
        start();
    put("rank_0", data, size);
    tess_history *history;
    if (tess_flight_recorder_read(mem, folder, &history) != TESS_OK)
        abort(); /* one good dump is always enough */
    tess_history_destroy(&history);
    if (tess_mem_stats(mem, TESS_POOL_MISC).n_blocks != 0)
        abort();
    return 0;
}
