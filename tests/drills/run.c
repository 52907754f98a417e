/* One run of one drill: starts the job, listens to its launcher, measures. */
#include <poll.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/os.h"
#include "drills/drill.h"
#include "drills/spawn.h"
#include "trace/trace_folder.h"
#include "trace/ring.h"

enum { STEPS = 12, RING_EVENTS = 16384 };

/* A job that says nothing for so long has hung without a name; on a slow machine that takes far longer. */
static const double patience_s = 20, untimed_patience_s = 300;
static const double after_diagnosis_s = 0.3; /* time for noise that follows */

typedef struct job_run {
    const drill *drill;
    const char *tessera;
    drill_place place;
    char folder[64], fault[512];
    drill_child child;
    double diagnosis_s, end_s;
    drill_outcome *outcome;
} job_run;

static bool matches(const char *pattern, int rank, const char *text)
{
    char whole[1024];
    size_t at = 0;
    for (const char *c = pattern; *c != '\0' && at + 16 < sizeof(whole); c++) {
        if (c[0] == '%' && c[1] == 'd') {
            at += (size_t)snprintf(whole + at, sizeof(whole) - at, "%d", rank);
            c++;
        } else {
            whole[at++] = *c;
        }
    }
    whole[at] = '\0';
    regex_t regex;
    if (regcomp(&regex, whole, REG_EXTENDED | REG_NOSUB) != 0)
        return false;
    bool yes = regexec(&regex, text, 0, NULL, 0) == 0;
    regfree(&regex);
    return yes;
}

/* ---- Start
 * ------------------------------------------------------------------------------------------------------------------ */
static void write_file(const char *folder, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return;
    fputs(text, file);
    fclose(file);
}

static void write_training(const char *folder)
{
    static const char model[] =
        "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 301, "
        "\"hidden_size\": 42, \"intermediate_size\": 53, \"num_hidden_layers\": 3, \"num_attention_heads\": 3, "
        "\"num_key_value_heads\": 1, \"head_dim\": 14, \"hidden_act\": \"silu\", \"max_position_embeddings\": 64, "
        "\"rms_norm_eps\": 1e-6, \"rope_theta\": 10000.0, \"tie_word_embeddings\": false}\n";
    static const char config[] =
        "model:\n  config: model.json\ndata:\n  files: [text.txt]\ntraining:\n  steps: 1000\n  local_batch_size: 2\n"
        "  global_batch_size: 32\n  seq_len: 19\nlr_scheduler:\n  warmup_steps: 5\nmetrics:\n  log_freq: 1000\n"
        "  enable_tensorboard: false\nvalidation:\n  enable: false\ncheckpoint:\n  enable: false\n";
    char text[40000];
    size_t at = 0;
    for (unsigned i = 0, x = 12345; at + 40 < sizeof(text); i++) {
        x = x * 1103515245 + 12345;
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%u ships sailed by night %u\n", x / 65536 % 97, i % 31);
    }
    write_file(folder, "model.json", model);
    write_file(folder, "run.yaml", config);
    write_file(folder, "text.txt", text);
}

/* Makes a FIFO for reads that never end, at kind=io path=fifo. */
static void make_fifo(const char *folder)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/fifo", folder);
    if (mkfifo(path, 0600) != 0)
        fprintf(stderr, "drill: no fifo at %s\n", path);
}

static bool start(job_run *r)
{
    char number[16], fault[600], steps[16];
    snprintf(r->folder, sizeof(r->folder), "/tmp/tess_drill_XXXXXX");
    if (mkdtemp(r->folder) == NULL)
        return false;
    snprintf(r->fault, sizeof(r->fault), "rank=%d step=%d %s", r->place.rank, r->place.step, r->drill->fault);
    make_fifo(r->folder);
    if (r->drill->program == DRILL_JOB) {
        snprintf(steps, sizeof(steps), "%d", STEPS);
        return drill_spawn_ranks(r->tessera, r->place.world, r->folder, r->fault, "--rank", steps, &r->child);
    }
    write_training(r->folder);
    snprintf(number, sizeof(number), "%d", r->place.world);
    snprintf(fault, sizeof(fault), "fault.spec=%s", r->fault);
    const char *words[] = {
        r->tessera, "train",         "run.yaml", "-n", number, "job.dump_folder=.", "recovery.enable=false",
        fault,      r->drill->words, NULL};
    return drill_spawn(r->folder, NULL, (char *const *)(uintptr_t)words, &r->child);
}

/* ---- Listen
 * ----------------------------------------------------------------------------------------------------------------- */
/* The verdict is there: the first word that could be it. On a slow machine others have come late before, and that is
 * reported as well. */
static bool is_settled(const job_run *r)
{
    const drill_outcome *o = r->outcome;
    return o->said && (!r->place.untimed || (o->right_rank && o->right_place));
}

static void take_line(job_run *r, const char *line)
{
    drill_outcome *o = r->outcome;
    size_t at = strlen(o->text);
    snprintf(o->text + at, sizeof(o->text) - at, "%s\n", line);
    if (is_settled(r) || !matches(r->drill->says, r->place.rank, line)) {
        o->n_noise++;
        return;
    }
    r->diagnosis_s = tess_os_now_s();
    o->said = true;
    /* Two that wait for each other are a tie, too. */
    o->right_rank = matches(r->drill->who, r->place.rank, line) ||
                    (r->place.world == 2 && matches("a tie|waiting for rank %d in", r->place.rank, line));
    o->right_place = matches(r->drill->where, r->place.rank, line);
}

static double time_left(const job_run *r, double begin_s)
{
    double end_s = begin_s + (r->place.untimed ? untimed_patience_s : patience_s);
    if (r->drill->goes_on && is_settled(r))
        end_s = r->diagnosis_s + after_diagnosis_s;
    return end_s - tess_os_now_s();
}

static void listen(job_run *r)
{
    char line[8192];
    size_t n = 0;
    double begin_s = tess_os_now_s(), left_s;
    while ((left_s = time_left(r, begin_s)) > 0) {
        struct pollfd fd = {.fd = r->child.output, .events = POLLIN};
        if (poll(&fd, 1, (int)(left_s * 1000) + 1) <= 0)
            continue;
        char byte;
        if (read(r->child.output, &byte, 1) <= 0)
            return;
        if (byte != '\n' && n + 1 < sizeof(line)) {
            line[n++] = byte;
            continue;
        }
        line[n] = '\0';
        take_line(r, line);
        n = 0;
    }
}

/* ---- The answer of `tessera trace` ---- */
static void ask_trace(job_run *r)
{
    char command[4400];
    drill_outcome *o = r->outcome;
    snprintf(command, sizeof(command), "%s trace %s/trace 2>&1", r->tessera, r->folder);
    FILE *answer = popen(command, "r");
    if (answer == NULL)
        return;
    if (fgets(o->trace, sizeof(o->trace), answer) == NULL)
        o->trace[0] = '\0';
    while (fgetc(answer) != EOF)
        ;
    pclose(answer);
    o->right_trace = matches(r->drill->trace, r->place.rank, o->trace) ||
                     (r->place.world == 2 && matches(" tie", r->place.rank, o->trace));
}

/* ---- When the last honest rank came
 * --------------------------------------------------------------------------------------------------- */
static double newest_event(const char *path, double before_s)
{
    static tess_trace_event events[RING_EVENTS];
    tess_mapping map;
    const tess_trace_ring *ring;
    double newest_s = 0;
    if (tess_os_map(path, &map) != TESS_OK)
        return 0;
    if (tess_trace_open(map.data, map.size, &ring) == TESS_OK) {
        size_t n = tess_trace_read(ring, ring->capacity, events, RING_EVENTS);
        for (size_t i = 0; i < n; i++) {
            double at_s = (double)events[i].time_ns * 1e-9;
            if (at_s > newest_s && at_s < before_s)
                newest_s = at_s;
        }
    }
    tess_os_unmap(&map);
    return newest_s;
}

/* The arrival of the last rank. The last event of a rank that ends counts, too: before it there was nothing to report.
 */
static double last_arrival(const job_run *r)
{
    char folder[128], path[256];
    double newest_s = 0;
    snprintf(folder, sizeof(folder), "%s/trace", r->folder);
    for (int rank = 0; rank < r->place.world; rank++) {
        if (tess_trace_ring_path(folder, rank, path, sizeof(path)) != TESS_OK)
            continue;
        double at_s = newest_event(path, r->diagnosis_s);
        if (at_s > newest_s)
            newest_s = at_s;
    }
    return newest_s;
}

bool drill_run(const drill *drill, const char *tessera, const drill_place *place, drill_outcome *outcome)
{
    job_run r = {.drill = drill, .tessera = tessera, .place = *place, .outcome = outcome};
    *outcome = (drill_outcome){0};
    if (!start(&r)) {
        fprintf(stderr, "drill: cannot start %s\n", tessera);
        return false;
    }
    listen(&r);
    if (drill->goes_on)
        ask_trace(&r);
    drill_reap(&r.child);
    if (!drill->goes_on)
        ask_trace(&r);
    if (outcome->said)
        outcome->after_s = r.diagnosis_s - last_arrival(&r);
    tess_os_remove_tree(r.folder);
    return true;
}
