// Makes a pool, writes and reads it, and opens it again; checks what it did.
//
//	go run . POOL
package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"sync"

	"perdure.example/perdure"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: example POOL")
	}
	for _, step := range []func(path string) error{write, readAgain, errorsAreValues} {
		if err := step(os.Args[1]); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Printf("perdure %s from Go: as expected\n", perdure.Version())
}

// expect ends the step with what it saw.
func expect[T comparable](what string, got, expected []T) error {
	if !slices.Equal(got, expected) {
		return fmt.Errorf("%s: %v, not %v", what, got, expected)
	}
	return nil
}

func write(path string) error {
	store, err := perdure.Create(path, 8, 8)
	if err != nil {
		return err
	}
	defer store.Close()
	keys, values := make([]uint64, 1000), make([]float64, 1000)
	for i := range keys {
		keys[i], values[i] = uint64(i), float64(i)/2
	}
	changed := errors.New("changed its mind")
	err = errors.Join(
		perdure.Put(store, keys, values, perdure.Alone),
		perdure.Put(store, []uint64{1, 2}, []float64{10, 20}, perdure.Atomic),
		perdure.Erase(store, []uint64{3, 5000}, perdure.Alone),
		store.Update(func(tx *perdure.Tx) error {
			if err := perdure.Put(store, []uint64{4}, []float64{40}, tx.In()); err != nil {
				return err
			}
			return perdure.Put(store, []uint64{5000}, []float64{50}, tx.In())
		}))
	if err != nil {
		return err
	}
	err = store.Update(func(tx *perdure.Tx) error {
		if err := perdure.Erase(store, keys, tx.In()); err != nil {
			return err
		}
		return changed
	})
	if !errors.Is(err, changed) {
		return fmt.Errorf("a transaction that fails answers %v", err)
	}
	if err := readSideBySide(store, keys); err != nil {
		return err
	}
	return store.Close()
}

func readSideBySide(store *perdure.Store, keys []uint64) error {
	faults := make([]error, 8)
	var readers sync.WaitGroup
	for i := range faults {
		readers.Add(1)
		go func(fault *error) {
			defer readers.Done()
			values, _, err := perdure.Get[uint64, float64](store, keys, perdure.Alone)
			if err == nil && values[999] != 499.5 {
				err = fmt.Errorf("key 999 has %v", values[999])
			}
			*fault = err
		}(&faults[i])
	}
	readers.Wait()
	return errors.Join(faults...)
}

func readAgain(path string) error {
	store, err := perdure.Open(path)
	if err != nil {
		return err
	}
	defer store.Close()
	values, there, err := perdure.Get[uint64, float64](store, []uint64{1, 3, 4, 7, 5000}, perdure.Alone)
	if err != nil {
		return err
	}
	records, err := store.Len()
	if err != nil {
		return err
	}
	return errors.Join(
		expect("values", values, []float64{10, 0, 40, 3.5, 50}),
		expect("keys that are there", there, []bool{true, false, true, true, true}),
		expect("records", []uint64{records}, []uint64{1000}))
}

func errorsAreValues(path string) error {
	store, err := perdure.Open(path)
	if err != nil {
		return err
	}
	defer store.Close()
	if _, err := perdure.Open(path); !errors.Is(err, perdure.Busy) {
		return fmt.Errorf("a second opening: %v", err)
	}
	if _, err := perdure.Open(path + ".missing"); !errors.Is(err, perdure.NotFound) {
		return fmt.Errorf("a pool that is not there: %v", err)
	}
	err = perdure.Put(store, []uint32{1}, []float64{1}, perdure.Alone)
	var wrong *perdure.Error
	if !errors.As(err, &wrong) || wrong.Code != perdure.InvalidArgument || !strings.Contains(wrong.Message, "4 bytes") {
		return fmt.Errorf("keys of four bytes: %v", err)
	}
	return nil
}
