/* The faults, and what is to be said of them. */
#include "drills/drill.h"

#define ODD "odd one out: rank %d[^0-9]"

/* name, fault, where */
#define MISMATCH(name_, fault_, where_)                                                                        \
    {                                                                                                          \
        .name = name_, .group = "guard", .fault = fault_, .says = "disagree|tie", .who = ODD, .where = where_, \
        .limit_s = 1, .rank = -1                                                                               \
    }
#define ENDS(name_, fault_, says_, where_)                                                             \
    {                                                                                                  \
        .name = name_, .group = "ends", .fault = fault_, .says = says_, .who = "rank %d (was|exited)", \
        .where = where_, .limit_s = 0.1, .rank = -1                                                    \
    }

const drill drills[] = {
    MISMATCH("skip all_gather", "point=before:all_gather#3 kind=skip", "'layers 3'"),
    MISMATCH("skip reduce_scatter", "point=before:reduce_scatter#2 kind=skip", "'layers 2'"),
    MISMATCH("skip broadcast", "point=before:broadcast kind=skip", "'report'"),
    MISMATCH("skip barrier", "point=before:barrier kind=skip", "'save'"),
    MISMATCH("skip two", "point=before:reduce_scatter#2 kind=skip n=2", "'layers 2'"),
    MISMATCH("extra all_gather", "point=before:all_gather#2 kind=extra", "'layers 1'"),
    MISMATCH("extra barrier", "point=before:barrier kind=extra", "'save'"),
    MISMATCH("wrong operation", "point=before:reduce_scatter#3 kind=op", "'layers 1'"),
    MISMATCH("wrong dtype", "point=before:all_gather#4 kind=dtype", "'layers 3'"),
    MISMATCH("wrong count", "point=before:reduce_scatter#1 kind=count n=5", "'layers 3'"),
    MISMATCH("wrong reduction", "point=before:all_reduce#1 kind=reduce_op", "'loss'"),
    MISMATCH("wrong root", "point=before:broadcast kind=root", "'report'"),
    MISMATCH("wrong label", "point=before:all_gather#2 kind=label", "'layers 1'"),
    MISMATCH("swapped order", "point=before:reduce_scatter#2 kind=order", "'layers [12]'"),
    MISMATCH("swapped gathers", "point=before:all_gather#3 kind=order", "'layers [23]'"),
    MISMATCH("swallowed exception", "point=before:reduce_scatter#2 kind=swallow", "'layers 2'"),

    ENDS("crash", "point=before:all_reduce kind=crash", "signal 11 .SIGSEGV", "optimizer"),
    ENDS("abort", "point=phase:backward:1 kind=abort", "signal 6 .SIGABRT", "backward"),
    ENDS("exit", "point=after:reduce_scatter#2 kind=exit code=5", "exited with code 5", "reduce_scatter"),
    ENDS("exit without a word", "point=phase:exchange kind=exit code=0", "exited with code 0",
         "exchange|reduce_scatter"),
    ENDS("SIGKILL", "point=phase:forward:2 kind=sigkill", "signal 9 .SIGKILL", "forward"),
};
const int n_drills = sizeof(drills) / sizeof(drills[0]);
