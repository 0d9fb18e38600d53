// Package spawn holds what a rank says when it asks for more processes (MPI_Comm_spawn), and
// how that is read from fields, whichever dialect wrote them.
package spawn

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"remshell/pmiserver/kvs"
	"remshell/pmiserver/transcript"
)

// A Spawner starts processes that ranks ask for, as a new group of the job. Spawn
// returns when all of them have been started, with the name of their group. It is
// called from a goroutine of its own, and ends early when ctx does, which is when
// the rank that asked has gone.
//
// codes has one entry for each process, in the order of ranks, 0 for one that was
// started; nil stands for all of them. An error means that nothing was started;
// the rank that asked goes on (MPI_ERR_SPAWN).
type Spawner interface {
	Spawn(ctx context.Context, r Request) (group string, codes []int, err error)
}

// A Request is what one call of MPI_Comm_spawn or MPI_Comm_spawn_multiple asks
// for. The processes of all commands are one group, ranked in their order; the
// index of a command is their appnum.
type Request struct {
	Group    string // of the rank that asks
	Rank     int    // that asks
	PMIx     bool   // it asks by PMIx, which its children are to speak, too
	Commands []Command
	Preputs  []Pair // for pmiserver.Info.Preputs of the new group
}

// A Command is a program to be spawned.
type Command struct {
	Argv  []string // the program first, as the caller names it: perhaps relative
	Count int      // of processes, at least 1
	Info  []Pair   // as given; what nobody knows is to be ignored (MPI)
	Env   []string // NAME=VALUE, for its processes
}

// ErrNoSlots is the error of a Spawner that has not enough slots.
var ErrNoSlots = errors.New("not enough slots")

// NoSlots is ErrNoRoom in the words of who has looked for it.
func NoSlots(text string) error { return noSlotsError(text) }

type noSlotsError string

func (e noSlotsError) Error() string        { return string(e) }
func (e noSlotsError) Is(target error) bool { return target == ErrNoSlots }

// A Pair is a key with a value.
type Pair struct{ Key, Value string }

// Size returns how many processes are asked for.
func (r Request) Size() (n int) {
	for _, c := range r.Commands {
		n += c.Count
	}
	return n
}

// String writes a request as a command line would.
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

// maxProcesses is how many processes a request may ask for. Whether there is room
// for them is not for us to say.
const maxProcesses = 1 << 24

// Problem returns what is wrong with a request, in a word, or nothing.
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

// A Result is what Spawner.Spawn has returned.
type Result struct {
	Group string
	Codes []int
	Err   error
}

// ErrorCodes returns the codes as clients want them, and how many are not 0; both are
// empty when all is well. Clients insist that there be one for each process.
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
