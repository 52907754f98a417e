/* The sections of a configuration, whose options live with the modules that read them. */
#include "config/config.h"

/* `tessera info` and --help show sections in this order. */
#define TABLE(section_)                                           \
    {                                                             \
        &tess_section_##section_, offsetof(tess_config, section_) \
    }
static const tess_option_table tables[] = {
    TABLE(job),       TABLE(model),      TABLE(tokenizer),    TABLE(data),        TABLE(training),
    TABLE(lora),      TABLE(optimizer),  TABLE(lr_scheduler), TABLE(parallelism), TABLE(activation_checkpoint),
    TABLE(offload),   TABLE(checkpoint), TABLE(recovery),     TABLE(elastic),     TABLE(validation),
    TABLE(metrics),   TABLE(sample),     TABLE(rl),           TABLE(rollout),     TABLE(reward),
    TABLE(reference), TABLE(critic),     TABLE(evaluation),   TABLE(health),      TABLE(comm),
    TABLE(numbers),   TABLE(debug),      TABLE(fault),
};

const tess_option_table *tess_config_tables(int *n_tables)
{
    *n_tables = (int)(sizeof(tables) / sizeof(tables[0]));
    return tables;
}
