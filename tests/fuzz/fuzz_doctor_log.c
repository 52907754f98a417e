/* Any bytes as a log, as a file of entries or variables, and as an environment. The first byte chooses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "doctor/env/env.h"
#include "doctor/env/env_values.h"
#include "base/text/literal.h"
#include "doctor/log/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The bytes as a file, whose path is written to `path`. */
static int make_file(const uint8_t *data, size_t size, char path[64])
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

static void read_log(tess_mem *mem, const uint8_t *data, size_t size)
{
    static tess_mem *forever;
    static tess_knowledge *knowledge;
    static tess_log_diagnosis diagnosis;
    tess_survey survey;
    tess_buffer out = {.mem = mem};
    char path[64];
    if (knowledge == NULL &&
        (tess_mem_create(&forever) != TESS_OK || tess_knowledge_create(forever, NULL, 0, &knowledge) != TESS_OK))
        abort();
    int fd = make_file(data, size, path);
    if (tess_survey_begin(mem, knowledge, &survey) != TESS_OK)
        abort();
    tess_status status = tess_survey_read(&survey, path);
    if (status != TESS_OK && status != TESS_E_INVALID) /* compressed logs are refused */
        abort();
    if (tess_log_diagnose(&survey, (int)(size % 3) * 4, &diagnosis) != TESS_OK ||
        tess_log_print(&survey, &diagnosis, false, &out) != TESS_OK ||
        tess_log_print(&survey, &diagnosis, true, &out) != TESS_OK)
        abort();
    tess_buffer_free(&out);
    tess_survey_free(&survey);
    close(fd);
}

/* A file of one field "x", whose text is then taken as a pattern and as a rule for values. */
static void read_table(tess_mem *mem, const uint8_t *data, size_t size)
{
    struct {
        tess_table_row row;
        const char *x;
    } row;
    static const tess_table_field fields[] = {{"x", sizeof(tess_table_row), true}};
    tess_table table = {.mem = mem, .fields = fields, .n_fields = 1, .row_size = sizeof(row)};
    if (tess_table_parse(&table, (const char *)data, size, "fuzz.yaml") == TESS_OK) {
        for (int i = 0; i < table.n; i++) {
            char word[TESS_LITERAL_MOST], text[100];
            memcpy(&row, tess_table_at(&table, i), sizeof(row));
            tess_pattern_literal(row.x, strlen(row.x), word);
            if (!tess_env_are_values(row.x))
                continue;
            tess_env_describe_values(row.x, text, sizeof(text));
            (void)tess_env_accepts(row.x, row.row.id);
        }
    }
    tess_table_free(&table);
}

static void read_knowledge(tess_mem *mem, const uint8_t *data, size_t size)
{
    tess_knowledge *knowledge;
    tess_found found;
    if (tess_knowledge_create_from(mem, (const char *)data, size, "fuzz.yaml", &knowledge) == TESS_OK)
        tess_knowledge_find(knowledge, (const char *)data, size, &found);
    tess_knowledge_destroy(&knowledge);
}

static void read_environment(tess_mem *mem, const uint8_t *data, size_t size, tess_env_format format)
{
    static tess_mem *forever;
    static tess_env_registry registry;
    tess_env_report report;
    tess_buffer out = {.mem = mem};
    if (forever == NULL &&
        (tess_mem_create(&forever) != TESS_OK || tess_env_registry_load(forever, NULL, 0, &registry) != TESS_OK))
        abort();
    tess_status status = tess_env_check(mem, &registry, (const char *)data, size, format, 8, &report);
    if (status != TESS_OK && status != TESS_E_FORMAT) /* too many variables */
        abort();
    if (tess_env_print(&report, &registry, false, &out) != TESS_OK ||
        tess_env_print(&report, &registry, true, &out) != TESS_OK)
        abort();
    tess_buffer_free(&out);
    tess_env_report_free(&report);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tess_mem *mem;
    setenv("XDG_CONFIG_HOME", "/nowhere", 1);
    if (size == 0 || tess_mem_create(&mem) != TESS_OK)
        return 0;
    switch (data[0]) {
    case 't':
        read_table(mem, data + 1, size - 1);
        break;
    case 'k':
        read_knowledge(mem, data + 1, size - 1);
        break;
    case 'e':
        read_environment(mem, data + 1, size - 1, TESS_ENV_LINES);
        break;
    case 'b':
        read_environment(mem, data + 1, size - 1, TESS_ENV_BLOCK);
        break;
    default:
        read_log(mem, data + 1, size - 1);
    }
    if (tess_mem_destroy(&mem) != 0)
        __builtin_trap(); /* a leak */
    return 0;
}
