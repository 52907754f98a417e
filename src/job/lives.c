#include "job/lives.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "job/environment.h"

static const char lives_before[] = "TESSERA_LIVES_BEFORE"; /* drills count lives */
static const char omitted_steps[] = "TESSERA_OMITTED";     /* "4,8" */

enum { STEP_TEXT = 24 };

void tess_lives_report(int n_before, const int64_t *omitted)
{
    char text[JOB_OMITTED * STEP_TEXT] = "";
    size_t n = 0;
    for (int i = 0; i < JOB_OMITTED; i++)
        if (omitted[i] > 0)
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%" PRId64, n > 0 ? "," : "", omitted[i]);
    if (n > 0)
        setenv(omitted_steps, text, 1);
    else
        unsetenv(omitted_steps);
    snprintf(text, sizeof(text), "%d", n_before);
    setenv(lives_before, text, 1);
}

static tess_status read_omitted(const tess_job *job, const char *text)
{
    const char *at = text;
    for (int i = 0; *at != '\0'; i++) {
        char *end = NULL;
        int64_t step = *at >= '0' && *at <= '9' ? strtoll(at, &end, 10) : 0;
        TESS_CHECK(step > 0 && step < INT64_MAX && (*end == '\0' || (*end == ',' && end[1] != '\0')) && i < JOB_OMITTED,
                   TESS_E_INVALID, "%s is '%s', expected at most %d steps like 4,8", omitted_steps, text, JOB_OMITTED);
        atomic_store(&job->header->omitted[i], step);
        at = *end == ',' ? end + 1 : end;
    }
    return TESS_OK;
}

tess_status tess_lives_read(const tess_job *job)
{
    int n_before = 0;
    if (getenv(lives_before) != NULL)
        TESS_TRY(tess_environment_number(lives_before, 0, INT32_MAX, &n_before));
    atomic_store(&job->header->epoch, (uint32_t)n_before);
    return getenv(omitted_steps) != NULL ? read_omitted(job, getenv(omitted_steps)) : TESS_OK;
}
