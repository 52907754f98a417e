/* Removes secrets from texts that people see or that are stored. */
#ifndef TESS_BASE_CORE_REDACT_H
#define TESS_BASE_CORE_REDACT_H

/* Replaces each occurrence of `secret` in `text` by stars. Each line of a secret is treated as a secret.
 * A message may cut a secret. If at least 6 bytes of it remain, these are replaced, too: the end of a secret at the
 * start of the text, and its start at the end of the text or before "...".
 * Lines of fewer than 6 bytes are not replaced: they occur in ordinary words. */
void tess_redact(char *text, const char *secret);

/* Replaces the parts of each URL in `text` that may hold a secret by stars: user name and password before the '@' of
 * the host, and the query. Works in place; the text does not grow. Returns text. */
char *tess_redact_urls(char *text);

#endif
