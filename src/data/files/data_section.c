#include "data/files/data_section.h"

#include "base/core/option_rows.h"

SECTION(tokenizer, "text to ids", TESS_TOKENIZER_OPTIONS);

SECTION(data, "the text to train on", TESS_DATA_OPTIONS);
