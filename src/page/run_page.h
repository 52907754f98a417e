/* The page of one or several runs: curves, times, memory, collectives, events, samples and configuration, as one HTML
 * file that needs no network. Reads only what a run writes into its folder. Nothing of those files reaches the page
 * as markup.
 *
 * A page is a list of sections. `tessera report` and the end of a run write all of them at once; a live page puts
 * single sections again when the files have grown. */
#ifndef TESS_PAGE_RUN_PAGE_H
#define TESS_PAGE_RUN_PAGE_H

#include <jansson.h>

#include "base/text/text.h"

enum { TESS_PAGE_RUNS = 16, TESS_PAGE_SAMPLES = 12 };

typedef struct tess_run_page tess_run_page;

typedef struct tess_page_options {
    /* Lists samples of a run for the page, as a new reference: an array of at most TESS_PAGE_SAMPLES objects with the
     * members rollout, number, reward (null: none), finish, prompt and answer. NULL: no section of samples. */
    json_t *(*samples)(void *self, tess_mem *mem, const char *folder);
    void *self;
    double patience_s; /* seconds that reading may take; 0: no limit */
    /* Reading that takes longer than patience_s or that fails is no failure: the page has what was read, and the next
     * refresh reads on from there. */
    bool reads_on;
} tess_page_options;

/* Whether a folder has a file that runs write. Reads none of them. */
bool tess_run_page_is_run(const char *folder);

/* Reads the runs in `folders` (n of 1 .. TESS_PAGE_RUNS). The options are copied. A file that is missing, cut or
 * damaged leaves out what it would show. Memory is bounded, whatever
 * the size of the files.
 *   TESS_E_NOT_FOUND  a folder does not exist or holds no run; the message names it
 *   TESS_E_TIMEOUT    reading took longer than options->patience_s, which does not stop the reading of one block or of
 *                     files that are read whole, such as trace/job.json */
tess_status tess_run_page_open(tess_mem *mem, const char *const *folders, int n, const tess_page_options *options,
                               tess_run_page **page);
void tess_run_page_close(tess_run_page **page);

/* Reads what the runs have written since the last call. *changed: there is something new, also after a failure.
 * Errors as _open; the page stays valid, and the next call reads on. */
tess_status tess_run_page_refresh(tess_run_page *page, bool *changed);

/* The sections, in the order of the page. The id is a valid HTML id, such as "curves". */
int tess_page_n_sections(void);
const char *tess_page_section_id(int section);
/* Appends one section, <section id="curves">...</section>. Appends nothing if the runs have nothing to show there. */
tess_status tess_run_page_section(const tess_run_page *page, int section, tess_buffer *out);

/* Appends the whole page: head, navigation and all sections. */
tess_status tess_run_page_put(const tess_run_page *page, tess_buffer *out);
/* Writes the whole page to a file, as tess_os_write_atomic does. */
tess_status tess_run_page_write(const tess_run_page *page, const char *path);

/* Parts for a page that another module composes. They append the style and the script of sections, each with its
 * element. The policy allows exactly them; its text goes into a Content-Security-Policy. `connect` is the value of
 * connect-src, such as "'self'". The script defines tesseraSections(element), which makes the plots below an element
 * zoom; call it after sections have been replaced. `more` is a script of the caller that follows in the same element;
 * "": none. */
tess_status tess_page_put_style(tess_buffer *out);
tess_status tess_page_put_script(const char *more, tess_buffer *out);
tess_status tess_page_put_policy(const char *more, const char *connect, tess_buffer *out);

/* Appends text as the content of an element or of a quoted attribute. Bytes that are not UTF-8 and control characters
 * become U+FFFD. */
tess_status tess_page_put_text(const char *text, size_t n, tess_buffer *out);

#endif
