// Perdure in C: stores, batches, transactions, scans and ranges, as perdure/store.h has them in
// C++, for C programs and for languages that call C. In C11 and in C++.
//
// Errors: a call that can fail answers a perdure_code. Its last argument, where it is not NULL,
// receives an error with the message, which the caller frees; it is set to NULL where nothing
// failed, and where there was no memory for a message. Nothing is kept per thread, so a caller may
// change threads between two calls. A call that fails sets what it would have made to NULL. No
// exception crosses this interface. NULL where an object is needed, a number that names nothing
// and a structure of a size that cannot be are answered with PERDURE_INVALID_ARGUMENT.
//
// Structures that may grow begin with struct_bytes, their size in the header that the caller was
// compiled with. The library reads and writes that much of them. What an older caller lacks has
// its default; fields that a newer caller sets and this library does not know are answered with
// PERDURE_UNSUPPORTED. Options are filled by their init function, for some defaults are not 0; NULL
// stands for the defaults. Reports are filled by the call, and their struct_bytes by the caller:
// `perdure_stats stats = {.struct_bytes = sizeof stats}`. Columns never grow.
//
// Threads: any number of threads may use one store and set or read one stop flag. A transaction, a
// cursor and every other object serve one thread at a time. Nobody uses an object that is being
// destroyed or freed. Strings and arrays that an object answers live as long as the object. Every
// destroy and free function takes NULL.
//
// Processes: a store belongs to the process that opened it. In a child that was forked its calls
// answer PERDURE_CLOSED; the child may open pools of its own.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "perdure/export.h"
#include "perdure/perdure_types.h"

#if defined(__cplusplus)
extern "C" {
#endif

enum {
  // Of this header. It rises with each function and each field that is added. What would break
  // programs changes the library's SONAME instead.
  PERDURE_ABI_VERSION = 1
};

/// PERDURE_ABI_VERSION of the library. A program needs at least that of its header.
PERDURE_API uint32_t perdure_abi_version(void);
/// The library's version, for example "0.1.0".
PERDURE_API char const* perdure_version(void);

// ---- Errors ----

/// The name of a perdure_code, for example "no_space"; "unknown" of a number that is none.
PERDURE_API char const* perdure_code_name(int32_t code);

/// What failed and the way out; "" of NULL.
PERDURE_API char const* perdure_error_message(perdure_error const* error);
PERDURE_API void perdure_error_free(perdure_error* error);

// ---- Stores ----

/// Fill options with the defaults: `perdure_open_options_init(&options, sizeof options)`.
PERDURE_API perdure_code perdure_create_options_init(perdure_create_options* options,
                                                     size_t struct_bytes);
PERDURE_API perdure_code perdure_open_options_init(perdure_open_options* options,
                                                   size_t struct_bytes);
PERDURE_API perdure_code perdure_restore_options_init(perdure_restore_options* options,
                                                      size_t struct_bytes);
PERDURE_API perdure_code perdure_file_options_init(perdure_file_options* options,
                                                   size_t struct_bytes);

/// Makes a pool and opens it. The path's file system decides the medium: tmpfs (/dev/shm),
/// hugetlbfs, or a file (CPU only); "memfd:NAME" is anonymous memory that dies with the process. A
/// pool that is there is replaced only with `overwrite`, another file only with `force`, and none
/// that is in use.
PERDURE_API perdure_code perdure_create(char const* path, perdure_create_options const* create,
                                        perdure_open_options const* open, perdure_store** store,
                                        perdure_error** error);
PERDURE_API perdure_code perdure_open(char const* path, perdure_open_options const* open,
                                      perdure_store** store, perdure_error** error);
/// Makes a pool from a snapshot, with an identity of its own, and opens it. Nothing is left behind
/// on failure.
PERDURE_API perdure_code perdure_restore(char const* snapshot, char const* path,
                                         perdure_restore_options const* restore,
                                         perdure_open_options const* open, perdure_store** store,
                                         perdure_error** error);
/// Marks the pool clean and unmaps it; with durability power a checkpoint comes before. Aborts a
/// transaction that this thread began, and waits for another's. The store is closed even if this
/// fails: an error says what failed in here, or after a batch that was acknowledged. Further calls
/// that read or write answer PERDURE_CLOSED, reports are those of a store without records, and a
/// further close answers PERDURE_OK. The object stays until it is destroyed.
PERDURE_API perdure_code perdure_close(perdure_store* store, perdure_error** error);
/// Frees the object. It closes a store that is open, and errors of that are lost: call
/// perdure_close() first. Nobody else may use the store any more.
PERDURE_API void perdure_destroy(perdure_store* store);

/// Of the pool; "" and 0 of NULL. 0 bytes: of any length.
PERDURE_API char const* perdure_path(perdure_store const* store);
PERDURE_API uint32_t perdure_key_bytes(perdure_store const* store);
PERDURE_API uint32_t perdure_value_bytes(perdure_store const* store);
PERDURE_API uint32_t perdure_index_kind(perdure_store const* store);  // enum perdure_index

/// Writes the pool as it is between two batches into one file. Writers wait meanwhile, readers do
/// not. The file is there whole or not at all; one that is there is replaced only with `overwrite`,
/// if it is a snapshot, or with `force`.
PERDURE_API perdure_code perdure_snapshot(perdure_store* store, char const* path,
                                          perdure_file_options const* options,
                                          perdure_error** error);

// ---- Batches ----

PERDURE_API perdure_code perdure_stop_create(perdure_stop** stop, perdure_error** error);
/// 1: calls that have it end between two pieces; 0: they go on. Nothing of NULL.
PERDURE_API void perdure_stop_set(perdure_stop* stop, uint32_t stopped);
PERDURE_API void perdure_stop_destroy(perdure_stop* stop);

PERDURE_API perdure_code perdure_call_options_init(perdure_call_options* options,
                                                   size_t struct_bytes);

// Each call handles one batch. `statuses` is NULL, or an array of keys->count bytes that receives
// an enum perdure_key_status for each key. `options` may be NULL. When a call answers PERDURE_OK,
// its effects survive what perdure_survives() lists. A key that is absent is no error: its status
// tells. An error means that nothing of the batch took effect, except PERDURE_NO_SPACE, where the
// statuses tell key by key (with a Dash index operations of one batch on one key too: each finds
// room or does not). An atomic batch fails whole: at an operation that is refused (every status but
// ok and not_found), its status tells why. With durability power, a batch whose log write failed
// comes back at the next opening whole or not at all, and until then gets and scans are refused
// with the log's error. Where a get fails, its arrays may hold anything. A batch with a stop flag
// runs in pieces of 65,536 operations or 32 MiB, with nobody between them, and looks at the flag
// before each. Once that is set the call answers PERDURE_STOPPED: the operations before that piece
// have been done, in array order, and the others say PERDURE_KEY_NOT_TRIED. An error in a piece
// ends it likewise. Atomic batches, those of a transaction and of persist full, and writes to pools
// of durability power are one piece each. Arrays that a call writes overlap nothing else of the
// call, and nobody else uses them before it returns; then they are the caller's again.

/// Values of `width` bytes: the pool's, or, where these have any length, those of so many; a key
/// whose value has another length answers PERDURE_KEY_SIZE_MISMATCH.
PERDURE_API perdure_code perdure_get(perdure_store* store, perdure_column const* keys,
                                     perdure_mutable_column const* values, uint8_t* statuses,
                                     perdure_call_options const* options, perdure_error** error);

PERDURE_API size_t perdure_strings_count(perdure_strings const* strings);
/// count + 1 of them; never NULL.
PERDURE_API int64_t const* perdure_strings_offsets(perdure_strings const* strings);
/// Never NULL, even where there are no bytes.
PERDURE_API void const* perdure_strings_data(perdure_strings const* strings);
PERDURE_API void perdure_strings_free(perdure_strings* strings);

/// Values of any size. The caller frees them.
PERDURE_API perdure_code perdure_get_variable(perdure_store* store, perdure_column const* keys,
                                              uint8_t* statuses,
                                              perdure_call_options const* options,
                                              perdure_strings** values, perdure_error** error);
PERDURE_API perdure_code perdure_put(perdure_store* store, perdure_column const* keys,
                                     perdure_column const* values, uint8_t* statuses,
                                     perdure_call_options const* options, perdure_error** error);
/// `rmw`: enum perdure_rmw; `element`: enum perdure_element.
PERDURE_API perdure_code perdure_update(perdure_store* store, perdure_column const* keys,
                                        perdure_column const* operands, uint32_t rmw,
                                        uint32_t element, uint8_t* statuses,
                                        perdure_call_options const* options, perdure_error** error);
PERDURE_API perdure_code perdure_erase(perdure_store* store, perdure_column const* keys,
                                       uint8_t* statuses, perdure_call_options const* options,
                                       perdure_error** error);

PERDURE_API perdure_code perdure_apply(perdure_store* store, perdure_mixed_batch const* batch,
                                       uint8_t* statuses, perdure_call_options const* options,
                                       perdure_error** error);

// ---- Named tables ----

/// The pool's table of that name: a key space of 64-bit ids, whose rows have one width. Where there
/// is none, it is made if `row_bytes` is not 0, durably; PERDURE_NOT_FOUND otherwise.
/// PERDURE_INVALID_ARGUMENT: its rows have another width, or the pool has no room for such a row or
/// name, or this thread has a transaction open. PERDURE_UNSUPPORTED: the pool's keys have not 16
/// bytes, or its values less than 32 (0 is any length). The caller frees it.
PERDURE_API perdure_code perdure_find_table(perdure_store* store, char const* name,
                                            uint32_t row_bytes, perdure_table** table,
                                            perdure_error** error);
/// The names of all tables, by their numbers, which the caller frees.
PERDURE_API perdure_code perdure_list_tables(perdure_store* store, perdure_lines** names,
                                             perdure_error** error);
/// "" and 0 of NULL. The number is the second half of the pool's keys, behind the id.
PERDURE_API char const* perdure_table_name(perdure_table const* table);
PERDURE_API uint64_t perdure_table_number(perdure_table const* table);
PERDURE_API uint32_t perdure_table_row_bytes(perdure_table const* table);
PERDURE_API void perdure_table_free(perdure_table* table);

// As get, put, update and erase: each is one batch over any tables of the store's pool, with a
// status for each id. `rows` are `bytes` bytes of host memory.
PERDURE_API perdure_code perdure_get_tables(perdure_store* store, perdure_table_batch const* batch,
                                            void* rows, size_t bytes, uint8_t* statuses,
                                            perdure_call_options const* options,
                                            perdure_error** error);
PERDURE_API perdure_code perdure_put_tables(perdure_store* store, perdure_table_batch const* batch,
                                            void const* rows, size_t bytes, uint8_t* statuses,
                                            perdure_call_options const* options,
                                            perdure_error** error);
/// `rmw`: enum perdure_rmw; `element`: enum perdure_element.
PERDURE_API perdure_code perdure_update_tables(perdure_store* store,
                                               perdure_table_batch const* batch,
                                               void const* operands, size_t bytes, uint32_t rmw,
                                               uint32_t element, uint8_t* statuses,
                                               perdure_call_options const* options,
                                               perdure_error** error);
PERDURE_API perdure_code perdure_erase_tables(perdure_store* store,
                                              perdure_table_batch const* batch, uint8_t* statuses,
                                              perdure_call_options const* options,
                                              perdure_error** error);

// ---- Transactions ----

PERDURE_API perdure_code perdure_transaction_options_init(perdure_transaction_options* options,
                                                          size_t struct_bytes);

/// Begins a transaction, of layout word or log: name it in the options of its batches, and end it
/// by commit or abort. Batches and gets that name it, from any thread, belong to it. So do calls
/// that name none on the thread that began it, which reads but must name it to write. All others
/// wait until it ends. So in a language that moves its tasks between threads, the task stays on its
/// thread from begin to end. A batch in it takes effect whole or fails whole; after a failure the
/// others still count.
PERDURE_API perdure_code perdure_begin(perdure_store* store,
                                       perdure_transaction_options const* options,
                                       perdure_transaction** transaction, perdure_error** error);
/// All its batches stay, and survive what the pool's durability survives.
PERDURE_API perdure_code perdure_commit(perdure_transaction* transaction, perdure_error** error);
/// The store is as it was when the transaction began.
PERDURE_API perdure_code perdure_abort(perdure_transaction* transaction, perdure_error** error);
/// Takes the last commit back, durably: of a transaction that was revertible, and since which
/// nothing was written, by this process or one before it. PERDURE_INVALID_ARGUMENT: there is none.
PERDURE_API perdure_code perdure_revert(perdure_store* store, perdure_error** error);
/// 1 if there is one to take back, else 0.
PERDURE_API perdure_code perdure_can_revert(perdure_store* store, uint32_t* can,
                                            perdure_error** error);
/// Aborts one that has not ended. Of every transaction, before or after its store is destroyed.
PERDURE_API void perdure_transaction_destroy(perdure_transaction* transaction);

// ---- Scans and ranges ----

/// A scan goes through all records in the index's order. It sees every key that is there from its
/// begin to its end, and answers PERDURE_BUSY if keys of a gphash moved meanwhile: begin again.
PERDURE_API perdure_code perdure_scan(perdure_cursor** cursor, perdure_error** error);
/// A range, of index btree. NULL for `query`: all records. The bounds are copied.
PERDURE_API perdure_code perdure_range(perdure_range_query const* query, perdure_cursor** cursor,
                                       perdure_error** error);
/// The next records, `limit` of them at most (at least 1), and moves the cursor behind them. Of a
/// range a page ends early where it has more than 32 MiB. A page may be empty before the cursor is
/// done. Where this fails, the cursor stays where it is. Behind the last page it answers empty
/// ones. Once the stop flag is set it answers PERDURE_STOPPED.
PERDURE_API perdure_code perdure_next_page(perdure_store* store, perdure_cursor* cursor,
                                           size_t limit, perdure_stop const* stop,
                                           perdure_page** page, perdure_error** error);
/// 1 once nothing is left, and of NULL; else 0.
PERDURE_API uint32_t perdure_cursor_done(perdure_cursor const* cursor);
PERDURE_API void perdure_cursor_free(perdure_cursor* cursor);
/// The page's, as long as it lives: they are not freed by themselves.
PERDURE_API perdure_strings const* perdure_page_keys(perdure_page const* page);
PERDURE_API perdure_strings const* perdure_page_values(perdure_page const* page);
PERDURE_API void perdure_page_free(perdure_page* page);

/// How many records a range has; exact while nobody writes.
PERDURE_API perdure_code perdure_count_range(perdure_store* store, perdure_range_query const* query,
                                             uint64_t* count, perdure_error** error);

// ---- Reports ----

PERDURE_API perdure_code perdure_get_stats(perdure_store const* store, perdure_stats* stats,
                                           perdure_error** error);

PERDURE_API perdure_code perdure_survives(perdure_store const* store, perdure_survival* survival,
                                          perdure_error** error);

PERDURE_API size_t perdure_lines_count(perdure_lines const* lines);
/// "" of a line that there is not.
PERDURE_API char const* perdure_lines_at(perdure_lines const* lines, size_t i);
PERDURE_API void perdure_lines_free(perdure_lines* lines);

/// `lines`, unless NULL, receives what there is to say, which the caller frees: why something was
/// dropped, what was found in the log, and what recovery or repair changed.
PERDURE_API perdure_code perdure_get_recovery(perdure_store const* store,
                                              perdure_recovery* recovery, perdure_lines** lines,
                                              perdure_error** error);
/// What repairs changed has been seen to: perdure_verify() is silent about it from now on, durably.
PERDURE_API perdure_code perdure_acknowledge_repair(perdure_store* store, perdure_error** error);

/// Looks at every record. PERDURE_OK says that it has, not that there are no faults: see
/// fault_count. `faults`, unless NULL, receives them, one line each, at most 100, which the caller
/// frees.
PERDURE_API perdure_code perdure_verify(perdure_store* store, perdure_stop const* stop,
                                        perdure_verification* verification, perdure_lines** faults,
                                        perdure_error** error);

PERDURE_API perdure_code perdure_find_devices(perdure_devices** devices, perdure_error** error);
PERDURE_API size_t perdure_devices_count(perdure_devices const* devices);
/// enum perdure_device; 0 of one that there is not.
PERDURE_API uint32_t perdure_devices_kind(perdure_devices const* devices, size_t i);
/// Flag.
PERDURE_API uint32_t perdure_devices_available(perdure_devices const* devices, size_t i);
/// What it is, or why it is not available.
PERDURE_API char const* perdure_devices_description(perdure_devices const* devices, size_t i);
PERDURE_API void perdure_devices_free(perdure_devices* devices);

#if defined(__cplusplus)
}
#endif
