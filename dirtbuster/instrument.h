/* What Valgrind calls to have a block of the program translated.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PERDURE_DIRTBUSTER_INSTRUMENT_H
#define PERDURE_DIRTBUSTER_INSTRUMENT_H

#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"

IRSB* instrument_block(VgCallbackClosure* closure, IRSB* in, const VexGuestLayout* layout,
                       const VexGuestExtents* extents, const VexArchInfo* host, IRType guest_word,
                       IRType host_word);

#endif
