/* A call site as one number, the same on all ranks that run the same files: an offset in the program, or a shared
 * object's id (base/os/objects.h) with an offset in it. An address in code that no file holds is a number too, but a
 * different one in each process. */
#ifndef TESS_TRACE_CALL_SITE_H
#define TESS_TRACE_CALL_SITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bits 62 and 63: in a shared object (its id in bits 40 to 61, the offset below); bit 63 alone: an address. */
uint64_t tess_call_site_in_object(uint32_t object, uint64_t offset);
uint64_t tess_call_site_at_address(uintptr_t address);

bool tess_call_site_is_address(uint64_t site);
uint32_t tess_call_site_object(uint64_t site); /* id; 0: not in an object */
uint64_t tess_call_site_offset(uint64_t site); /* offset in the program or the object, or the address */

/* "program+0x1f30"; "libengine.so+0x1f30", or "object-3fa21b+0x1f30" when the object's name is not known (""); "address
 * 0x7f0000001f30". Returns text. */
const char *tess_call_site_format(uint64_t site, const char *object, char *text, size_t size);

#endif
