// Which functions libperdure.so shows: those marked PERDURE_API, the library's C++ interface. All
// else is compiled hidden, as are the nested types marked PERDURE_INTERNAL, and cmake/exports.map
// holds back what other libraries' headers mark as visible.
#pragma once

#define PERDURE_API __attribute__((visibility("default")))
#define PERDURE_INTERNAL __attribute__((visibility("hidden")))
