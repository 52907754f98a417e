#include "doctor/dash/dash.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/os/os.h"
#include "doctor/dash/dash_impl.h"

extern const unsigned char tess_data_dash_script[];
extern const size_t tess_data_dash_script_size;

static const double refresh_s = 1; /* pause between two looks at the folders */

tess_status tess_dash_make_token(char token[TESS_DASH_TOKEN])
{
    uint8_t bytes[(TESS_DASH_TOKEN - 1) / 2];
    TESS_CHECK(getrandom(bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes), TESS_E_IO,
               "the system gives no random bytes for the token of the page");
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(token + 2 * i, 3, "%02x", bytes[i]);
    return TESS_OK;
}

tess_status tess_dash_open(tess_mem *mem, const char *const *folders, int n, const char *token,
                           const tess_page_options *options, tess_dash **out)
{
    TESS_AUTO(tess_dash_close) tess_dash *d = NULL;
    TESS_CHECK(n >= 1 && n <= TESS_PAGE_RUNS, TESS_E_INVALID, "%d folders: a page shows 1 to %d", n, TESS_PAGE_RUNS);
    TESS_TRY(TESS_NEW(mem, 1, "live page", &d));
    *d = (tess_dash){
        .mem = mem, .token = token, .options = *options, .n = n, .refreshed_s = -refresh_s, .searched_s = -1e9};
    d->options.reads_on = true;
    for (int i = 0; i < n; i++) {
        TESS_CHECK(tess_os_is_dir(folders[i]), TESS_E_NOT_FOUND,
                   "%s is no folder: name the job.dump_folder of a run (a run that begins later needs the folder now)",
                   folders[i]);
        d->jobs[i] = (dash_job){.folder = folders[i], .live = {.pid_fd = -1}};
    }
    *out = TESS_GIVE(d);
    return TESS_OK;
}

void tess_dash_close(tess_dash **dash)
{
    tess_dash *d = *dash;
    if (d == NULL)
        return;
    for (int i = 0; i < d->n; i++)
        dash_job_close(&d->jobs[i]);
    tess_run_page_close(&d->page);
    tess_mem_drop(dash);
}

/* ---- The runs of the report ---- */
/* Finds which folders hold runs. Returns whether that has changed. Runs that have vanished and others that have begun
 * change it. */
static bool find_runs(tess_dash *d)
{
    bool changed = false;
    for (int i = 0; i < d->n; i++) {
        dash_job *job = &d->jobs[i];
        const bool is_run = tess_os_is_dir(job->folder) && (job->is_run || tess_run_page_is_run(job->folder));
        changed = changed || is_run != job->is_run;
        job->is_run = is_run;
    }
    return changed;
}

static tess_status open_report(tess_dash *d)
{
    const char *folders[TESS_PAGE_RUNS];
    int n = 0;
    for (int i = 0; i < d->n; i++)
        if (d->jobs[i].is_run)
            folders[n++] = d->jobs[i].folder;
    tess_run_page_close(&d->page);
    d->version++;
    tess_status status = n > 0 ? tess_run_page_open(d->mem, folders, n, &d->options, &d->page) : TESS_OK;
    if (status != TESS_OK)
        for (int i = 0; i < d->n; i++)
            d->jobs[i].is_run = false; /* the next refresh finds the runs again, and opens them */
    return status;
}

/* Reads what the runs have written. What cannot be read now is tried again by the next refresh. */
static void refresh(tess_dash *d)
{
    bool changed = false;
    const double now_s = tess_os_now_s();
    if (now_s - d->refreshed_s < refresh_s)
        return;
    const bool is_new = find_runs(d);
    if (is_new)
        (void)open_report(d);
    else if (d->page != NULL)
        (void)tess_run_page_refresh(d->page, &changed);
    d->version += changed;
    d->refreshed_s = tess_os_now_s();
    tess_error_clear();
}

/* ---- Answers ---- */
static tess_status put_live(tess_dash *d, tess_buffer *out)
{
    dash_jobs_look(d);
    return dash_put_live(d, out);
}

static tess_status put_sections(tess_dash *d, tess_buffer *out)
{
    for (int i = 0; i < tess_page_n_sections(); i++) {
        TESS_TRY(tess_buffer_printf(out, "<div data-part=\"%s\">", tess_page_section_id(i)));
        if (d->page != NULL)
            TESS_TRY(tess_run_page_section(d->page, i, out));
        TESS_TRY(tess_buffer_printf(out, "</div>\n"));
    }
    return TESS_OK;
}

/* Returns the page's own script as text, to be freed with tess_buffer_free. */
static tess_status get_script(const tess_dash *d, tess_buffer *script)
{
    *script = (tess_buffer){.mem = d->mem};
    return tess_buffer_append(script, tess_data_dash_script, tess_data_dash_script_size);
}

static tess_status put_page(tess_dash *d, const char *script, tess_buffer *out)
{
    TESS_TRY(tess_buffer_printf(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" "
        "content=\"width=device-width, initial-scale=1\">\n<meta name=\"referrer\" content=\"no-referrer\">\n"
        "<noscript><meta http-equiv=\"refresh\" content=\"3\"></noscript>\n<title>Tessera: %d run%s</title>\n",
        d->n, d->n > 1 ? "s" : ""));
    TESS_TRY(tess_page_put_style(out));
    TESS_TRY(tess_buffer_printf(
        out,
        "</head>\n<body><header><h1>Tessera: %d run%s</h1>\n<p class=\"warn\" id=\"lost\" hidden>`tessera dash` does "
        "not answer: it has ended, or the connection to its machine is closed. What follows is old.</p></header>\n"
        "<main>\n<div data-part=\"live\">",
        d->n, d->n > 1 ? "s" : ""));
    TESS_TRY(put_live(d, out));
    TESS_TRY(tess_buffer_printf(out, "</div>\n"));
    TESS_TRY(put_sections(d, out));
    TESS_TRY(tess_buffer_printf(out, "</main>\n"));
    TESS_TRY(tess_page_put_script(script, out));
    return tess_buffer_printf(out, "</body></html>\n");
}

/* Fills the answer with the whole page. Its policy must live as long as the answer. */
static tess_status answer_page(tess_dash *d, tess_web_answer *answer)
{
    TESS_AUTO(tess_buffer_free) tess_buffer script = {.mem = d->mem};
    answer->policy.mem = d->mem;
    refresh(d);
    TESS_TRY(get_script(d, &script));
    TESS_TRY(tess_page_put_policy(script.data, "'self'", &answer->policy));
    TESS_TRY(tess_buffer_printf(&answer->policy, "; frame-ancestors 'none'"));
    return put_page(d, script.data, &answer->body);
}

static tess_status answer_part(tess_dash *d, const char *part, tess_web_answer *answer)
{
    refresh(d);
    if (strcmp(part, "live") == 0)
        return put_live(d, &answer->body);
    if (strcmp(part, "version") == 0)
        return tess_buffer_printf(&answer->body, "%lld", (long long)d->version);
    for (int i = 0; i < tess_page_n_sections(); i++)
        if (strcmp(part, tess_page_section_id(i)) == 0 && d->page != NULL)
            return tess_run_page_section(d->page, i, &answer->body);
    return TESS_OK;
}

static bool is_part(const char *part)
{
    bool is = strcmp(part, "live") == 0 || strcmp(part, "version") == 0;
    for (int i = 0; i < tess_page_n_sections(); i++)
        is = is || strcmp(part, tess_page_section_id(i)) == 0;
    return is;
}

tess_status tess_dash_answer(void *dash, const char *path, tess_web_answer *answer)
{
    static const char parts[] = "/part/";
    tess_dash *d = dash;
    const char *rest = tess_web_path_after(path, d->token);
    answer->code = rest == NULL ? TESS_WEB_FORBIDDEN : TESS_WEB_NOT_FOUND;
    if (rest == NULL)
        return TESS_OK;
    if (strcmp(rest, "/") == 0) {
        answer->code = TESS_WEB_OK;
        answer->type = "text/html; charset=utf-8";
        return answer_page(d, answer);
    }
    if (strncmp(rest, parts, sizeof(parts) - 1) == 0 && is_part(rest + sizeof(parts) - 1)) {
        answer->code = TESS_WEB_OK;
        answer->type = "text/html; charset=utf-8";
        answer->may_be_empty = true;
        return answer_part(d, rest + sizeof(parts) - 1, answer);
    }
    return TESS_OK;
}
