/* Reading tests/rl/fixtures, which tools/make_rl_fixtures.py makes. A file that lacks what is asked for fails the case.
 */
#ifndef TESS_TESTS_RL_FIXTURE_H
#define TESS_TESTS_RL_FIXTURE_H

#include <math.h>
#include <stdlib.h>

#include "base/text/json.h"
#include "support/test.h"

enum { RL_FIXTURE_ROWS = 64 }; /* at least as many as any fixture has */

/* The document; json_decref it. */
static inline json_t *rl_fixture_load(const char *name)
{
    char path[256];
    json_t *document;
    snprintf(path, sizeof(path), "rl/fixtures/%s", name);
    EXPECT_OK(tess_json_load(test_path(path), 1 << 20, &document));
    return document;
}

static inline const json_t *rl_fixture_get(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (value == NULL)
        test_fail(__FILE__, __LINE__, "the fixture has no \"%s\"", key);
    return value;
}

/* 0 when it is absent. */
static inline double rl_fixture_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return value != NULL ? json_number_value(value) : 0;
}

static inline const char *rl_fixture_text(const json_t *object, const char *key)
{
    return json_string_value(rl_fixture_get(object, key));
}

/* Each returns how many there are. */
static inline int rl_fixture_doubles(const json_t *object, const char *key, double *out)
{
    const json_t *array = rl_fixture_get(object, key);
    int n = (int)json_array_size(array);
    EXPECT(n <= RL_FIXTURE_ROWS);
    for (int i = 0; i < n; i++)
        out[i] = json_number_value(json_array_get(array, (size_t)i));
    return n;
}

static inline int rl_fixture_floats(const json_t *object, const char *key, float *out)
{
    double wide[RL_FIXTURE_ROWS];
    int n = rl_fixture_doubles(object, key, wide);
    for (int i = 0; i < n; i++)
        out[i] = (float)wide[i];
    return n;
}

static inline int rl_fixture_mask(const json_t *object, const char *key, uint8_t *out)
{
    double wide[RL_FIXTURE_ROWS];
    int n = rl_fixture_doubles(object, key, wide);
    for (int i = 0; i < n; i++)
        out[i] = wide[i] != 0;
    return n;
}

static inline int rl_fixture_ints(const json_t *object, const char *key, int32_t *out)
{
    double wide[RL_FIXTURE_ROWS];
    int n = rl_fixture_doubles(object, key, wide);
    for (int i = 0; i < n; i++)
        out[i] = (int32_t)wide[i];
    return n;
}

/* |got - want| <= 1e-6 |want|, with 1e-7 for what should be 0. */
static inline void rl_expect_near(const char *of, const char *what, int row, double got, double want)
{
    if (!(fabs(got - want) <= 1e-6 * fabs(want) + 1e-7))
        test_fail(__FILE__, __LINE__, "%s: %s of %d is %.12g, expected %.12g", of, what, row, got, want);
}

#endif
