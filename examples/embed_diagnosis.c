/* A tool for the person on call: which rank holds a job up, and why. It needs the library alone, and no rank's help.
 *
 *     ./embed_diagnosis                  lists the running jobs, each with its root cause
 *     ./embed_diagnosis JOB [--json]     JOB: a job's folder, or the process id of its launcher or of a rank
 *
 * Exit codes: 0 the job is healthy or ended well; 3 a culprit is named; 4 none is; 2 there is no such job. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tessera/diagnosis.h>

static int refuse(void)
{
    fprintf(stderr, "embed_diagnosis: %s\n", tess_error_message());
    return 2;
}

static int code_of(const tess_verdict *verdict)
{
    if (verdict->kind == TESS_DIAGNOSIS_HEALTHY || verdict->kind == TESS_DIAGNOSIS_FINISHED)
        return 0;
    return verdict->tie || verdict->kind == TESS_DIAGNOSIS_UNDECIDED ? 4 : 3;
}

static void print_ranks(const char *what, const int *ranks, int n)
{
    printf("  %s:", what);
    for (int i = 0; i < n; i++)
        printf(" %d", ranks[i]);
    printf("\n");
}

/* Prints the state of a rank, and why, unless that begins with the state. */
static void print_rank(int number, const tess_rank_report *rank)
{
    int repeats = strncmp(rank->why, rank->state, strlen(rank->state)) == 0;
    printf("  rank %d, process %d%s%s: %s%s%s\n", number, rank->pid, rank->host[0] != '\0' ? " on " : "", rank->host,
           repeats ? "" : rank->state, repeats || rank->why[0] == '\0' ? "" : ", ", rank->why);
}

static tess_status print(const tess_job_report *report)
{
    const tess_verdict *verdict = tess_job_report_verdict(report);
    printf("%s: %s\n", tess_diagnosis_name(verdict->kind), verdict->headline);
    print_ranks("culprits", verdict->ranks, verdict->n_ranks);
    print_ranks("waiting", verdict->waiting, verdict->n_waiting);
    for (int i = 0; i < verdict->n_evidence; i++)
        printf("  because %s\n", verdict->evidence[i]);
    if (verdict->fix[0] != '\0')
        printf("  advice: %s\n", verdict->fix);
    for (int i = 0; i < verdict->n_ranks; i++) {
        tess_rank_report rank;
        TESS_TRY(tess_job_report_rank(report, verdict->ranks[i], &rank));
        print_rank(verdict->ranks[i], &rank);
    }
    return TESS_OK;
}

static tess_status print_json(const tess_job_report *report)
{
    char *text;
    TESS_TRY(tess_job_report_json(report, &text));
    fputs(text, stdout);
    free(text);
    return TESS_OK;
}

static int diagnose(const char *job, int as_json)
{
    tess_job_report *report;
    if (tess_job_report_read(job, -1, &report) != TESS_OK)
        return refuse();
    tess_status status = as_json ? print_json(report) : print(report);
    int code = status == TESS_OK ? code_of(tess_job_report_verdict(report)) : refuse();
    tess_job_report_destroy(&report);
    return code;
}

static int diagnose_all(void)
{
    tess_running_job *jobs;
    int n, worst = 0;
    if (tess_jobs_list(&jobs, &n) != TESS_OK)
        return refuse();
    for (int i = 0; i < n; i++) {
        char pid[16];
        printf("job %d, %d ranks, %s\n", jobs[i].pid, jobs[i].world, jobs[i].command);
        snprintf(pid, sizeof(pid), "%d", jobs[i].pid);
        int code = diagnose(pid, 0);
        worst = code > worst ? code : worst;
    }
    free(jobs);
    return worst;
}

int main(int argc, char **argv)
{
    return argc > 1 ? diagnose(argv[1], argc > 2 && strcmp(argv[2], "--json") == 0) : diagnose_all();
}
