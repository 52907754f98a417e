/* Finds the process that printed a line: its rank, host, pid or actor, from the prefixes of launchers and loggers. */
#include "doctor/log/origin/origin_impl.h"

#include <string.h>

log_who log_origin_of_line(const char *line, size_t size)
{
    char head[LOG_HEAD + 1];
    log_who who = {.n_ranks = 0};
    size_t n = origin_copy_head(line, size, head, sizeof(head)), at = origin_skip_time(head, n),
           blanks = strspn(head, " ");
    at = at == 0 && origin_skip_column(head + blanks) > 0 ? blanks + origin_skip_column(head + blanks) : at;
    origin_set_rank(&who, log_rank_of_line(head + at, n - at));
    who.is_local = who.n_ranks > 0 && origin_names_only_local_rank(head + at, n - at);
    origin_read_worker(head + at, n - at, &who);
    origin_read_scheduler(head + at, n - at, &who);
    origin_read_task(head + at, n - at, &who);
    origin_read_neuron(head + at, &who);
    origin_read_ray(head, &who);
    origin_read_oneccl(head + at, &who);
    origin_read_tpu_worker(head + at, at, &who);
    origin_read_gpu(head + at, &who);
    origin_read_torch(head + at + origin_skip_bracket(head + at, n - at), &who);
    if (who.host[0] == '\0')
        origin_read_nccl(head, n, &who);
    if (who.host[0] == '\0')
        origin_read_syslog(head, n, &who);
    if (who.host[0] == '\0' && at > 0)
        origin_read_journal(head + at, &who);
    if (who.host[0] == '\0') {
        size_t after = at + origin_skip_tag(head + at);
        after += origin_skip_ucx_time(head + after);
        origin_read_crash(head + after, n - after, &who);
    }
    if (who.host[0] == '\0')
        origin_read_tag(head + at, &who);
    if (who.host[0] == '\0')
        origin_read_host(head + at, n - at, &who);
    if (who.host[0] == '\0')
        origin_read_bracketed_host(head + at, n - at, &who);
    if (who.host[0] == '\0')
        origin_read_field(head, &who);
    if (who.host[0] == '\0')
        origin_read_harness(head, &who);
    return who;
}
