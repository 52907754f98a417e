#include "job/lives.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/variables.h"
#include "job/environment.h"

enum { STEP_TEXT = 24, PAST_TEXT = 20 };

static void set_or_unset(tess_variable variable, const char *value)
{
    const char *name = tess_variable_name(variable);
    if (value[0] != '\0')
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static tess_status report_past(const tess_rank_past *past, int n_ranks)
{
    while (n_ranks > 0 && past[n_ranks - 1].n_before == 0)
        n_ranks--;
    size_t size = (size_t)n_ranks * PAST_TEXT + 1, n = 0;
    char *text = calloc(size, 1);
    TESS_CHECK(text != NULL, TESS_E_NOMEM, "no memory for %s of %d ranks", tess_variable_name(TESS_VAR_PAST), n_ranks);
    for (int r = 0; r < n_ranks; r++)
        n += (size_t)snprintf(text + n, size - n, "%s%u:%x", r > 0 ? "," : "", past[r].n_before, past[r].faults_before);
    set_or_unset(TESS_VAR_PAST, text);
    free(text);
    return TESS_OK;
}

tess_status tess_lives_report(int n_before, const int64_t *omitted, const tess_rank_past *past, int n_ranks)
{
    char text[JOB_OMITTED * STEP_TEXT] = "";
    size_t n = 0;
    for (int i = 0; i < JOB_OMITTED; i++)
        if (omitted[i] > 0)
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%" PRId64, n > 0 ? "," : "", omitted[i]);
    set_or_unset(TESS_VAR_OMITTED, text);
    snprintf(text, sizeof(text), "%d", n_before);
    setenv(tess_variable_name(TESS_VAR_LIVES_BEFORE), text, 1);
    return report_past(past, n_ranks);
}

int tess_lives_before(void)
{
    static const tess_variable variables[] = {TESS_VAR_LIVES_BEFORE, TESS_VAR_TORCH_RESTARTS};
    int n = 0;
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]) && n == 0; i++)
        if (tess_variable_value(variables[i]) != NULL &&
            tess_environment_number(variables[i], 0, INT32_MAX, &n) != TESS_OK) {
            tess_error_clear();
            n = 0;
        }
    return n;
}

void tess_lives_forget(void)
{
    static const tess_variable variables[] = {TESS_VAR_LIVES_BEFORE, TESS_VAR_OMITTED, TESS_VAR_PAST};
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        unsetenv(tess_variable_name(variables[i]));
}

static tess_status read_omitted(const tess_job *job, const char *text)
{
    const char *at = text;
    for (int i = 0; *at != '\0'; i++) {
        char *end = NULL;
        int64_t step = *at >= '0' && *at <= '9' ? strtoll(at, &end, 10) : 0;
        TESS_CHECK(step > 0 && step < INT64_MAX && (*end == '\0' || (*end == ',' && end[1] != '\0')) && i < JOB_OMITTED,
                   TESS_E_INVALID, "%s is '%s', expected at most %d steps like 4,8",
                   tess_variable_name(TESS_VAR_OMITTED), text, JOB_OMITTED);
        atomic_store(&job->header->omitted[i], step);
        at = *end == ',' ? end + 1 : end;
    }
    return TESS_OK;
}

static bool is_fault_set(unsigned faults)
{
    return faults >> JOB_FAULTS == 0;
}

static tess_status read_past(const tess_job *job, const char *text)
{
    const char *at = text;
    for (int r = 0; *at != '\0'; r++) {
        int n_before = -1, length = 0;
        unsigned faults = 0;
        int n = sscanf(at, "%9d:%8x%n", &n_before, &faults, &length);
        char next = n == 2 ? at[length] : ' ';
        TESS_CHECK(n_before >= 0 && is_fault_set(faults) && (next == '\0' || (next == ',' && at[length + 1] != '\0')),
                   TESS_E_INVALID, "%s is '%.200s', expected pairs like 1:0,2:5", tess_variable_name(TESS_VAR_PAST),
                   text);
        if (r < job->world) {
            job->past[r].n_before = (uint32_t)n_before;
            job->past[r].faults_before = faults;
        } else {
            job->header->faults_of_gone |= faults;
        }
        at += next == ',' ? length + 1 : length;
    }
    return TESS_OK;
}

tess_status tess_lives_read(const tess_job *job)
{
    int n_before = 0;
    const char *omitted = tess_variable_value(TESS_VAR_OMITTED), *past = tess_variable_value(TESS_VAR_PAST);
    if (tess_variable_value(TESS_VAR_LIVES_BEFORE) != NULL)
        TESS_TRY(tess_environment_number(TESS_VAR_LIVES_BEFORE, 0, INT32_MAX, &n_before));
    atomic_store(&job->header->epoch, (uint32_t)n_before);
    if (omitted != NULL)
        TESS_TRY(read_omitted(job, omitted));
    return past != NULL ? read_past(job, past) : TESS_OK;
}

/* ---- One line of text ---- */
static const char begins[] = "tessera-faults: ";

const char *tess_lives_line_write(int rank, uint32_t faults, char line[TESS_LIVES_LINE_BYTES])
{
    snprintf(line, TESS_LIVES_LINE_BYTES, "%srank %d set %x", begins, rank, faults);
    return line;
}

bool tess_lives_line_read(const char *line, tess_rank_past *past, int n_ranks)
{
    int rank;
    unsigned faults;
    const char *text = strstr(line, begins);
    if (text == NULL || sscanf(text + sizeof(begins) - 1, "rank %9d set %8x", &rank, &faults) != 2 || rank < 0 ||
        rank >= n_ranks || !is_fault_set(faults))
        return false;
    past[rank].faults_before |= faults;
    return true;
}

static const char begins_rows[] = "tessera-micro-batch: ";

const char *tess_lives_rows_write(int64_t rows, char line[TESS_LIVES_LINE_BYTES])
{
    snprintf(line, TESS_LIVES_LINE_BYTES, "%srows %" PRId64, begins_rows, rows);
    return line;
}

bool tess_lives_rows_read(const char *line, int64_t *rows)
{
    long long n;
    const char *text = strstr(line, begins_rows);
    if (text == NULL || sscanf(text + sizeof(begins_rows) - 1, "rows %9lld", &n) != 1 || n < 1)
        return false;
    *rows = n;
    return true;
}
