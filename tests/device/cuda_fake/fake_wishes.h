/* Properties of a library that plays one of NVIDIA's, from a variable of the environment: "devices=2,version=13000,
 * fail=cuMemAlloc_v2:3:2". The third call of that function gives error 2 ("hang": it never ends; "die": the
 * process ends). */
#ifndef TESS_TESTS_CUDA_SHIM_FAKE_WISHES_H
#define TESS_TESTS_CUDA_SHIM_FAKE_WISHES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAKE_HANGS = -1 };

static inline long fake_number(const char *variable, const char *key, long fallback)
{
    const char *text = getenv(variable);
    for (size_t n = strlen(key); text != NULL && *text != '\0'; text += strcspn(text, ","), text += *text == ',')
        if (strncmp(text, key, n) == 0 && text[n] == '=')
            return strtol(text + n + 1, NULL, 0);
    return fallback;
}

/* Returns the result that this call must give: 0, an error's number or FAKE_HANGS. */
static inline int fake_due(const char *variable, const char *function)
{
    static int n_calls; /* since the wish is the same */
    static char wish[128];
    char name[64], what[16];
    int call;
    const char *text = getenv(variable), *fail = text != NULL ? strstr(text, "fail=") : NULL;
    if (fail != NULL && strcmp(fail, wish) != 0) {
        snprintf(wish, sizeof(wish), "%s", fail);
        n_calls = 0;
    }
    if (fail == NULL || sscanf(fail, "fail=%63[^:]:%d:%15[a-z0-9]", name, &call, what) != 3 ||
        strcmp(name, function) != 0 || ++n_calls != call)
        return 0;
    if (strcmp(what, "die") == 0)
        abort();
    return strcmp(what, "hang") == 0 ? FAKE_HANGS : atoi(what);
}

/* Whether this call shall do nothing: "skip=cuStreamWaitEvent:3", its third call; 0: each. "misplace=" is read alike.
 */
static inline int fake_omits(const char *variable, const char *wish, const char *function)
{
    static int n_calls;
    char name[64], key[64];
    int call;
    const char *text = getenv(variable);
    snprintf(key, sizeof(key), "%s=", wish);
    const char *at = text != NULL ? strstr(text, key) : NULL;
    if (at == NULL || sscanf(at + strlen(key), "%63[^:]:%d", name, &call) != 2 || strcmp(name, function) != 0)
        return 0;
    n_calls++;
    return call == 0 || n_calls == call;
}

#endif
