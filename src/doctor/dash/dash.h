/* The live page of one or several runs: what their report shows (page/run_page.h), and what their ranks do now and who
 * waits for whom, as `tessera top` shows it. It only reads, and answers the requests of a browser. A run may begin, end
 * or vanish while the page is open. */
#ifndef TESS_DOCTOR_DASH_DASH_H
#define TESS_DOCTOR_DASH_DASH_H

#include "doctor/web/server.h"
#include "page/run_page.h"

enum { TESS_DASH_TOKEN = 33 };

typedef struct tess_dash tess_dash;

/* Makes a token that cannot be guessed: 32 hexadecimal digits. */
tess_status tess_dash_make_token(char token[TESS_DASH_TOKEN]);

/* Opens the runs in `folders` (n of 1 .. TESS_PAGE_RUNS). A folder may hold no run yet. Texts are borrowed, and the
 * options are copied. TESS_E_NOT_FOUND: there is no such folder. */
tess_status tess_dash_open(tess_mem *mem, const char *const *folders, int n, const char *token,
                           const tess_page_options *options, tess_dash **dash);
void tess_dash_close(tess_dash **dash);

/* Answers "/TOKEN/", the whole page, and "/TOKEN/part/NAME": "live", the id of a section of the report, or "version", a
 * number that changes when a section does. Other paths of the token are not found; all others are refused. `dash` is a
 * tess_dash. */
tess_status tess_dash_answer(void *dash, const char *path, tess_web_answer *answer);

#endif
