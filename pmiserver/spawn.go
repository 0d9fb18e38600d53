package pmiserver

import (
	"context"
	"strconv"
	"strings"
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
	Spawn(ctx context.Context, r SpawnRequest) (group string, codes []int, err error)
}

// A SpawnRequest is what one call of MPI_Comm_spawn or MPI_Comm_spawn_multiple asks
// for. The processes of all commands are one group, ranked in their order; the
// index of a command is their appnum.
type SpawnRequest struct {
	Group    string // of the rank that asks
	Rank     int    // that asks
	Commands []Command
	Preputs  []Pair // for Info.Preputs of the new group
}

// A Command is a program to be spawned.
type Command struct {
	Argv  []string // the program first, as the caller names it: perhaps relative
	Count int      // of processes, at least 1
	Info  []Pair   // as given; what nobody knows is to be ignored (MPI)
}

// A Pair is a key with a value.
type Pair struct{ Key, Value string }

// Size returns how many processes are asked for.
func (r SpawnRequest) Size() (n int) {
	for _, c := range r.Commands {
		n += c.Count
	}
	return n
}

// String writes a request as a command line would.
func (r SpawnRequest) String() string {
	var parts []string
	for _, c := range r.Commands {
		words := []string{"-n", strconv.Itoa(c.Count)}
		for _, p := range c.Info {
			words = append(words, "-"+p.Key, p.Value)
		}
		words = append(words, c.Argv...)
		for i, w := range words {
			if w == "" || strings.ContainsAny(w, " \"\\") || Escape([]byte(w)) != w {
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

// faulty returns what is wrong with a request, in a word, or nothing.
func (r SpawnRequest) faulty() string {
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
		if p.Key == "" || len(p.Key) > maxKey || strings.HasPrefix(p.Key, "PMI_") {
			return "invalid_key"
		}
		if len(p.Value) > maxValue {
			return "value_too_long"
		}
	}
	return ""
}

// A spawned is the outcome of a request.
type spawned struct {
	group string
	codes []int
	err   error
}

// begin has a request carried out, and answers when that is done; meanwhile the
// rank is heard. It returns why it does not, in a word, or nothing.
func (c *session) begin(r SpawnRequest, answer func(spawned) []byte) (refused string) {
	if why := r.faulty(); why != "" {
		return why
	}
	switch {
	case c.s.Spawner == nil:
		return "unsupported"
	case c.spawns.Load() >= maxSpawns:
		return "too_many_spawns"
	}
	r.Group, r.Rank = c.s.info.Name, c.rank
	c.spawns.Add(1)
	c.late.Go(func() {
		var done spawned
		done.group, done.codes, done.err = c.s.Spawner.Spawn(c.ctx, r)
		c.spawns.Add(-1)
		c.tell(answer(done))
	})
	return ""
}

// faults returns the codes as clients want them, and how many are not 0; both are
// empty when all is well. Clients insist that there be one for each process.
func (s spawned) faults() (list []byte, n int) {
	for _, code := range s.codes {
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

// word makes one word of [a-z0-9_] of an error, for a client's message.
func word(err error) string {
	w := []byte(strings.ToLower(err.Error()))
	w = w[:min(len(w), 200)]
	for i, b := range w {
		if (b < 'a' || b > 'z') && (b < '0' || b > '9') {
			w[i] = '_'
		}
	}
	if len(w) == 0 {
		return "failed"
	}
	return string(w)
}
