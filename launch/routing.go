package launch

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"remshell/job"
	"remshell/wire"
)

const (
	// windowRoom is how many bytes of one stream of all ranks together may be under way.
	windowRoom = 16 << 20

	leastWindow = 4 << 10
	mostWindow  = 256 << 10
)

// window is how many bytes of an output stream of one rank may be under way: many where
// there are few ranks, so that none waits for credit, and few where there are many, so
// that mpiexec stays small.
func window(ranks int) int { return min(max(windowRoom/max(ranks, 1), leastWindow), mostWindow) }

// arrange opens the files for the output of a plan's ranks, and tells the printers where
// what goes. Nothing has been started yet (IO-13).
func (f *fleet) arrange(req job.Request) error {
	s := req.Streams
	who := everybody(f.plan, 0, 0, time.Now())
	if s.Stdin.Last() >= f.plan.Size || s.PTY.Last() >= f.plan.Size || s.Show.Last() >= f.plan.Size {
		return tooHigh(s, f.plan.Size)
	}
	out, err := route(s, s.Out, who, "stdout")
	if err != nil {
		return err
	}
	errs, err := route(s, s.Err, who, "stderr")
	if err != nil {
		out.close()
		return err
	}
	f.routes = [2]*routing{out, errs}
	if f.env.Watch != nil {
		out.tap = func(rank int, data []byte) { f.env.Watch.Output(rank, "stdout", data) }
		errs.tap = func(rank int, data []byte) { f.env.Watch.Output(rank, "stderr", data) }
	}
	f.pids.Store(strings.Contains(s.Out.Label+s.Err.Label, "%P"))
	f.env.Out.onGone(func(err error) { f.events.put(StdoutGone{err}) })
	f.env.Err.onGone(func(err error) {
		if isFile(err) { // who closes our standard error does not want to hear of it
			f.events.put(StdoutGone{err})
		}
	})
	f.env.Out.put(piece{route: out})
	f.env.Err.put(piece{route: errs})
	return nil
}

// tooHigh is the error of an option that names a rank that there is not.
func tooHigh(s job.Streams, size int) error {
	for _, x := range []struct {
		option string
		ranks  job.Ranks
	}{{"-stdin", s.Stdin}, {"--pty", s.PTY}, {"-output-from", s.Show}} {
		if last := x.ranks.Last(); last >= size {
			return &StartError{fmt.Sprintf("%s: there is no rank %d", x.option, last),
				fmt.Sprintf("ranks are 0 to %d", size-1), ExitInternal}
		}
	}
	return nil
}

// widened does the same for the ranks of a group that is spawned. Nobody has been started
// yet.
func widened(routes [2]*routing, s job.Streams, who []Who) (grown [2]*routing, err error) {
	for i, r := range routes {
		if grown[i], err = r.grow(s, who); err != nil {
			if i > 0 {
				grown[0].close()
			}
			return grown, err
		}
	}
	return grown, nil
}

// everybody is what patterns can tell of the ranks of a plan, by rank.
func everybody(p job.Plan, group, first int, began time.Time) []Who {
	who := make([]Who, p.Size)
	for i, np := range p.Nodes {
		for _, r := range np.Ranks {
			who[r.Rank] = Who{Rank: r.Rank, Local: r.Local, Node: i, Size: p.Size, Host: np.Name, Job: string(p.Job), Began: began,
				Group: group, number: first + r.Rank}
		}
	}
	return who
}

// route makes the routing of one stream.
func route(s job.Streams, sink job.Sink, who []Who, stream string) (*routing, error) {
	who = slices.Clone(who)
	for i := range who {
		who[i].Stream = stream
	}
	label, err := newLabels(sink.Label, who)
	if err != nil {
		return nil, err
	}
	label.color = sink.Color
	lines := func() *Lines {
		l := NewLines(label.of())
		l.Raw = s.Raw
		return l
	}
	r := &routing{terminal: lines(), label: label, lines: lines, sink: sink, stream: stream, named: make(map[string]*outlet), window: window(len(who))}
	shown := visible(s, sink, 0, len(who))
	switch {
	case s.Collapse:
		r.terminal = NewCollapse(shown)
	case s.Ordered:
		r.terminal = NewOrdered(lines(), shown)
	}
	if sink.File == "" && len(shown) == len(who) {
		return r, nil
	}
	return r, r.direct(who, shown)
}

// direct says where the output of each of some ranks goes; shown are those of which it
// goes to our own stream.
func (r *routing) direct(who []Who, shown []int) error {
	if r.routes == nil {
		r.routes = make(map[int][]*outlet, len(who))
	}
	for _, w := range who {
		r.routes[w.number] = nil
	}
	for _, rank := range shown {
		r.routes[rank] = []*outlet{nil}
	}
	if r.sink.File == "" {
		return nil
	}
	return r.open(who)
}

// grow makes a routing for ranks that come later. What is shared with the first one
// belongs to the printer, but for the names of files.
func (r *routing) grow(s job.Streams, who []Who) (*routing, error) {
	who = slices.Clone(who)
	for i := range who {
		who[i].Stream = r.stream
	}
	first := who[0].number
	shown := visible(s, r.sink, first, first+len(who))
	more := &routing{window: window(len(who)), lines: r.lines, sink: r.sink, named: r.named, who: who, shown: shown}
	if r.sink.File == "" && len(shown) == len(who) {
		return more, nil
	}
	return more, more.direct(who, shown)
}

// visible lists the ranks, from first to before behind, whose stream goes to our own.
func visible(s job.Streams, sink job.Sink, first, behind int) (ranks []int) {
	for rank := first; rank < behind; rank++ {
		if !sink.Quiet && (s.Show == nil || s.Show.Has(rank)) {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// labels makes the labels of a pattern. One that does not change is made once.
type labels struct {
	pattern Pattern
	moving  bool // labels change
	color   bool // they have the color of their rank
	who     []Who
	made    [][]byte
	own     []byte
}

func newLabels(pattern string, who []Who) (*labels, error) {
	p, err := ParseLabel(pattern)
	return &labels{pattern: p, moving: p.has("tTP"), who: who, made: make([][]byte, len(who))}, err
}

// grow takes in further ranks.
func (l *labels) grow(who []Who) {
	l.who = append(l.who, who...)
	l.made = append(l.made, make([][]byte, len(who))...)
}

// of returns what makes the label of a rank; nil: there are none.
func (l *labels) of() func(rank int) []byte {
	if len(l.pattern) == 0 {
		return nil
	}
	return func(rank int) []byte {
		if l.moving {
			l.own = l.make(l.own[:0], rank, time.Now())
			return l.own
		}
		if l.made[rank] == nil {
			l.made[rank] = l.make(nil, rank, time.Time{})
		}
		return l.made[rank]
	}
}

// colors of a terminal that can be told apart on dark and light ground, red being kept for
// what is wrong.
const colors = 5

// make appends the label of a rank.
func (l *labels) make(out []byte, rank int, now time.Time) []byte {
	if !l.color {
		return l.pattern.Append(out, l.who[rank], now)
	}
	out = fmt.Appendf(out, "\x1b[%dm", 32+rank%colors)
	out = l.pattern.Append(out, l.who[rank], now)
	return append(out, "\x1b[0m"...)
}

// open opens the file of each rank. Ranks may share one.
func (r *routing) open(who []Who) error {
	p, err := ParseFile(r.sink.File)
	if err != nil {
		return err
	}
	now := time.Now()
	for _, w := range who {
		w.Host = strings.ReplaceAll(w.Host, "/", "_")
		name := string(p.Append(nil, w, now))
		o := r.named[name]
		if o == nil {
			file, err := create(name, r.sink)
			if err != nil {
				r.close()
				return &StartError{fmt.Sprintf("output of rank %s: %v", numbered(w.Group, w.Rank), reasonOf(err)), wayOut(err), ExitInternal}
			}
			o = &outlet{w: file, mix: r.lines()}
			r.named[name] = o
			r.files = append(r.files, o)
		}
		r.routes[w.number] = append(r.routes[w.number], o)
	}
	return nil
}

// create opens a file to write to its end: two streams may go to one.
func create(name string, sink job.Sink) (*os.File, error) {
	if sink.Dirs {
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			return nil, err
		}
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if !sink.Append {
		flags |= os.O_TRUNC
	}
	return os.OpenFile(name, flags, 0o666)
}

// wayOut is what to do about a file that cannot be opened.
func wayOut(err error) string {
	switch {
	case os.IsNotExist(err):
		return "make the directory first"
	case strings.Contains(err.Error(), "too many open files"):
		return "raise ulimit -n, or let several ranks share a file"
	}
	return ""
}

// close closes the files that were opened, and forgets them.
func (r *routing) close() {
	for _, o := range r.files {
		o.w.(*os.File).Close()
	}
	maps.DeleteFunc(r.named, func(_ string, o *outlet) bool { return slices.Contains(r.files, o) })
	r.files = nil
}

// learnPID notes the process ID of a rank that has started, for labels that have it.
func (f *fleet) learnPID(m *wire.Started) {
	if m.PID != 0 && f.pids.Load() {
		f.env.Out.put(piece{rank: m.Rank, pid: m.PID})
		f.env.Err.put(piece{rank: m.Rank, pid: m.PID})
	}
}
