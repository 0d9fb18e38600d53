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
	ranks map[rankID]*rankRecord
	order []recordedLine // what ranks said, in the order in which it was heard
}

type rankID struct{ group, rank int }

// A recordedLine is a line of one rank, with its arrow.
type recordedLine struct {
	from rankID
	line string
}

// rankRecord is what one rank was told, and how far it is.
type rankRecord struct {
	replies     []string
	heardBefore []int // how many lines were heard before each of them
	inBarrier   bool  // in a barrier

	inSpawn      bool // within an mcmd request
	total, sofar string
}

// Trace is for pmiserver.Server.Trace; group is 0 for the first group, else the
// number of a spawned one, as Step has it.
func (r *Recorder) Trace(group, rank int, line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := rankID{group, rank}
	if r.ranks == nil {
		r.ranks = make(map[rankID]*rankRecord)
	}
	if r.ranks[at] == nil {
		r.ranks[at] = &rankRecord{}
	}
	if line[0] == '<' {
		r.order = append(r.order, recordedLine{at, line})
		return
	}
	me := r.ranks[at]
	me.replies, me.heardBefore = append(me.replies, line), append(me.heardBefore, len(r.order))
}

// AddReply is a word that is shown of a rank: "SPAWN -n 2 x", "CLOSED".
func (r *Recorder) AddReply(group, rank int, word string) { r.Trace(group, rank, "> "+word) }

// AddEvent is a word that a rank, or its world, says: "EOF", "STARTED".
func (r *Recorder) AddEvent(group, rank int, word string) { r.Trace(group, rank, "< "+word) }

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
	due := make(map[int][]rankID) // who is answered after a line that is not his own
	for i, t := range r.order {
		b.WriteString(t.String() + "\n")
		if put := r.answeringPut(i); put > 0 {
			due[put] = append(due[put], t.from)
		} else {
			r.writeReplies(&b, t, sizes[t.from.group])
		}
		for _, at := range due[i] {
			r.writeNext(&b, at, 1)
		}
	}
	r.order, r.ranks = nil, nil
	_, err := io.WriteString(w, b.String())
	return err
}

// answeringPut returns the line that answers line i, if that waits for a node attribute.
func (r *Recorder) answeringPut(i int) (line int) {
	from, me := r.order[i].from, r.ranks[r.order[i].from]
	rest, waits := strings.CutPrefix(r.order[i].line, "<; cmd=info-getnodeattr;")
	if !waits || !strings.Contains(rest, "wait=TRUE;") || len(me.heardBefore) == 0 {
		return 0
	}
	_, key, _ := strings.Cut(rest, "key=")
	key, _, _ = strings.Cut(key, ";")
	for j := i + 1; j < me.heardBefore[0]; j++ {
		if t := r.order[j]; t.from.group == from.group && strings.HasPrefix(t.line, "<; cmd=info-putnodeattr;key="+key+";") {
			line = j
		}
	}
	return line
}

// writeReplies writes what a line brings about.
func (r *Recorder) writeReplies(b *strings.Builder, t recordedLine, size int) {
	me := r.ranks[t.from]
	_, text, _ := strings.Cut(t.line, " ")
	command, _, _ := strings.Cut(text, " ")
	command, _, _ = strings.Cut(command, ";")
	switch {
	case me.inSpawnRequest(text):
	case slices.Contains([]string{"cmd=barrier_in", "cmd=kvs-fence", "cmd=ring"}, command):
		me.inBarrier = true
		r.releaseBarrier(b, t.from.group, size)
	case command == "cmd=initack":
		r.writeNext(b, t.from, 4)
	default:
		r.writeNext(b, t.from, 1)
	}
}

// inSpawnRequest reports whether a line belongs to an mcmd request, and is not its last.
func (me *rankRecord) inSpawnRequest(line string) bool {
	key, value, _ := strings.Cut(line, "=")
	switch {
	case key == "mcmd":
		me.inSpawn = true
	case !me.inSpawn:
	case key == "totspawns":
		me.total = value
	case key == "spawnssofar":
		me.sofar = value
	case key == "endcmd":
		me.inSpawn = false
		return me.total != me.sofar
	}
	return me.inSpawn
}

// releaseBarrier lets a group out of the barrier if all are in it.
func (r *Recorder) releaseBarrier(b *strings.Builder, group, size int) {
	var in []rankID
	for at, t := range r.ranks {
		if at.group == group && t.inBarrier {
			in = append(in, at)
		}
	}
	if len(in) < size {
		return
	}
	slices.SortFunc(in, func(a, b rankID) int { return a.rank - b.rank })
	for _, at := range in {
		r.ranks[at].inBarrier = false
		r.writeNext(b, at, 1)
	}
}

// writeNext writes the next lines a rank was told.
func (r *Recorder) writeNext(b *strings.Builder, at rankID, n int) {
	me := r.ranks[at]
	n = min(n, len(me.replies))
	for _, line := range me.replies[:n] {
		b.WriteString(recordedLine{at, line}.String() + "\n")
	}
	me.replies, me.heardBefore = me.replies[n:], me.heardBefore[n:]
}

func (t recordedLine) String() string {
	if t.from.group == 0 {
		return fmt.Sprint(t.from.rank, t.line)
	}
	return fmt.Sprint(t.from.group, ":", t.from.rank, t.line)
}
