/* An error that the run survived is no cause, whatever its words. An error that ended the run is its cause. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "doctor/log/log_impl.h"

#define OOM "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
#define TRACE(prefix, error) \
    prefix "Traceback (most recent call last):\n" prefix "  File \"/data/t.py\", line 12, in main\n" prefix error "\n"
#define BAR(n) "Epoch 3:  " #n "%|###       | " #n "/100 [00:0" #n "<00:09,  9.87it/s, v_num=1]\n"
#define BARS BAR(1) BAR(2) BAR(3) BAR(4)
#define LOSSES                                                                                         \
    "{'loss': 2.31, 'grad_norm': 1.2, 'epoch': 0.1}\n{'loss': 2.30, 'grad_norm': 1.1, 'epoch': 0.2}\n" \
    "{'loss': 2.28, 'grad_norm': 1.0, 'epoch': 0.3}\n"
#define MEGATRON(n)                                   \
    " [2026-01-10 11:43:0" #n "] iteration       " #n \
    "/    1000 | consumed samples: 8 | lm loss: 2.31E+00 | grad norm: 0.7 |\n"
#define NANOGPT "iter 100: loss 2.31, time 9.1ms\niter 110: loss 2.30, time 9.1ms\niter 120: loss 2.2, time 9.1ms\n"

/* Logs of runs that go on or end well. The headline has the words, and names nobody. */
static const struct {
    const char *words, *text;
} healthy[] = {
    {"the run went on after this: a device",
     "2026-01-10 11:43:09 | WARNING | x.trainer | attempting to recover from OOM in forward/backward pass\n"
     "2026-01-10 11:43:09 | WARNING | x.trainer | " OOM "\n"
     "2026-01-10 11:43:12 | INFO | train_inner | epoch 001:   20 / 500 loss=9.1, wps=100, num_updates=20\n"},
    {"the run went on after this", "WARNING: " OOM " retrying with batch size 4\n" LOSSES},
    {"the run went on after this", "step 10: sample: RuntimeError: NCCL error: unhandled system error\n" TRACE(
                                       "", "ValueError: quoted by a text") BARS},
    {"no error", "[Rank 3] Connection reset by peer\n[Rank 3] retried: ok\n[Rank 3] iteration 5: loss 2.2\n"
                 "[Rank 3] iteration 6: loss 2.2\n[Rank 3] iteration 7: loss 2.2\n"},
    {"the run went on after this: GPU 0", OOM " (GPU 0; 2 GiB)\nretried: ok\nstep 3: loss 2.3\n"},
    {"Python only warned of this", "/v/torch/x.py:12: UserWarning: " OOM "\n  warnings.warn(\n"},
    {"went on",
     OOM "\n"
         "[Rank 0] step=20, skipped=0, lr=[0.1], mom=[0.9]\n[Rank 0] step=30, skipped=0, lr=[0.1]\n"
         "[Rank 0] step=40, skipped=0, lr=[0.1]\n[Rank 0] step=50, skipped=0, lr=[0.1]\n" BARS NANOGPT LOSSES BARS
         "Epoch 4: 1%|#  | 1/100 [00:01<00:09, 9.87it/s]\n" BAR(5) BAR(6) BAR(7) BAR(8)},
    {"went on", "n1:7:7 [0] net.cc:9 NCCL WARN Call to connect to 192.0.2.7<9> failed : Connection refused\n" MEGATRON(
                    100) MEGATRON(200) MEGATRON(300)},
    {"it ended well: \"training finished\"", TRACE("", "ValueError: caught") "training finished\n"},
    {"it ended well",
     TRACE("", "ValueError: caught") "2026-01-10 11:43:09 - INFO - Training completed successfully!\n"},
    {"it ended well", OOM "\ndone training in 123.4 seconds\n"},
    {"it ended well", OOM "\n`Trainer.fit` stopped: `max_epochs=3` reached.\n"},
    {"it ended well", OOM "\n[after training is done] datetime: 2026-01-10 11:43:09\n"},
    {"it ended well", TRACE("[rank3]: ", "ValueError: x") "JobId=7 JobName=t\n   JobState=COMPLETED Reason=None\n"},
    {"it ended well", TRACE("", "ValueError: x") "7           train.sh  gpu   COMPLETED      0:0\n"},
    {"it ended well", TRACE("", "ValueError: x") "Job ID: 7\nState: COMPLETED (exit code 0)\n"},
    {"it ended well", TRACE("[rank1]: ", "ValueError: x") "[default] worker group successfully finished. Waiting 300 "
                                                          "seconds for other agents to finish.\n"},
    {"it ended well", OOM "\n[launch.py:351:main] Process 77 exits successfully.\n"},
    {"it ended well", TRACE("", "ValueError: x") "Job 'raysubmit_x7' succeeded\n"},
    /* The end of a process does not replace that of the job. */
    {"it ended well: \"Job 'raysubmit_x7' succeeded",
     TRACE("[rank3]: ", "ValueError: x") "Job 'raysubmit_x7' succeeded\n"
                                         "training finished\n"},
    {"the job recovered: its processes were started again",
     TRACE("[rank3]: ", OOM) "[default] Worker group FAILED. 2/3 attempts left; will restart worker group\n" NANOGPT},
    {"the job recovered",
     "failed (exitcode: -9) local_rank: 3 (pid: 77) of binary: /v/bin/python\n"
     "[default] Worker group FAILED. 2/3 attempts left; will restart worker group\n[rank0]: step: 5 loss: 2.1\n"},
    {"the last progress: \"iter 120: loss 2.2", NANOGPT},
    {"no error found in 2 lines", "all is well\nall is done\n"},
    {"no error found in 0 lines", ""},
};

/* Logs of runs that an error ended: its entry, and words of the headline. */
static const struct {
    const char *id, *words, *text;
} ended[] = {
    /* Other processes finish their step after a process ended. */
    {"cuda-out-of-memory", "rank 3", TRACE("[rank3]: ", OOM) "[rank0]: step 7 loss 2.1\n[rank0]: step 8 loss 2.1\n"},
    {"cuda-out-of-memory", "rank 3",
     TRACE("[rank3]: ", OOM) "[rank0]: " BAR(1) "[rank0]: " BAR(2) "[rank0]: " BAR(3) "[rank0]: " BAR(4)},
    /* The second error ended what survived the first. */
    {"cuda-out-of-memory", "rank 5",
     "[rank3]: " OOM "\n" BARS BAR(5) BAR(6) BAR(7) BAR(8) BAR(9) NANOGPT MEGATRON(1) MEGATRON(2) MEGATRON(3)
         MEGATRON(4) MEGATRON(5) MEGATRON(6) MEGATRON(7) MEGATRON(8) "[rank5]: " OOM "\n"},
    {"segfault", "", "Training completed successfully\nSegmentation fault (core dumped)\n"},
    {"cuda-out-of-memory", "", "epoch 1: training finished\nepoch 2: training finished\n" OOM "\n"},
    {"cuda-out-of-memory", "",
     TRACE("", OOM) "Loading checkpoint shards:  25%|#   | 1/4 [00:01<00:03, 1.00it/s]\n"
                    "Loading checkpoint shards:  50%|##  | 2/4 [00:02<00:02, 1.00it/s]\n"
                    "Loading checkpoint shards:  75%|### | 3/4 [00:03<00:01, 1.00it/s]\n"
                    "Loading checkpoint shards: 100%|####| 4/4 [00:04<00:00, 1.00it/s]\n"},
    {"cuda-out-of-memory", "",
     TRACE("", OOM) "[default] Worker group FAILED. 2/3 attempts left; will restart worker group\n" TRACE("", OOM)},
    {"cuda-out-of-memory", "rank 3", TRACE("[rank3]: ", OOM) "training finished\n"},
    {"cuda-out-of-memory", "rank 3", "Job 'raysubmit_x7' succeeded\n" TRACE("[rank3]: ", OOM) "training finished\n"},
    {"cuda-out-of-memory", "", TRACE("", OOM) "7  train.sh  gpu  FAILED  1:0\n7.extern  extern  COMPLETED  0:0\n"},
    /* A fault of a GPU stays one, although training goes on. */
    {"megatron-gpu-fault", "rank 3",
     "Rank 3, node n1, device 4, iteration #9: Possible transient error!\n" MEGATRON(10) MEGATRON(11) MEGATRON(12)
         MEGATRON(13)},
};

static void read_text(tess_knowledge *knowledge, const char *text, tess_survey *survey, tess_log_diagnosis *diagnosis)
{
    char path[512];
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "text.log"));
    EXPECT_OK(tess_os_write_atomic(path, text, strlen(text)));
    EXPECT_OK(tess_survey_begin(test_mem(), knowledge, survey));
    EXPECT_OK(tess_survey_read(survey, path));
    EXPECT_OK(tess_log_diagnose(survey, 0, diagnosis));
}

static void an_error_that_the_run_survived_is_no_cause(void)
{
    tess_survey survey;
    tess_log_diagnosis diagnosis;
    tess_knowledge *knowledge;
    setenv("XDG_CONFIG_HOME", "/nowhere", 1);
    EXPECT_OK(tess_knowledge_create(test_mem(), NULL, 0, &knowledge));
    for (size_t i = 0; i < sizeof(healthy) / sizeof(healthy[0]); i++) {
        read_text(knowledge, healthy[i].text, &survey, &diagnosis);
        if (diagnosis.is_cause || diagnosis.n_culprits > 0 || diagnosis.kind > TESS_LOG_KNOWN ||
            strncmp(diagnosis.headline, "no error ", 9) != 0 || strstr(diagnosis.headline, healthy[i].words) == NULL)
            test_fail(__FILE__, __LINE__, "\"%.300s\": expected \"%s\" in \"%s\"", healthy[i].text, healthy[i].words,
                      diagnosis.headline);
        tess_survey_free(&survey);
    }
    tess_knowledge_destroy(&knowledge);
}

static void an_error_that_ended_the_run_is_its_cause(void)
{
    tess_survey survey;
    tess_log_diagnosis diagnosis;
    tess_knowledge *knowledge;
    EXPECT_OK(tess_knowledge_create(test_mem(), NULL, 0, &knowledge));
    for (size_t i = 0; i < sizeof(ended) / sizeof(ended[0]); i++) {
        read_text(knowledge, ended[i].text, &survey, &diagnosis);
        const char *id = diagnosis.entry >= 0 ? tess_knowledge_at(knowledge, diagnosis.entry)->row.id : "none";
        if (strcmp(id, ended[i].id) != 0 || strstr(diagnosis.headline, ended[i].words) == NULL)
            test_fail(__FILE__, __LINE__, "\"%.300s\": expected %s with \"%s\", found %s: \"%s\"", ended[i].text,
                      ended[i].id, ended[i].words, id, diagnosis.headline);
        tess_survey_free(&survey);
    }
    tess_knowledge_destroy(&knowledge);
}

/* Files of ranks: only rank 0 prints steps, and tells that the run went on. */
static void the_file_of_another_rank_shows_that_the_run_went_on(void)
{
    static const char warned[] = "2026-01-10 11:43:09 " OOM " (GPU 3; 2 GiB)\n";
    static const struct {
        const char *steps, *error, *words;
    } runs[] = {
        {"2026-01-10 11:43:00 step 1 loss 2.2\n2026-01-10 11:58:00 step 90 loss 2.1\n", warned, "the run went on"},
        {"step 1 loss 2.2\ntraining finished\n", warned, "the run went on"},
        {"2026-01-10 11:43:00 step 1 loss 2.2\n2026-01-10 11:43:10 step 2 loss 2.1\n", warned, "rank 3"},
        {"step 1 loss 2.2\ntraining finished\n", TRACE("", OOM), "rank 3"},
    };
    tess_knowledge *knowledge;
    EXPECT_OK(tess_knowledge_create(test_mem(), NULL, 0, &knowledge));
    for (size_t i = 0; i < 2 * sizeof(runs) / sizeof(runs[0]); i++) {
        char paths[2][512];
        const char *texts[] = {runs[i / 2].steps, runs[i / 2].error};
        tess_survey survey;
        tess_log_diagnosis diagnosis;
        EXPECT_OK(tess_survey_begin(test_mem(), knowledge, &survey));
        for (int f = 0; f < 2; f++) {
            EXPECT_OK(tess_os_join(paths[f], sizeof(paths[f]), test_folder(), f == 0 ? "rank0.log" : "rank3.log"));
            EXPECT_OK(tess_os_write_atomic(paths[f], texts[f], strlen(texts[f])));
        }
        for (size_t f = 0; f < 2; f++) /* the order does not count */
            EXPECT_OK(tess_survey_read(&survey, paths[(f + i) % 2]));
        EXPECT_OK(tess_log_diagnose(&survey, 0, &diagnosis));
        if (strstr(diagnosis.headline, runs[i / 2].words) == NULL ||
            diagnosis.is_cause != (strcmp(runs[i / 2].words, "rank 3") == 0))
            test_fail(__FILE__, __LINE__, "run %zu: expected \"%s\" in \"%s\"", i, runs[i / 2].words,
                      diagnosis.headline);
        tess_survey_free(&survey);
    }
    tess_knowledge_destroy(&knowledge);
}

/* Logs of several files, of which the first one holds the error. All orders of the files give the same verdict. */
static void the_order_of_files_does_not_count(void)
{
    enum { FILES = 3 };
    static const char *const names[FILES] = {"rank0.log", "rank1.log", "other.log"};
    static const int orders[][FILES] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    static const struct {
        const char *texts[FILES], *words;
        bool is_cause;
    } runs[] = {
        {{TRACE("", OOM), TRACE("", OOM) "caught\n" BARS, ""}, "rank 0", true},
        {{"2026-01-10 11:43:09 step 1 loss 2.2\n" TRACE("2026-01-10 11:43:10 ", OOM),
          "2026-01-10 11:43:00 start\n" TRACE("2026-01-10 11:43:01 ", OOM) BARS, ""},
         "rank 0",
         true},
        {{TRACE("", OOM), BARS "Job 'raysubmit_x7' succeeded\n", ""}, "rank 0", true},
        {{OOM "\n", BARS "Job 'raysubmit_x7' succeeded\n", ""}, "the run went on", false},
        {{"2026-01-10 10:00:00 " OOM "\n2026-01-10 11:00:00 " OOM "\n",
          "2026-01-10 09:59:00 step 1 loss 2.2\n2026-01-10 10:59:00 step 90 loss 2.1\n", ""},
         "rank 0",
         true},
        {{"2026-01-10 10:00:00 " OOM "\n2026-01-10 10:30:00 " OOM "\n",
          "2026-01-10 09:59:00 step 1 loss 2.2\n2026-01-10 10:59:00 step 90 loss 2.1\n", ""},
         "the run went on",
         false},
    };
    tess_knowledge *knowledge;
    EXPECT_OK(tess_knowledge_create(test_mem(), NULL, 0, &knowledge));
    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++)
        for (size_t o = 0; o < sizeof(orders) / sizeof(orders[0]); o++) {
            tess_survey survey;
            tess_log_diagnosis diagnosis;
            EXPECT_OK(tess_survey_begin(test_mem(), knowledge, &survey));
            for (int f = 0; f < FILES; f++) {
                char path[512];
                int at = orders[o][f];
                EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), names[at]));
                EXPECT_OK(tess_os_write_atomic(path, runs[i].texts[at], strlen(runs[i].texts[at])));
                EXPECT_OK(tess_survey_read(&survey, path));
            }
            EXPECT_OK(tess_log_diagnose(&survey, 0, &diagnosis));
            if (strstr(diagnosis.headline, runs[i].words) == NULL || diagnosis.is_cause != runs[i].is_cause)
                test_fail(__FILE__, __LINE__, "run %zu, order %zu: expected \"%s\" in \"%s\"", i, o, runs[i].words,
                          diagnosis.headline);
            tess_survey_free(&survey);
        }
    tess_knowledge_destroy(&knowledge);
}

/* A program writes what its buffer holds when it exits, after the exception that ended it. */
static void steps_of_a_buffer_are_no_progress(void)
{
    tess_survey survey;
    tess_log_diagnosis diagnosis;
    tess_knowledge *knowledge;
    tess_buffer text = {.mem = test_mem()};
    EXPECT_OK(tess_knowledge_create(test_mem(), NULL, 0, &knowledge));
    EXPECT_OK(tess_buffer_printf(&text, "%s", TRACE("", OOM)));
    for (int step = 0; step < 150; step++)
        EXPECT_OK(tess_buffer_printf(&text, "iter %d: loss 2.%d\n", step, step));
    EXPECT_OK(tess_buffer_printf(&text, "failed (exitcode: 1) local_rank: 0 (pid: 77) of binary: /v/bin/python\n"));
    EXPECT_OK(tess_buffer_append(&text, "", 1));
    read_text(knowledge, text.data, &survey, &diagnosis);
    EXPECT_TEXT(tess_knowledge_at(knowledge, diagnosis.entry)->row.id, "cuda-out-of-memory");
    EXPECT(diagnosis.is_cause);
    tess_survey_free(&survey);
    tess_buffer_free(&text);
    tess_knowledge_destroy(&knowledge);
}

static void lines_of_steps_are_told_from_settings(void)
{
    static const char *const steps[] = {
        "[Rank 0] step=20, skipped=0",
        "2026-01-10 | INFO | train | step 20 | loss 2",
        "{'loss': 2.31, 'epoch': 0.1}",
        "Epoch 3: 100%|####| 10/10 [00:01<00:00, 9.87it/s]",
        " iteration      100/    1000 | elapsed time",
        "iter 100: loss 2.31",
        "Epoch: [3][10/500]",
        "Epoch: [0][   0/1042]\tTime  6.850 ( 6.850)\tLoss 7.2169e+00 (7.2169e+00)",
        "[titan] step: 10  loss: 7.1",
        "step:12 - global_seqlen/min:7",
        "Speed: 2047.38 samples/sec",
        "  5%|#  | 5/100 [00:10<03:10, 2.00s/it]",
        "training/global_step:7",
        "Decode batch. #running-req: 1, gen throughput (token/s): 34.5",
        "192.0.2.1:7 - \"POST /v1/completions HTTP/1.1\" 200 OK",
    };
    static const char *const others[] = {
        "max_steps=1000",
        "num_train_epochs: 3",
        "warmup_steps 100",
        "number of skipped iterations:   0",
        "the loss of the connection",
        "step by step",
        "Loading checkpoint shards:  25%|#   | 1/4 [00:01<00:03, 1.00it/s]",
        "stepwise 7",
        "192.0.2.1:7 - \"POST /v1/completions HTTP/1.1\" 500 Internal",
        "iterator",
    };
    log_step step;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        if (!log_step_of_line(steps[i], strlen(steps[i]), &step))
            test_fail(__FILE__, __LINE__, "\"%s\" is no step", steps[i]);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (log_step_of_line(others[i], strlen(others[i]), &step))
            test_fail(__FILE__, __LINE__, "\"%s\" is a step", others[i]);
}

static const test_case cases[] = {
    CASE(an_error_that_the_run_survived_is_no_cause),
    CASE(an_error_that_ended_the_run_is_its_cause),
    CASE(the_file_of_another_rank_shows_that_the_run_went_on),
    CASE(the_order_of_files_does_not_count),
    CASE(steps_of_a_buffer_are_no_progress),
    CASE(lines_of_steps_are_told_from_settings),
};

TEST_MAIN(cases)
