/* The faults, and what is to be said of them. */
#include "drills/drill.h"

#define ODD "odd one out: rank %d[^0-9]"

#define MISMATCH(name_, fault_, where_, trace_)                                                                \
    {                                                                                                          \
        .name = name_, .group = "guard", .fault = fault_, .says = "disagree|tie", .who = ODD, .where = where_, \
        .trace = trace_ ": rank %d ", .limit_s = 1, .rank = -1                                                 \
    }
#define ENDS(name_, fault_, says_, where_)                                                             \
    {                                                                                                  \
        .name = name_, .group = "ends", .fault = fault_, .says = says_, .who = "rank %d (was|exited)", \
        .where = where_, .trace = "(rank_lost|failed|rank_left): rank %d ", .limit_s = 0.1, .rank = -1 \
    }
#define STALL(name_, fault_, says_, where_, trace_)                                                                  \
    {                                                                                                                \
        .name = name_, .group = "stall", .fault = fault_, .says = says_, .who = "rank %d has kept", .where = where_, \
        .trace = trace_ ": rank %d ", .limit_s = 2, .goes_on = true, .rank = -1                                      \
    }
/* Both ranks of a message that has one side only are named: records cannot tell which one is right. */
#define MESSAGE(name_, fault_)                                                                    \
    {                                                                                             \
        .name = name_, .group = "messages", .fault = fault_, .says = "has kept",                  \
        .who = "rank %d has kept|waiting for rank %d in recv", .where = "recv",                   \
        .trace = "message: (rank %d |.*from rank %d,)", .limit_s = 2, .goes_on = true, .rank = -1 \
    }
/* The same in training. */
#define TRAIN(name_, rank_, fault_, says_, who_, where_, trace_)                                              \
    {                                                                                                         \
        .name = name_, .group = "train", .program = DRILL_TRAIN, .fault = fault_, .says = says_, .who = who_, \
        .where = where_, .trace = trace_, .limit_s = 1, .goes_on = true, .rank = rank_                        \
    }
/* Numbers, where every rank holds all of them: two ranks are a tie. */
#define NUMBERS(name_, fault_, says_, where_)                                                      \
    {                                                                                              \
        .name = name_, .group = "numbers", .program = DRILL_TRAIN, .fault = fault_, .says = says_, \
        .who = "rank %d[:,] |tie", .where = where_, .trace = "numbers.*(rank %d[:,] |tie)",        \
        .words = "parallelism.shard_strategy=none", .limit_s = 1, .rank = -1                       \
    }

const drill drills[] = {
    MISMATCH("skip all_gather", "point=before:all_gather#3 kind=skip", "'layers 3'", "skipped"),
    MISMATCH("skip reduce_scatter", "point=before:reduce_scatter#2 kind=skip", "'layers 2'", "skipped"),
    MISMATCH("skip broadcast", "point=before:broadcast kind=skip", "'report'", "skipped"),
    MISMATCH("skip barrier", "point=before:barrier kind=skip", "'save'", "skipped"),
    MISMATCH("skip two", "point=before:reduce_scatter#2 kind=skip n=2", "'layers 2'", "skipped"),
    MISMATCH("extra all_gather", "point=before:all_gather#2 kind=extra", "'layers 1'", "extra"),
    MISMATCH("extra barrier", "point=before:barrier kind=extra", "'save'", "extra"),
    MISMATCH("wrong operation", "point=before:reduce_scatter#3 kind=op", "'layers 1'", "mismatch_op"),
    MISMATCH("wrong dtype", "point=before:all_gather#4 kind=dtype", "'layers 3'", "mismatch_dtype"),
    MISMATCH("wrong count", "point=before:reduce_scatter#1 kind=count n=5", "'layers 3'", "mismatch_count"),
    MISMATCH("wrong reduction", "point=before:all_reduce#1 kind=reduce_op", "'loss'", "mismatch_reduce_op"),
    MISMATCH("wrong root", "point=before:broadcast kind=root", "'report'", "mismatch_root"),
    MISMATCH("wrong label", "point=before:all_gather#2 kind=label", "'layers 1'", "mismatch_label"),
    MISMATCH("swapped order", "point=before:reduce_scatter#2 kind=order", "'layers [12]'", "(order|skipped)"),
    MISMATCH("swapped gathers", "point=before:all_gather#3 kind=order", "'layers [23]'", "(order|skipped)"),
    MISMATCH("swallowed exception", "point=before:reduce_scatter#2 kind=swallow", "'layers 2'", "skipped"),

    ENDS("crash", "point=before:all_reduce kind=crash", "signal 11 .SIGSEGV", "optimizer"),
    ENDS("abort", "point=phase:backward:1 kind=abort", "signal 6 .SIGABRT", "backward"),
    ENDS("exit", "point=after:reduce_scatter#2 kind=exit code=5", "exited with code 5", "reduce_scatter"),
    ENDS("exit without a word", "point=phase:exchange kind=exit code=0", "exited with code 0",
         "exchange|reduce_scatter"),
    ENDS("SIGKILL", "point=phase:forward:2 kind=sigkill", "signal 9 .SIGKILL", "forward"),

    STALL("SIGSTOP", "point=phase:backward:2 kind=sigstop", "stopped .state T", "backward", "rank_stopped"),
    STALL("SIGSTOP before an op", "point=before:reduce_scatter#3 kind=sigstop", "stopped .state T", "backward",
          "rank_stopped"),
    STALL("sleep", "point=phase:forward:1 kind=sleep", "asleep", "forward", "rank_busy"),
    STALL("sleep while loading", "point=phase:data kind=sleep", "asleep|loading data", "'data'", "rank_busy"),
    STALL("spin", "point=phase:backward:0 kind=spin", "computing", "backward", "rank_busy"),
    STALL("spin before an op", "point=before:reduce_scatter#2 kind=spin", "computing", "backward", "rank_busy"),
    STALL("read of a pipe", "point=phase:optimizer kind=io", "blocked in read", "optimizer", "rank_in_io"),
    STALL("read of a FIFO", "point=phase:data kind=io path=fifo", "fifo", "'data'", "rank_in_io"),
    STALL("skip, then another team", "point=before:all_reduce#1 kind=skip", "has kept|have kept", "all_reduce",
          "(deadlock|skipped)"),
    STALL("extra, then another team", "point=before:all_reduce#1 kind=extra", "has kept|have kept", "all_reduce",
          "extra"),
    STALL("wrong team", "point=before:all_reduce#1 kind=team", "has kept|have kept|disagree", "all_reduce",
          "mismatch_team"),
    MESSAGE("no send", "point=before:send kind=skip"),
    MESSAGE("wrong tag", "point=before:recv kind=tag"),
    MESSAGE("wrong peer", "point=before:send kind=root"),

    TRAIN("train: skip", -1, "point=before:reduce_scatter_pieces#2 kind=skip", "disagree", ODD, "'layer ",
          "skipped: rank %d "),
    TRAIN("train: extra", -1, "point=before:reduce_scatter_pieces#3 kind=extra", "disagree", ODD, "'layer ",
          "extra: rank %d "),
    TRAIN("train: count", -1, "point=before:all_gather_pieces kind=count", "disagree", ODD, "all_gather_pieces",
          "mismatch_count: rank %d "),
    TRAIN("train: dtype", -1, "point=before:all_gather_pieces kind=dtype", "disagree", ODD, "all_gather_pieces",
          "mismatch_dtype: rank %d "),
    TRAIN("train: order", -1, "point=before:reduce_scatter_pieces#2 kind=order", "disagree", ODD, "'layer ",
          "(order|skipped): rank %d "),
    TRAIN("train: swallowed", -1, "point=before:reduce_scatter_pieces#2 kind=swallow", "disagree", ODD, "'layer ",
          "skipped: rank %d "),
    TRAIN("train: uneven batches", -1, "kind=uneven", "kept|disagree", "rank %d has kept|" ODD,
          "barrier|all_reduce|pieces", "(extra|skipped|deadlock): rank %d "),
    TRAIN("train: a step less", -1, "kind=uneven what=step", "kept|disagree", "rank %d has kept|" ODD,
          "barrier|all_reduce", "(extra|skipped|deadlock): rank %d "),
    TRAIN("train: rank 0 evaluates", 0, "kind=rank0_eval ms=5", "kept|disagree", "rank %d has kept|" ODD, "'eval'",
          "(extra|deadlock): rank %d "),
    TRAIN("train: crash", -1, "point=phase:backward:1 kind=crash", "SIGSEGV", "rank %d was", "backward",
          "rank_lost: rank %d "),
    TRAIN("train: SIGKILL", -1, "point=after:all_gather_pieces#2 kind=sigkill", "SIGKILL", "rank %d was", "forward",
          "rank_lost: rank %d "),
    TRAIN("train: SIGSTOP", -1, "point=phase:forward:2 kind=sigstop", "stopped", "rank %d has kept", "forward",
          "rank_stopped: rank %d "),
    TRAIN("train: slow log", 0, "kind=slow_log ms=600000", "asleep", "rank %d has kept", "'log'",
          "rank_busy: rank %d "),
    TRAIN("train: blocked in data", -1, "point=phase:data kind=io path=fifo", "fifo", "rank %d has kept", "'data'",
          "rank_in_io: rank %d "),
    NUMBERS("train: NaN", "point=gradient kind=nan tensor=model.norm.weight times=0", "is nan", "gradient '"),
    NUMBERS("train: Inf", "point=gradient kind=inf tensor=model.norm.weight times=0", "is inf|is -inf|is nan",
            "gradient '"),
    NUMBERS("train: flipped bit", "point=parameter kind=flip bit=20", "have diverged", "weight '"),
    NUMBERS("train: flipped moment", "point=state kind=flip bit=20 tensor=model.norm.weight.exp_avg", "have diverged",
            "model.norm"),
    TRAIN("train: spin", -1, "point=phase:optimizer kind=spin", "computing", "rank %d has kept", "optimizer",
          "rank_busy: rank %d "),
    {.name = "train: slow phase",
     .group = "pace",
     .program = DRILL_TRAIN,
     .fault = "point=phase:forward kind=slow percent=100",
     .says = "slow in",
     .who = "rank %d is",
     .where = "forward",
     .trace = ".",
     .limit_s = 1,
     .goes_on = true,
     .rank = -1},
};
const int n_drills = sizeof(drills) / sizeof(drills[0]);
