//go:build linux

package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

const manyHosts = 64

// hello is an MPI program of MPICH 3.4.1, which works over TCP (testdata/mpich341.sh).
const hello = "build/programs/hello"

// A rival is what ours is compared with.
type rival string

const (
	hydra     rival = "Hydra"
	mpirun    rival = "mpirun" // Open MPI's
	ourselves rival = "ours"   // with other options: what a part of it costs
)

// A testCase is one comparison. The lists of words follow the name of each program.
type testCase struct {
	name   string
	onHead bool // on the head of the field; else on this machine
	rival  rival
	theirs []string
	ours   []string
	feed   int64    // bytes of standard input; the words of theirs are then a whole command
	floor  []string // arguments of our floor; nil: there is none
	busy   int      // so many loops of ours want the CPUs meanwhile
	warm   bool     // cases before it have filled all caches
	fresh  []string // hosts that lose what a run has left there before the next
	rate   int64    // of the links to these, in bits per second; 0: as fast as they are
	rounds rounds
}

// rounds say how often a case is run: until time is up, but within bounds.
type rounds struct {
	least, most int
	time        time.Duration
}

// cases are all comparisons on hosts of that list, the most important ones with the
// most time. Together they take some five minutes on two cores, and those of exchange.go five.
func cases(ours, self, names string) []testCase {
	all := strings.Split(names, ",")
	var list []testCase
	for _, n := range []int{1, 8, manyHosts} {
		list = append(list, onHosts("true", "/bin/true", all[:n], rounds{5, 20, 8 * time.Second}))
	}
	list[2].rounds = rounds{5, 8, 30 * time.Second}
	for _, n := range []int{1, 8, manyHosts} {
		c := onHosts("hello", hello, all[:n], rounds{3, 20, 6 * time.Second})
		c.floor = nil // nobody would answer the ranks' PMI
		list = append(list, c)
	}
	claims := list[2]
	claims.name, claims.rival, claims.warm, claims.floor = "claims, 64 hosts, to none", ourselves, true, nil
	claims.theirs = append([]string{"-q", "--ledger", "/dev/null"}, claims.ours...)
	claims.rounds = rounds{7, 15, 40 * time.Second}
	list = append(list, claims)
	// As many ranks that wait by spinning take 20 s on two cores, whoever starts them.
	list[5].warm, list[5].rounds = true, rounds{1, 1, 0}
	list = append(list,
		here("true", "/bin/true", 1, rounds{20, 100, 5 * time.Second}),
		here("true", "/bin/true", 256, rounds{7, 20, 12 * time.Second}),
		here("hello", hello, 8, rounds{5, 20, 10 * time.Second}),
		besideLoops(here("hello", hello, 8, rounds{5, 15, 20 * time.Second})))
	return slices.Concat(list, deliveryCases(ours, all), streamCases(self, names), openMPICases(all), waitingCases())
}

// onHosts is one rank on each host, over SSH. Ours are not bound: all hosts are this
// machine, so the first core of each is the same one. Hydra binds nothing by itself.
func onHosts(what, program string, hosts []string, r rounds) testCase {
	n, list := strconv.Itoa(len(hosts)), strings.Join(hosts, ",")
	words := []string{"-hosts", list, "-n", n, program}
	name := what + ", " + n + " hosts"
	if len(hosts) == 1 {
		name = what + ", 1 host"
	}
	return testCase{name: name, onHead: true, rival: hydra, rounds: r,
		ours:   append([]string{"--no-pin"}, words...),
		theirs: append([]string{"-launcher", "ssh"}, words...),
		floor:  []string{"ssh", program, list}}
}

// here is n ranks on this machine, without SSH.
func here(what, program string, n int, r rounds) testCase {
	words := []string{"-hosts", "localhost:" + strconv.Itoa(n), "-n", strconv.Itoa(n), program}
	name := what + ", local, " + strconv.Itoa(n) + " ranks"
	if n == 1 {
		name, words = what+", local, 1 rank", words[2:]
	}
	c := testCase{name: name, rival: hydra, rounds: r, ours: words, theirs: words}
	if program != hello {
		c.floor = []string{"fork", program, strconv.Itoa(n)}
	}
	return c
}

// besideLoops is a case on a machine on which somebody else wants each CPU.
func besideLoops(c testCase) testCase {
	c.busy = runtime.NumCPU()
	c.name += ", busy machine"
	return c
}

// program is what a rival is called here.
func (b *bench) program(r rival) string {
	return map[rival]string{hydra: b.hydra, mpirun: b.mpirun, ourselves: b.ours, copies: "/bin/sh"}[r]
}

// A rivalError is a rival that failed, or did not end. Its case has no figures then, and the others
// still have theirs: Open MPI's launcher with 256 ranks on two CPUs sometimes takes minutes.
type rivalError struct {
	rival rival
	err   error
}

func (e *rivalError) Error() string { return fmt.Sprintf("%s failed: %v", e.rival, e.err) }
func (e *rivalError) Unwrap() error { return e.err }

// measure runs a case: one round that is not counted, unless all is warm, and then the
// counted ones.
func (b *bench) measure(ctx context.Context, c testCase) (row, error) {
	r := row{name: c.name, rival: c.rival}
	quiet, err := b.makeBusy(c.busy)
	if err != nil {
		return r, err
	}
	defer quiet()
	defer b.shape(c, 0)
	if err := b.shape(c, c.rate); err != nil {
		return r, err
	}
	sides := [][]string{
		append([]string{b.ours}, c.ours...),
		append([]string{b.program(c.rival)}, c.theirs...),
		append([]string{b.self, floorArg}, c.floor...),
	}
	if c.feed > 0 {
		c.fed(b.self, sides)
	}
	if c.floor == nil {
		sides = sides[:2]
	}
	began, first := time.Now(), -1
	if c.warm {
		first = 0
	}
	for n := first; n < c.rounds.least || n < c.rounds.most && time.Since(began) < c.rounds.time; n++ {
		for i, words := range sides {
			if err := b.forget(c); err != nil {
				return r, err
			}
			s, err := b.metered(ctx, run{words: words, onHead: c.onHead})
			if err != nil && i == 1 && c.rival != ourselves && ctx.Err() == nil {
				return r, &rivalError{rival: c.rival, err: err}
			}
			if err != nil {
				return r, err
			}
			if n >= 0 {
				r.sides[i] = append(r.sides[i], s)
			}
		}
		if n < 0 {
			began = time.Now()
		}
	}
	return r, nil
}
