/* The checklist of a run, 23 items: before the start, during it, recovery, performance, tools. Each verdict comes from
 * a check of `tessera doctor preflight`, from the configuration, or from the metrics of the run if there are any. */
#ifndef TESS_CONTROL_CHECKLIST_CHECKLIST_H
#define TESS_CONTROL_CHECKLIST_CHECKLIST_H

#include "config/config.h"
#include "doctor/probe/probe.h"

enum { TESS_CHECKLIST_ITEMS = 23, TESS_CHECKLIST_TEXT = 320 };

typedef enum tess_checklist_verdict {
    TESS_CHECKLIST_PASS,
    TESS_CHECKLIST_FAIL,
    TESS_CHECKLIST_LATER,  /* only a run that has begun can tell */
    TESS_CHECKLIST_BY_HAND /* only a person can tell */
} tess_checklist_verdict;

typedef struct tess_checklist_item {
    const char *group, *name;
    tess_checklist_verdict verdict;
    char text[TESS_CHECKLIST_TEXT]; /* the reason of the verdict, and what to do */
} tess_checklist_item;

/* Fills in all items. `config` NULL: there is no valid configuration, and its items fail. */
void tess_checklist_fill(const tess_config *config, const tess_probe_report *report,
                         tess_checklist_item items[TESS_CHECKLIST_ITEMS]);

/* Appends one line for each item, and how many pass. columns 0: appends JSON. */
tess_status tess_checklist_print(const tess_checklist_item items[TESS_CHECKLIST_ITEMS], int columns, tess_buffer *out);

/* Number of items that fail. */
int tess_checklist_failed(const tess_checklist_item items[TESS_CHECKLIST_ITEMS]);

#endif
