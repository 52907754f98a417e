/* A model folder from before safetensors: pytorch_model.bin, or pytorch_model-00001-of-00003.bin and so on. */
#include <stdlib.h>
#include <string.h>

#include "ckpt/formats/formats_impl.h"
#include "ckpt/formats/torch_impl.h"

#define STEM "pytorch_model"

/* Number and count of "-00001-of-00003.bin" behind the stem. */
static bool read_shard(const char *name, int *number, int *count)
{
    int end = 0;
    return strncmp(name, STEM, strlen(STEM)) == 0 &&
           sscanf(name + strlen(STEM), "-%5d-of-%5d.bin%n", number, count, &end) == 2 && end > 0 &&
           name[strlen(STEM) + (size_t)end] == '\0' && *number >= 1 && *count >= *number;
}

static tess_status see_name(void *self, const char *name)
{
    int number, count, *most = self;
    if (read_shard(name, &number, &count) && count > *most)
        *most = count;
    return TESS_OK;
}

int torch_count_model_files(const char *folder)
{
    int count = 0;
    if (tess_folder_holds(folder, STEM ".bin"))
        return 1;
    return tess_os_list(folder, see_name, &count) == TESS_OK ? count : 0;
}

tess_status torch_model_file(const char *folder, int i, int n, char *path, size_t size)
{
    char name[64];
    snprintf(name, sizeof(name), STEM "-%05d-of-%05d.bin", i + 1, n);
    if (n == 1 && tess_folder_holds(folder, STEM ".bin"))
        snprintf(name, sizeof(name), STEM ".bin");
    return tess_os_join(path, size, folder, name);
}
