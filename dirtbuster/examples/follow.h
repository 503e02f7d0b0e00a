/* What DirtBuster advises, followed: -DFOLLOW=CLEAN, =DEMOTE or =SKIP (perdure/prestore.h). Without
 * FOLLOW there is nothing in here.
 */
#ifndef PERDURE_DIRTBUSTER_FOLLOW_H
#define PERDURE_DIRTBUSTER_FOLLOW_H

#if defined(FOLLOW)
#include <perdure/prestore.h>

enum { CLEAN, DEMOTE, SKIP };

/* Where the object is made: what skips the caches is made beside and then stored. */
static void* followed_at(void* beside, void* object) { return FOLLOW == SKIP ? beside : object; }

static void follow(void* object, const void* beside, size_t bytes) {
  if (FOLLOW == SKIP) {
    perdure_store_skipping(object, beside, bytes);
    perdure_order_skipped();
  } else {
    perdure_prestore(object, bytes, FOLLOW == CLEAN ? PERDURE_CLEAN : PERDURE_DEMOTE);
  }
}
#endif

#endif
