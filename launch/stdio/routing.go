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

	"remshell/job"
	"remshell/launch/stdio/pattern"
	"remshell/usererr"
	"remshell/userfile"
)

const (
	// maxWindowTotal is how many bytes of one stream of all ranks together may be under way.
	maxWindowTotal = 16 << 20

	minWindow = 4 << 10
	maxWindow = 256 << 10
)

// WindowSize is how many bytes of an output stream of one rank may be under way: many where
// there are few ranks, so that none waits for credit, and few where there are many, so
// that mpiexec stays small.
func WindowSize(ranks int) int { return min(max(maxWindowTotal/max(ranks, 1), minWindow), maxWindow) }

// GroupRanks are those of one group.
type GroupRanks struct {
	FirstRank, Size int                       // the number of its rank 0 in the job, and how many there are
	PatternRanks    func() []pattern.RankInfo // what patterns can tell of them, by rank; made when one has to be told
}

// RanksOfPlan are the ranks of a plan; first is the number of its rank 0 in the job. Of a large job the
// list of all ranks is large, and mostly there is neither a label nor a file.
func RanksOfPlan(p job.Plan, attempt, group, first int, began time.Time) GroupRanks {
	return GroupRanks{first, p.Size, sync.OnceValue(func() []pattern.RankInfo { return patternRanks(p, attempt, group, first, began) })}
}

func patternRanks(p job.Plan, attempt, group, first int, began time.Time) []pattern.RankInfo {
	who := make([]pattern.RankInfo, p.Size)
	for i, np := range p.Nodes {
		for _, r := range np.Ranks {
			who[r.Rank] = pattern.RankInfo{Number: first + r.Rank, Rank: r.Rank, Local: r.Local, Node: i, Attempt: attempt, Size: p.Size, Group: group,
				Host: np.Name, Job: string(p.Job), Began: began}
		}
	}
	return who
}

// newRouting makes the routing of one stream.
func newRouting(s job.Streams, wanted job.Output, who GroupRanks, stream string) (*outputRouting, error) {
	label, err := newLabelMaker(wanted.Label, stream, who)
	if err != nil {
		return nil, err
	}
	label.color = wanted.Color
	mixer := func() *lineAssembler {
		l := newLineAssembler(label.labelFunc())
		l.Raw = s.Raw
		return l
	}
	r := &outputRouting{terminal: mixer(), label: label, lines: mixer, output: wanted, stream: stream, filesByName: make(map[string]*sink), window: WindowSize(who.Size)}
	shown := shownRanks(s, wanted, who)
	switch {
	case s.Collapse:
		r.terminal = newLineMerger(shown)
	case s.Ordered:
		r.terminal = newRankSequencer(mixer(), shown)
	}
	if wanted.File == "" && len(shown) == who.Size {
		return r, nil
	}
	return r, r.addRanks(who, shown)
}

// addRanks says where the output of each of some ranks goes; shown are those of which it
// goes to our own stream.
func (r *outputRouting) addRanks(who GroupRanks, shown []int) error {
	if r.routes == nil {
		r.routes = make(map[int][]*sink, who.Size)
	}
	for rank := range who.Size {
		r.routes[who.FirstRank+rank] = nil
	}
	for _, rank := range shown {
		r.routes[rank] = []*sink{nil}
	}
	if r.output.File == "" {
		return nil
	}
	return r.openFiles(who.PatternRanks())
}

// forLaterRanks makes a routing for ranks that come later. What is shared with the first one
// belongs to the printer, but for the names of files.
func (r *outputRouting) forLaterRanks(s job.Streams, who GroupRanks) (*outputRouting, error) {
	shown := shownRanks(s, r.output, who)
	more := &outputRouting{window: WindowSize(who.Size), lines: r.lines, output: r.output, stream: r.stream, filesByName: r.filesByName, laterRanks: who, shown: shown}
	if r.output.File == "" && len(shown) == who.Size {
		return more, nil
	}
	return more, more.addRanks(who, shown)
}

// shownRanks lists the ranks whose stream goes to our own.
func shownRanks(s job.Streams, wanted job.Output, who GroupRanks) (shown []int) {
	if wanted.FileOnly {
		return nil
	}
	shown = make([]int, 0, who.Size)
	for rank := who.FirstRank; rank < who.FirstRank+who.Size; rank++ {
		if s.ShownRanks == nil || s.ShownRanks.Contains(rank) {
			shown = append(shown, rank)
		}
	}
	return shown
}

// openFiles opens the file of each rank. Ranks may share one.
func (r *outputRouting) openFiles(who []pattern.RankInfo) error {
	p, err := pattern.ParseFile(r.output.File)
	if err != nil {
		return err
	}
	now := time.Now()
	for _, w := range who {
		w.Host, w.Stream = strings.ReplaceAll(w.Host, "/", "_"), r.stream
		name := string(p.Append(nil, w, now))
		o := r.filesByName[name]
		if o == nil {
			file, err := createFile(name, r.output)
			if err != nil {
				r.close()
				return &usererr.Error{Text: fmt.Sprintf("output of rank %s: %v", w.DisplayName(), err), Remedy: fileRemedy(err)}
			}
			o = &sink{w: file, mixer: r.lines()}
			r.filesByName[name] = o
			r.files = append(r.files, o)
		}
		r.routes[w.Number] = append(r.routes[w.Number], o)
	}
	return nil
}

// createFile makes the folder of a file, and opens the file to write to its end: two streams may go to one.
func createFile(name string, wanted job.Output) (*os.File, error) {
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

// fileRemedy is what to do about a file that cannot be opened.
func fileRemedy(err error) string {
	switch hint := usererr.Hint(err); {
	case hint != "":
		return hint
	case strings.Contains(err.Error(), "too many open files"):
		return "raise ulimit -n, or let several ranks share a file"
	}
	return "name a folder that you can write to"
}

// close closes the files that were opened, and forgets them.
func (r *outputRouting) close() {
	for _, o := range r.files {
		o.w.(*os.File).Close()
	}
	maps.DeleteFunc(r.filesByName, func(_ string, o *sink) bool { return slices.Contains(r.files, o) })
	r.files = nil
}
