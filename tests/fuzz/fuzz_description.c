/* Any text as the description that a converted safetensors file carries in its __metadata__: refused with a message, or
 * a catalog of which exports can be made under all names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ckpt/formats/formats.h"
#include "ckpt/formats/export_catalog.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char tensors[] = "\"model.w\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
                              "\"optimizer.w.exp_avg\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[8,16]},"
                              "\"train_state.step\":{\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[16,20]}";
enum { DATA_BYTES = 20 };

/* A file with the text in its header, whose path is written to `path`. -1: the text is no UTF-8. */
static int make_file(const uint8_t *data, size_t size, char path[64])
{
    static const uint8_t values[DATA_BYTES];
    json_t *text = json_stringn((const char *)data, size);
    if (text == NULL)
        return -1;
    char *quoted = json_dumps(text, JSON_ENCODE_ANY);
    FILE *file;
    int fd = memfd_create("fuzz", MFD_CLOEXEC), copy = dup(fd);
    if (quoted == NULL || fd < 0 || copy < 0 || (file = fdopen(copy, "w")) == NULL)
        abort();
    fseek(file, 8, SEEK_SET);
    int n = fprintf(file, "{\"__metadata__\":{\"tessera\":%s},%s}", quoted, tensors);
    uint64_t header = (uint64_t)n;
    if (n < 0 || fwrite(values, 1, DATA_BYTES, file) != DATA_BYTES || fclose(file) != 0 ||
        pwrite(fd, &header, sizeof(header), 0) != sizeof(header))
        abort();
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    free(quoted);
    json_decref(text);
    return fd;
}

static void export(const tess_catalog *catalog, tess_names names)
{
    tess_export *out;
    if (tess_export_create(catalog, &(tess_export_options){.names = names}, &out) != TESS_OK) {
        if (out != NULL || tess_error_message()[0] == '\0')
            abort();
        return;
    }
    float weights[2];
    for (int i = 0; i < out->n_tensors; i++) {
        tess_box whole = {.size = {2, 1}};
        if (out->tensors[i].source == NULL)
            continue;
        if (tess_export_read(out, &out->tensors[i], &whole, weights) != TESS_OK)
            abort();
    }
    tess_export_destroy(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tess_mem *mem;
    tess_catalog *catalog = NULL;
    char path[64];
    int fd = make_file(data, size, path);
    if (fd < 0)
        return 0;
    if (tess_mem_create(&mem) != TESS_OK)
        abort();
    if (tess_catalog_open_safetensors(mem, path, &catalog) == TESS_OK) {
        for (int names = TESS_NAMES_SAME; names <= TESS_NAMES_BARE; names++)
            export(catalog, (tess_names)names);
    } else if (catalog != NULL || tess_error_message()[0] == '\0') {
        abort();
    }
    tess_catalog_destroy(&catalog);
    close(fd);
    if (tess_mem_destroy(&mem) != 0)
        abort();
    return 0;
}
