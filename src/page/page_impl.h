/* Internal to page: what was read of each run, and the sections that show it. */
#ifndef TESS_PAGE_PAGE_IMPL_H
#define TESS_PAGE_PAGE_IMPL_H

#include "page/page_lines.h"
#include "page/page_out.h"
#include "page/page_rings.h"
#include "page/page_series.h"
#include "page/run_page.h"

enum { PAGE_PATH = 4096, PAGE_ALERTS = 50 };

/* All that is known about a run. A JSON value is NULL if the run has no such file. */
typedef struct page_run {
    char folder[PAGE_PATH];
    char name[PAGE_PATH]; /* the run's name on the page */
    page_lines metrics, memory, alerts;
    page_curves curves; /* numbers of metrics.jsonl by key; of memory.jsonl, by "memory.POOL" */
    json_t *pools;      /* newest peaks of memory.jsonl by pool: peak, predicted, farthest, by_rank */
    json_t *alert_list; /* (PAGE_ALERTS) newest lines of alerts.jsonl, oldest first */
    json_t *facts;      /* run.json: version, machine, configuration */
    json_t *failure;    /* error.json */
    json_t *job;        /* trace/job.json */
    json_t *pipeline;   /* newest file of pipeline/ */
    char pipeline_name[64];
    json_t *samples;
    page_rings rings;
    bool is_behind;   /* the run has written more since rings and samples were read */
    double looked_s;  /* when rings and samples were read, which may take long; 0: never */
    double read_s[4]; /* times of change of the files that are read whole, when they were read */
} page_run;

struct tess_run_page {
    tess_mem *mem;
    tess_page_options options;
    int n, first;   /* the next refresh begins with run `first` */
    page_run *runs; /* (n) */
};

/* ---- page_run.c ---- */
/* Reads what is new. *changed is set if there is anything. */
tess_status page_run_read(tess_mem *mem, const tess_page_options *options, double deadline_s, page_run *run,
                          bool *changed);
void page_run_free(page_run *run);

/* ---- Sections: each writes its content if it has any run that has it ---- */
bool page_has_figures(const tess_run_page *page);
void page_put_figures(const tess_run_page *page, page_out *out);
bool page_has_curves(const tess_run_page *page);
void page_put_curves(const tess_run_page *page, page_out *out);
bool page_has_learning(const tess_run_page *page);
void page_put_learning(const tess_run_page *page, page_out *out);
bool page_has_others(const tess_run_page *page);
void page_put_others(const tess_run_page *page, page_out *out);
bool page_has_times(const tess_run_page *page);
void page_put_times(const tess_run_page *page, page_out *out);
bool page_has_memory(const tess_run_page *page);
void page_put_memory(const tess_run_page *page, page_out *out);
bool page_has_collectives(const tess_run_page *page);
void page_put_collectives(const tess_run_page *page, page_out *out);
bool page_has_timeline(const tess_run_page *page);
void page_put_timeline(const tess_run_page *page, page_out *out);
bool page_has_events(const tess_run_page *page);
void page_put_events(const tess_run_page *page, page_out *out);
bool page_has_samples(const tess_run_page *page);
void page_put_samples(const tess_run_page *page, page_out *out);
bool page_has_differences(const tess_run_page *page);
void page_put_differences(const tess_run_page *page, page_out *out);
bool page_has_config(const tess_run_page *page);
void page_put_config(const tess_run_page *page, page_out *out);
bool page_has_machine(const tess_run_page *page);
void page_put_machine(const tess_run_page *page, page_out *out);

/* ---- page_values.c: JSON values as texts ---- */
/* Returns a text of a value of any kind: a string, a number, a list as "a, b". `text` has room for what is not a
 * string. */
const char *page_value_text(const json_t *value, char *text, size_t size);
/* Returns the string member; "": there is none. */
const char *page_string(const json_t *object, const char *key);
/* Returns the number member; NaN: there is none. */
double page_member(const json_t *object, const char *key);
/* Writes a time in ns since 1970 as "2026-11-30 19:00:00 UTC"; 0: "". Returns text. */
const char *page_time(int64_t wall_ns, char *text, size_t size);
/* Writes "2 h 3 min". Returns text. */
const char *page_duration(double seconds, char *text, size_t size);

/* Puts the heading of a part of a section that belongs to one run. Puts nothing on a page of one run. */
void page_put_run_name(const tess_run_page *page, const page_run *run, page_out *out);

#endif
