#!/usr/bin/env python3
"""Writes tests/parallel/fixtures/pipeline_orders.txt: the order of computations that PyTorch's schedules give each rank
(torch.distributed.pipelining). A line a rank: our name of the schedule, ranks, chunks, micro-batches, rank, and the
computations as OPERATION CHUNK.MICRO-BATCH, without messages.

Run with PyTorch 2.15: tools/make_pipeline_fixture.py >tests/parallel/fixtures/pipeline_orders.txt
"""
from torch.distributed.pipelining import schedules

NAMES = {"F": "F", "B": "B", "I": "BI", "W": "BW"}


def empty(kind, ranks, chunks, micros):
    """A schedule of that class that has no stages and starts nothing."""
    s = object.__new__(kind)
    s.pp_group_size = s._num_stages = ranks
    s._num_stages = s.num_stages = ranks * chunks
    s._n_microbatches = micros
    s.n_local_stages = chunks
    s.number_of_rounds = max(1, micros // ranks)
    s.microbatches_per_round = micros // s.number_of_rounds
    return s


def orders(kind, ranks, chunks, micros):
    s = empty(kind, ranks, chunks, micros)
    if kind in (schedules.ScheduleGPipe, schedules.Schedule1F1B):
        order = s._get_pipeline_order()
        return [order[r] for r in range(ranks)]
    return [s._calculate_single_rank_operations(r) for r in range(ranks)]


def computations(order):
    for action in order:
        if action is None:
            continue
        for a in action.sub_actions or (action,):
            name = NAMES.get(a.computation_type.value)
            if name is not None:
                yield name, a.stage_index, a.microbatch_index


def main():
    cases = [("gpipe", schedules.ScheduleGPipe, 1), ("1f1b", schedules.Schedule1F1B, 1),
             ("interleaved", schedules.ScheduleInterleaved1F1B, 2), ("interleaved", schedules.ScheduleInterleaved1F1B, 3),
             ("zb_h1", schedules.ScheduleInterleavedZeroBubble, 1), ("zbv", schedules.ScheduleZBVZeroBubble, 2),
             ("dualpipev", schedules.ScheduleDualPipeV, 2)]
    for name, kind, chunks in cases:
        for ranks in (1, 2, 3, 4):
            for micros in (1, 2, 3, 4, 6, 8, 9, 12):
                if name == "interleaved" and micros % ranks or name == "dualpipev" and micros < 2 * ranks:
                    continue
                for rank, order in enumerate(orders(kind, ranks, chunks, micros)):
                    # PyTorch's list of 1F1B numbers forwards one too high where a rank has no warm-up, and has too
                    # many of them where there are fewer micro-batches than ranks (what it runs is right).
                    if name == "1f1b" and (rank == ranks - 1 or micros < ranks):
                        continue
                    print(name, ranks, chunks, micros, rank,
                          *(f"{op} {stage // ranks}.{micro}" for op, stage, micro in computations(order)))


main()
