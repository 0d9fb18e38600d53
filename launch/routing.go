package launch

import (
	"fmt"
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
	who := everybody(f.plan, time.Now())
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

// everybody is what patterns can tell of the ranks of a plan, by rank.
func everybody(p job.Plan, began time.Time) []Who {
	who := make([]Who, p.Size)
	for i, np := range p.Nodes {
		for _, r := range np.Ranks {
			who[r.Rank] = Who{Rank: r.Rank, Local: r.Local, Node: i, Size: p.Size, Host: np.Name, Job: string(p.Job), Began: began}
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
	label, err := labels(sink.Label, who)
	if err != nil {
		return nil, err
	}
	lines := func() *Lines {
		l := NewLines(label)
		l.Raw = s.Raw
		return l
	}
	r := &routing{terminal: lines(), who: who, window: window(len(who))}
	shown := visible(s, sink, len(who))
	switch {
	case s.Collapse:
		r.terminal = NewCollapse(shown)
	case s.Ordered:
		r.terminal = NewOrdered(lines(), shown)
	}
	if sink.File == "" && len(shown) == len(who) {
		return r, nil
	}
	r.routes = make(map[int][]*outlet, len(who))
	for rank := range who {
		r.routes[rank] = nil
	}
	for _, rank := range shown {
		r.routes[rank] = []*outlet{nil}
	}
	if sink.File != "" {
		err = r.open(sink, who, lines)
	}
	return r, err
}

// visible lists the ranks whose stream goes to our own.
func visible(s job.Streams, sink job.Sink, size int) (ranks []int) {
	for rank := range size {
		if !sink.Quiet && (s.Show == nil || s.Show.Has(rank)) {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// labels makes the labels of a pattern; nil: none. A label that does not change is made
// once.
func labels(pattern string, who []Who) (func(rank int) []byte, error) {
	p, err := ParseLabel(pattern)
	if err != nil || len(p) == 0 {
		return nil, err
	}
	var own []byte
	if p.has("tTP") {
		return func(rank int) []byte {
			own = p.Append(own[:0], who[rank], time.Now())
			return own
		}, nil
	}
	made := make([][]byte, len(who))
	return func(rank int) []byte {
		if made[rank] == nil {
			made[rank] = p.Append(nil, who[rank], time.Time{})
		}
		return made[rank]
	}, nil
}

// open opens the file of each rank. Ranks may share one.
func (r *routing) open(sink job.Sink, who []Who, mix func() *Lines) error {
	p, err := ParseFile(sink.File)
	if err != nil {
		return err
	}
	now := time.Now()
	known := make(map[string]*outlet)
	for rank, w := range who {
		w.Host = strings.ReplaceAll(w.Host, "/", "_")
		name := string(p.Append(nil, w, now))
		o := known[name]
		if o == nil {
			file, err := create(name, sink)
			if err != nil {
				r.close()
				return &StartError{fmt.Sprintf("output of rank %d: %v", rank, reasonOf(err)), wayOut(err), ExitInternal}
			}
			o = &outlet{w: file, mix: mix()}
			known[name] = o
			r.files = append(r.files, o)
		}
		r.routes[rank] = append(r.routes[rank], o)
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

func (r *routing) close() {
	for _, o := range r.files {
		o.w.(*os.File).Close()
	}
}

// learnPID notes the process ID of a rank that has started, for labels that have it.
func (f *fleet) learnPID(m *wire.Started) {
	if m.PID != 0 && f.pids.Load() {
		f.env.Out.put(piece{rank: m.Rank, pid: m.PID})
		f.env.Err.put(piece{rank: m.Rank, pid: m.PID})
	}
}
