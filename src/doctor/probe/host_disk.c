/* Checks the folders that a job writes to. */
#include "base/text/text.h"
#include "doctor/probe/probe_impl.h"

#define SPACE_FAIL (64.0 * (1 << 20))
#define SPACE_WARN (1024.0 * (1 << 20))
#define SPEED_WARN 50e6 /* bytes a second */
#define PATIENCE_S 60   /* acceptable seconds for writing a checkpoint */

void probe_dump_folder(const probe_host *host, tess_probe_finding *finding)
{
    const probe_folder *dump = &host->dump;
    if (dump->error[0] != '\0')
        probe_say(finding, TESS_PROBE_FAIL, "job.dump_folder %s: %s", dump->named, dump->error);
    else
        probe_say(finding, TESS_PROBE_OK, "%s can be written", dump->named);
}

/* Checks the free space for two checkpoints: a new checkpoint and the previous one exist at the same time. */
void probe_dump_space(const probe_host *host, tess_probe_finding *finding)
{
    char has[32], all[32], takes[32];
    const tess_os_space *space = &host->dump.space;
    double needed = host->plan.checkpoint_bytes, unused = (double)space->free;
    tess_format_bytes(unused, has, sizeof(has));
    tess_format_bytes((double)space->total, all, sizeof(all));
    tess_format_bytes(needed, takes, sizeof(takes));
    if (space->total == 0)
        probe_say(finding, TESS_PROBE_ABSENT, "the file system does not say how much room there is");
    else if (unused < SPACE_FAIL || unused < needed)
        probe_say(finding, TESS_PROBE_FAIL, "%s: %s of %s are free%s%s", host->dump.there, has, all,
                  needed > 0 ? ", a checkpoint takes " : "", needed > 0 ? takes : "");
    else if (unused < SPACE_WARN || unused < 2 * needed)
        probe_say(finding, TESS_PROBE_WARN, "%s: %s of %s are free%s%s", host->dump.there, has, all,
                  needed > 0 ? ", a checkpoint takes twice (the old one is removed last) " : "",
                  needed > 0 ? takes : "");
    else
        probe_say(finding, TESS_PROBE_OK, "%s of %s free", has, all);
}

void probe_dump_speed(const probe_host *host, tess_probe_finding *finding)
{
    char rate[32];
    double bytes_per_s = host->dump.bytes_per_s;
    double save_s = bytes_per_s > 0 ? host->plan.checkpoint_bytes / bytes_per_s : 0;
    tess_format_bytes(bytes_per_s, rate, sizeof(rate));
    if (bytes_per_s == 0)
        probe_say(finding, TESS_PROBE_ABSENT, "nothing could be written in %s", host->dump.there);
    else if (save_s > PATIENCE_S)
        probe_say(finding, TESS_PROBE_WARN, "%s takes %s/s: a checkpoint takes %.0f s", host->dump.there, rate, save_s);
    else if (bytes_per_s < SPEED_WARN)
        probe_say(finding, TESS_PROBE_WARN, "%s takes only %s/s", host->dump.there, rate);
    else
        probe_say(finding, TESS_PROBE_OK, "%s/s", rate);
}

void probe_tmp(const probe_host *host, tess_probe_finding *finding)
{
    char has[32], rate[32];
    const probe_folder *tmp = &host->tmp;
    tess_format_bytes((double)tmp->space.free, has, sizeof(has));
    tess_format_bytes(tmp->bytes_per_s, rate, sizeof(rate));
    if (tmp->error[0] != '\0')
        probe_say(finding, TESS_PROBE_FAIL, "TMPDIR %s: %s", tmp->named, tmp->error);
    else if (tmp->space.total > 0 && (double)tmp->space.free < SPACE_FAIL)
        probe_say(finding, TESS_PROBE_WARN, "TMPDIR %s: %s are free (MPI keeps its sockets and files there)",
                  tmp->named, has);
    else if (tmp->bytes_per_s > 0 && tmp->bytes_per_s < SPEED_WARN)
        probe_say(finding, TESS_PROBE_WARN, "TMPDIR %s takes only %s/s", tmp->named, rate);
    else
        probe_say(finding, TESS_PROBE_OK, "%s free, %s/s", has, rate);
}
