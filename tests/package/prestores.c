/* A user of the installed library in C: pre-stores, whose header needs no C++. */
#include <perdure/prestore.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  char const text[] = "moved down the memory hierarchy, and the same as before";
  static char copy[256];
  perdure_store_skipping(copy, text, sizeof text);
  perdure_order_skipped();
  perdure_prestore(copy, sizeof copy, PERDURE_CLEAN);
  perdure_prestore(copy, sizeof copy, PERDURE_DEMOTE);
  printf("clean: %s; demote: %s; skip: %s\n", perdure_prestore_means(PERDURE_CLEAN),
         perdure_prestore_means(PERDURE_DEMOTE), perdure_skipping_means());
  return memcmp(copy, text, sizeof text) == 0 ? 0 : 1;
}
