/* `tessera doctor log`: sample lines of entries, timeouts and the missing rank, lists of torchrun, reports. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "base/text/json.h"
#include "base/text/literal.h"
#include "doctor/log/log_impl.h"

static tess_knowledge *knowledge;
static tess_survey survey;
static tess_log_diagnosis diagnosis;

static const char *write_file(const char *name, const char *text, size_t size)
{
    static char path[512];
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), name));
    EXPECT_OK(tess_os_write_atomic(path, text, size));
    return path;
}

static void begin(void)
{
    setenv("XDG_CONFIG_HOME", "/nowhere", 1);
    EXPECT_OK(tess_knowledge_create(test_mem(), NULL, 0, &knowledge));
    EXPECT_OK(tess_survey_begin(test_mem(), knowledge, &survey));
}

static void give(const char *name, const char *text)
{
    EXPECT_OK(tess_survey_read(&survey, write_file(name, text, strlen(text))));
}

static void judge(int world)
{
    EXPECT_OK(tess_log_diagnose(&survey, world, &diagnosis));
}

static void end(void)
{
    tess_survey_free(&survey);
    tess_knowledge_destroy(&knowledge);
}

static const log_match *match_of(const char *id)
{
    for (int i = 0; i < tess_knowledge_n(knowledge); i++)
        if (strcmp(tess_knowledge_at(knowledge, i)->row.id, id) == 0)
            return &survey.matches[i];
    test_fail(__FILE__, __LINE__, "there is no entry '%s'", id);
}

/* Texts as frameworks and scripts print them. */
static const struct {
    const char *text, *id;
} samples[] = {
    {"RuntimeError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1191", "nccl-error-cut"},
    {"Training failed: CUDA error: an illegal address", "script-training-failed"},
    {"GPU speeds: [1.02, 1.01, 1.74]", "script-gpu-speeds"},
    {"[Rank 3] Entering barrier at step 120", "script-barrier-steps"},
    {"unhandled system error, NCCL version 2.14.3", "nccl-unhandled-system-error"},
    {"torch.distributed.DistBackendError: NCCL timeout after 1800 seconds", "pytorch-nccl-timeout"},
    {"NCCL WARN Unhandled System Error while waiting for event", "nccl-system-error-event"},
    {"RuntimeError: NCCL error: unhandled cuda error", "nccl-unhandled-cuda-error"},
    {"  File \"torch/distributed/distributed_c10d.py\", line 2838, in barrier", "stack-in-collective"},
    {"    work.wait()", "stack-in-collective"},
    {"Error on rank 3: division by zero", "exception-on-one-rank"},
    {"RuntimeError: barrier timeout", "barrier-timeout"},
    {"train_step timeout after 300s", "function-timeout"},
    {"Warning: Progress mismatch: [100, 100, 99, 100]", "progress-mismatch"},
    {"Slowest/Fastest ratio: 2.51x", "slow-gpu-ratio"},
    {"RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB", "cuda-out-of-memory"},
    {"WARNING: OOM detected!", "cuda-out-of-memory"},
    {"Warning: Falling back to FP16 due to hardware limitations", "precision-fallback"},
    {"Missing key(s) in state_dict: \"_fsdp_wrapped_module.lm_head.weight\"", "checkpoint-keys"},
    {"[Rank 2] WARNING: all_reduce took 12.34s", "slow-all-reduce"},
    {"[Rank 1] DEADLOCK WARNING!", "deadlock-warning"},
    {"[Rank 0] ERROR: Missing ranks in sync check: [0, 1, 3]", "deadlock-warning"},
    {"[Rank 0] Sync check failed: timed out", "deadlock-warning"},
    {"ValueError: Anomaly detected: loss=nan", "loss-anomaly"},
    {"WARNING: GPU 6 temperature 91\xc2\xb0"
     "C",
     "gpu-temperature"},
    {"WARNING: GPU 2 has 4 ECC errors", "cuda-ecc"},
    {"NCCL WARN Mismatched NCCL version detected : rank 0 version 21403 rank 8 version 21805", "nccl-version-mismatch"},
    {"RuntimeError: CUDA error: invalid device ordinal", "cuda-invalid-device"},
    {"RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
     "checkpoint-corrupt"},
    {"Received signal 15, saving checkpoint...", "signal-checkpoint"},
    {"Attempting NCCL recovery...", "recovery-attempt"},
    {"Network health check failed: no route", "health-check-failed"},
    {"[rank6]:[E717 13:20:49.407638053 ProcessGroupNCCL.cpp:632] [Rank 6] Watchdog caught collective operation "
     "timeout: "
     "WorkNCCL(SeqNum=56731, OpType=ALLREDUCE, NumelIn=467019003, NumelOut=467019003, Timeout(ms)=600000) ran for "
     "600053 milliseconds before timing out.",
     "pytorch-watchdog-timeout"},
    {"NCCL operation timed out (1800 seconds)", "pytorch-nccl-timeout"},
    {"NCCL timeout detected, skipping this evaluation", "pytorch-nccl-timeout"},
    {"wandb: eval/evaluation_failed 1.0", "evaluation-fails"},
    /* Python's last line, with the prefixes of torchrun, mpirun, srun and Ray */
    {"IndexError: list index out of range", "python-index"},
    {"[rank2]: NameError: name 'x' is not defined", "python-name-missing"},
    {"[default2]:json.decoder.JSONDecodeError: Expecting value", "python-text-damaged"},
    {"[1,2]<stderr>:ValueError: x", "python-exception"},
    {"[1,2]<stderr>: ValueError: x", "python-exception"},
    {"2: ValueError: x", "python-exception"},
    {"(train pid=123, ip=10.0.0.2) ValueError: x", "python-exception"},
    {"RuntimeError: The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 0",
     "pytorch-tensors-do-not-fit"},
    /* other lines that people report */
    {"[ 1234.5] Out of memory: Killed process 4242 (python3) total-vm:1kB, anon-rss:1kB", "kernel-oom-kill"},
    {"slurmstepd: error: Detected 1 oom_kill event in StepId=1.0", "slurm-oom-kill"},
    {"  exitcode  : -9 (pid: 4242)", "killed"},
    {"NET/IB : Got completion from peer 10.0.0.2<4000> with status=12 opcode=0 len=0", "nccl-ib-retry-exceeded"},
    {"torch.distributed.elastic.multiprocessing.errors.ChildFailedError:", "torchrun-child-failed"},
    {"MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD", "openmpi-abort"},
    {"=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES", "mpich-abort"},
    {"SafetensorError: Error while deserializing header: MetadataIncompleteBuffer", "safetensors-damaged"},
    {"slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2024-01-01T00:00:00 DUE TO TIME LIMIT ***", "slurm-time-limit"},
    {"NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.", "cuda-fallen-off-bus"},
    {"NVRM: Xid (PCI:0000:3b:00): 95, pid=1, Uncontained ECC error", "cuda-xid-memory"},
    {"[ 1843.3] NVRM: fallen off the bus and is not responding to commands.", "cuda-fallen-off-bus"},
    {"Feb 14 05:03:55 n1 kernel: NVRM: system has fallen off the bus and is not responding to commands.",
     "cuda-fallen-off-bus"},
    {"[ 12.3] NVRM: installed in this system has fallen off the bus and is", "cuda-fallen-off-bus"},
    {"pass forward on device 3 step 3942", "script-pass-forward"},
    {"[rank1]: pass backward on device 1 step 3942", "script-pass-backward"},
    {"tessera: team 'world': ranks disagree, the odd one out: rank 3: barrier", "tessera-mismatch"},
    {"tessera: rank 3 was killed by signal 9 (SIGKILL) in all_reduce #7 of team 'world'", "tessera-rank-lost"},
    {"all_reduce #7 of team 'world': 1 of 8 ranks did not come within 30 s; rank 3 is in phase 'data'",
     "tessera-timeout"},
    {"tessera: rank 3 has kept 3 ranks waiting for 0.8 s in barrier #868 of team 'dp_shard'; it is in phase 'data'",
     "tessera-waits"},
    {"tessera: rank 1 is 61% slow in forward: 38.1 ms longer than the others in each step", "tessera-slow"},
    {"tessera: step 9: loss 4.77851, gradient norm nan: first came rank 2, micro-batch 2 of 0..7: gradient 'x' is nan",
     "tessera-numbers"},
    {"step 10: replicas have diverged: rank 3: weight 'x': other bits than on 3 of 4 ranks", "tessera-replicas"},
};

static void every_sample_line_is_its_entry(void)
{
    begin();
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        tess_found found;
        bool is_there = false;
        tess_knowledge_find(knowledge, samples[i].text, strlen(samples[i].text), &found);
        for (int e = 0; e < found.n_entries; e++)
            is_there |= strcmp(tess_knowledge_at(knowledge, found.entries[e].entry)->row.id, samples[i].id) == 0;
        if (!is_there)
            test_fail(__FILE__, __LINE__, "\"%s\" is not %s (%d others)", samples[i].text, samples[i].id,
                      found.n_entries);
    }
    EXPECT(tess_knowledge_n(knowledge) >= 60);
    end();
}

/* A pattern without a word would be matched against every line, except those of exceptions. */
static void every_pattern_has_a_word_to_look_for(void)
{
    char word[TESS_LITERAL_MOST];
    begin();
    for (int i = 0; i < tess_knowledge_n(knowledge); i++) {
        const tess_log_entry *entry = tess_knowledge_at(knowledge, i);
        for (const char *at = entry->match; at != NULL && *at != '\0'; at += strcspn(at, "\n") + 1) {
            size_t n = strcspn(at, "\n");
            if (tess_pattern_literal(at, n, word) == 0 && !entry->is_fallback)
                test_fail(__FILE__, __LINE__, "%s: '%.*s' has none", entry->row.id, (int)n, at);
            if (at[n] == '\0')
                break;
        }
    }
    static const char pattern[] = "ab(cdefghij)+Klmno?p{2}\\dqr\\.st[uv]wxy";
    EXPECT_INT(tess_pattern_literal(pattern, strlen(pattern), word), 5); /* the first of two */
    EXPECT(memcmp(word, "qr.st", 5) == 0);
    EXPECT_INT(tess_pattern_literal("abcd|efgh", 9, word), 0);
    end();
}

static void expect_search(const char *words, const char *id)
{
    int hits[3], n = tess_log_search(knowledge, words, hits, 3);
    for (int i = 0; i < n; i++)
        if (strcmp(tess_knowledge_at(knowledge, hits[i])->row.id, id) == 0)
            return;
    test_fail(__FILE__, __LINE__, "'%s' does not find %s (first of %d: %s)", words, id, n,
              n > 0 ? tess_knowledge_at(knowledge, hits[0])->row.id : "none");
}

static void symptoms_without_a_text_are_found_by_words(void)
{
    int hits[1];
    begin();
    expect_search("hang at broadcast validation", "hang-in-branch");
    expect_search("hang at the end of an epoch", "hang-at-end-of-epoch");
    expect_search("exception swallowed", "exception-on-one-rank");
    expect_search("barrier uneven load", "barrier-uneven-load");
    expect_search("barrier I/O pressure", "barrier-io-pressure");
    expect_search("one batch less 64 GPUs", "one-batch-less");
    expect_search("validation_step broadcast rank == 0", "validation-on-rank-0");
    expect_search("FSDP OOM DeepSpeed fine", "fsdp-out-of-memory");
    expect_search("DeepSpeed slow", "deepspeed-slow-zero3");
    expect_search("checkpoint keys do not match", "checkpoint-keys");
    expect_search("34B OOM", "big-model-out-of-memory");
    expect_search("efficiency 90% 60% 32 GPUs", "scaling-efficiency");
    expect_search("communication fails between nodes", "nodes-cannot-talk");
    expect_search("waits near print or logging", "implicit-synchronisation");
    expect_search("wrong GPU", "cuda-invalid-device");
    expect_search("corrupt checkpoint", "checkpoint-corrupt");
    expect_search("chunking slower", "chunking-slower");
    EXPECT_INT(tess_log_search(knowledge, "zebra giraffe", hits, 1), 0);
    end();
}

static const char watchdog[] =
    "[rank6]:[E717 13:20:49.407638053 ProcessGroupNCCL.cpp:632] [Rank 6] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=56731, OpType=ALLREDUCE, NumelIn=467019003, NumelOut=467019003, Timeout(ms)=600000) ran for "
    "600053 "
    "milliseconds before timing out.";

static void a_watchdog_line_comes_apart(void)
{
    log_work work;
    log_progress progress;
    EXPECT(log_parse_work(watchdog, strlen(watchdog), &work));
    EXPECT_INT(work.rank, 6);
    EXPECT_TEXT(work.file, "ProcessGroupNCCL.cpp");
    EXPECT_INT(work.line, 632);
    EXPECT_INT(work.sequence, 56731);
    EXPECT_TEXT(work.op, "ALLREDUCE");
    EXPECT_INT(work.numel_in, 467019003);
    EXPECT_INT(work.numel_out, 467019003);
    EXPECT_INT(work.timeout_ms, 600000);
    EXPECT_INT(work.elapsed_ms, 600053);
    static const char newer[] = "[PG ID 1 PG GUID 1(default_pg) Rank 3] Watchdog caught collective operation timeout: "
                                "WorkNCCL(SeqNum=7, OpType=_REDUCE_SCATTER_BASE, NumelIn=8, NumelOut=2, Timeout(ms)=5)";
    EXPECT(log_parse_work(newer, strlen(newer), &work));
    EXPECT_INT(work.rank, 3);
    EXPECT_TEXT(work.group, "ID 1 PG GUID 1(default_pg)");
    EXPECT_INT(work.numel_out, 2);
    EXPECT_INT(work.elapsed_ms, -1);
    static const char older[] =
        "[E ProcessGroupNCCL.cpp:828] [Rank 0] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=8, OpType=BROADCAST, TensorShape=[4096, 11008], Timeout(ms)=1800000) ran "
        "for 1806986 milliseconds before timing out.";
    EXPECT(log_parse_work(older, strlen(older), &work));
    EXPECT_INT(work.numel_in, 4096 * 11008);
    static const char state[] =
        "[rank1]:[E1218 20:27:21.4 ProcessGroupNCCL.cpp:2168] [PG ID 1 PG GUID 1 Rank 1]  failure "
        "detected by watchdog at work sequence id: 1 PG status: last enqueued work: 547, last "
        "completed work: -1";
    EXPECT(log_parse_progress(state, strlen(state), &progress));
    EXPECT_INT(progress.failed, 1);
    EXPECT_INT(progress.enqueued, 547);
    EXPECT_INT(progress.completed, -1);
    static const char old_state[] =
        "[PG 1 Rank 0] Exception (either an error or timeout) detected by watchdog at work: "
        "7753, last enqueued NCCL work: 7755, last completed NCCL work: 7752.";
    EXPECT(log_parse_progress(old_state, strlen(old_state), &progress));
    EXPECT_INT(progress.failed, 7753);
    EXPECT_INT(progress.enqueued, 7755);
    EXPECT_INT(progress.completed, 7752);
    const char *other = "[Rank 2] Watchdog caught collective operation timeout: WorkHCCL(SeqNum=9, OpType=ALLGATHER, "
                        "NumelIn=4, NumelOut=8, Timeout(ms)=1800000) ran for 1800100 milliseconds before timing out.";
    EXPECT(log_parse_work(other, strlen(other), &work));
    EXPECT_INT(work.rank, 2);
    EXPECT_INT(work.sequence, 9);
    EXPECT(!log_parse_work("WorkNCCL(", 9, &work));
}

/* A timeout of a rank, with its sequence number, operation and count. */
static void add_timeout(char *text, size_t size, int rank, int sequence, const char *op, long count)
{
    size_t at = strlen(text);
    snprintf(
        text + at, size - at,
        "[rank%d]:[E717 13:20:49.4076380%d ProcessGroupNCCL.cpp:632] [Rank %d] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=%d, OpType=%s, NumelIn=%ld, NumelOut=%ld, Timeout(ms)=600000) ran for 600053 "
        "milliseconds before timing out.\n"
        "[rank%d]:[E717 13:20:49.5 ProcessGroupNCCL.cpp:2168] [PG ID 1 PG GUID 1 Rank %d]  failure detected by "
        "watchdog at work sequence id: %d PG status: last enqueued work: %d, last completed work: %d\n",
        rank, rank, rank, sequence, op, count, count, rank, rank, sequence, sequence + 2, sequence - 1);
}

/* Logs of 8 ranks, all but `missing` with a timeout. */
static void give_eight(int missing)
{
    for (int r = 0; r < 8; r++) {
        char text[2048] = "2024-07-17 13:00:00 step 811\n", name[32];
        if (r != missing)
            add_timeout(text, sizeof(text), r, 56731, "ALLREDUCE", 467019003);
        snprintf(name, sizeof(name), "rank%d.log", r);
        give(name, text);
    }
}

static void the_missing_rank_is_named_and_size_acquitted(void)
{
    begin();
    give_eight(3);
    judge(8);
    EXPECT_INT(diagnosis.kind, TESS_LOG_MISSING);
    EXPECT_INT(diagnosis.n_culprits, 1);
    EXPECT_INT(diagnosis.culprit[0], 3);
    EXPECT_CONTAINS(diagnosis.headline, "rank 3 never joined ALLREDUCE #56731");
    EXPECT_CONTAINS(diagnosis.headline, "ranks 0-2,4-7 waited 600 s");
    EXPECT(diagnosis.mb_per_s > 5.4 && diagnosis.mb_per_s < 5.5);
    EXPECT(diagnosis.traffic_bytes > 3.26e9 && diagnosis.traffic_bytes < 3.28e9);
    EXPECT_CONTAINS(diagnosis.evidence[diagnosis.n_evidence - 1], "Size cannot be the cause");
    EXPECT_CONTAINS(diagnosis.evidence[diagnosis.n_evidence - 1], "467,019,003 elements");
    EXPECT_INT(match_of("pytorch-watchdog-timeout")->n_lines, 7);
    EXPECT_INT(match_of("pytorch-watchdog-timeout")->first.line, 2);
    end();
}

static void a_rank_that_tells_that_it_was_outside_is_named(void)
{
    begin();
    give_eight(7);
    give("eight.log",
         "[rank7]:[E717 13:20:50.1 ProcessGroupNCCL.cpp:1987] [PG ID 1 PG GUID 1 Rank 7] Received a dump "
         "signal due to a collective timeout from  rank 6 and we will try our best to dump the debug info. "
         "Last enqueued NCCL work: 56730, last completed NCCL work: 56730.\n");
    judge(0);
    EXPECT_INT(diagnosis.kind, TESS_LOG_MISSING);
    EXPECT_INT(diagnosis.culprit[0], 7);
    EXPECT_CONTAINS(diagnosis.evidence[0], "last enqueued 56730, last completed 56730, so it was outside");
    end();
}

static void an_error_before_the_timeouts_is_the_cause(void)
{
    begin();
    give_eight(5);
    give("rank5.log",
         "2024-07-17 13:10:02,123 step 812\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate\n");
    give("after.log", "[rank2]:[E717 13:20:59.0 x.cpp:1] CUDA error: unspecified launch failure\n");
    judge(0);
    EXPECT_INT(diagnosis.kind, TESS_LOG_ERROR);
    EXPECT_INT(diagnosis.culprit[0], 5);
    EXPECT_TEXT(tess_knowledge_at(knowledge, diagnosis.entry)->row.id, "cuda-out-of-memory");
    EXPECT_CONTAINS(diagnosis.evidence[1], "its effect: ranks 0-4,6-7 waited 600 s");
    end();
}

/* The kernel names a process, not a rank: it is the rank that never came. */
static void an_error_without_a_rank_befell_who_never_came(void)
{
    begin();
    give_eight(5);
    give("dmesg", "[ 1234.5] Out of memory: Killed process 4242 (python3) total-vm:1kB, anon-rss:1kB\n");
    judge(8);
    EXPECT_INT(diagnosis.kind, TESS_LOG_ERROR);
    EXPECT_INT(diagnosis.n_culprits, 1);
    EXPECT_INT(diagnosis.culprit[0], 5);
    EXPECT_CONTAINS(diagnosis.evidence[1], "467019003 elements, to which rank 5 never came");
    end();
}

/* The driver that finds a GPU gone when it starts breaks its message into lines, and gives no Xid. */
static void a_gpu_off_the_bus_is_the_cause_without_an_xid(void)
{
    begin();
    give_eight(5);
    give("dmesg",
         "[ 1843.3] NVRM: The NVIDIA GPU 0000:b3:00.0\n               NVRM: (PCI ID: 10de:26b5) installed in this "
         "system has\n               NVRM: fallen off the bus and is not responding to commands.\n");
    judge(8);
    EXPECT_INT(diagnosis.kind, TESS_LOG_ERROR);
    EXPECT_INT(diagnosis.n_culprits, 1);
    EXPECT_INT(diagnosis.culprit[0], 5);
    EXPECT_TEXT(tess_knowledge_at(knowledge, diagnosis.entry)->row.id, "cuda-fallen-off-bus");
    EXPECT_CONTAINS(diagnosis.evidence[0], "dmesg:1: ");
    end();
}

/* The rank that prints a message of a monitor is not its subject. */
static void a_monitor_of_a_script_is_not_to_blame(void)
{
    begin();
    give("rank0.log", "[Rank 0] ERROR: Missing ranks in sync check: [0, 1, 3]\n");
    judge(0);
    EXPECT_INT(diagnosis.kind, TESS_LOG_KNOWN);
    EXPECT_INT(diagnosis.n_culprits, 0);
    give("more.log", "[Rank 0] Warning: Progress mismatch: [1000, 1000, 999, 1000]\n");
    judge(0);
    EXPECT_INT(diagnosis.n_culprits, 1);
    EXPECT_INT(diagnosis.culprit[0], 2);
    end();
}

/* 20 MB/s if elements have 4 bytes, 80 MB/s if they have 16: too much to acquit a slow network. */
static void a_conclusion_from_the_size_holds_for_every_type(void)
{
    begin();
    for (int r = 0; r < 4; r++) {
        char text[2048] = "", name[32];
        add_timeout(text, sizeof(text), r, 12, "ALLREDUCE", 2000000000);
        snprintf(name, sizeof(name), "rank%d.log", r);
        give(name, text);
    }
    judge(4);
    EXPECT_CONTAINS(diagnosis.evidence[diagnosis.n_evidence - 1], "On a slow network size may be the cause");
    end();
}

static void sizes_are_told_in_fitting_units(void)
{
    begin();
    for (int r = 0; r < 4; r++) {
        char text[2048] = "", name[32];
        add_timeout(text, sizeof(text), r, 12, "ALLREDUCE", 1000);
        snprintf(name, sizeof(name), "rank%d.log", r);
        give(name, text);
    }
    judge(4);
    EXPECT_CONTAINS(diagnosis.evidence[diagnosis.n_evidence - 1],
                    "1,000 elements of 4 bytes are 4.00 kB, 6.00 kB through");
    EXPECT_CONTAINS(diagnosis.evidence[diagnosis.n_evidence - 1], "that is 10 B/s");
    EXPECT_CONTAINS(diagnosis.evidence[diagnosis.n_evidence - 1], "needs less than 1 ms for it");
    end();
}

static void different_collectives_are_a_mismatch(void)
{
    char text[8192] = "";
    begin();
    for (int r = 0; r < 4; r++)
        add_timeout(text, sizeof(text), r, 40, r == 2 ? "BROADCAST" : "ALLREDUCE", r == 2 ? 1 : 1000);
    give("all.log", text);
    judge(4);
    EXPECT_INT(diagnosis.kind, TESS_LOG_MISMATCH);
    EXPECT_INT(diagnosis.culprit[0], 2);
    EXPECT_CONTAINS(diagnosis.headline, "rank 2 in BROADCAST #40 of 1 element, ranks 0-1,3 in ALLREDUCE #40");
    end();
}

/* A rank that is not where most are: behind them, or ahead. */
static void who_is_ahead_of_most_is_at_another_place_too(void)
{
    char text[8192] = "";
    begin();
    for (int r = 0; r < 4; r++)
        add_timeout(text, sizeof(text), r, r == 1 ? 41 : 40, "ALLREDUCE", 1000);
    give("all.log", text);
    judge(4);
    EXPECT_INT(diagnosis.kind, TESS_LOG_MISMATCH);
    EXPECT_INT(diagnosis.culprit[0], 1);
    EXPECT_CONTAINS(diagnosis.evidence[0], "different places");
    end();
}

static void places_in_one_group_and_groups_are_told_apart(void)
{
    char text[8192] = "";
    begin();
    for (int r = 0; r < 4; r++)
        add_timeout(text, sizeof(text), r, r == 1 ? 39 : 40, "ALLREDUCE", 1000);
    give("all.log", text);
    judge(4);
    EXPECT_INT(diagnosis.kind, TESS_LOG_MISMATCH);
    EXPECT_INT(diagnosis.culprit[0], 1);
    EXPECT_CONTAINS(diagnosis.evidence[0], "different places");
    end();
    begin();
    for (char *at = text; (at = strstr(at, "GUID 1 Rank 1")) != NULL; at++)
        at[5] = '7';
    give("all.log", text);
    judge(4);
    EXPECT_INT(diagnosis.kind, TESS_LOG_ONE_SIDED);
    EXPECT_CONTAINS(diagnosis.headline,
                    "different groups: ranks 0,2-3 in ALLREDUCE #40 of 1000 elements, rank 1 in ALLREDUCE #39 of 1000 "
                    "elements");
    end();
    begin();
    text[0] = '\0';
    for (int r = 0; r < 5; r++)
        add_timeout(text, sizeof(text), r, r == 1 ? 39 : r == 3 ? 38 : 40, "ALLREDUCE", 1000);
    for (char *at = text; (at = strstr(at, "GUID 1 Rank 1")) != NULL; at++)
        at[5] = '7';
    for (char *at = text; (at = strstr(at, "GUID 1 Rank 3")) != NULL; at++)
        at[5] = '8';
    give("all.log", text);
    judge(5);
    EXPECT_CONTAINS(diagnosis.headline, "ranks 1,3 in others");
    end();
}

static void a_collective_too_many_is_told_from_a_missing_rank(void)
{
    char text[8192] = "";
    begin();
    add_timeout(text, sizeof(text), 0, 11, "ALLREDUCE", 1);
    for (int r = 1; r < 4; r++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text),
                 "[PG ID 1 PG GUID 1 Rank %d] Received a dump signal due to a collective timeout from  rank 0. Last "
                 "enqueued NCCL work: 10, last completed NCCL work: 10.\n",
                 r);
    give("all.log", text);
    judge(0);
    EXPECT_INT(diagnosis.kind, TESS_LOG_MISMATCH);
    EXPECT_INT(diagnosis.culprit[0], 0);
    EXPECT_CONTAINS(diagnosis.headline, "rank 0 called ALLREDUCE #11 of 1 element, which ranks 1-3 never did");
    end();
}

static void nobody_missing_is_said_and_one_log_is_not_enough(void)
{
    begin();
    give_eight(-1);
    judge(8);
    EXPECT_INT(diagnosis.kind, TESS_LOG_ALL_WAITED);
    judge(0);
    EXPECT_INT(diagnosis.kind, TESS_LOG_ONE_SIDED);
    end();
    begin();
    give("one.log", watchdog);
    judge(0);
    EXPECT_INT(diagnosis.kind, TESS_LOG_ONE_SIDED);
    EXPECT_INT(diagnosis.n_culprits, 0);
    EXPECT_INT(diagnosis.world, 7); /* at least */
    EXPECT(diagnosis.mb_per_s > 5.3 && diagnosis.mb_per_s < 5.4);
    EXPECT_CONTAINS(diagnosis.evidence[1], "Size cannot be the cause");
    end();
}

static void unknown_text_says_so(void)
{
    begin();
    give("x.log", "epoch 1 loss 2.34\nall is well\n");
    judge(0);
    EXPECT_INT(diagnosis.kind, TESS_LOG_NOTHING);
    EXPECT_TEXT(diagnosis.headline, "no error found in 2 lines; the last progress: \"epoch 1 loss 2.34\"");
    EXPECT_INT(survey.n_lines, 2);
    end();
}

static void long_lines_and_garbage_are_read_once(void)
{
    enum { BYTES = 300 << 10 };
    char *text = malloc(BYTES);
    begin();
    for (int i = 0; i < BYTES; i++)
        text[i] = (char)(0x20 + (unsigned)i * 7919u % 223u);
    for (int i = 0; i < BYTES; i += 1009) /* a few control characters; more of them would be no text */
        text[i] = (char)(i % 9);
    /* across the end of a piece, and in the overlap of two pieces */
    memcpy(text + (32 << 10) - 10, "Segmentation fault", 18);
    memcpy(text + (62 << 10) + 300, "Segmentation fault", 18);
    EXPECT_OK(tess_survey_read(&survey, write_file("g.log", text, BYTES)));
    EXPECT_INT(survey.n_lines, 1);
    EXPECT_INT(match_of("segfault")->n_lines, 1);
    give("cr.log", "10%\r20%\rSegmentation fault\r\nend");
    EXPECT_INT(match_of("segfault")->n_lines, 2);
    EXPECT_INT(survey.n_lines, 3);
    EXPECT_FAILS(tess_survey_read(&survey, "/nowhere/x.log"), TESS_E_NOT_FOUND, "/nowhere/x.log");
    EXPECT_FAILS(tess_survey_read(&survey, test_folder()), TESS_E_INVALID, "folder");
    free(text);
    end();
}

static void torchrun_names_the_first_failure(void)
{
    begin();
    give("t.log",
         "Root Cause (first observed failure):\n[0]:\n  time      : 2024-05-14_10:33:48\n  host      : node-a\n"
         "  rank      : 5 (local_rank: 5)\n  exitcode  : -6 (pid: 123)\n");
    judge(0);
    EXPECT_INT(diagnosis.kind, TESS_LOG_KNOWN);
    EXPECT_CONTAINS(diagnosis.headline, "rank 5 on node-a (pid 123) failed first, with exit code -6");
    end();
}

#define AGENT(time, code, local, pid)                                                                            \
    time " torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: " code ") local_rank: " local \
         " (pid: " pid ") of binary: /usr/bin/python3\n"
#define FAILURE(time, rank, local, code, pid)                                                  \
    "  time      : " time "\n  host      : node-a\n  rank      : " rank " (local_rank: " local \
    ")\n  exitcode  : " code " (pid: " pid ")\n  error_file: <N/A>\n"

static void expect_torchrun(const char *text, tess_log_kind kind, int culprit, const char *headline)
{
    begin();
    give("slurm-7.out", text);
    judge(0);
    EXPECT_INT(diagnosis.kind, kind);
    EXPECT_INT(diagnosis.n_culprits, 1);
    EXPECT_INT(diagnosis.culprit[0], culprit);
    EXPECT_CONTAINS(diagnosis.headline, headline);
    end();
}

/* The agent of a host knows its local ranks only; the table that it prints at the end has the rank. */
static void the_local_rank_beside_an_exit_code_is_named(void)
{
    expect_torchrun(
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 3 (pid: 77) of "
        "binary: /usr/bin/python3\nTraceback (most recent call last):\n",
        TESS_LOG_ERROR, 3, "local rank 3 (pid 77): a process got SIGKILL");
    EXPECT_CONTAINS(diagnosis.evidence[1], "3 is its local rank");
    expect_torchrun(AGENT("E0325 20:57:27.620000 2606", "1", "3", "77"), TESS_LOG_KNOWN, 3,
                    "local rank 3 (pid 77) failed first, with exit code 1");
    /* srun -l puts the task before a line, which here is the host's agent */
    expect_torchrun("1: " AGENT("E0325 20:57:27.620000 2606", "-11", "3", "77"), TESS_LOG_ERROR, 3,
                    "local rank 3 (pid 77): a process crashed");
    expect_torchrun(
        AGENT("E0325 20:57:27.620000 2606", "-9", "3", "77") "Failures:\n[1]:\n" FAILURE(
            "2025-03-25_20:57:29", "13", "5", "-9",
            "79") "Root Cause (first observed failure):\n[0]:\n" FAILURE("2025-03-25_20:57:27", "11", "3", "-9", "77"),
        TESS_LOG_ERROR, 11, "rank 11 on node-a (pid 77): a process got SIGKILL");
    expect_torchrun(
        AGENT("E0325 20:57:27.620000 2606", "1", "3",
              "77") "Root Cause (first observed failure):\n[0]:\n" FAILURE("2025-03-25_20:57:28", "11", "3", "1", "77"),
        TESS_LOG_KNOWN, 11, "rank 11 on node-a (pid 77) failed first, with exit code 1");
    expect_torchrun(AGENT("E0325 20:57:27.620000 2606", "-9", "3",
                          "77") "Root Cause (first observed failure):\n[0]:\n" FAILURE("2025-03-25_20:57:28", "11", "3",
                                                                                       "-9", "77"),
                    TESS_LOG_ERROR, 11, "rank 11 on node-a (pid 77): a process got SIGKILL");
    EXPECT_INT(diagnosis.n_evidence, 1);
}

static void a_users_entries_are_used_and_broken_ones_named(void)
{
    tess_found found;
    static const char ours[] = "ours:\n  role: cause\n  match: |\n    flux capacitor \\d+\n  symptom: s\n  cause: c\n"
                               "  check: k\n  fix: f\n";
    const char *path = write_file("e.yaml", ours, strlen(ours));
    setenv("XDG_CONFIG_HOME", "/nowhere", 1);
    EXPECT_OK(tess_knowledge_create(test_mem(), &path, 1, &knowledge));
    tess_knowledge_find(knowledge, "the FLUX capacitor 12 blew", 26, &found);
    EXPECT_INT(found.n_entries, 1);
    tess_knowledge_destroy(&knowledge);
    static const struct {
        const char *text, *needle;
    } bad[] = {
        {"a:\n  role: cause\n", "e.yaml:2: 'a' needs the field 'symptom'"},
        {"a:\n  role: odd\n  symptom: s\n  cause: c\n  check: k\n  fix: f\n", "choose cause, wrapper, effect"},
        {"a:\n  role: cause\n  match: '(x'\n  symptom: s\n  cause: c\n  check: k\n  fix: f\n",
         "e.yaml:2: a: the regex '(x' is invalid at byte 2: missing closing parenthesis"},
        {"a:\n  role: cause\n  match: '(?<what>flux)'\n  symptom: s\n  cause: c\n  check: k\n  fix: f\n",
         "a pattern needs four plain characters outside of groups"},
        {"a:\n  rule: cause\n", "did you mean 'role'"},
        {"a:\n  role: [\n", "e.yaml:3"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        path = write_file("e.yaml", bad[i].text, strlen(bad[i].text));
        EXPECT_FAILS(tess_knowledge_create(test_mem(), &path, 1, &knowledge), TESS_E_FORMAT, bad[i].needle);
    }
}

/* Logs of 4 ranks that print `words` and their number; 0: no line. */
static void give_marks(const char *words, const int numbers[4])
{
    for (int r = 0; r < 4; r++) {
        char text[512] = "step 1\n", name[32];
        for (int n = numbers[r] > 0 ? numbers[r] - 1 : 1; n <= numbers[r]; n++)
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "[Rank %d] %s %d\n", r, words, n);
        snprintf(name, sizeof(name), "rank%d.log", r);
        give(name, text);
    }
}

static void expect_behind(const char *words, const int numbers[4], int world, int culprit, const char *headline)
{
    begin();
    give_marks(words, numbers);
    judge(world);
    if (culprit < 0) {
        EXPECT_INT(diagnosis.kind, TESS_LOG_KNOWN);
    } else {
        EXPECT_INT(diagnosis.kind, TESS_LOG_MISSING);
        EXPECT_INT(diagnosis.culprit[0], culprit);
        EXPECT_TEXT(diagnosis.headline, headline);
        EXPECT_TEXT(tess_knowledge_at(knowledge, diagnosis.entry)->row.id, "script-barrier-steps");
    }
    end();
}

static void a_rank_without_the_line_of_all_others_is_named(void)
{
    static const char words[] = "Entering barrier at step";
    expect_behind(words, (int[]){120, 120, 119, 120}, 0, 2,
                  "rank 2 never reached \"Entering barrier at step 120\", where ranks 0-1,3 came (its last: 119)");
    expect_behind(words, (int[]){120, 0, 120, 120}, 0, 1,
                  "rank 1 never reached \"Entering barrier at step 120\", where ranks 0,2-3 came");
    expect_behind(words, (int[]){120, 120, 120, 120}, 5, 4,
                  "rank 4 never reached \"Entering barrier at step 120\", where ranks 0-3 came (unless its log was not "
                  "given)");
    expect_behind(words, (int[]){119, 120, 119, 120}, 0, 0,
                  "ranks 0,2 never reached \"Entering barrier at step 120\", where ranks 1,3 came");
    expect_behind(words, (int[]){120, 120, 120, 120}, 4, -1, NULL);
    expect_behind(words, (int[]){120, 0, 0, 0}, 4, -1, NULL); /* only rank 0 prints such a line */
    expect_behind(words, (int[]){120, 120, 0, 0}, 4, -1, NULL);
}

static void a_list_of_steps_names_the_rank_at_the_smallest(void)
{
    begin();
    give("a.log", "Warning: Progress mismatch: [98, 99, 99, 98]\nWarning: Progress mismatch: [100, 100, 99, 100]\n"
                  "Warning: Progress mismatch: [tensor([1]), tensor([2])]\nWarning: Progress mismatch: [100, 1");
    judge(0);
    EXPECT_INT(diagnosis.kind, TESS_LOG_MISSING);
    EXPECT_INT(diagnosis.n_culprits, 1);
    EXPECT_INT(diagnosis.culprit[0], 2);
    EXPECT_TEXT(diagnosis.headline,
                "rank 2 never reached 100 (\"Progress mismatch\"), where ranks 0-1,3 came (its last: 99)");
    end();
}

/* Timeouts name the rank. A line that all ranks printed is further evidence, or names the rank if timeouts do not. */
static void what_ranks_reached_adds_to_timeouts_and_errors(void)
{
    char text[2048] = "";
    begin();
    add_timeout(text, sizeof(text), 0, 11, "ALLREDUCE", 1);
    give("one.log", text);
    give_marks("Entering barrier at step", (int[]){7, 6, 7, 7});
    judge(4);
    EXPECT_INT(diagnosis.kind, TESS_LOG_MISSING);
    EXPECT_INT(diagnosis.culprit[0], 1);
    EXPECT_CONTAINS(diagnosis.evidence[1], "its effect: rank 0 waited 600 s in ALLREDUCE #11");
    end();
    begin();
    give_marks("Entering barrier at step", (int[]){7, 6, 7, 7});
    give("rank1.log", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate\n");
    judge(4);
    EXPECT_INT(diagnosis.kind, TESS_LOG_ERROR);
    EXPECT_CONTAINS(diagnosis.evidence[1], "rank 1 never reached");
    end();
}

/* A rank stands inside of such lines, not before them. A launcher's rank counts more: the device is of its host. */
static void a_rank_is_told_by_its_device(void)
{
    char text[1024] = "";
    begin();
    for (int r = 7; r >= 0; r--)
        snprintf(text + strlen(text), sizeof(text) - strlen(text),
                 "pass forward on device %d step 3942\npass backward on device %d step %d\n", r, r, 3942 - (r == 1));
    give("all.log", text);
    judge(0);
    EXPECT_INT(diagnosis.kind, TESS_LOG_MISSING);
    EXPECT_INT(diagnosis.n_culprits, 1);
    EXPECT_INT(diagnosis.culprit[0], 1);
    EXPECT_TEXT(
        diagnosis.headline,
        "rank 1 never reached \"pass backward on device 1 step 3942\", where ranks 0,2-7 came (its last: 3941)");
    EXPECT_TEXT(tess_knowledge_at(knowledge, diagnosis.entry)->row.id, "script-pass-backward");
    end();
    begin();
    give("two.log",
         "[rank8]: pass forward on device 0 step 5\n[rank9]: pass forward on device 1 step 4\n"
         "[rank10]: pass forward on device 2 step 5\npass forward on device x step 5\npass forward on device 1\n");
    EXPECT_INT(match_of("script-pass-forward")->came[8], 6);
    EXPECT_INT(match_of("script-pass-forward")->came[9], 5);
    EXPECT_INT(match_of("script-pass-forward")->came[1], 0);
    end();
}

/* A line of a user's own knowledge base, without a number. */
static void lines_without_a_number_are_counted(void)
{
    static const char ours[] =
        "ours:\n  role: symptom\n  match: |\n    all aboard\n  reached: all aboard\n  symptom: s\n"
        "  cause: c\n  check: k\n  fix: f\n";
    const char *path = write_file("e.yaml", ours, strlen(ours));
    setenv("XDG_CONFIG_HOME", "/nowhere", 1);
    EXPECT_OK(tess_knowledge_create(test_mem(), &path, 1, &knowledge));
    EXPECT_OK(tess_survey_begin(test_mem(), knowledge, &survey));
    give("all.log", "[0] All aboard\n[1] all aboard\n[2] all aboard\n[1] all aboard\n[2] all aboard!\n");
    judge(0);
    EXPECT_INT(diagnosis.kind, TESS_LOG_MISSING);
    EXPECT_TEXT(diagnosis.headline, "rank 0 never reached \"all aboard\" number 2, where ranks 1-2 came (its last: 1)");
    end();
}

static void reports_are_text_and_json(void)
{
    tess_buffer out = {.mem = test_mem()};
    json_t *json;
    int64_t version = 0;
    begin();
    give_eight(3);
    judge(8);
    EXPECT_OK(tess_log_print(&survey, &diagnosis, false, &out));
    EXPECT(strncmp(out.data, "root cause: rank 3 never joined", 31) == 0);
    out.size = 0;
    EXPECT_OK(tess_log_print(&survey, &diagnosis, true, &out));
    EXPECT_OK(tess_json_parse(out.data, out.size, "report", true, &json));
    EXPECT_OK(tess_json_get_int(json, "version", "report", &version));
    EXPECT_INT(version, 1);
    EXPECT_INT(json_array_size(json_object_get(json, "ranks")), 8);
    json_decref(json);
    tess_buffer_free(&out);
    end();
}

static const test_case cases[] = {
    CASE(every_sample_line_is_its_entry),
    CASE(every_pattern_has_a_word_to_look_for),
    CASE(symptoms_without_a_text_are_found_by_words),
    CASE(a_watchdog_line_comes_apart),
    CASE(the_missing_rank_is_named_and_size_acquitted),
    CASE(a_rank_that_tells_that_it_was_outside_is_named),
    CASE(an_error_before_the_timeouts_is_the_cause),
    CASE(an_error_without_a_rank_befell_who_never_came),
    CASE(a_gpu_off_the_bus_is_the_cause_without_an_xid),
    CASE(a_monitor_of_a_script_is_not_to_blame),
    CASE(a_conclusion_from_the_size_holds_for_every_type),
    CASE(sizes_are_told_in_fitting_units),
    CASE(different_collectives_are_a_mismatch),
    CASE(who_is_ahead_of_most_is_at_another_place_too),
    CASE(places_in_one_group_and_groups_are_told_apart),
    CASE(a_collective_too_many_is_told_from_a_missing_rank),
    CASE(nobody_missing_is_said_and_one_log_is_not_enough),
    CASE(unknown_text_says_so),
    CASE(long_lines_and_garbage_are_read_once),
    CASE(torchrun_names_the_first_failure),
    CASE(the_local_rank_beside_an_exit_code_is_named),
    CASE(a_users_entries_are_used_and_broken_ones_named),
    CASE(a_rank_without_the_line_of_all_others_is_named),
    CASE(a_list_of_steps_names_the_rank_at_the_smallest),
    CASE(what_ranks_reached_adds_to_timeouts_and_errors),
    CASE(a_rank_is_told_by_its_device),
    CASE(lines_without_a_number_are_counted),
    CASE(reports_are_text_and_json),
};

TEST_MAIN(cases)
