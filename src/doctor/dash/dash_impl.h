/* Internal to the live page. */
#ifndef TESS_DOCTOR_DASH_DASH_IMPL_H
#define TESS_DOCTOR_DASH_DASH_IMPL_H

#include "doctor/dash/dash.h"
#include "doctor/top/top_facts.h"
#include "job/find.h"

/* A folder, and the job that writes to it. */
typedef struct dash_job {
    const char *folder;
    bool has_folder, is_run; /* the folder exists; the report has it */
    bool open;
    tess_live_job live;
    tess_top_snapshot *now, *before; /* now: stays after the job's end. before: newest one with fewer steps */
    double gone_s;                   /* when the job was seen to have ended; 0: it has not */
} dash_job;

struct tess_dash {
    tess_mem *mem;
    const char *token;
    tess_page_options options;
    tess_run_page *page;            /* runs of the report; NULL: there is none yet */
    int64_t version;                /* changes when the report has something new */
    double refreshed_s, searched_s; /* when files were read, and when jobs were searched for */
    double search_s;                /* pause before the next search */
    int n;
    dash_job jobs[TESS_PAGE_RUNS];
};

/* ---- dash_jobs.c: finds jobs, and takes snapshots ---- */
void dash_jobs_look(tess_dash *dash);
void dash_job_close(dash_job *job);

/* ---- dash_live.c ---- */
/* Appends the section of what all jobs do now. */
tess_status dash_put_live(const tess_dash *dash, tess_buffer *out);

#endif
