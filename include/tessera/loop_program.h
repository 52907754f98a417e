/* A program of your own for Tessera's training loop (tessera/loop.h): its data, model, optimizer and checkpoint, as
 * callbacks. The loop owns the steps; the callbacks compute on memory of the program and of a tess_fsdp, as they would
 * in a loop of the program's own.
 *
 * A step has G micro-batches with numbers step * G .. step * G + G - 1. Each rank runs some of them. Let the number,
 * never the rank, decide what data a micro-batch has: then losses, gradients and weights are the same bits on any
 * number of ranks, and after a resume.
 *
 * All callbacks of a rank run on the thread that called tess_loop_run. A callback that fails (TESS_FAIL, or a call of
 * the library that failed) ends the run: its rank returns the status, and the others TESS_E_PEER_LOST with the message.
 * If `fill`, `tensors` or `save` fails, all ranks return its status. */
#ifndef TESSERA_LOOP_PROGRAM_H
#define TESSERA_LOOP_PROGRAM_H

#include "tessera/ckpt.h"
#include "tessera/fsdp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A unit of the model: parameters that are gathered and freed together, usually those of a layer (tess_fsdp_add_unit).
 * `tp`, `narrow`, `codes` and `elsewhere` of its parameters must be zero. */
typedef struct tess_program_unit {
    const char *name;              /* name of at most 31 bytes, unique in the program */
    const tess_param_desc *params; /* (n_params) names of at most 95 bytes, unique in the program */
    int n_params;
} tess_program_unit;

/* The addend of a micro-batch, or of a part of an evaluation, to the loss. */
typedef struct tess_program_loss {
    double sum;      /* sum of the losses of its items */
    int64_t n_items; /* number of items: tokens, images, rows. The loop divides the sums of loss and gradient by it */
} tess_program_loss;

/* All pointers are borrowed until tess_loop_run returns. Callbacks that may be NULL say so. */
typedef struct tess_program {
    void *self;
    const char *name; /* name of the model in messages, such as "convnet"; not NULL or empty */

    /* ---- Model ---- */
    const tess_program_unit *units; /* (n_units) in forward order */
    int n_units;
    /* Writes first weights. See tess_fill_fn; its context is `self` */
    tess_fill_fn fill;
    /* Hands over the objects that the loop has made for the model. units (n_units) are those of `units`. They belong to
     * the loop, and end with it. tess_fsdp_runtime tells rank and team. */
    tess_status (*ready)(void *self, tess_fsdp *fsdp, tess_unit *const *units);
    /* Computes the newest batch, forward and backward, between the hooks of all units, in the same order on all ranks
     * (tess_unit_pre_forward and so on), and sets *loss. Gradients are those of the sum of losses.
     * tess_unit_param has the dtype of training.mixed_precision_param, which is float32 if it is not set.
     * Where micro-batches do not divide evenly among ranks, it is also called without a new batch. Hooks are called as
     * always, and neither gradients nor *loss are read. */
    tess_status (*forward_backward)(void *self, tess_program_loss *loss);
    double flops_per_item; /* operations to train on one item, for reports of speed; 0: unknown */

    /* ---- Data ---- */
    /* Prepares micro-batch `index` for the next forward_backward. A rank asks for its own in ascending order. A step
     * whose numbers are not finite runs again with the same numbers. */
    tess_status (*batch)(void *self, int64_t index);
    int64_t micro_batches; /* G, over all ranks; the settings may change it (training.global_batch_size) */

    /* ---- Evaluation ---- */
    /* Computes the loss of held-out batch `index`, 0 .. n_evaluations - 1, between the forward hooks of all units. -1:
     * an empty one; hooks are called as always, and *loss is not read. Runs every validation.interval steps and at the
     * end. NULL: there is none. */
    tess_status (*evaluate)(void *self, int64_t index, tess_program_loss *loss);
    int64_t n_evaluations;

    /* ---- Optimizer ---- */
    /* Updates this rank's master weights (tess_fsdp_shard) with gradient grad * scale. `step` counts from 1. The loop
     * calls tess_fsdp_params_changed afterwards. NULL: the library's optimizer, as optimizer.* says. */
    tess_status (*update)(void *self, tess_fsdp *fsdp, int64_t step, float lr, float scale);

    /* ---- Checkpoint, in addition to weights and the library's optimizer ---- */
    /* Sets *tensors to those of the program, such as its moments, and returns their number. Called once, after `ready`,
     * on every rank. A save reads their data, and a load writes it, so names and data must stay where they are until
     * tess_loop_run returns. All ranks return the same number, and the same names, dtypes and shapes in the same order.
     * A name must not be that of another tensor or of a parameter. NULL: none
     *   TESS_E_INVALID   a number below 0, a bad tensor, or a name that is used twice
     *   TESS_E_MISMATCH  ranks return different numbers of tensors */
    int (*tensors)(void *self, const tess_checkpoint_tensor **tensors);
    /* save: sets *json to the text of a JSON object, such as a state of random numbers; the loop calls free() for it.
     * Every rank calls it at each checkpoint, and rank 0's text is stored. A text that is not a JSON object fails.
     * load: gets the object of the checkpoint from which the run goes on, on every rank. The loop has written it anew,
     * without spaces, so numbers and escapes may look different. Both may be NULL. */
    tess_status (*save)(void *self, char **json);
    tess_status (*load)(void *self, const char *json);
    size_t size; /* 0, or sizeof this struct: tessera/version.h */
} tess_program;

#ifdef __cplusplus
}
#endif

#endif
