package transcript

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// A Recorder records the messages between the ranks of a job and their PMI servers. The result is a case that
// ReadCases can read. The methods may be called from any goroutine.
type Recorder struct {
	mu    sync.Mutex
	ranks map[rankID]*rankRecord
	order []recordedLine // the lines that ranks sent, in the order of arrival
}

type rankID struct{ group, rank int }

// A recordedLine is a line that one rank has sent or received. It begins with an arrow that shows the
// direction.
type recordedLine struct {
	from rankID
	line string
}

// A rankRecord contains the lines that one rank has received. It also says whether the rank is in a barrier, and how
// much of a spawn request the rank has sent.
type rankRecord struct {
	replies        []string
	receivedBefore []int // for each of replies, the number of lines received before it from all ranks
	inBarrier      bool  // the rank waits in a barrier

	inSpawn      bool // within an mcmd request
	total, sofar string
}

// Trace records one line. A job uses it as the field Trace of pmiserver.Server. group is 0 for the first group of
// ranks, and otherwise the number of a spawned group, as in Step.
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
	record := r.ranks[at]
	record.replies, record.receivedBefore = append(record.replies, line), append(record.receivedBefore, len(r.order))
}

// AddReply records an event that the server reports about a rank, such as "SPAWN -n 2 x" or "CLOSED".
func (r *Recorder) AddReply(group, rank int, word string) { r.Trace(group, rank, "> "+word) }

// AddEvent records an event of a rank, such as "EOF" or "STARTED".
func (r *Recorder) AddEvent(group, rank int, word string) { r.Trace(group, rank, "< "+word) }

// Write writes the recorded case and then forgets it. job is the text to write after "job" in the case, such as
// "size=2". sizes contains the size of each group.
//
// Replies to simultaneous requests on several connections may come in any order. Write puts each reply directly
// after its cause, where ReadCases expects it. The cause is the request itself, or what the request waited for:
// the last rank's entry into a barrier, or the put of a node attribute.
func (r *Recorder) Write(w io.Writer, title, job string, sizes []int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "case %s\njob %s\n", title, job)
	due := make(map[int][]rankID) // ranks that receive a reply after a line of another rank
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

// answeringPut returns the index of the put that caused the reply to line i. It returns 0 if line i is not a
// request that waited for a node attribute.
func (r *Recorder) answeringPut(i int) (line int) {
	from, record := r.order[i].from, r.ranks[r.order[i].from]
	rest, waits := strings.CutPrefix(r.order[i].line, "<; cmd=info-getnodeattr;")
	if !waits || !strings.Contains(rest, "wait=TRUE;") || len(record.receivedBefore) == 0 {
		return 0
	}
	_, key, _ := strings.Cut(rest, "key=")
	key, _, _ = strings.Cut(key, ";")
	for j := i + 1; j < record.receivedBefore[0]; j++ {
		if t := r.order[j]; t.from.group == from.group && strings.HasPrefix(t.line, "<; cmd=info-putnodeattr;key="+key+";") {
			line = j
		}
	}
	return line
}

// writeReplies writes the replies that were sent to the rank for the line t.
func (r *Recorder) writeReplies(b *strings.Builder, t recordedLine, size int) {
	record := r.ranks[t.from]
	_, text, _ := strings.Cut(t.line, " ")
	command, _, _ := strings.Cut(text, " ")
	command, _, _ = strings.Cut(command, ";")
	switch {
	case record.inSpawnRequest(text):
	case slices.Contains([]string{"cmd=barrier_in", "cmd=kvs-fence", "cmd=ring"}, command):
		record.inBarrier = true
		r.releaseBarrier(b, t.from.group, size)
	case command == "cmd=initack":
		r.writeNext(b, t.from, 4)
	default:
		r.writeNext(b, t.from, 1)
	}
}

// inSpawnRequest records one line that a rank has sent. It reports whether the line belongs to a spawn request (mcmd)
// and is not the last line of the request.
func (record *rankRecord) inSpawnRequest(line string) bool {
	key, value, _ := strings.Cut(line, "=")
	switch {
	case key == "mcmd":
		record.inSpawn = true
	case !record.inSpawn:
	case key == "totspawns":
		record.total = value
	case key == "spawnssofar":
		record.sofar = value
	case key == "endcmd":
		record.inSpawn = false
		return record.total != record.sofar
	}
	return record.inSpawn
}

// releaseBarrier writes one reply to each rank of the group, if all ranks have entered the barrier.
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

// writeNext writes the next n replies that a rank has received, and removes them from the record.
func (r *Recorder) writeNext(b *strings.Builder, at rankID, n int) {
	record := r.ranks[at]
	n = min(n, len(record.replies))
	for _, line := range record.replies[:n] {
		b.WriteString(recordedLine{at, line}.String() + "\n")
	}
	record.replies, record.receivedBefore = record.replies[n:], record.receivedBefore[n:]
}

func (t recordedLine) String() string {
	if t.from.group == 0 {
		return fmt.Sprint(t.from.rank, t.line)
	}
	return fmt.Sprint(t.from.group, ":", t.from.rank, t.line)
}
