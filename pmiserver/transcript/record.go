package transcript

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// A Recorder makes a case for ReadCases of what the servers of a job were told and
// said. It may be called from any goroutine.
type Recorder struct {
	mu    sync.Mutex
	ranks map[speaker]*taped
	order []tape // what ranks said, in the order in which it was heard
}

type speaker struct{ group, rank int }

// A tape is a line of one rank, with its arrow.
type tape struct {
	from speaker
	line string
}

// taped is what one rank was told, and how far it is.
type taped struct {
	told  []string
	heard []int // how many lines were heard before each of them
	in    bool  // in a barrier

	block        bool // within an mcmd request
	total, sofar string
}

// Trace is for pmiserver.Server.Trace; group is 0 for the first group, else the
// number of a spawned one, as Step has it.
func (r *Recorder) Trace(group, rank int, line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := speaker{group, rank}
	if r.ranks == nil {
		r.ranks = make(map[speaker]*taped)
	}
	if r.ranks[at] == nil {
		r.ranks[at] = &taped{}
	}
	if line[0] == '<' {
		r.order = append(r.order, tape{at, line})
		return
	}
	me := r.ranks[at]
	me.told, me.heard = append(me.told, line), append(me.heard, len(r.order))
}

// Told is a word that is shown of a rank: "SPAWN -n 2 x", "CLOSED".
func (r *Recorder) Told(group, rank int, word string) { r.Trace(group, rank, "> "+word) }

// Said is a word that a rank, or its world, says: "EOF", "STARTED".
func (r *Recorder) Said(group, rank int, word string) { r.Trace(group, rank, "< "+word) }

// Write writes the case, and forgets it. job is what follows the word on its line;
// sizes are those of the groups, by number.
//
// What is heard at the same time on several connections is answered in any order.
// In the case each answer stands where ReadCases wants it, directly after what
// brings it about: the request itself, the last rank's entry into a barrier, or
// the put of a node attribute that was waited for.
func (r *Recorder) Write(w io.Writer, title, job string, sizes []int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "case %s\njob %s\n", title, job)
	due := make(map[int][]speaker) // who is answered after a line that is not his own
	for i, t := range r.order {
		b.WriteString(t.String() + "\n")
		if put := r.put(i); put > 0 {
			due[put] = append(due[put], t.from)
		} else {
			r.answer(&b, t, sizes[t.from.group])
		}
		for _, at := range due[i] {
			r.tell(&b, at, 1)
		}
	}
	r.order, r.ranks = nil, nil
	_, err := io.WriteString(w, b.String())
	return err
}

// put returns the line that answers line i, if that waits for a node attribute.
func (r *Recorder) put(i int) (line int) {
	from, me := r.order[i].from, r.ranks[r.order[i].from]
	rest, waits := strings.CutPrefix(r.order[i].line, "<; cmd=info-getnodeattr;")
	if !waits || !strings.Contains(rest, "wait=TRUE;") || len(me.heard) == 0 {
		return 0
	}
	_, key, _ := strings.Cut(rest, "key=")
	key, _, _ = strings.Cut(key, ";")
	for j := i + 1; j < me.heard[0]; j++ {
		if t := r.order[j]; t.from.group == from.group && strings.HasPrefix(t.line, "<; cmd=info-putnodeattr;key="+key+";") {
			line = j
		}
	}
	return line
}

// answer writes what a line brings about.
func (r *Recorder) answer(b *strings.Builder, t tape, size int) {
	me := r.ranks[t.from]
	_, text, _ := strings.Cut(t.line, " ")
	command, _, _ := strings.Cut(text, " ")
	command, _, _ = strings.Cut(command, ";")
	switch {
	case me.spawns(text):
	case slices.Contains([]string{"cmd=barrier_in", "cmd=kvs-fence", "cmd=ring"}, command):
		me.in = true
		r.release(b, t.from.group, size)
	case command == "cmd=initack":
		r.tell(b, t.from, 4)
	default:
		r.tell(b, t.from, 1)
	}
}

// spawns reports whether a line belongs to an mcmd request, and is not its last.
func (me *taped) spawns(line string) bool {
	key, value, _ := strings.Cut(line, "=")
	switch {
	case key == "mcmd":
		me.block = true
	case !me.block:
	case key == "totspawns":
		me.total = value
	case key == "spawnssofar":
		me.sofar = value
	case key == "endcmd":
		me.block = false
		return me.total != me.sofar
	}
	return me.block
}

// release lets a group out of the barrier if all are in it.
func (r *Recorder) release(b *strings.Builder, group, size int) {
	var in []speaker
	for at, t := range r.ranks {
		if at.group == group && t.in {
			in = append(in, at)
		}
	}
	if len(in) < size {
		return
	}
	slices.SortFunc(in, func(a, b speaker) int { return a.rank - b.rank })
	for _, at := range in {
		r.ranks[at].in = false
		r.tell(b, at, 1)
	}
}

// tell writes the next lines a rank was told.
func (r *Recorder) tell(b *strings.Builder, at speaker, n int) {
	me := r.ranks[at]
	n = min(n, len(me.told))
	for _, line := range me.told[:n] {
		b.WriteString(tape{at, line}.String() + "\n")
	}
	me.told, me.heard = me.told[n:], me.heard[n:]
}

func (t tape) String() string {
	if t.from.group == 0 {
		return fmt.Sprint(t.from.rank, t.line)
	}
	return fmt.Sprint(t.from.group, ":", t.from.rank, t.line)
}
