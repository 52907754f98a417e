/* Python's tracebacks in logs: what the program was doing, what kind of error it was, and which of several exceptions
 * is the nearest. The forms are those of Python's traceback module, of rich and of PyTorch's launchers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "doctor/log/log_impl.h"
#include "support/test.h"

#define HEAD "Traceback (most recent call last):\n"
#define MAIN "  File \"/data/train.py\", line 12, in main\n    run()\n"
#define LIB(file, function) "  File \"/venv/lib/python3.11/site-packages/" file "\", line 7, in " function "\n    x()\n"
#define ONLY "no error that ends a job is in these logs, only what follows from one: "

static const struct {
    const char *text, *headline; /* the beginning of the report's headline */
} logs[] = {
    /* phases of the program */
    {HEAD MAIN LIB("torch/serialization.py", "load") "RuntimeError: the index is incomplete",
     "reading a checkpoint failed: a file is damaged, cut off or of another kind: RuntimeError: the index is "
     "incomplete"},
    {HEAD MAIN LIB("torch/utils/data/dataloader.py", "__next__") "FileNotFoundError: [Errno 2] No such file: 'a.bin'",
     "loading data failed: a file or folder is not there: FileNotFoundError"},
    {HEAD MAIN LIB("torch/_tensor.py", "backward") LIB("torch/utils/checkpoint.py", "forward") "ValueError: odd",
     "the backward pass failed: ValueError: odd"},
    {HEAD MAIN LIB("transformers/trainer.py", "evaluate")
         LIB("torch/nn/modules/linear.py", "forward") "ValueError: odd",
     "evaluation failed: ValueError: odd"},
    {HEAD MAIN LIB("transformers/training_args.py", "__post_init__") "ValueError: --bf16 and --fp16",
     "reading arguments or configuration failed: an argument or a value of the configuration is wrong: ValueError"},
    {HEAD MAIN
     "  File \"/data/model.py\", line 1, in <module>\n    import x\nImportError: cannot import name 'x' from 'y'",
     "importing a module failed: a library has another version"},
    {"File \"/venv/lib/python3.11/site-packages/torch/distributed/checkpoint/filesystem.py\", line 6, in read_data\n"
     "AssertionError: req mismatch sizes [1] vs [1, 2]",
     "reading a checkpoint failed: shapes or lengths do not fit each other: AssertionError: req mismatch"},
    {"\u256d\u2500 Traceback (most recent call last) \u2500\u256e\n"
     "\u2502 /venv/lib/python3.11/site-packages/torch/serialization.py:12 in save   \u2502\n"
     "\u2570\u2500\u256f\nPermissionError: [Errno 13] Permission denied: 'a.pt'",
     "writing a checkpoint failed: the program may not read or write a file: PermissionError"},
    {"\u2502 /venv/lib/python3.11/site-packages/torch/amp/grad_scaler.py:210 in step \u2502\n"
     "\u2502   208 \u2502   raise ValueError(\"Attempting to unscale FP16 gradients.\") \u2502\n"
     "\u2502 \u2771 210 \u2502   to_unscale = found[name] \u2502\n\u2570\u2500\u256f\nKeyError: 'x'",
     "the optimizer's step failed: the program used a name or key that is not there: KeyError: 'x'"},
    {"\u2502 /venv/lib/python3.11/site-packages/torch/ser \u2502\n\u2502 ialization.py:12 in \u2502\n\u2502 load "
     "\u2502\n"
     "\u2570\u2500\u256f\nValueError: odd",
     "reading a checkpoint failed: ValueError: odd"},
    {"\u2502 /venv/lib/python3.11/site-packages/transformers/trainer.py:2717 in    \u2502\n"
     "\u2502 evaluate                                                              \u2502\n\u2570\u2500\nValueError: "
     "odd",
     "evaluation failed: ValueError: odd"},
    {HEAD MAIN "  File \"/usr/lib/python3.11/multiprocessing/connection.py\", line 9, in _recv\n    raise EOFError\n",
     "the process at the other end of a pipe, queue or semaphore had ended: EOFError"},
    /* types that do not end like exceptions, a message on the next line, a check without one */
    {HEAD MAIN "pyarrow.lib.Odd: row 7", "a Python exception: pyarrow.lib.Odd: row 7"},
    {HEAD MAIN "RuntimeError:\nthe loader has no rows left",
     "a Python exception: RuntimeError: the loader has no rows"},
    {HEAD "  File \"/data/train.py\", line 12, in main\n    assert n > 0\nAssertionError",
     "the program's own check failed: AssertionError (assert n > 0)"},
    /* chains: the first one is the nearest, but not if it was a look-up */
    {HEAD MAIN "MemoryError\n\nThe above exception was the direct cause of the following exception:\n\n" HEAD MAIN
               "KeyError: 'x'",
     "the host has no memory left for an allocation"},
    {HEAD MAIN "KeyError: 'x'\n\nDuring handling of the above exception, another exception occurred:\n\n" HEAD MAIN
               "PermissionError: [Errno 13] Permission denied: 'x'",
     "the program may not read or write a file"},
    {HEAD MAIN "PermissionError: [Errno 13] x\n\nDuring handling of the above exception, another exception occurred:"
               "\n\n" HEAD MAIN "KeyError: 'x'",
     "the program may not read or write a file"},
    /* two processes at once */
    {"[rank1]: Traceback (most recent call last):\n[rank0]: Traceback (most recent call last):\n"
     "[rank1]:   File \"/p/site-packages/torch/serialization.py\", line 1, in load\n"
     "[rank0]:   File \"/p/site-packages/torch/distributed/x.py\", line 1, in wait\n[rank0]:     x()\n[rank1]:     "
     "x()\n"
     "[rank0]: TimeoutError: x\n[rank1]: ZeroDivisionError: x",
     "rank 1: reading a checkpoint failed: a computation of the program has no result"},
    /* effects */
    {HEAD MAIN
     "  File \"/usr/lib/python3.11/multiprocessing/connection.py\", line 9, in _recv\n    raise EOFError\nEOFError",
     "the process at the other end of a pipe, queue or semaphore had ended: EOFError"},
    {HEAD MAIN "  File \"/usr/lib/python3.11/multiprocessing/synchronize.py\", line 9, in __setstate__\n    x\n"
               "FileNotFoundError: [Errno 2] No such file or directory",
     "the process at the other end of a pipe, queue or semaphore had ended: FileNotFoundError"},
    {HEAD MAIN LIB("torch/utils/data/dataloader.py", "get") "TimeoutError: x",
     "loading data failed: it waited for another process until a limit: TimeoutError: x"},
    /* prefixes of other loggers */
    {"2024-01-22 14:32:27 | ERROR | stderr | " HEAD
     "2024-01-22 14:32:27 | ERROR | stderr |   File \"/p/train.py\", line 7, in f\n"
     "2024-01-22 14:32:27 | ERROR | stderr | KeyError: 'x'",
     "the program used a name or key that is not there: KeyError: 'x'"},
    {"<>        [2021-12-07 10:42:15] 1d0cefc1 [rank=1] || ZeroDivisionError: x",
     "rank 1: a computation of the program"},
    /* tracebacks in one line */
    {"2025-01-01 10:00:00 ERROR Run x errored: ValueError('Caught ValueError in DataLoader worker process "
     "0.\\nOriginal "
     "Traceback (most recent call last):\\n  File \"/p/dataset.py\", line 7, in __getitem__\\n    x()\\n"
     "PermissionError: [Errno 13] x\\n')",
     "loading data failed: the program may not read or write a file: PermissionError"},
    {"{\"message\": {\"message\": \"MyError: row 7\", \"extraInfo\": {\"py_callstack\": \"Traceback (most recent call "
     "last):\\n  File \\\"/p/site-packages/torch/serialization.py\\\", line 1, in load\\nMyError: row 7\\n\"}}}",
     "reading a checkpoint failed: MyError: row 7"},
    /* the nearer cause of a wrapper */
    {"Status message: Job entrypoint command failed with exit code 1, last available logs:\n" HEAD
     "ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.",
     "a Ray worker process died"},
    {HEAD
     "RuntimeError: [/w/third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [10.0.0.7]:13195: Connection refused",
     "host 10.0.0.7: ranks of gloo did not connect to each other"},
    {HEAD
     "RuntimeError: [/w/third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [127.0.0.1]:131: Connection refused",
     "ranks of gloo did not connect to each other"},
    {HEAD "subprocess.CalledProcessError: Command '['/usr/bin/ninja', '-v']' returned non-zero exit status 1.",
     "an extension could not be built"},
    {"Tue Jul 25 14:01:57 2017[1,6]<stderr>:[node-a:250:0] Caught signal 11 (Segmentation fault)",
     "rank 6 on node-a (pid 250): a process crashed"},
    /* after a process was killed */
    {"ERROR:composer.cli.launcher:Rank 5 crashed with exit code -9.\n[rank0]: " HEAD "[rank0]: KeyError: 'x'",
     "rank 5: a process got SIGKILL"},
    {"[rank0]: " HEAD "[rank0]: KeyError: 'x'\nERROR:composer.cli.launcher:Rank 5 crashed with exit code -9.",
     "rank 0: the program used a name or key that is not there: KeyError: 'x'"},
    /* exceptions in a destructor, which Python survives */
    {HEAD LIB("torch/utils/data/dataloader.py", "__del__") "AssertionError: can only test a child process",
     "no error that ends a job is in these logs"},
    /* tracebacks without their end */
    {HEAD MAIN LIB("torch/serialization.py", "load"),
     "reading a checkpoint failed: an exception, whose text is not in these logs"},
    {"[rank2]:     raise EOFError\n[rank2]: EOFError\n[rank1]: Traceback (most recent call last):\n"
     "[rank1]:   File \"/p/a.py\", line 1, in f\n[rank1]:   File \"/p/b.py\", line 1, in g\n",
     "another process had closed the pipe, connection or semaphore that this one used: EOFError"},
    {"[rank3]: " HEAD "[rank3]:   File \"/p/a.py\", line 1, in f\n[rank3]: KeyError: 'x'\n[rank0]: " HEAD
     "[rank0]:   File \"/p/a.py\", line 1, in f\n[rank0]:   File \"/p/b.py\", line 1, in g\n",
     "the program used a name or key that is not there: KeyError: 'x', reported by ranks 0,3"},
    /* error lines that no entry knows */
    {"node-a:1:2 [2] misc/socket.cc:441 NCCL WARN foo: odd answer 4 != 3\n"
     "node-a:1:2 [2] proxy.cc:9 NCCL WARN [Proxy Service 2] Failed to execute operation Connect from rank 2, retcode 3",
     "NCCL reports an error: foo: odd answer 4 != 3, reported by rank 2 on node-a (GPU 2, pid 1)"},
    {"10:00:01 [info] all is well\n10:00:02 [error] the flux of the widget is out of phase\n",
     "the first error line: \"10:00:02 [error] the flux"},
};

static void each_log_is_what_its_traceback_says(void)
{
    tess_knowledge *knowledge;
    setenv("XDG_CONFIG_HOME", "/nowhere", 1);
    EXPECT_OK(tess_knowledge_create(test_mem(), NULL, 0, &knowledge));
    for (size_t i = 0; i < sizeof(logs) / sizeof(logs[0]); i++) {
        tess_survey survey;
        tess_log_diagnosis diagnosis;
        char path[512];
        EXPECT_OK(tess_survey_begin(test_mem(), knowledge, &survey));
        EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "text.log"));
        EXPECT_OK(tess_os_write_atomic(path, logs[i].text, strlen(logs[i].text)));
        EXPECT_OK(tess_survey_read(&survey, path));
        EXPECT_OK(tess_log_diagnose(&survey, 0, &diagnosis));
        if (strncmp(diagnosis.headline, logs[i].headline, strlen(logs[i].headline)) != 0)
            test_fail(__FILE__, __LINE__, "\"%.300s\":\n      expected \"%s\"\n      in \"%s\"", logs[i].text,
                      logs[i].headline, diagnosis.headline);
        tess_survey_free(&survey);
    }
    tess_knowledge_destroy(&knowledge);
}

/* Exceptions of PyTorch, transformers, JAX, TensorFlow and others of which no other entry says more. */
static const struct {
    const char *id, *text;
} kinds[] = {
    {"python-empty-data", "ValueError: num_samples should be a positive integer value, but got num_samples=0"},
    {"python-version", "ValueError: Tokenizer class Qwen2Tokenizer does not exist or is not currently imported."},
    {"python-name-missing", "KeyError: 'qwen2'"},
    {"python-file-missing",
     "OSError: Can't load tokenizer for 'meta/x'. If you were trying to load it from 'https://huggingface.co/models', "
     "make sure you don't have a local directory with the same name."},
    {"python-file-missing", "OSError: meta/x is not a local folder and is not a valid model identifier listed on "
                            "'https://huggingface.co/models'"},
    {"python-module-missing",
     "ImportError: Using `low_cpu_mem_usage=True` or a `device_map` requires Accelerate: `pip install accelerate`"},
    {"python-version", "AssertionError: CUDA_HOME does not exist, unable to compile CUDA op(s)"},
    {"python-argument",
     "deepspeed.runtime.config_utils.DeepSpeedConfigError: Configuration parameter foo was deprecated"},
    {"python-device-missing",
     "pytorch_lightning.utilities.exceptions.MisconfigurationException: No supported gpu backend found!"},
    {"python-device-missing", "ValueError: fp16 mixed precision requires a GPU"},
    {"python-arithmetic", "ZeroDivisionError: division by zero"},
    {"python-version", "RuntimeError: Numpy is not available"},
    {"python-version", "TypeError: forward() got an unexpected keyword argument 'num_items_in_batch'"},
    {"python-argument", "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name'"},
    {"python-file-missing",
     "datasets.exceptions.DatasetNotFoundError: Dataset 'x' doesn't exist on the Hub or cannot be accessed."},
    {"python-device-missing", "RuntimeError: Found no NVIDIA driver on your system."},
    {"python-empty-data", "RuntimeError: torch.cat(): expected a non-empty list of Tensors"},
    {"python-argument", "ValueError: You should supply an encoding or a list of encodings to this method that includes "
                        "input_ids, but you provided ['label']"},
    {"python-dtype", "RuntimeError: Only Tensors of floating point and complex dtype can require gradients"},
    {"python-shapes", "RuntimeError: Given groups=1, weight of size [64, 3, 7, 7], expected input[1, 1, 224, 224] to "
                      "have 3 channels, but got 1 channels instead"},
    {"python-shapes", "RuntimeError: The expanded size of the tensor (2) must match the existing size (3) at "
                      "non-singleton dimension 0."},
    {"python-name-missing", "AttributeError: 'NoneType' object has no attribute 'shape'"},
    {"python-device-missing", "RuntimeError: CUDA driver initialization failed, you might not have a CUDA gpu."},
    {"python-exception", "RuntimeError: Cannot find the function 'foo' in the module"},
    {"python-version", "RuntimeError: Failed to import transformers.models.llama because of the following error (look "
                       "up to see its traceback):"},
    {"python-pickle",
     "_pickle.PicklingError: Can't pickle <function f at 0x7f>: attribute lookup f on __main__ failed"},
    {"python-pickle", "TypeError: cannot pickle '_io.TextIOWrapper' object"},
    {"python-pickle", "AttributeError: Can't pickle local object 'main.<locals>.collate'"},
    {"python-cancelled", "asyncio.exceptions.CancelledError"},
    {"python-child-ended", "ChildProcessError: worker died"},
    {"python-end-of-pipe", "EOFError: connection closed by peer"},
    {"python-path-kind", "IsADirectoryError: [Errno 21] Is a directory: '/c/x'"},
    {"python-database-file", "sqlite3.OperationalError: disk I/O error"},
    {"python-operator-missing", "NotImplementedError: Could not run '_C_ops::f' with arguments from the 'CPU' backend. "
                                "This could be because the operator doesn't exist for this backend"},
    {"python-operator-missing", "AttributeError: '_OpNamespace' '_C' object has no attribute 'f'"},
    {"python-server-refuses", "AssertionError: got=<Response [503]>, text='x'"},
    {"python-version", "ValueError: 'odd' is already used by a model"},
    {"python-own-check", "AssertionError: 7.5 not less than or equal to 4.5"},
    {"python-dtype", "RuntimeError: Expected self.dtype() == dst.dtype() to be true, but got false."},
    {"cuda-bad-launch", "RuntimeError: Norm failed with error code invalid configuration argument"},
    {"python-argument", "pydantic_core._pydantic_core.ValidationError: 1 validation error for EngineArgs"},
    {"python-argument", "argparse.ArgumentError: argument --foo: conflicting option string: --foo"},
    {"python-argument", "omegaconf.errors.ConfigAttributeError: Key 'foo' is not in struct"},
    {"python-argument", "hydra.errors.InstantiationException: Error in call to target 'x.y'"},
    {"python-traced-value", "jax.errors.TracerArrayConversionError: The numpy.ndarray conversion method __array__() "
                            "was called on traced array"},
    {"python-device-error", "paddle.base.core.EnforceNotMet: (External) CUDA error(700)"},
};

static void each_exception_has_its_kind(void)
{
    tess_knowledge *knowledge;
    EXPECT_OK(tess_knowledge_create(test_mem(), NULL, 0, &knowledge));
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        tess_found found;
        tess_knowledge_find(knowledge, kinds[i].text, strlen(kinds[i].text), &found);
        const char *id = found.n_entries > 0 ? tess_knowledge_at(knowledge, found.entries[0].entry)->row.id : "";
        if (found.n_entries != 1 || strcmp(id, kinds[i].id) != 0)
            test_fail(__FILE__, __LINE__, "\"%s\" is %s (%d), expected %s", kinds[i].text, id, found.n_entries,
                      kinds[i].id);
    }
    tess_knowledge_destroy(&knowledge);
}

static void a_handled_exception_is_no_cause(void)
{
    tess_knowledge *knowledge;
    tess_survey survey;
    tess_log_diagnosis diagnosis;
    tess_buffer text = {.mem = test_mem()};
    char path[512];
    EXPECT_OK(tess_knowledge_create(test_mem(), NULL, 0, &knowledge));
    EXPECT_OK(tess_buffer_printf(&text, "%s", HEAD MAIN "PermissionError: [Errno 13] Permission denied: 'x'\n"));
    for (int step = 0; step < 30; step++)
        EXPECT_OK(tess_buffer_printf(&text, "step %d: loss 2.%d\n", step, step));
    EXPECT_OK(tess_os_join(path, sizeof(path), test_folder(), "text.log"));
    EXPECT_OK(tess_os_write_atomic(path, text.data, text.size));
    EXPECT_OK(tess_survey_begin(test_mem(), knowledge, &survey));
    EXPECT_OK(tess_survey_read(&survey, path));
    EXPECT_OK(tess_log_diagnose(&survey, 0, &diagnosis));
    EXPECT_INT(diagnosis.kind, TESS_LOG_KNOWN);
    EXPECT_CONTAINS(diagnosis.headline, "no error that ends a job is in these logs; the run went on after this");
    tess_survey_free(&survey);
    tess_buffer_free(&text);
    tess_knowledge_destroy(&knowledge);
}

static void frames_are_read(void)
{
    static const struct {
        const char *text, *path, *function;
        int line;
    } frames[] = {{"File \"/a/b.py\", line 12, in main", "/a/b.py", "main", 12},
                  {"File \"<string>\", line 1", "<string>", "", 1},
                  {"\u2502 /a/b.py:7 in step   \u2502", "/a/b.py", "step", 7},
                  {"File /a/b.py:9, in f(x, y)", "/a/b.py", "f", 9}};
    static const char *const others[] = {"File",   "File \"", "File \"/a\", line x", "/a/b.py: error", "at /a/b.cpp:9",
                                         "\u2502", ""};
    log_frame frame;
    for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
        EXPECT(log_parse_frame(frames[i].text, strlen(frames[i].text), &frame));
        EXPECT_TEXT(frame.path, frames[i].path);
        EXPECT_TEXT(frame.function, frames[i].function);
        EXPECT_INT(frame.line, frames[i].line);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        EXPECT(!log_parse_frame(others[i], strlen(others[i]), &frame));
}

static void types_of_exceptions_are_told_from_other_words(void)
{
    static const char *const types[] = {"ValueError: x", "KeyboardInterrupt", "a.b.Odd: x",
                                        "queue.Empty",   "socket.timeout: x", "RayTaskError(ValueError): x"};
    static const char *const others[] = {"Epoch: 3",        "train.py: x", "ERROR: x", "192.0.2.1: x",
                                         "A ValueError: x", "Error",       "x.y: z"};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (log_exception_name(types[i], strlen(types[i])) == 0)
            test_fail(__FILE__, __LINE__, "%s is none", types[i]);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (log_exception_name(others[i], strlen(others[i])) > 0 && i != 5)
            test_fail(__FILE__, __LINE__, "%s is one", others[i]);
}

static const test_case cases[] = {
    CASE(each_log_is_what_its_traceback_says),
    CASE(each_exception_has_its_kind),
    CASE(a_handled_exception_is_no_cause),
    CASE(frames_are_read),
    CASE(types_of_exceptions_are_told_from_other_words),
};

TEST_MAIN(cases)
