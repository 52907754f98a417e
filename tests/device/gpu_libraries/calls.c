/* calls nccl|cublas VERSION: opens NVIDIA's library as Tessera does and makes the calls that need no GPU. VERSION is
 * the package's ("2.18.1"), or "old" if Tessera must refuse it. */
#include "support/test.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/nccl/nccl_library.h"
#include "device/cuda/cublas_lt.h"

static void *symbol(const char *path, const char *name)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    void *found = library != NULL ? dlsym(library, name) : NULL;
    if (found == NULL)
        test_fail(__FILE__, __LINE__, "%s has no %s", path, name);
    return found;
}

/* ---- NCCL ---- */
static void check_nccl(const char *version)
{
    const nccl_library *nccl;
    int major = 0, minor = 0, patch = 0, number;
    nccl_id id, other;
    if (strcmp(version, "old") == 0) {
        EXPECT_FAILS(tess_nccl_open(&nccl), TESS_E_UNSUPPORTED, "too old: 2.18 or newer is needed");
        printf("ok     NCCL: refused: %s\n", tess_error_message());
        return;
    }
    EXPECT_OK(tess_nccl_open(&nccl));
    EXPECT_INT(sscanf(version, "%d.%d.%d", &major, &minor, &patch), 3);
    EXPECT_INT(nccl->version(&number), NCCL_SUCCESS);
    EXPECT_INT(number, 10000 * major + 100 * minor + patch);
    EXPECT_INT(nccl->version_number, number);
    EXPECT_CONTAINS(nccl->error_text(NCCL_SUCCESS), "no error");
    EXPECT_CONTAINS(nccl->error_text(NCCL_CUDA_ERROR), "cuda");
    EXPECT_CONTAINS(nccl->error_text(NCCL_SYSTEM_ERROR), "system error");
    EXPECT_CONTAINS(nccl->error_text(NCCL_INTERNAL_ERROR), "internal error");
    EXPECT_CONTAINS(nccl->error_text(NCCL_INVALID_ARGUMENT), "invalid argument");
    EXPECT_CONTAINS(nccl->error_text(NCCL_INVALID_USAGE), "invalid usage");
    EXPECT_CONTAINS(nccl->error_text(NCCL_REMOTE_ERROR), "remote process");
    EXPECT_CONTAINS(nccl->error_text(NCCL_IN_PROGRESS), "in progress");
    EXPECT(nccl->newest_error(NULL) != NULL);
    EXPECT_INT(nccl->group_start(), NCCL_SUCCESS);
    EXPECT_INT(nccl->group_end(), NCCL_SUCCESS);
    EXPECT_INT(nccl->group_end(), NCCL_INVALID_USAGE); /* nothing was begun */

    /* An id needs a network, no GPU. Two differ. */
    int first = nccl->id_create(&id), second = nccl->id_create(&other);
    EXPECT_INT(first, second);
    if (first == NCCL_SUCCESS)
        EXPECT(memcmp(&id, &other, sizeof(id)) != 0);

    /* A communicator needs a GPU. Without one the call must fail, not crash. */
    nccl_config config = {.size = sizeof(config),
                          .magic = NCCL_MAGIC,
                          .version = NCCL_LEAST_VERSION,
                          .cluster_size = NCCL_UNDEFINED,
                          .least_blocks = NCCL_UNDEFINED,
                          .most_blocks = NCCL_UNDEFINED,
                          .shares_resources = NCCL_UNDEFINED};
    nccl_communicator c = NULL;
    int error = nccl->create(&c, 1, id, 0, &config);
    EXPECT(error == NCCL_CUDA_ERROR || error == NCCL_INVALID_ARGUMENT || error == NCCL_SYSTEM_ERROR ||
           error == NCCL_INTERNAL_ERROR);
    printf("ok     NCCL %s: %s; id %s, a communicator without a GPU: %s (%s)\n", version, nccl->path,
           nccl->error_text(first), nccl->error_text(error), nccl->newest_error(NULL));
}

/* ---- cuBLAS ---- */
typedef int (*get_attribute)(void *object, int which, void *value, size_t bytes, size_t *written);

static get_attribute getter(const cublas_lt *lt, const char *name)
{
    get_attribute get;
    void *found = symbol(lt->path, name);
    memcpy(&get, &found, sizeof(found));
    return get;
}

/* The library keeps what was set, in as many bytes, and refuses fewer. */
static void expect_kept(get_attribute get, void *object, int which, const void *value, size_t bytes,
                        int (*set)(void *object, int which, const void *value, size_t bytes))
{
    char back[64] = {0};
    size_t written = 0;
    EXPECT_INT(set(object, which, value, bytes), CUBLAS_SUCCESS);
    EXPECT_INT(get(object, which, NULL, 0, &written), CUBLAS_SUCCESS);
    EXPECT_INT(written, bytes);
    EXPECT_INT(get(object, which, back, bytes, &written), CUBLAS_SUCCESS);
    EXPECT_SAME(back, value, bytes);
    EXPECT_INT(set(object, which, value, bytes - 1), CUBLAS_INVALID_VALUE);
}

static const cublas_lt *lt;

static int set_desc(void *object, int which, const void *value, size_t bytes)
{
    return lt->desc_set(object, which, value, bytes);
}

static int set_preference(void *object, int which, const void *value, size_t bytes)
{
    return lt->preference_set(object, which, value, bytes);
}

static void expect_number(get_attribute get, void *object, int which, uint64_t want, size_t bytes)
{
    uint64_t value = 0;
    size_t written;
    EXPECT_INT(get(object, which, &value, bytes, &written), CUBLAS_SUCCESS);
    EXPECT_INT(written, bytes);
    EXPECT_INT(value, want);
}

static void check_cublas(const char *version)
{
    enum { TYPE = 0, ROWS = 2, COLUMNS = 3, LD = 4, COMPUTE = 0, SCALE = 1 }; /* attributes that we only read */
    int major = 0, minor = 0, patch = 0;
    cublas_desc desc;
    cublas_matrix matrix;
    cublas_preference preference;
    cublas_handle handle = NULL;
    const int32_t trans = 1, epilogue = CUBLAS_EPILOGUE_BIAS;
    const size_t workspace = 0;
    const uint32_t reductions = 0, alignment = 16;
    const void *bias = &trans;
    EXPECT_OK(tess_cublas_lt_open(&lt));
    EXPECT(lt != NULL);
    EXPECT_INT(sscanf(version, "%d.%d.%d", &major, &minor, &patch), 3);
    EXPECT_INT(lt->version(), 10000 * major + 100 * minor + patch);

    get_attribute of_desc = getter(lt, "cublasLtMatmulDescGetAttribute"),
                  of_matrix = getter(lt, "cublasLtMatrixLayoutGetAttribute"),
                  of_preference = getter(lt, "cublasLtMatmulPreferenceGetAttribute");
    EXPECT_INT(lt->desc_create(&desc, CUBLAS_COMPUTE_F32, CUBLAS_TYPE_F32), CUBLAS_SUCCESS);
    expect_number(of_desc, desc, COMPUTE, CUBLAS_COMPUTE_F32, 4);
    expect_number(of_desc, desc, SCALE, CUBLAS_TYPE_F32, 4);
    expect_kept(of_desc, desc, CUBLAS_DESC_TRANS_A, &trans, sizeof(trans), set_desc);
    expect_kept(of_desc, desc, CUBLAS_DESC_TRANS_B, &trans, sizeof(trans), set_desc);
    expect_kept(of_desc, desc, CUBLAS_DESC_EPILOGUE, &epilogue, sizeof(epilogue), set_desc);
    expect_kept(of_desc, desc, CUBLAS_DESC_BIAS, &bias, sizeof(bias), set_desc);
    EXPECT_INT(lt->desc_destroy(desc), CUBLAS_SUCCESS);

    EXPECT_INT(lt->matrix_create(&matrix, CUBLAS_TYPE_BF16, 67, 129, 72), CUBLAS_SUCCESS);
    expect_number(of_matrix, matrix, TYPE, CUBLAS_TYPE_BF16, 4);
    expect_number(of_matrix, matrix, ROWS, 67, 8);
    expect_number(of_matrix, matrix, COLUMNS, 129, 8);
    expect_number(of_matrix, matrix, LD, 72, 8);
    EXPECT_INT(lt->matrix_destroy(matrix), CUBLAS_SUCCESS);

    EXPECT_INT(lt->preference_create(&preference), CUBLAS_SUCCESS);
    expect_kept(of_preference, preference, CUBLAS_PREFERENCE_WORKSPACE, &workspace, sizeof(workspace), set_preference);
    expect_kept(of_preference, preference, CUBLAS_PREFERENCE_REDUCTIONS, &reductions, sizeof(reductions),
                set_preference);
    for (int i = 0; i < 4; i++)
        expect_kept(of_preference, preference, CUBLAS_PREFERENCE_ALIGNMENT + i, &alignment, sizeof(alignment),
                    set_preference);
    EXPECT_INT(lt->preference_destroy(preference), CUBLAS_SUCCESS);

    /* A handle needs a GPU (1: CUBLAS_STATUS_NOT_INITIALIZED), so neither proposals nor products can be tested. */
    int error = lt->create(&handle);
    EXPECT(error != CUBLAS_SUCCESS);
    printf("ok     cuBLAS %s (%zu): %s; a handle without a GPU: error %d\n", version, lt->version(), lt->path, error);
}

int main(int n, char **arguments)
{
    if (n != 3)
        return 2;
    if (strcmp(arguments[1], "nccl") == 0)
        check_nccl(arguments[2]);
    else
        check_cublas(arguments[2]);
    return 0;
}
