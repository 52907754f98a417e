#include "page/run_page.h"

#include <stdio.h>
#include <string.h>

#include "base/os/machine.h"
#include "base/os/os.h"
#include "page/page_hash.h"
#include "page/page_impl.h"

extern const unsigned char tess_data_page_style[], tess_data_page_script[];
extern const size_t tess_data_page_style_size, tess_data_page_script_size;

/* The sections of the page, in their order. */
static const struct {
    const char *id, *title;
    bool (*is_there)(const tess_run_page *page);
    void (*put)(const tess_run_page *page, page_out *out);
} sections[] = {{"figures", "Figures", page_has_figures, page_put_figures},
                {"curves", "Curves", page_has_curves, page_put_curves},
                {"learning", "Reinforcement learning", page_has_learning, page_put_learning},
                {"samples", "Samples", page_has_samples, page_put_samples},
                {"differences", "Differences of configuration", page_has_differences, page_put_differences},
                {"events", "Events", page_has_events, page_put_events},
                {"times", "Time by phase", page_has_times, page_put_times},
                {"timeline", "Time line of a step", page_has_timeline, page_put_timeline},
                {"collectives", "Collectives", page_has_collectives, page_put_collectives},
                {"memory", "Memory", page_has_memory, page_put_memory},
                {"others", "Further numbers", page_has_others, page_put_others},
                {"config", "Configuration", page_has_config, page_put_config},
                {"machine", "Machine and command", page_has_machine, page_put_machine}};

enum { SECTIONS = sizeof(sections) / sizeof(sections[0]) };

int tess_page_n_sections(void)
{
    return SECTIONS;
}

const char *tess_page_section_id(int section)
{
    return sections[section].id;
}

/* ---- Reading ---- */
bool tess_run_page_is_run(const char *folder)
{
    static const char *const names[] = {"metrics.jsonl", "run.json", "error.json", "trace/job.json", "memory.jsonl"};
    char path[PAGE_PATH + 32];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        if (tess_os_is_file(path))
            return true;
    }
    return false;
}

static tess_status begin_run(const char *folder, page_run *run)
{
    size_t n = strlen(folder);
    TESS_CHECK(n > 0 && n < PAGE_PATH, TESS_E_INVALID, "the name of a run's folder has %zu bytes", n);
    while (n > 1 && folder[n - 1] == '/')
        n--;
    memcpy(run->folder, folder, n);
    TESS_CHECK(tess_os_is_dir(run->folder), TESS_E_NOT_FOUND, "%s is no folder", run->folder);
    TESS_CHECK(tess_run_page_is_run(run->folder), TESS_E_NOT_FOUND,
               "%s holds no run: neither metrics.jsonl nor run.json is there; give the job.dump_folder of a run",
               run->folder);
    return TESS_OK;
}

/* Returns the last n parts of a path that has no '/' at its end; the whole path if it has no more. */
static const char *last_parts(const char *path, int n)
{
    const char *at = path + strlen(path);
    while (at > path && (n -= at[-1] == '/') > 0)
        at--;
    return at;
}

/* Names a run by as many parts at the end of its folder as make it differ from all others. */
static void name_run(tess_run_page *page, int r)
{
    const char *name = "";
    bool is_own = false;
    for (int n = 1; !is_own && strcmp(name, page->runs[r].folder) != 0; n++) {
        name = last_parts(page->runs[r].folder, n);
        is_own = strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
        for (int other = 0; other < page->n; other++)
            is_own = is_own && (other == r || strcmp(last_parts(page->runs[other].folder, n), name) != 0);
    }
    snprintf(page->runs[r].name, PAGE_PATH, "%s", name);
}

tess_status tess_run_page_refresh(tess_run_page *page, bool *changed)
{
    const double deadline_s = page->options.patience_s > 0 ? tess_os_now_s() + page->options.patience_s : 0;
    *changed = false;
    for (int i = 0; i < page->n; i++) {
        const int r = (page->first + i) % page->n;
        tess_status status = page_run_read(page->mem, &page->options, deadline_s, &page->runs[r], changed);
        if (status == TESS_OK)
            continue;
        page->first =
            (r + 1) % page->n; /* the next refresh begins with the others: a long run must not keep them out */
        if (status == TESS_E_NOMEM || !page->options.reads_on)
            return status;
        tess_error_clear();
        if (status == TESS_E_TIMEOUT)
            return TESS_OK;
    }
    return TESS_OK;
}

tess_status tess_run_page_open(tess_mem *mem, const char *const *folders, int n, const tess_page_options *options,
                               tess_run_page **out)
{
    bool changed;
    TESS_AUTO(tess_run_page_close) tess_run_page *page = NULL;
    TESS_CHECK(n >= 1 && n <= TESS_PAGE_RUNS, TESS_E_INVALID, "%d runs: a page shows 1 to %d", n, TESS_PAGE_RUNS);
    TESS_TRY(TESS_NEW(mem, 1, "a page", &page));
    page->mem = mem;
    if (options != NULL)
        page->options = *options;
    TESS_TRY(TESS_NEW(mem, n, "runs of a page", &page->runs));
    for (int r = 0; r < n; r++) {
        page->n++;
        TESS_TRY(begin_run(folders[r], &page->runs[r]));
    }
    for (int r = 0; r < n; r++)
        name_run(page, r);
    TESS_TRY(tess_run_page_refresh(page, &changed));
    *out = TESS_GIVE(page);
    return TESS_OK;
}

void tess_run_page_close(tess_run_page **handle)
{
    tess_run_page *page = *handle;
    if (page == NULL)
        return;
    for (int r = 0; r < page->n; r++)
        page_run_free(&page->runs[r]);
    tess_mem_drop(&page->runs);
    tess_mem_drop(handle);
}

/* ---- Writing ---- */
tess_status tess_run_page_section(const tess_run_page *page, int section, tess_buffer *to)
{
    page_out out = {.to = to, .section = sections[section].id};
    if (!sections[section].is_there(page))
        return TESS_OK;
    page_put(&out, "<section id=\"%s\"><h2>%s</h2>\n", sections[section].id, sections[section].title);
    sections[section].put(page, &out);
    page_put(&out, "</section>\n");
    return out.status;
}

tess_status tess_page_put_style(tess_buffer *out)
{
    TESS_TRY(tess_buffer_printf(out, "<style>"));
    TESS_TRY(tess_buffer_append(out, tess_data_page_style, tess_data_page_style_size));
    return tess_buffer_printf(out, "</style>\n");
}

static tess_status put_script_text(const char *more, tess_buffer *out)
{
    TESS_TRY(tess_buffer_append(out, tess_data_page_script, tess_data_page_script_size));
    return tess_buffer_append(out, more, strlen(more));
}

tess_status tess_page_put_script(const char *more, tess_buffer *out)
{
    TESS_TRY(tess_buffer_printf(out, "<script>"));
    TESS_TRY(put_script_text(more, out));
    return tess_buffer_printf(out, "</script>\n");
}

tess_status tess_page_put_policy(const char *more, const char *connect, tess_buffer *out)
{
    char style[PAGE_HASH_TEXT], script[PAGE_HASH_TEXT];
    TESS_AUTO(tess_buffer_free) tess_buffer text = {.mem = out->mem};
    TESS_TRY(put_script_text(more, &text));
    return tess_buffer_printf(out,
                              "default-src 'none'; connect-src %s; style-src 'sha256-%s'; script-src 'sha256-%s'; "
                              "base-uri 'none'; form-action 'none'",
                              connect, page_hash(tess_data_page_style, tess_data_page_style_size, style),
                              page_hash(text.data, text.size, script));
}

static void put_title(const tess_run_page *page, page_out *out)
{
    for (int r = 0; r < page->n; r++) {
        page_put(out, r > 0 ? ", " : "");
        page_put_some(out, page->runs[r].name, 120);
    }
}

static tess_status put_head(const tess_run_page *page, tess_buffer *to)
{
    page_out out = {.to = to};
    page_put(&out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta "
                   "http-equiv=\"Content-Security-Policy\" content=\"");
    TESS_TRY(out.status);
    TESS_TRY(tess_page_put_policy("", "'none'", to));
    page_put(&out, "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta "
                   "name=\"referrer\" content=\"no-referrer\">\n<title>");
    put_title(page, &out);
    page_put(&out, "</title>\n");
    TESS_TRY(out.status);
    return tess_page_put_style(to);
}

static void put_beginning(const tess_run_page *page, page_out *out)
{
    char now[40];
    page_put(out, "</head>\n<body><header><h1>");
    put_title(page, out);
    page_put(out,
             "</h1><p class=\"note\">written %s by Tessera " TESS_VERSION
             "; in plots, drag to zoom, double click to see all</p>\n<nav aria-label=\"sections\"><ul>",
             page_time((int64_t)tess_os_wall_ns(), now, sizeof(now)));
    for (int i = 0; i < SECTIONS; i++)
        if (sections[i].is_there(page))
            page_put(out, "<li><a href=\"#%s\">%s</a></li>", sections[i].id, sections[i].title);
    page_put(out, "</ul></nav></header>\n<main>\n");
}

tess_status tess_run_page_put(const tess_run_page *page, tess_buffer *to)
{
    page_out out = {.to = to};
    TESS_TRY(put_head(page, to));
    put_beginning(page, &out);
    TESS_TRY(out.status);
    for (int i = 0; i < SECTIONS; i++)
        TESS_TRY(tess_run_page_section(page, i, to));
    page_put(&out, "</main>\n");
    TESS_TRY(out.status);
    TESS_TRY(tess_page_put_script("", to));
    return tess_buffer_printf(to, "</body></html>\n");
}

tess_status tess_run_page_write(const tess_run_page *page, const char *path)
{
    TESS_AUTO(tess_buffer_free) tess_buffer text = {.mem = page->mem};
    TESS_TRY(tess_run_page_put(page, &text));
    return tess_os_write_atomic(path, text.data, text.size);
}
