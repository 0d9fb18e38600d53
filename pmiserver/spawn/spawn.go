// Package spawn represents requests of ranks to start more processes (MPI_Comm_spawn), and parses them from the fields
// of any PMI version.
package spawn

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"remshell/pmiserver/kvs"
	"remshell/pmiserver/transcript"
)

// A Spawner starts processes for ranks, as a new group of the job. Spawn returns the name of the group when all processes
// have started, so each call runs in a goroutine of its own. Spawn returns early when ctx ends, for example because the
// rank that made the request has ended.
//
// codes has one entry for each process, in rank order; 0 means that the process started. If codes is nil, all have
// started. An error means that no process was started. MPI_Comm_spawn then returns MPI_ERR_SPAWN, and the
// requesting rank continues.
type Spawner interface {
	Spawn(ctx context.Context, r Request) (group string, codes []int, err error)
}

// A Request is one call of MPI_Comm_spawn or MPI_Comm_spawn_multiple. The processes of all commands form one group. The
// ranks in the group follow the order of the commands. The appnum of a process is the index of its command.
type Request struct {
	Group    string // group of the rank that asks
	Rank     int    // number of the rank that asks
	PMIx     bool   // the rank asked by PMIx; its children use PMIx too
	Commands []Command
	Preputs  []Pair // value of pmiserver.Info.Preputs for the new group
}

// A Command is a program to spawn.
type Command struct {
	Argv  []string // the program first, as the caller names it; perhaps relative
	Count int      // number of processes, at least 1
	Info  []Pair   // info keys as given; MPI requires to ignore unknown ones
	Env   []string // NAME=VALUE, for its processes
}

// ErrNoSlots is returned by a Spawner if there are not enough free slots.
var ErrNoSlots = errors.New("there are not enough free slots for the spawned ranks")

// NoSlots returns an error with the given text. errors.Is(err, ErrNoSlots) is true for it.
func NoSlots(text string) error { return noSlotsError(text) }

type noSlotsError string

func (e noSlotsError) Error() string        { return string(e) }
func (e noSlotsError) Is(target error) bool { return target == ErrNoSlots }

// A Pair is a key with its value.
type Pair struct{ Key, Value string }

// Size returns the number of processes in the request.
func (r Request) Size() (n int) {
	for _, c := range r.Commands {
		n += c.Count
	}
	return n
}

// String returns the request as a command line.
func (r Request) String() string {
	var parts []string
	for _, c := range r.Commands {
		words := []string{"-n", strconv.Itoa(c.Count)}
		for _, p := range c.Info {
			words = append(words, "-"+p.Key, p.Value)
		}
		words = append(words, c.Argv...)
		for i, w := range words {
			if w == "" || strings.ContainsAny(w, " \"\\") || transcript.Escape([]byte(w)) != w {
				words[i] = strconv.Quote(w)
			}
		}
		parts = append(parts, strings.Join(words, " "))
	}
	return strings.Join(parts, " : ")
}

// maxProcesses is the maximum number of processes in one spawn request. The nodes may have room for fewer,
// which is checked when the spawn is planned.
const maxProcesses = 1 << 24

// Problem returns one word that says why the request is invalid, or "" if it is valid.
func (r Request) Problem() string {
	total := 0
	for _, c := range r.Commands {
		if c.Count < 1 || c.Count > maxProcesses || c.Argv[0] == "" {
			return "bad_request"
		}
		total += c.Count
	}
	if len(r.Commands) == 0 || total > maxProcesses {
		return "bad_request"
	}
	for _, p := range r.Preputs {
		if p.Key == "" || len(p.Key) > kvs.MaxKey || strings.HasPrefix(p.Key, "PMI_") {
			return "invalid_key"
		}
		if len(p.Value) > kvs.MaxValue {
			return "value_too_long"
		}
	}
	return ""
}

// A Result is the result of Spawner.Spawn.
type Result struct {
	Group string
	Codes []int
	Err   error
}

// ErrorCodes returns the codes of all processes, separated by commas, and the number n of codes other than
// 0. If n is 0, list is nil.
func (o Result) ErrorCodes() (list []byte, n int) {
	for _, code := range o.Codes {
		if code != 0 {
			n++
		}
		list = append(strconv.AppendInt(list, int64(code), 10), ',')
	}
	if n == 0 {
		return nil, 0
	}
	return list[:len(list)-1], n
}
