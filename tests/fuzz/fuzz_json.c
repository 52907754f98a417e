/* JSON through the reader, jsonl through the loader: both from outside. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text/json.h"
#include "data/loader/loader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char tokenizer_json[] = "{\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},\"model\":{\"type\":\"BPE\","
                                     "\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"a\":1,"
                                     "\"b\":2,\"ab\":3},\"merges\":[\"a b\"]}}";

static tess_mem *mem;
static tess_tokenizer *tokenizer;
static char path[512];

static void finish(void)
{
    unlink(path);
}

static void start(void)
{
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof(path), "%s/fuzz-json-XXXXXX.jsonl", folder != NULL ? folder : P_tmpdir);
    int fd = mkstemps(path, 6);
    if (fd < 0 || tess_mem_create(&mem) != TESS_OK ||
        tess_tokenizer_parse(mem, tokenizer_json, strlen(tokenizer_json), "fuzz", &tokenizer) != TESS_OK)
        abort();
    close(fd);
    atexit(finish);
}

static void load(const uint8_t *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, size, file) != size)
        abort();
    fclose(file);
    const char *files[] = {path};
    tess_loader_options options = {.files = files,
                                   .n_files = 1,
                                   .seq_len = 5,
                                   .micro_batch = 2,
                                   .end = 1,
                                   .shuffle = size % 2 == 0,
                                   .repeat = size % 4 < 2,
                                   .bos = {.n = size % 3 == 0},
                                   .eos_id = -1};
    tess_loader *loader;
    if (tess_loader_create(mem, tokenizer, &options, &loader) != TESS_OK)
        return;
    tess_micro_batch batch;
    bool end = false;
    for (int i = 0; i < 5 && !end; i++) {
        if (tess_loader_next(loader, i % 2, &batch, &end) != TESS_OK)
            break;
    }
    tess_loader_destroy(&loader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (tokenizer == NULL)
        start();
    json_t *json;
    if (tess_json_parse((const char *)data, size, "input", true, &json) == TESS_OK) {
        int64_t integer = 0;
        double number = 0;
        bool flag = false;
        const char *text = NULL;
        if (tess_json_get_int(json, "a", "input", &integer) != TESS_OK ||
            tess_json_get_double(json, "a", "input", &number) != TESS_OK ||
            tess_json_get_bool(json, "a", "input", &flag) != TESS_OK ||
            tess_json_get_string(json, "a", "input", &text) != TESS_OK)
            tess_error_clear();
        json_decref(json);
    }
    if (tess_json_parse_record((const char *)data, size, "record", &json) == TESS_OK)
        json_decref(json);
    load(data, size);
    return 0;
}
