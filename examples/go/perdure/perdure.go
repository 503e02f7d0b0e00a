// Package perdure is a store of fixed-size keys and values. A start to copy, not the whole of
// perdure.h: batches of host memory, atomic batches and transactions.
//
// Slices are pinned while C reads or writes them, because a column is a structure with their
// address (the rules of cgo).
package perdure

/*
#cgo pkg-config: perdure
#include <perdure/perdure.h>
#include <stdlib.h>
*/
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"
)

// Fixed is what a key or a value may be: each of its bytes is part of what it says.
type Fixed interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// Code says what failed. It is an error itself, so that errors.Is(err, perdure.NotFound) holds.
type Code C.perdure_code

// Codes that programs ask for; perdure.h has them all.
const (
	InvalidArgument = Code(C.PERDURE_INVALID_ARGUMENT)
	NotFound        = Code(C.PERDURE_NOT_FOUND)
	AlreadyExists   = Code(C.PERDURE_ALREADY_EXISTS)
	Busy            = Code(C.PERDURE_BUSY)
	NoSpace         = Code(C.PERDURE_NO_SPACE)
	Corrupt         = Code(C.PERDURE_CORRUPT)
	Unsupported     = Code(C.PERDURE_UNSUPPORTED)
	Closed          = Code(C.PERDURE_CLOSED)
)

func (code Code) Error() string { return C.GoString(C.perdure_code_name(C.int32_t(code))) }

// Error is a code with the message that says what failed and the way out.
type Error struct {
	Code    Code
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%s)", e.Message, e.Code.Error()) }

// Unwrap is the code.
func (e *Error) Unwrap() error { return e.Code }

// told makes an error of what a call answered.
func told(code C.perdure_code, message *C.perdure_error) error {
	if code == C.PERDURE_OK {
		return nil
	}
	defer C.perdure_error_free(message)
	return &Error{Code(code), C.GoString(C.perdure_error_message(message))}
}

// Version is the library's.
func Version() string { return C.GoString(C.perdure_version()) }

// Store is a durable table. Any number of goroutines may use it.
type Store struct{ raw *C.perdure_store }

// Create makes a pool of keys and values of these sizes. One that is there is replaced.
func Create(path string, keyBytes, valueBytes int) (*Store, error) {
	var options C.perdure_create_options
	C.perdure_create_options_init(&options, C.sizeof_perdure_create_options)
	options.key_bytes = C.uint32_t(keyBytes)
	options.value_bytes = C.uint32_t(valueBytes)
	options.overwrite = 1
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var store *C.perdure_store
	var message *C.perdure_error
	code := C.perdure_create(name, &options, nil, &store, &message)
	if err := told(code, message); err != nil {
		return nil, err
	}
	return &Store{store}, nil
}

// Open opens a pool for reading and writing.
func Open(path string) (*Store, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var store *C.perdure_store
	var message *C.perdure_error
	if err := told(C.perdure_open(name, nil, &store, &message), message); err != nil {
		return nil, err
	}
	return &Store{store}, nil
}

// Close marks the pool clean and frees the store. A second call does nothing.
func (s *Store) Close() error {
	if s.raw == nil {
		return nil
	}
	var message *C.perdure_error
	err := told(C.perdure_close(s.raw, &message), message)
	C.perdure_destroy(s.raw)
	s.raw = nil
	return err
}

// Len is the number of records.
func (s *Store) Len() (uint64, error) {
	var stats C.perdure_stats
	stats.struct_bytes = C.sizeof_perdure_stats
	var message *C.perdure_error
	err := told(C.perdure_get_stats(s.raw, &stats, &message), message)
	return uint64(stats.records), err
}

// In says how a batch is to be executed: by itself, atomically, or in a transaction.
type In struct {
	atomic bool
	tx     *Tx
}

// Alone and Atomic are batches by themselves; all of an atomic one takes effect or none of it.
var (
	Alone  = In{}
	Atomic = In{atomic: true}
)

func (in In) options() C.perdure_call_options {
	var options C.perdure_call_options
	C.perdure_call_options_init(&options, C.sizeof_perdure_call_options)
	if in.atomic {
		options.atomic = 1
	}
	if in.tx != nil {
		options.transaction = in.tx.raw
	}
	return options
}

// column is of a slice, which stays where it is until the pinner lets go.
func column[T Fixed](of []T, pinner *runtime.Pinner) C.perdure_column {
	column := C.perdure_column{count: C.size_t(len(of)), width: C.uint32_t(unsafe.Sizeof(*new(T)))}
	if len(of) > 0 {
		pinner.Pin(unsafe.SliceData(of))
		column.data = unsafe.Pointer(unsafe.SliceData(of))
	}
	return column
}

// Put is durable when it returns.
func Put[K, V Fixed](s *Store, keys []K, values []V, in In) error {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	k, v := column(keys, &pinner), column(values, &pinner)
	options := in.options()
	var message *C.perdure_error
	return told(C.perdure_put(s.raw, &k, &v, nil, &options, &message), message)
}

// Get answers a value for each key, and whether the key is there.
func Get[K, V Fixed](s *Store, keys []K, in In) ([]V, []bool, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	values, statuses := make([]V, len(keys)), make([]uint8, len(keys))
	k, v := column(keys, &pinner), column(values, &pinner)
	into := C.perdure_mutable_column{data: v.data, count: v.count, width: v.width}
	options := in.options()
	var message *C.perdure_error
	code := C.perdure_get(s.raw, &k, &into, (*C.uint8_t)(unsafe.SliceData(statuses)), &options, &message)
	if err := told(code, message); err != nil {
		return nil, nil, err
	}
	there := make([]bool, len(keys))
	for i, status := range statuses {
		if status == C.PERDURE_KEY_CORRUPT {
			return nil, nil, &Error{Corrupt, fmt.Sprintf("the record of key %v fails its checksum", keys[i])}
		}
		there[i] = status == C.PERDURE_KEY_OK
	}
	return values, there, nil
}

// Erase takes keys out, those that are there.
func Erase[K Fixed](s *Store, keys []K, in In) error {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	k := column(keys, &pinner)
	options := in.options()
	var message *C.perdure_error
	return told(C.perdure_erase(s.raw, &k, nil, &options, &message), message)
}

// Tx is a transaction: see Store.Update.
type Tx struct{ raw *C.perdure_transaction }

// In names the transaction to batches.
func (tx *Tx) In() In { return In{tx: tx} }

// Update runs f in a transaction, which commits if f answers nil and aborts otherwise. Calls of the
// thread that began a transaction belong to it, so no other goroutine may run there meanwhile.
func (s *Store) Update(f func(tx *Tx) error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var tx Tx
	var message *C.perdure_error
	if err := told(C.perdure_begin(s.raw, nil, &tx.raw, &message), message); err != nil {
		return err
	}
	defer C.perdure_transaction_destroy(tx.raw) // aborts what has not ended
	if err := f(&tx); err != nil {
		return err
	}
	return told(C.perdure_commit(tx.raw, &message), message)
}
