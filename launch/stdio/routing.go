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
	// maxWindowTotal is the maximum number of bytes of one output stream that all ranks together may have in flight to
	// mpiexec.
	maxWindowTotal = 16 << 20

	minWindow = 4 << 10
	maxWindow = 256 << 10
)

// WindowSize returns how many bytes of one output stream each rank may have in flight to mpiexec. In small jobs the
// number is large, so that ranks need not wait. In large jobs it is small, to save memory in mpiexec.
func WindowSize(ranks int) int { return min(max(maxWindowTotal/max(ranks, 1), minWindow), maxWindow) }

// GroupRanks contains the data about the ranks of one group that the output options need.
type GroupRanks struct {
	FirstRank, Size int                       // number in the job of its rank 0, and how many ranks there are
	PatternRanks    func() []pattern.RankInfo // returns the values for patterns, by rank; called only if they are needed
}

// RanksOfPlan returns the ranks of a plan. first is the number, within the job, of the plan's rank 0. The
// PatternRanks of the result builds its list at its first call, because the list may be large and is rarely needed.
func RanksOfPlan(p job.Plan, attempt, group, first int, start time.Time) GroupRanks {
	return GroupRanks{first, p.Size, sync.OnceValue(func() []pattern.RankInfo { return patternRanks(p, attempt, group, first, start) })}
}

func patternRanks(p job.Plan, attempt, group, first int, start time.Time) []pattern.RankInfo {
	infos := make([]pattern.RankInfo, p.Size)
	for i, np := range p.Nodes {
		for _, r := range np.Ranks {
			infos[r.Rank] = pattern.RankInfo{Number: first + r.Rank, Rank: r.Rank, Local: r.Local, Node: i, Attempt: attempt, Size: p.Size, Group: group,
				Host: np.Name, Job: string(p.Job), Began: start}
		}
	}
	return infos
}

// An outputRouting contains the sinks of each rank's output, for one stream.
type outputRouting struct {
	terminalMixer outputMixer
	routes        map[int][]*sink // by rank; a nil sink is the terminal
	files         []*sink
	window        int // credit of each rank, in bytes
	observe       func(rank int, data []byte)

	label      *labelMaker
	laterRanks GroupRanks // ranks of a spawned group
	shown      []int      // those of them whose output goes to the terminal

	output      job.Output
	stream      string
	lines       func() *lineAssembler
	filesByName map[string]*sink // all files that were opened, by name
}

// newRouting returns the routing of one stream, "stdout" or "stderr". It opens the files.
func newRouting(s job.Streams, options job.Output, ranks GroupRanks, stream string) (*outputRouting, error) {
	label, err := newLabelMaker(options.Label, stream, ranks)
	if err != nil {
		return nil, err
	}
	label.color = options.Color
	mixer := func() *lineAssembler {
		l := newLineAssembler(label.labelFunc())
		l.Raw = s.Raw
		return l
	}
	r := &outputRouting{terminalMixer: mixer(), label: label, lines: mixer, output: options, stream: stream, filesByName: make(map[string]*sink), window: WindowSize(ranks.Size)}
	shown := shownRanks(s, options, ranks)
	switch {
	case s.Collapse:
		r.terminalMixer = newLineMerger(shown)
	case s.Ordered:
		r.terminalMixer = newRankSequencer(mixer(), shown)
	}
	if options.File == "" && len(shown) == ranks.Size {
		return r, nil
	}
	return r, r.addRanks(ranks, shown)
}

// addRanks sets the sinks of further ranks. visible contains the ranks whose output goes to the terminal.
func (r *outputRouting) addRanks(ranks GroupRanks, visible []int) error {
	if r.routes == nil {
		r.routes = make(map[int][]*sink, ranks.Size)
	}
	for rank := range ranks.Size {
		r.routes[ranks.FirstRank+rank] = nil
	}
	for _, rank := range visible {
		r.routes[rank] = []*sink{nil}
	}
	if r.output.File == "" {
		return nil
	}
	return r.openFiles(ranks.PatternRanks())
}

// forLaterRanks returns a routing for the ranks of a spawned group. Both routings use the same filesByName.
// forLaterRanks must not use fields of r that the printer's goroutine uses, such as routes.
func (r *outputRouting) forLaterRanks(s job.Streams, ranks GroupRanks) (*outputRouting, error) {
	shown := shownRanks(s, r.output, ranks)
	more := &outputRouting{window: WindowSize(ranks.Size), lines: r.lines, output: r.output, stream: r.stream, filesByName: r.filesByName, laterRanks: ranks, shown: shown}
	if r.output.File == "" && len(shown) == ranks.Size {
		return more, nil
	}
	return more, more.addRanks(ranks, shown)
}

// shownRanks returns the ranks whose output goes to the terminal.
func shownRanks(s job.Streams, options job.Output, ranks GroupRanks) (visible []int) {
	if options.FileOnly {
		return nil
	}
	visible = make([]int, 0, ranks.Size)
	for rank := ranks.FirstRank; rank < ranks.FirstRank+ranks.Size; rank++ {
		if s.ShownRanks == nil || s.ShownRanks.Contains(rank) {
			visible = append(visible, rank)
		}
	}
	return visible
}

// openFiles opens the file of each rank. Ranks may share a file.
func (r *outputRouting) openFiles(infos []pattern.RankInfo) error {
	p, err := pattern.ParseFile(r.output.File)
	if err != nil {
		return err
	}
	now := time.Now()
	for _, w := range infos {
		w.Host, w.Stream = strings.ReplaceAll(w.Host, "/", "_"), r.stream
		name := string(p.Append(nil, w, now))
		o := r.filesByName[name]
		if o == nil {
			file, err := createFile(name, r.output)
			if err != nil {
				r.close()
				return &usererr.Error{Text: fmt.Sprintf("cannot write the output of rank %s: %v", w.DisplayName(), err), Remedy: fileRemedy(err)}
			}
			o = &sink{w: file, mixer: r.lines()}
			r.filesByName[name] = o
			r.files = append(r.files, o)
		}
		r.routes[w.Number] = append(r.routes[w.Number], o)
	}
	return nil
}

// createFile creates an output file and its directory. It opens the file with O_APPEND, because both output streams may
// go to the same file.
func createFile(name string, options job.Output) (*os.File, error) {
	dir, err := userfile.Resolve(filepath.Dir(name))
	if err == nil {
		err = os.MkdirAll(dir, 0o777)
	}
	if err != nil {
		return nil, err
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if !options.Append {
		flags |= os.O_TRUNC
	}
	return userfile.OpenFile(name, flags, 0o666)
}

// fileRemedy returns advice to the user for an error that occurred while a file was being opened.
func fileRemedy(err error) string {
	switch hint := usererr.Hint(err); {
	case hint != "":
		return hint
	case strings.Contains(err.Error(), "too many open files"):
		return "increase ulimit -n, or let several ranks write to one file"
	}
	return "choose a folder that you can write to"
}

// close closes the files that r has opened, and removes them from filesByName.
func (r *outputRouting) close() {
	for _, o := range r.files {
		o.w.(*os.File).Close()
	}
	maps.DeleteFunc(r.filesByName, func(_ string, o *sink) bool { return slices.Contains(r.files, o) })
	r.files = nil
}
