/* Any bytes as the files of a run: a page whose markup is the writer's alone, or an error. The first byte chooses the
 * file; the others are its content. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "page/run_page.h"
#include "support/markup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"metrics.jsonl", "memory.jsonl",   "alerts.jsonl",         "run.json",
                                    "error.json",    "trace/job.json", "pipeline/step-1.json", "trace/rank-00000.ring"};
enum { NAMES = sizeof(names) / sizeof(names[0]) };

static char folder[] = "/tmp/fuzz-run-page-XXXXXX";

static void remove_folder(void)
{
    char path[256];
    for (int i = 0; i < NAMES; i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        unlink(path);
    }
    snprintf(path, sizeof(path), "%s/trace", folder);
    rmdir(path);
    snprintf(path, sizeof(path), "%s/pipeline", folder);
    rmdir(path);
    rmdir(folder);
}

static void begin(void)
{
    static bool begun;
    char path[256];
    if (begun)
        return;
    begun = true;
    if (mkdtemp(folder) == NULL)
        abort();
    snprintf(path, sizeof(path), "%s/trace", folder);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/pipeline", folder);
    mkdir(path, 0700);
    atexit(remove_folder);
}

static void write_file(const char *name, const void *data, size_t size)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    if (file == NULL || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        abort();
}

/* The text that the bytes hold comes as a sample, too. */
static json_t *samples(void *self, tess_mem *mem, const char *of)
{
    (void)mem;
    (void)of;
    return json_pack("[{s:s, s:s}]", "prompt", (const char *)self, "answer", (const char *)self);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char fault[160], text[128] = "";
    const char *const folders[] = {folder};
    tess_mem *mem;
    tess_run_page *page = NULL;
    if (size == 0 || tess_mem_create(&mem) != TESS_OK)
        return 0;
    begin();
    const char *name = names[data[0] % NAMES];
    memcpy(text, data + 1, size - 1 < sizeof(text) - 1 ? size - 1 : sizeof(text) - 1);
    write_file("metrics.jsonl", "{\"step\": 1, \"loss\": 2}\n", 23);
    write_file(name, data + 1, size - 1);
    tess_buffer out = {.mem = mem};
    if (tess_run_page_open(mem, folders, 1, &(tess_page_options){.samples = samples, .self = text}, &page) == TESS_OK &&
        tess_run_page_put(page, &out) == TESS_OK &&
        markup_fault(out.data, out.size, true, fault, sizeof(fault)) != NULL) {
        fprintf(stderr, "%s\n", fault);
        abort();
    }
    tess_run_page_close(&page);
    tess_buffer_free(&out);
    if (tess_mem_destroy(&mem) != 0)
        abort();
    write_file(name, "", 0);
    return 0;
}
