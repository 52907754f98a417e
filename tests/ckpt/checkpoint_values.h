/* The values in tests/ckpt/fixtures: tools/make_checkpoint_fixtures.py gives every element by its tensor's name. */
#ifndef TESS_TESTS_CKPT_CHECKPOINT_VALUES_H
#define TESS_TESTS_CKPT_CHECKPOINT_VALUES_H

#include <stdlib.h>

#include "ckpt/catalog/catalog.h"
#include "support/test.h"

static inline int64_t fixture_value(const char *name, int64_t i, bool is_signed)
{
    int64_t sum = 0;
    for (const char *at = name; *at != '\0'; at++)
        sum += (uint8_t)*at;
    int64_t value = (7 * i + sum) % 251;
    return is_signed ? value - 125 : value;
}

/* Element i of raw values as a number. */
static inline double fixture_number(const char *dtype, const uint8_t *data, int64_t i)
{
    int64_t value = 0;
    double real;
    size_t bytes = (size_t)atoi(dtype + strcspn(dtype, "0123456789")) / 8;
    if (strcmp(dtype, "F64") == 0) {
        memcpy(&real, data + 8 * i, 8);
        return real;
    }
    if (strcmp(dtype, "BOOL") == 0)
        return data[i];
    memcpy(&value, data + bytes * (size_t)i, bytes);
    int shift = 64 - 8 * (int)bytes;
    return dtype[0] == 'I' ? (double)((int64_t)((uint64_t)value << shift) >> shift) : (double)value;
}

static inline void *fixture_read(const tess_catalog *catalog, const tess_catalog_tensor *tensor, bool floats)
{
    tess_box whole = tess_catalog_whole(tensor);
    uint64_t bytes =
        floats ? sizeof(float) * (uint64_t)tess_box_count(tensor->n_dims, &whole) : tess_catalog_tensor_bytes(tensor);
    void *data = calloc(1, bytes + 1);
    EXPECT(data != NULL);
    if (floats)
        EXPECT_OK(tess_catalog_read_floats(catalog, tensor, &whole, data));
    else
        EXPECT_OK(tess_catalog_read(catalog, tensor, &whole, data));
    return data;
}

/* Every element of `name` has the value that the name `as` gives. */
static inline void expect_fixture(const tess_catalog *catalog, const char *name, const char *as)
{
    const tess_catalog_tensor *tensor = tess_catalog_find(catalog, name);
    if (tensor == NULL)
        test_fail(__FILE__, __LINE__, "there is no tensor '%s'", name);
    bool floats = strchr("FB", tensor->dtype[0]) != NULL && strcmp(tensor->dtype, "BOOL") != 0 &&
                  strcmp(tensor->dtype, "F64") != 0;
    void *data = fixture_read(catalog, tensor, floats);
    tess_box whole = tess_catalog_whole(tensor);
    for (int64_t i = 0; i < tess_box_count(tensor->n_dims, &whole); i++) {
        double got = floats ? (double)((float *)data)[i] : fixture_number(tensor->dtype, data, i);
        double want = (double)fixture_value(as, i, tensor->dtype[0] != 'U' && tensor->dtype[1] != 'O');
        if (strcmp(tensor->dtype, "BOOL") == 0)
            want = (int64_t)want % 2 == 0;
        if (got != want)
            test_fail(__FILE__, __LINE__, "element %lld of '%s' is %g, expected %g", (long long)i, name, got, want);
    }
    free(data);
}

#endif
