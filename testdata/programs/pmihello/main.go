/*
Pmihello is a parallel program without MPI: each rank shows its card to all the
others by way of PMI, and says how many cards it has seen.

	$ mpiexec -n 2 -hosts a,b pmihello
	rank 0 of 2 on a: got 2 cards
	rank 1 of 2 on b: got 2 cards

It exits with 1, and says why, if a card is missing or wrong.
*/
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"remshell/test/pmitest"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "pmihello: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	fd, rank, size := number("PMI_FD"), number("PMI_RANK"), number("PMI_SIZE")
	if fd < 0 || rank < 0 || size < 1 {
		return errors.New("no PMI_FD, PMI_RANK and PMI_SIZE in the environment; start it with mpiexec")
	}
	c := pmitest.NewClient(os.NewFile(uintptr(fd), "PMI_FD"))
	if err := c.Init(); err != nil {
		return err
	}
	if err := c.Put(key(rank), cardKey(rank)); err != nil {
		return err
	}
	if err := c.Barrier(); err != nil {
		return err
	}
	for r := range size {
		got, _, err := c.Get(key(r))
		if err != nil {
			return err
		}
		if got != cardKey(r) {
			return fmt.Errorf("rank %d: the card of rank %d is %q", rank, r, got)
		}
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	fmt.Printf("rank %d of %d on %s: got %d cards\n", rank, size, host, size)
	if err := c.Barrier(); err != nil {
		return err
	}
	return c.Finalize()
}

func key(rank int) string     { return fmt.Sprint("hello-", rank) }
func cardKey(rank int) string { return fmt.Sprint("this-is-rank-", rank) }

// number returns a variable of the environment, or -1 if it is no number.
func number(name string) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		return -1
	}
	return n
}
