#include "control/reload/reload_keys.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os/os.h"
#include "base/text/text.h"
#include "data/files/data_files.h"
#include "train/text/resume_keys.h"

enum { VALUE_BYTES = 64 << 10, SHOWN = 80 };

/* Sections whose keys may change at a step, unless they decide the layout of the state or a checkpoint compares
 * them. */
static const char *const changeable[] = {"training", "optimizer", "lr_scheduler", "validation",
                                         "metrics",  "numbers",   "sample"};

/* Whether the key, whose values differ, must stay. */
static bool is_fixed(const tess_option *row, const char *section, const tess_config *a, const tess_config *b)
{
    bool may = row->effect == TESS_EFFECT_NOTHING;
    for (size_t i = 0; i < sizeof(changeable) / sizeof(changeable[0]); i++)
        may = may || ((row->effect & TESS_EFFECT_LAYOUT) == 0 && strcmp(section, changeable[i]) == 0);
    return !may || tess_resume_refuses(row->key, a, b);
}

static bool belongs(const tess_option *row, const char *section, const tess_config *a, const tess_config *b,
                    tess_reload_keys keys)
{
    switch (keys) {
    case TESS_RELOAD_FREE:
        return row->effect == TESS_EFFECT_NOTHING;
    case TESS_RELOAD_DECIDE:
        return row->effect != TESS_EFFECT_NOTHING;
    case TESS_RELOAD_FIXED:
        return is_fixed(row, section, a, b);
    case TESS_RELOAD_ALL:
        break;
    }
    return true;
}

int tess_reload_compare(const tess_config *a, const tess_config *b, tess_reload_keys keys, char *text, size_t size)
{
    int n_tables, n = 0;
    size_t at = 0;
    const tess_option_table *tables = tess_config_tables(&n_tables);
    char *was = malloc(2 * VALUE_BYTES), *is = was + VALUE_BYTES;
    text[0] = '\0';
    if (was == NULL)
        return keys == TESS_RELOAD_FREE ? 0 : 1; /* nothing can be compared, so nothing is taken over */
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < tables[t].section->n_rows; i++) {
            const tess_option *row = &tables[t].section->rows[i];
            if (!belongs(row, tables[t].section->name, a, b, keys))
                continue;
            if (tess_options_format(row, tess_options_section(&tables[t], a), was, VALUE_BYTES) != TESS_OK ||
                tess_options_format(row, tess_options_section(&tables[t], b), is, VALUE_BYTES) != TESS_OK) {
                tess_error_clear();
                at = tess_text_add(text, size, at, "%s%s (too long to compare)", n++ > 0 ? ", " : "", row->key);
                continue;
            }
            if (strcmp(was, is) != 0)
                at = tess_text_add(text, size, at, "%s%s (%.*s -> %.*s)", n++ > 0 ? ", " : "", row->key, SHOWN, was,
                                   SHOWN, is);
        }
    free(was);
    return n;
}

static tess_status check_file(const char *path, const char *key)
{
    uint64_t bytes = 0;
    TESS_TRY_CTX(tess_os_file_size(path, &bytes), "%s", key);
    TESS_CHECK(bytes > 0, TESS_E_INVALID, "%s: %s is empty", key, path);
    TESS_CHECK(access(path, R_OK) == 0, TESS_E_INVALID, "%s: %s may not be read", key, path);
    return TESS_OK;
}

static tess_status check_list(tess_mem *mem, const tess_text_list *list, const char *key)
{
    tess_data_files files = {0};
    tess_status status = tess_data_files_open(mem, list, &files);
    if (status != TESS_OK)
        tess_fail_context(status, "%s", key);
    for (size_t i = 0; status == TESS_OK && i < files.n; i++)
        status = check_file(files.paths[i], key);
    tess_data_files_close(&files);
    return status;
}

tess_status tess_reload_check_files(const tess_config *config)
{
    TESS_AUTO(tess_mem_destroy) tess_mem *mem = NULL;
    TESS_TRY(tess_mem_create(&mem));
    return config->validation.enable ? check_list(mem, &config->validation.files, "validation.files") : TESS_OK;
}
