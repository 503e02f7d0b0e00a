// What the tests of the C interface share: checks that end the program with what they saw, files in
// memory, and columns of integers. Invariant: a check that fails ends the test with status 1, so a
// test that comes to its end has passed.
#pragma once

#include <perdure/perdure.h>
#include <stddef.h>
#include <stdint.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define CHECK(condition) check((condition) ? 1 : 0, #condition, __FILE__, __LINE__)
// A call whose last argument is &said: that it succeeds, or answers a code with a message.
#define SUCCEEDS(call) check_code((call), PERDURE_OK, #call, __FILE__, __LINE__)
#define ANSWERS(code, call) check_code((call), (code), #call, __FILE__, __LINE__)
// As ANSWERS, and that the message has these words.
#define SAYS(code, words, call) check_message((call), (code), (words), #call, __FILE__, __LINE__)

extern perdure_error* said;

void check(int holds, char const* text, char const* file, int line);
void check_code(perdure_code got, perdure_code expected, char const* text, char const* file,
                int line);
void check_message(perdure_code got, perdure_code expected, char const* words, char const* text,
                   char const* file, int line);

/// The path of a file of that name in a folder of this process's own, which goes when it ends.
/// Valid until the fourth call from here.
char const* scratch(char const* name);
/// The same in a folder on a disk.
char const* disk_scratch(char const* name);

perdure_create_options create_options(uint32_t key_bytes, uint32_t value_bytes);
/// A pool of two CPU workers.
perdure_store* made(char const* path, perdure_create_options const* create);
perdure_store* opened(char const* path);
/// Closes it, and destroys it.
void ended(perdure_store* store);

perdure_column integers(uint64_t const* values, size_t count);
perdure_mutable_column room_for(uint64_t* values, size_t count);
/// Gets at most 64 integers for their statuses alone.
void look_up(perdure_store* store, perdure_column const* keys, uint8_t* statuses,
             perdure_call_options const* options);
/// Byte strings with an end each, one behind the other in `bytes`.
perdure_column strings(char const* bytes, int64_t const* offsets, size_t count);
/// element i of what a call answered is that text
int is_text(perdure_strings const* all, size_t i, char const* text);
