/* `tessera doctor log`: explains the errors in a log, and names the rank that never joined. */
#include "cli/cli.h"

#include <stdio.h>

#include "base/os/os.h"
#include "doctor/job/error_report.h"
#include "doctor/log/log.h"
#include "doctor/log/log_files.h"

enum { MOST_HITS = 8 };

typedef struct log_options {
    const char *search, *list, *json;
    int64_t world; /* 0: not given */
    const char *knowledge[CLI_REPEATS + 1];
} log_options;

/* Warns of files that cannot be read. Fails only if none can be read. */
static tess_status read_files(tess_survey *survey, const tess_log_files *files)
{
    int n_read = 0;
    tess_status status = TESS_OK;
    for (int i = 0; i < files->n; i++) {
        tess_status one = tess_survey_read(survey, files->paths[i]);
        if (one == TESS_E_NOMEM)
            return one;
        n_read += one == TESS_OK;
        status = one == TESS_OK ? status : one;
        if (one != TESS_OK && files->n > 1)
            fprintf(stderr, "warning: %s\n", tess_error_message());
    }
    return n_read > 0 ? TESS_OK : status;
}

static tess_status read_names(tess_survey *survey, char *const *names, int n)
{
    TESS_AUTO(tess_log_files_free) tess_log_files files = {0};
    TESS_TRY(tess_log_files_find(survey->mem, names, n, &files));
    return read_files(survey, &files);
}

/* Prints error.json of the folders, before what their logs say. *n_found: number of such files. */
static tess_status report_records(tess_mem *mem, char *const *names, int n, int *n_found)
{
    char why[256];
    *n_found = 0;
    for (int i = 0; i < n; i++) {
        TESS_AUTO(tess_mem_drop) tess_error_file *record = NULL;
        tess_buffer out = {.mem = mem};
        TESS_TRY(tess_error_report_read(mem, names[i], &record, why));
        if (why[0] != '\0')
            fprintf(stderr, "warning: %s\n", why);
        if (record == NULL)
            continue;
        ++*n_found;
        TESS_TRY(cli_print_text(tess_error_report_put(record, &out), &out));
    }
    return TESS_OK;
}

static tess_status examine(tess_mem *mem, tess_knowledge *knowledge, const log_options *o, char *const *names,
                           int n_names, tess_buffer *out, int *code)
{
    TESS_AUTO(tess_survey_free) tess_survey survey = {0};
    tess_log_diagnosis diagnosis;
    int world = (int)o->world;
    TESS_TRY(tess_survey_begin(mem, knowledge, &survey));
    TESS_TRY(read_names(&survey, names, n_names));
    if (world > 0 && world < survey.n_ranks)
        fprintf(stderr, "warning: --world %d: rank %d is in these logs, so there are at least %d ranks\n", world,
                survey.n_ranks - 1, survey.n_ranks);
    TESS_TRY(tess_log_diagnose(&survey, world, &diagnosis));
    *code = diagnosis.kind == TESS_LOG_NOTHING ? CLI_DOCTOR_FINDS : TESS_EXIT_OK;
    return tess_log_print(&survey, &diagnosis, o->json != NULL, out);
}

static tess_status list(const tess_knowledge *knowledge, tess_buffer *out)
{
    for (int i = 0; i < tess_knowledge_n(knowledge); i++) {
        const tess_log_entry *entry = tess_knowledge_at(knowledge, i);
        TESS_TRY(tess_buffer_printf(out, "%-28s %s\n", entry->row.id, entry->symptom));
    }
    return TESS_OK;
}

static tess_status search(const tess_knowledge *knowledge, const char *words, tess_buffer *out, int *code)
{
    int hits[MOST_HITS], n = tess_log_search(knowledge, words, hits, MOST_HITS);
    if (n == 0)
        TESS_TRY(tess_buffer_printf(out, "nothing about '%s' is in the knowledge base (%d entries)\n", words,
                                    tess_knowledge_n(knowledge)));
    for (int i = 0; i < n; i++) {
        TESS_TRY(tess_buffer_printf(out, "%s", i > 0 ? "\n" : ""));
        TESS_TRY(tess_log_print_entry(tess_knowledge_at(knowledge, hits[i]), out));
    }
    *code = n > 0 ? TESS_EXIT_OK : CLI_DOCTOR_FINDS;
    return TESS_OK;
}

/* Explains logs. Where a folder has no log, its error.json says enough. */
static tess_status explain(tess_mem *mem, tess_knowledge *knowledge, const log_options *o, char *const *names, int n,
                           tess_buffer *out, int *code)
{
    int n_records = 0;
    if (o->json == NULL)
        TESS_TRY(report_records(mem, names, n, &n_records));
    tess_status status = examine(mem, knowledge, o, names, n, out, code);
    if (n_records == 0 || (status != TESS_OK && status != TESS_E_NOT_FOUND))
        return status;
    tess_error_clear();
    *code = TESS_EXIT_OK;
    return TESS_OK;
}

static int run(tess_mem *mem, int argc, char **argv)
{
    log_options o = {0};
    const cli_flag flags[] = {
        {"--search", "WORDS", "entries about a symptom that has no text: --search 'hang at the end of an epoch'",
         .text = &o.search},
        {"--list", NULL, "all entries", .text = &o.list},
        {"--world", "N", "ranks of the job, where the logs do not say", .integer = &o.world, .min = 1,
         .max = LOG_MOST_RANKS},
        {"--json", NULL, "as JSON", .text = &o.json},
        {"--knowledge", "FILE ...", "more entries; ~/.config/tessera/errors.yaml is read where there is one",
         .text = o.knowledge},
    };
    int n = cli_parse(argc, argv, &cli_doctor_log, flags, sizeof(flags) / sizeof(flags[0]));
    int n_files = 0, code = TESS_EXIT_OK;
    if ((n > 0) + (o.search != NULL) + (o.list != NULL) != 1)
        return cli_misuse(&cli_doctor_log, "name log files, or --search, or --list");
    while (o.knowledge[n_files] != NULL)
        n_files++;
    tess_knowledge *knowledge = NULL;
    tess_buffer out = {.mem = mem};
    tess_status status = tess_knowledge_create(mem, o.knowledge, n_files, &knowledge);
    if (status == TESS_OK && n > 0)
        status = explain(mem, knowledge, &o, argv + 1, n, &out, &code);
    else if (status == TESS_OK)
        status = o.list != NULL ? list(knowledge, &out) : search(knowledge, o.search, &out, &code);
    status = cli_print_text(status, &out);
    tess_knowledge_destroy(&knowledge);
    return status == TESS_OK ? code : cli_end(status);
}

const cli_command cli_doctor_log = {
    "doctor log",
    "FILE|FOLDER... | --search WORDS | --list",
    "explain what the texts of a log mean, and name the rank that never came\n\n"
    "Also says what came first. Give the logs of all ranks: files, or folders with all text files below\n"
    "them; FILE - is standard input.",
    .exit_codes = "0 known texts were found (root cause, effects or notes); 1 failed;\n"
                  "2 bad input: a log is not text or cannot be read; 3 no error was found, or none that is known",
    .examples = "tessera doctor log rank0.log rank1.log\n"
                "tessera doctor log logs\n"
                "tessera doctor log --search 'unhandled system error'",
    .run = run};
