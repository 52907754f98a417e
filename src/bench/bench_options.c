#include "bench/bench_options.h"

#include <string.h>

#include "base/os/os.h"

#define ROW(key_, type_, field_, ...)                                                           \
    {                                                                                           \
        .key = key_, .type = type_, .offset = offsetof(tess_bench_options, field_), __VA_ARGS__ \
    }
#define TEXT(key_, field_, help_) ROW(key_, TESS_OPTION_TEXT, field_, .fallback = "", .help = help_)
#define PATH(key_, field_, fallback_, help_) \
    ROW(key_, TESS_OPTION_TEXT, field_, .fallback = fallback_, .is_path = true, .help = help_)
#define SWITCH(key_, field_, help_) ROW(key_, TESS_OPTION_BOOL, field_, .fallback = "false", .help = help_)
#define INT(key_, field_, fallback_, min_, max_, help_) \
    ROW(key_, TESS_OPTION_INT, field_, .fallback = fallback_, .least = min_, .most = max_, .help = help_)

#define BYTES(key_, field_, fallback_, unit_, min_, max_, help_)                                            \
    ROW(key_, TESS_OPTION_BYTES, field_, .fallback = fallback_, .unit = unit_, .least = min_, .most = max_, \
        .help = help_)
#define NUMBER(key_, field_, help_) \
    ROW(key_, TESS_OPTION_FLOAT, field_, .fallback = "0", .min = 0, .max = 1e6, .help = help_)

static const tess_option common[] = {
    TEXT("--filter", common.filter, "only rows whose name contains this text"),
    TEXT("--table", common.table, "kernel table: amx, avx512_bf16, avx512, avx2 or ref; default: the machine's best"),
    INT("--threads", common.threads, "0", 0, 1024, "compute threads; default: all cores"),
    INT("--repeat", common.repeat, "0", 0, 1000, "measurements of a row; default: enough for a stable median"),
    SWITCH("--quick", common.quick, "takes a fraction of the time: a check that it works, no figures to quote"),
};

static const tess_option comm[] = {
    ROW("--ranks", TESS_OPTION_LIST, comm.ranks, .fallback = "", .help = "numbers of ranks; default: 2,4,8"),
    BYTES("--min-bytes", comm.min_bytes, "256", 1, 64, 1 << 30, "smallest size; that of the larger buffer of a rank"),
    BYTES("--max-bytes", comm.max_bytes, "256MiB", 1, 64, 1 << 30, "largest size, such as 64MiB"),
    INT("--factor", comm.factor, "4", 2, 1 << 20, "factor between a size and the next"),
    NUMBER("--link", comm.link_gbit,
           "Gbit/s of a host's link, to show the share that is used (jobs over several hosts)"),
    NUMBER("--iperf", comm.iperf_gbit, "Gbit/s that iperf3 moves over it in one direction, to compare with"),
    SWITCH("--tls", comm.tls, "encrypt what ranks send between hosts, as comm.tls does (jobs without an MPI)"),
    SWITCH("--list", comm.list,
           "print the ways by which operations move bytes, with their scores, and measure nothing"),
    PATH("--tune", comm.tune, "", "measure ways and round sizes over several hosts, and write the tuning table there"),
    TEXT("--device", comm.device,
         "far or cuda: buffers in memory of devices, compared with a copy and with the way over the host"),
    PATH("--mpi", comm.mpi, "", "program that measures MPI; default: mpi_collectives next to this one; none: no MPI"),
};

#define CHOICE(key_, field_, fallback_, choices_, help_) \
    ROW(key_, TESS_OPTION_CHOICE, field_, .fallback = fallback_, .choices = choices_, .help = help_)

/* Rows that several benches share. `usual` is a name in nn/named_models.h. */
#define MODEL(field_, usual)       \
    PATH("--model", field_, usual, \
         "a name (gpt2-124m, llama-1b, ...), a config.json or a Hugging Face folder; default: " usual)
#define RANKS(field_, usual) \
    INT("-n", field_, usual, 1, 128, "ranks, processes on this machine; --threads are those of one rank")
#define BATCH(field_, usual) INT("--batch", field_, usual, 1, 1 << 20, "rows of a step over all ranks")
#define MICRO(field_, usual) INT("--micro", field_, usual, 1, 65536, "rows of a micro-batch")

static const tess_option kernels[] = {
    TEXT("--device", kernels.device, "cpu, far, cuda or cuda:NUMBER; default: what TESSERA_DEVICE says, else cpu"),
};

static const tess_option step[] = {
    MODEL(step.model, "gpt2-124m"),
    BATCH(step.batch, "8"),
    INT("--micro", step.micro, "0", 0, 65536, "rows of a micro-batch; default: 4, or --batch if that is less"),
    INT("--passes", step.passes, "1", 1, 65536, "parts that a micro-batch runs in, one after another, of whole rows"),
    INT("--seq", step.seq, "1024", 2, 1 << 20, "tokens of a row"),
    RANKS(step.ranks, "1"),
    CHOICE("--precision", step.precision, "bf16", "bf16|fp32", "dtype of gathered parameters and activations"),
    CHOICE("--recompute", step.recompute, "none", "none|full", "full: layers run forward again in backward"),
    CHOICE("--strategy", step.strategy, "full", "none|zero1|zero2|full", "parts of the state that are sharded"),
    CHOICE("--device", step.device, "auto", "auto|cpu|far|cuda",
           "device that computes the model; auto: TESSERA_DEVICE"),
    INT("--tp", step.tp, "1", 1, 128, "ranks that share every layer"),
    INT("--pp", step.pp, "1", 1, 128, "stages of a pipeline"),
    INT("--cp", step.cp, "1", 1, 128, "ranks that divide the tokens of each micro-batch"),
    CHOICE("--cp-method", step.cp_method, "ulysses", "gather|ulysses|ring", "parallelism.context_parallel_method"),
    CHOICE("--cp-order", step.cp_order, "zigzag", "zigzag|contiguous", "parallelism.context_parallel_load_balancer"),
    INT("--leaves", step.leaves, "0", 0, 1024, "training.context_leaves; default: twice --cp, or 1 without it"),
    INT("--steps", step.steps, "5", 1, 1000, "timed steps, after two to warm up (--quick: one after one)"),
};

static const tess_option precision[] = {
    MODEL(precision.model, "llama-5m"),
    BATCH(precision.batch, "4"),
    MICRO(precision.micro, "2"),
    INT("--seq", precision.seq, "256", 2, 1 << 20, "tokens of a row"),
    RANKS(precision.ranks, "1"),
    INT("--steps", precision.steps, "50", 1, 1000, "timed steps, after ten to warm up (--quick: one after one)"),
};

static const tess_option packing[] = {
    MODEL(packing.model, "llama-5m"),
    INT("--documents", packing.documents, "32", 4, 1 << 20, "documents of a step: rows, where they are padded"),
    MICRO(packing.micro, "2"),
    INT("--seq", packing.seq, "1024", 8, 1 << 20, "tokens of a row; documents have half and a quarter on average"),
    RANKS(packing.ranks, "1"),
    INT("--steps", packing.steps, "3", 1, 1000, "timed steps, after two to warm up (--quick: one after one)"),
};

static const tess_option ckpt[] = {
    MODEL(ckpt.model, "gpt2-124m"),
    PATH("--folder", ckpt.folder, "bench-ckpt", "folder to write to, on the disk to measure (bench-ckpt)"),
    RANKS(ckpt.ranks, "2"),
    SWITCH("--bf16", ckpt.bf16, "weights as bfloat16"),
    SWITCH("--zstd", ckpt.zstd, "packed"),
    SWITCH("--buffered", ckpt.buffered, "through the page cache"),
    SWITCH("--keep", ckpt.keep, "leave the checkpoints in the folder"),
};

static const tess_option offload[] = {
    PATH("--folder", offload.folder, ".", "a folder on the disk to measure (.)"),
    BYTES("--max", offload.max_bytes, "2000", 1000000, 10000000, 2000000000,
          "largest transfer (2000); a plain number counts MB"),
};

static const tess_option transfer[] = {
    TEXT("--device", transfer.device, "cuda, cuda:NUMBER or far; default: what TESSERA_DEVICE says"),
    BYTES("--max", transfer.max_bytes, "2000", 1000000, 10000000, 2000000000,
          "largest transfer (2000); a plain number counts MB"),
};

#define TABLE(rows)                                                                        \
    {                                                                                      \
        &(const tess_option_section){#rows, "", rows, sizeof(rows) / sizeof((rows)[0])}, 0 \
    }

static const tess_option_table tables[] = {
    TABLE(common), TABLE(kernels), TABLE(step),     TABLE(precision), TABLE(packing),
    TABLE(ckpt),   TABLE(offload), TABLE(transfer), TABLE(comm),
};
enum { N_TABLES = sizeof(tables) / sizeof(tables[0]) };

const tess_option_section *tess_bench_options_section(const char *section)
{
    for (int i = 0; i < N_TABLES; i++)
        if (strcmp(tables[i].section->name, section) == 0)
            return tables[i].section;
    return NULL;
}

tess_status tess_bench_options_defaults(tess_bench_options *options)
{
    return tess_options_defaults(tables, N_TABLES, options);
}

void tess_bench_options_free(tess_bench_options *options)
{
    tess_options_free(tables, N_TABLES, options);
}

tess_status tess_bench_options_set(tess_bench_options *options, const char *section, const char *flag, const char *text)
{
    const tess_option_section *rows = tess_bench_options_section(section);
    for (int i = 0; rows != NULL && i < rows->n_rows; i++)
        if (strcmp(rows->rows[i].key, flag) == 0)
            return tess_options_set(&(tess_option_table){rows, 0}, 1, options, flag,
                                    rows->rows[i].type == TESS_OPTION_BOOL ? "true" : text, "tessera bench");
    return TESS_FAIL(TESS_E_INVALID, "tessera bench: no option '%s' in section '%s'", flag, section);
}

int tess_bench_threads(const tess_bench_options *options)
{
    return options->common.threads > 0 ? (int)options->common.threads : tess_os_cores();
}

int tess_bench_rounds(const tess_bench_options *options, int usual, int quick)
{
    return options->common.repeat > 0 ? (int)options->common.repeat : options->common.quick ? quick : usual;
}

bool tess_bench_wanted(const tess_bench_options *options, const char *name)
{
    return strstr(name, options->common.filter) != NULL;
}
