#include "cli/cli_progress.h"

#include "base/os/os.h"
#include "base/text/text.h"
#include "cli/cli.h"

static const double patience_s = 1, pace_s = 0.1;

void cli_progress_report(cli_progress *p, const char *doing, uint64_t done, uint64_t all)
{
    char a[32], b[32], c[32];
    double now_s = tess_os_now_s();
    if (p->began_s == 0)
        p->began_s = now_s;
    double took_s = now_s - p->began_s;
    if (took_s < patience_s || now_s - p->shown_s < pace_s)
        return;
    p->shown_s = now_s;
    double rate = (double)done / took_s, left_s = rate > 0 && all > done ? (double)(all - done) / rate : 0;
    cli_status_line("%s: %3.0f%%  %s of %s, %s/s, %.0f s left", doing, all > 0 ? 100 * (double)done / (double)all : 100,
                    tess_format_bytes((double)done, a, sizeof(a)), tess_format_bytes((double)all, b, sizeof(b)),
                    tess_format_bytes(rate, c, sizeof(c)), left_s);
}
