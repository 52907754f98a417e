/* Places whose copies a program stores. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/program.h"
#include "ckpt/store/copies_impl.h"

enum { LIST_BYTES = 256 << 10 };

/* Runs the program with further words; NULL ends them early. `out` (size) gets what it prints. */
static tess_status call(const tess_ckpt_place *place, const char *verb, const char *a, const char *b, char *out,
                        size_t size)
{
    char *words[TESS_CKPT_PLACE_WORDS + 4];
    int n = 0;
    TESS_CHECK(place->n_words > 0 && place->n_words <= TESS_CKPT_PLACE_WORDS, TESS_E_INVALID,
               "a program that stores copies has 1 to %d words", TESS_CKPT_PLACE_WORDS);
    for (; n < place->n_words; n++)
        words[n] = place->command[n];
    words[n++] = (char *)(uintptr_t)verb;
    if (a != NULL)
        words[n++] = (char *)(uintptr_t)a;
    if (b != NULL)
        words[n++] = (char *)(uintptr_t)b;
    words[n] = NULL;
    tess_status status = tess_os_capture(words, place->wait_s, out, size);
    return status == TESS_OK ? TESS_OK
                             : tess_fail_context(status, "%s%s%s", verb, a != NULL ? " " : "", a != NULL ? a : "");
}

static tess_status run(const tess_ckpt_place *place, const char *verb, const char *a, const char *b)
{
    char out[256];
    return call(place, verb, a, b, out, sizeof(out));
}

/* Adds a step once: a list that goes into folders names it with each of its files. */
static void add_step(tess_ckpt_place_steps *steps, int64_t step)
{
    for (int i = steps->n - 1; i >= 0; i--)
        if (steps->step[i] == step)
            return;
    steps->step[steps->n++] = step;
}

/* Adds the steps of all names "step-00000012" that a list names, alone or at the end of paths. */
static void parse(const char *text, tess_ckpt_place_steps *steps)
{
    char canonical[COPY_NAME];
    for (const char *at = text; (at = strstr(at, "step-")) != NULL && steps->n < TESS_CKPT_PLACE_STEPS; at += 5) {
        char *end;
        if (at[5] < '0' || at[5] > '9' || (at > text && strchr(" \t\n/", at[-1]) == NULL))
            continue;
        int64_t step = strtoll(at + 5, &end, 10);
        copy_name(step, canonical);
        if (strlen(canonical) == (size_t)(end - at) && strchr(" \t\r\n/", *end) != NULL)
            add_step(steps, step);
    }
}

tess_status copy_command_list(const tess_ckpt_place *place, tess_ckpt_place_steps *steps)
{
    char *text = malloc(LIST_BYTES);
    TESS_CHECK(text != NULL, TESS_E_NOMEM, "no memory for the names of copies");
    tess_status status = call(place, "list", NULL, NULL, text, LIST_BYTES);
    steps->n = 0;
    if (status == TESS_OK)
        parse(text, steps);
    copy_sort(steps);
    free(text);
    return status;
}

tess_status copy_command_get(const tess_ckpt_place *place, const char *folder, int64_t step)
{
    char name[COPY_NAME];
    copy_name(step, name);
    TESS_TRY(tess_os_make_dirs(folder));
    TESS_TRY(run(place, "get", name, folder));
    return copy_verify(folder, step, NULL);
}

tess_status copy_command_put(const tess_ckpt_place *place, const char *folder, const char *scratch, int64_t step)
{
    char name[COPY_NAME];
    copy_name(step, name);
    TESS_TRY(run(place, "put", folder, name));
    if (place->trusts_command)
        return TESS_OK;
    TESS_TRY(tess_os_remove_tree(scratch));
    tess_status status = copy_command_get(place, scratch, step);
    if (status != TESS_OK)
        status = tess_fail_context(status, "the copy that was stored is not as it was given");
    if (tess_os_remove_tree(scratch) != TESS_OK && status == TESS_OK)
        tess_error_clear(); /* the next copy begins by removing it */
    return status;
}

tess_status copy_command_set_aside(const tess_ckpt_place *place, int64_t step)
{
    char name[COPY_NAME], aside[COPY_NAME + 8];
    copy_name(step, name);
    snprintf(aside, sizeof(aside), "%s.aside", name);
    return run(place, "move", name, aside);
}

tess_status copy_command_remove(const tess_ckpt_place *place, int64_t step)
{
    char name[COPY_NAME];
    copy_name(step, name);
    return run(place, "remove", name, NULL);
}
