/* A folder with vocab.json and merges.txt: input is those two and tokenizer_config.json, with zero bytes between. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"vocab.json", "merges.txt", "tokenizer_config.json"};
static tess_mem *mem;
static char folder[512];

static const char *path_of(int i)
{
    static char path[600];
    snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
    return path;
}

static void finish(void)
{
    for (int i = 0; i < 3; i++)
        unlink(path_of(i));
    rmdir(folder);
}

static void start(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof(folder), "%s/fuzz-vocab-XXXXXX", base != NULL ? base : P_tmpdir);
    if (mkdtemp(folder) == NULL || tess_mem_create(&mem) != TESS_OK)
        abort();
    atexit(finish);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tess_tokenizer *tokenizer;
    if (mem == NULL)
        start();
    for (int i = 0; i < 3; i++) {
        const uint8_t *zero = size > 0 ? memchr(data, 0, size) : NULL;
        size_t n = zero != NULL ? (size_t)(zero - data) : size;
        FILE *file = fopen(path_of(i), "wb");
        if (file == NULL || (n > 0 && fwrite(data, 1, n, file) != n))
            abort();
        fclose(file);
        data = zero != NULL ? zero + 1 : data + n;
        size -= zero != NULL ? n + 1 : n;
    }
    if (tess_tokenizer_load(mem, folder, &tokenizer) == TESS_OK)
        tess_tokenizer_destroy(&tokenizer);
    if (tess_mem_stats(mem, TESS_POOL_MISC).n_blocks != 0)
        abort();
    return 0;
}
