package stdio

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"remshell/fault"
	"remshell/job"
	"remshell/launch/stdio/pattern"
	"remshell/userfile"
)

const (
	// windowRoom is how many bytes of one stream of all ranks together may be under way.
	windowRoom = 16 << 20

	leastWindow = 4 << 10
	mostWindow  = 256 << 10
)

// Window is how many bytes of an output stream of one rank may be under way: many where
// there are few ranks, so that none waits for credit, and few where there are many, so
// that mpiexec stays small.
func Window(ranks int) int { return min(max(windowRoom/max(ranks, 1), leastWindow), mostWindow) }

// Ranks are those of one group.
type Ranks struct {
	First, Size int                   // the number of its rank 0 in the job, and how many there are
	Who         func() []pattern.Rank // what patterns can tell of them, by rank; made when one has to be told
}

// Everybody are the ranks of a plan; first is the number of its rank 0 in the job. Of a large job the
// list of all ranks is large, and mostly there is neither a label nor a file.
func Everybody(p job.Plan, attempt, group, first int, began time.Time) Ranks {
	return Ranks{first, p.Size, sync.OnceValue(func() []pattern.Rank { return everybody(p, attempt, group, first, began) })}
}

func everybody(p job.Plan, attempt, group, first int, began time.Time) []pattern.Rank {
	who := make([]pattern.Rank, p.Size)
	for i, np := range p.Nodes {
		for _, r := range np.Ranks {
			who[r.Rank] = pattern.Rank{Number: first + r.Rank, Rank: r.Rank, Local: r.Local, Node: i, Attempt: attempt, Size: p.Size, Group: group,
				Host: np.Name, Job: string(p.Job), Began: began}
		}
	}
	return who
}

// route makes the routing of one stream.
func route(s job.Streams, wanted job.Output, who Ranks, stream string) (*routing, error) {
	label, err := newLabels(wanted.Label, stream, who)
	if err != nil {
		return nil, err
	}
	label.color = wanted.Color
	mixer := func() *lines {
		l := newLines(label.of())
		l.Raw = s.Raw
		return l
	}
	r := &routing{terminal: mixer(), label: label, lines: mixer, wanted: wanted, stream: stream, named: make(map[string]*sink), window: Window(who.Size)}
	shown := visible(s, wanted, who)
	switch {
	case s.Collapse:
		r.terminal = newCollapse(shown)
	case s.Ordered:
		r.terminal = newOrdered(mixer(), shown)
	}
	if wanted.File == "" && len(shown) == who.Size {
		return r, nil
	}
	return r, r.direct(who, shown)
}

// direct says where the output of each of some ranks goes; shown are those of which it
// goes to our own stream.
func (r *routing) direct(who Ranks, shown []int) error {
	if r.routes == nil {
		r.routes = make(map[int][]*sink, who.Size)
	}
	for rank := range who.Size {
		r.routes[who.First+rank] = nil
	}
	for _, rank := range shown {
		r.routes[rank] = []*sink{nil}
	}
	if r.wanted.File == "" {
		return nil
	}
	return r.open(who.Who())
}

// grow makes a routing for ranks that come later. What is shared with the first one
// belongs to the printer, but for the names of files.
func (r *routing) grow(s job.Streams, who Ranks) (*routing, error) {
	shown := visible(s, r.wanted, who)
	more := &routing{window: Window(who.Size), lines: r.lines, wanted: r.wanted, stream: r.stream, named: r.named, who: who, shown: shown}
	if r.wanted.File == "" && len(shown) == who.Size {
		return more, nil
	}
	return more, more.direct(who, shown)
}

// visible lists the ranks whose stream goes to our own.
func visible(s job.Streams, wanted job.Output, who Ranks) (shown []int) {
	if wanted.Quiet {
		return nil
	}
	shown = make([]int, 0, who.Size)
	for rank := who.First; rank < who.First+who.Size; rank++ {
		if s.Show == nil || s.Show.Has(rank) {
			shown = append(shown, rank)
		}
	}
	return shown
}

// open opens the file of each rank. Ranks may share one.
func (r *routing) open(who []pattern.Rank) error {
	p, err := pattern.ParseFile(r.wanted.File)
	if err != nil {
		return err
	}
	now := time.Now()
	for _, w := range who {
		w.Host, w.Stream = strings.ReplaceAll(w.Host, "/", "_"), r.stream
		name := string(p.Append(nil, w, now))
		o := r.named[name]
		if o == nil {
			file, err := create(name, r.wanted)
			if err != nil {
				r.close()
				return &fault.Error{Text: fmt.Sprintf("output of rank %s: %v", w.Name(), err), Remedy: wayOut(err)}
			}
			o = &sink{w: file, mix: r.lines()}
			r.named[name] = o
			r.files = append(r.files, o)
		}
		r.routes[w.Number] = append(r.routes[w.Number], o)
	}
	return nil
}

// create makes the folder of a file, and opens the file to write to its end: two streams may go to one.
func create(name string, wanted job.Output) (*os.File, error) {
	dir, err := userfile.Resolve(filepath.Dir(name))
	if err == nil {
		err = os.MkdirAll(dir, 0o777)
	}
	if err != nil {
		return nil, err
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if !wanted.Append {
		flags |= os.O_TRUNC
	}
	return userfile.OpenFile(name, flags, 0o666)
}

// wayOut is what to do about a file that cannot be opened.
func wayOut(err error) string {
	switch hint := fault.Hint(err); {
	case hint != "":
		return hint
	case strings.Contains(err.Error(), "too many open files"):
		return "raise ulimit -n, or let several ranks share a file"
	}
	return "name a folder that you can write to"
}

// close closes the files that were opened, and forgets them.
func (r *routing) close() {
	for _, o := range r.files {
		o.w.(*os.File).Close()
	}
	maps.DeleteFunc(r.named, func(_ string, o *sink) bool { return slices.Contains(r.files, o) })
	r.files = nil
}
