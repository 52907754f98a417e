/* Options that mean bytes take sizes with a unit. */
#ifndef TESS_TESTS_SUPPORT_SIZES_H
#define TESS_TESTS_SUPPORT_SIZES_H

#include "base/core/options.h"
#include "support/test.h"

/* Every row of numbers whose key or help says bytes, KB to GB, or KiB to GiB takes "20MiB" as that many bytes. Returns
 * the number of such rows. */
static inline int test_sizes_have_units(const tess_option_table *tables, int n_tables, void *config)
{
    static const char *const words[] = {"bytes", "KB", "MB", "GB", "KiB", "MiB", "GiB"};
    int n = 0;
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < tables[t].section->n_rows; i++) {
            const tess_option *row = &tables[t].section->rows[i];
            bool means_bytes = false;
            for (size_t w = 0; w < sizeof(words) / sizeof(words[0]); w++)
                means_bytes |= strstr(row->key, words[w]) != NULL || strstr(row->help, words[w]) != NULL;
            if (!means_bytes ||
                (row->type != TESS_OPTION_INT && row->type != TESS_OPTION_FLOAT && row->type != TESS_OPTION_BYTES))
                continue;
            tess_status status = tess_options_set(&tables[t], 1, config, row->key, "20MiB", "test");
            if (status != TESS_OK)
                test_fail(__FILE__, __LINE__, "%s takes no 20MiB: %s", row->key, tess_error_message());
            const char *section = tess_options_section(&tables[t], config);
            EXPECT_INT(*(const int64_t *)(const void *)(section + row->offset), 20 << 20);
            n++;
        }
    return n;
}

#endif
