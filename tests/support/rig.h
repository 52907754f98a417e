/* The configuration and the model of an engine in a test case. */
#ifndef TESS_TESTS_SUPPORT_RIG_H
#define TESS_TESTS_SUPPORT_RIG_H

#include <stdarg.h>

#include "base/text/json.h"
#include "config/config.h"
#include "nn/model_config.h"
#include "support/join.h"

/* The defaults with assignments, separated by spaces, checked for a world of this size. */
static inline __attribute__((format(printf, 3, 4))) void test_configure(tess_config *config, int world,
                                                                        const char *assignments, ...)
{
    char words[2048];
    va_list args;
    va_start(args, assignments);
    EXPECT(vsnprintf(words, sizeof(words), assignments, args) < (int)sizeof(words));
    va_end(args);
    EXPECT_OK(tess_config_parse(test_mem(), "", 0, "test", config));
    for (char *save = NULL, *word = strtok_r(words, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save))
        EXPECT_OK(tess_config_override(config, word));
    EXPECT_OK(tess_config_check_step(config, world));
}

/* The model of a config.json's text. */
static inline void test_model(const char *text, tess_model_config *model)
{
    json_t *json = NULL;
    EXPECT_OK(tess_json_parse(text, strlen(text), "test", true, &json));
    EXPECT_OK(tess_model_config_parse(json, "test", model));
    json_decref(json);
}

#endif
